//! Measures the effect of changes: with and without them, by turns in one run, so that other influences (load, a path that fills) affect
//! both alike.

mod difference;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::apply::{self, ApplyError, Snapshot};
use crate::host::Host;
use crate::plan::Change;

pub use difference::{Difference, P_MAX, ROUNDS_MAX, ROUNDS_MIN};

/// The result of one short test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Rate of the payload, bit/s.
    pub rate_bit_s: f64,
    /// Processor time of this host for a GB (1e9 bytes) of payload, s; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
}

/// The interface of a measurement: a short test, always the same.
pub trait Meter {
    /// Runs the test once.
    ///
    /// # Errors
    /// The reason for which there is no result, in words.
    fn measure(&mut self) -> Result<Measured, String>;
}

/// A step of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The round, from 1.
    pub round: u32,
    /// Whether the changes were in force.
    pub changed: bool,
    /// The result.
    pub found: Measured,
}

/// The results of a trial of some changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Results without the changes, one for each round.
    pub before: Vec<Measured>,
    /// Results with the changes.
    pub after: Vec<Measured>,
    /// The effect on the rate.
    pub rate: Difference,
    /// The effect on the processor time; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Difference>,
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A change could not be made or taken back.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A test failed.
    #[error("the test failed {when} ({why}); {undone}")]
    Test {
        /// Without or with the changes.
        when: &'static str,
        /// The reason.
        why: String,
        /// Whether the changes were taken back.
        undone: String,
    },
    /// The user interrupted it.
    #[error("interrupted; {undone}")]
    Interrupted {
        /// What was done about the changes.
        undone: String,
    },
}

/// A host whose settings are changed and changed back. The old values stay on disk meanwhile, so that `undo` restores
/// them if the program is killed.
struct ToggledHost<'a> {
    host: &'a dyn Host,
    snapshot: Snapshot,
    path: PathBuf,
    changed: bool,
}

impl ToggledHost<'_> {
    fn switch(&mut self, changed: bool) -> Result<(), ApplyError> {
        if self.changed == changed {
            return Ok(());
        }
        if changed {
            apply::set(self.host, &self.snapshot)?;
        } else {
            apply::undo(self.host, &self.snapshot)?;
        }
        self.changed = changed;
        Ok(())
    }

    /// Restores the settings and removes the snapshot.
    fn end(mut self) -> Result<(), ApplyError> {
        self.switch(false)?;
        apply::remove_snapshot(&self.path)
    }

    /// Ends as [`ToggledHost::end`] does; returns the outcome in words.
    fn end_in_words(self) -> String {
        match self.end() {
            Ok(()) => "all is as it was".into(),
            Err(error) => error.to_string(),
        }
    }
}

/// Where the snapshot of the settings before is kept.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlace<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The time that is written in it.
    pub time: &'a str,
}

/// Measures changes: `rounds` tests without and as many with them. Each round begins in the state in which the one before it ended, so that
/// neither side is always first. In the end all settings are as before. `place` is where the snapshot is kept. `on_step` gets every
/// result, and returns whether to go on.
///
/// # Errors
/// [`VerifyError`]. The changes are taken back, or the error names those that could not be.
pub fn trial(
    host: &dyn Host,
    changes: &[Change],
    place: SnapshotPlace<'_>,
    rounds: u32,
    meter: &mut dyn Meter,
    on_step: &mut dyn FnMut(Step) -> bool,
) -> Result<Trial, VerifyError> {
    let (snapshot, path) = apply::begin(host, changes, place.dir, place.time)?;
    let mut toggled = ToggledHost { host, snapshot, path, changed: false };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 1..=rounds.clamp(ROUNDS_MIN, ROUNDS_MAX) {
        let first = toggled.changed;
        for changed in [first, !first] {
            if let Err(refused) = toggled.switch(changed) {
                // The host is not left half-changed; changes that could not be taken back are for a later `undo`.
                if matches!(&refused, ApplyError::Refused { undone, .. } if undone.not_restored.is_empty()) {
                    let _ = apply::remove_snapshot(&toggled.path);
                }
                return Err(refused.into());
            }
            let found = match meter.measure() {
                Ok(found) => found,
                Err(why) => {
                    let when = if changed { "with the change" } else { "without the change" };
                    return Err(VerifyError::Test { when, why, undone: toggled.end_in_words() });
                }
            };
            if changed { &mut after } else { &mut before }.push(found);
            if !on_step(Step { round, changed, found }) {
                return Err(VerifyError::Interrupted { undone: toggled.end_in_words() });
            }
        }
    }
    toggled.end()?;
    Ok(trial_of(before, after))
}

fn trial_of(before: Vec<Measured>, after: Vec<Measured>) -> Trial {
    let rates = |of: &[Measured]| of.iter().map(|found| found.rate_bit_s).collect::<Vec<_>>();
    let times = |of: &[Measured]| of.iter().map(|found| found.cpu_s_per_gb).collect::<Option<Vec<_>>>();
    let rate = Difference::of(&rates(&before), &rates(&after));
    let cpu = times(&before).zip(times(&after)).map(|(before, after)| Difference::of(&before, &after));
    Trial { before, after, rate, cpu }
}

#[cfg(test)]
mod tests;
