//! The reins inside a job: changes go to this side and to the other end, and so does why nothing moves.

use std::time::{Duration, Instant};

use model::spec::Steer;
use wire::Frame;

use super::Side;
use crate::control::Control;
use crate::error::Result;
use crate::link::Link;

/// Carries changes of a running job to its side and to the other end, and says why nothing moves.
pub(super) struct Reins<'a> {
    control: &'a Control,
    pub(super) applied: Steer,
    fresh: bool,
    /// The changes made here that the other end knows of.
    told: u64,
    pub(super) peer_busy: Option<(String, Instant)>,
    said_busy: Option<Instant>,
}

impl<'a> Reins<'a> {
    /// How often the other end hears why nothing moves, and after how much longer it no longer holds.
    const SAY: Duration = Duration::from_secs(2);

    pub(super) fn new(control: &'a Control) -> Reins<'a> {
        let (applied, told) = control.steer();
        Reins { control, applied, fresh: true, told, peer_busy: None, said_busy: None }
    }

    pub(super) fn tend(&mut self, link: &mut Link, side: &dyn Side) -> Result<()> {
        let (steer, version) = self.control.steer();
        if std::mem::take(&mut self.fresh) || steer != self.applied {
            self.applied = steer;
            side.steer(&steer);
        }
        if version != self.told {
            self.told = version;
            link.send(&Frame::Steer(steer))?;
        }
        Ok(())
    }

    /// Whether it is known why nothing moves.
    pub(super) fn say_busy(&mut self, link: &mut Link, side: &dyn Side) -> Result<bool> {
        let mut why = side.busy();
        if !why.is_empty() && self.said_busy.is_none_or(|at| at.elapsed() >= Self::SAY) {
            self.said_busy = Some(Instant::now());
            link.send(&Frame::Busy(why.clone()))?;
        }
        if let Some((theirs, _)) = self.peer_busy.as_ref().filter(|(_, at)| at.elapsed() < 3 * Self::SAY) {
            why = if why.is_empty() { theirs.clone() } else { format!("{why}; {theirs}") };
        }
        self.control.wait_for(&why);
        Ok(!why.is_empty() || self.applied.paused)
    }
}
