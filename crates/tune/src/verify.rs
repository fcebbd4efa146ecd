//! What changes do, measured: as it is and as it would be, in one run and by turns, so that what else changes meanwhile
//! (other load, a path that fills) falls on both alike.

mod difference;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::apply::{self, ApplyError, Snapshot};
use crate::host::Host;
use crate::plan::Change;

pub use difference::{Difference, P_MAX, ROUNDS_MAX, ROUNDS_MIN};

/// What one short test found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Payload, bit/s.
    pub rate_bit_s: f64,
    /// Processor time of this host for a GB (1e9 bytes) of it, s; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
}

/// The seam through which something is measured: a short test, always the same.
pub trait Meter {
    /// Runs the test once.
    ///
    /// # Errors
    /// Why there is no result, in words.
    fn measure(&mut self) -> Result<Measured, String>;
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The round, from 1.
    pub round: u32,
    /// As it would be, not as it is.
    pub changed: bool,
    /// What was found.
    pub found: Measured,
}

/// What was found of some changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// As it was, one for each round.
    pub before: Vec<Measured>,
    /// Changed.
    pub after: Vec<Measured>,
    /// What the change does to the rate.
    pub rate: Difference,
    /// And to the processor time; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Difference>,
}

/// Why there is no trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A change, or taking it back, failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The test failed.
    #[error("the test failed {when} ({why}); {undone}")]
    Test {
        /// Before or with the change.
        when: &'static str,
        /// Why.
        why: String,
        /// What was done about the change.
        undone: String,
    },
    /// Somebody has had enough.
    #[error("interrupted; {undone}")]
    Interrupted {
        /// What was done about the change.
        undone: String,
    },
}

/// A host that is changed and changed back. What there was is on the disk for as long, so that `undo` brings it back where
/// the program was killed.
struct Turns<'a> {
    host: &'a dyn Host,
    snapshot: Snapshot,
    path: PathBuf,
    changed: bool,
}

impl Turns<'_> {
    fn turn(&mut self, changed: bool) -> Result<(), ApplyError> {
        if self.changed == changed {
            return Ok(());
        }
        match changed {
            true => apply::set(self.host, &self.snapshot)?,
            false => apply::undo(self.host, &self.snapshot)?,
        }
        self.changed = changed;
        Ok(())
    }

    /// As it was, and nothing left to undo; or what is left, in words.
    fn end(mut self) -> Result<(), ApplyError> {
        self.turn(false)?;
        apply::forget(&self.path)
    }

    fn told(self) -> String {
        match self.end() {
            Ok(()) => "all is as it was".into(),
            Err(error) => error.to_string(),
        }
    }
}

/// Measures changes: `rounds` times as it is and as often changed. Each round begins as the one before it ended, so that
/// neither side is always the first. In the end all is as it was. `tell` hears of every test, and says whether to go on.
///
/// # Errors
/// [`VerifyError`]; what was changed is taken back, or what could not be is named.
pub fn trial(
    host: &dyn Host,
    changes: &[Change],
    kept: (&Path, &str),
    rounds: u32,
    meter: &mut dyn Meter,
    tell: &mut dyn FnMut(Step) -> bool,
) -> Result<Trial, VerifyError> {
    let (snapshot, path) = apply::begin(host, changes, kept.0, kept.1)?;
    let mut turns = Turns { host, snapshot, path, changed: false };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 1..=rounds.clamp(ROUNDS_MIN, ROUNDS_MAX) {
        let first = turns.changed;
        for changed in [first, !first] {
            if let Err(refused) = turns.turn(changed) {
                // Half-changed is not left; what could not be taken back is for `undo`, later.
                if matches!(&refused, ApplyError::Refused { undone, .. } if undone.left.is_empty()) {
                    let _ = apply::forget(&turns.path);
                }
                return Err(refused.into());
            }
            let found = match meter.measure() {
                Ok(found) => found,
                Err(why) => {
                    let when = if changed { "with the change" } else { "without the change" };
                    return Err(VerifyError::Test { when, why, undone: turns.told() });
                }
            };
            if changed { &mut after } else { &mut before }.push(found);
            if !tell(Step { round, changed, found }) {
                return Err(VerifyError::Interrupted { undone: turns.told() });
            }
        }
    }
    turns.end()?;
    Ok(judged(before, after))
}

fn judged(before: Vec<Measured>, after: Vec<Measured>) -> Trial {
    let rates = |of: &[Measured]| of.iter().map(|found| found.rate_bit_s).collect::<Vec<_>>();
    let times = |of: &[Measured]| of.iter().map(|found| found.cpu_s_per_gb).collect::<Option<Vec<_>>>();
    let rate = Difference::of(&rates(&before), &rates(&after));
    let cpu = times(&before).zip(times(&after)).map(|(before, after)| Difference::of(&before, &after));
    Trial { before, after, rate, cpu }
}

#[cfg(test)]
mod tests;
