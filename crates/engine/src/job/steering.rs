//! Steers a running job: passes changes of its settings, and the reasons why nothing moves, to its side and to the other end.

use std::time::{Duration, Instant};

use model::spec::Steer;
use wire::Frame;

use crate::control::Control;
use crate::error::Result;
use crate::link::Link;
use crate::side::Side;

/// Carries changes of a running job to its side and to the other end, and says why nothing moves.
pub(super) struct Steering<'a> {
    control: &'a Control,
    pub(super) applied: Steer,
    fresh: bool,
    /// The version of the settings that the other end knows.
    told: u64,
    pub(super) peer_busy: Option<(String, Instant)>,
    said_busy: Option<Instant>,
}

impl<'a> Steering<'a> {
    /// How often the reason why nothing moves is sent to the other end. A received reason holds for three times as long.
    const SAY: Duration = Duration::from_secs(2);

    /// Steers a job that was ordered with these settings. A change made since the order, before this end began, is still sent to the
    /// other end.
    pub(super) fn new(control: &'a Control, ordered: &Steer) -> Steering<'a> {
        let (applied, version) = control.steer();
        let told = if applied == *ordered { version } else { version.wrapping_sub(1) };
        Steering { control, applied, fresh: true, told, peer_busy: None, said_busy: None }
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

    /// Reports why nothing moves. Returns whether there is a reason, or the job is paused.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::v1::Change;

    use super::*;
    use crate::control::Label;

    #[test]
    fn a_change_before_this_end_began_is_still_sent() {
        let label = Label { role: "send", ..Label::default() };
        let ordered = Steer { limit_bit_s: 16_000_000, ..Steer::default() };
        let control = Control::new(label, ordered, Arc::default());
        let is_told = |steering: &Steering<'_>| steering.told == control.steer().1;
        assert!(is_told(&Steering::new(&control, &ordered)), "it is as it was ordered");
        control.change(&Change { limit_bit_s: Some(20_000_000), ..Change::default() });
        assert!(!is_told(&Steering::new(&control, &ordered)));
    }
}
