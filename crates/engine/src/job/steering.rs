//! Steers a running job: passes changes of its settings, and the reasons why nothing moves, to its side and to the other end.

use std::time::{Duration, Instant};

use model::spec::LiveSettings;
use wire::Frame;

use crate::control::Control;
use crate::error::Result;
use crate::link::Link;
use crate::side::Side;

/// Passes changes of a running job's settings, and the reasons why nothing moves.
pub(super) struct Steering<'a> {
    control: &'a Control,
    pub(super) applied: LiveSettings,
    /// The settings have not been passed to the side yet.
    is_first: bool,
    /// The version of the settings that the other end knows.
    sent_version: u64,
    /// The other end's last reason why nothing moves, and when it arrived.
    pub(super) peer_busy: Option<(String, Instant)>,
    /// When this end's reason was last sent.
    busy_sent: Option<Instant>,
}

impl<'a> Steering<'a> {
    /// How often the reason why nothing moves is sent to the other end. A received reason holds for three times as long.
    const BUSY_EVERY: Duration = Duration::from_secs(2);

    /// Steers a job that was ordered with these settings. A change made since the order, before this end began, is still sent to the
    /// other end.
    pub(super) fn new(control: &'a Control, ordered: &LiveSettings) -> Steering<'a> {
        let (applied, version) = control.settings();
        let sent_version = if applied == *ordered { version } else { version.wrapping_sub(1) };
        Steering { control, applied, is_first: true, sent_version, peer_busy: None, busy_sent: None }
    }

    pub(super) fn apply_changes(&mut self, link: &mut Link, side: &dyn Side) -> Result<()> {
        let (steer, version) = self.control.settings();
        if std::mem::take(&mut self.is_first) || steer != self.applied {
            self.applied = steer;
            side.steer(&steer);
        }
        if version != self.sent_version {
            self.sent_version = version;
            link.send(&Frame::Steer(steer))?;
        }
        Ok(())
    }

    /// Reports why nothing moves. Returns whether there is a reason, or the job is paused.
    pub(super) fn report_wait(&mut self, link: &mut Link, side: &dyn Side) -> Result<bool> {
        let mut why = side.busy();
        if !why.is_empty() && self.busy_sent.is_none_or(|at| at.elapsed() >= Self::BUSY_EVERY) {
            self.busy_sent = Some(Instant::now());
            link.send(&Frame::Busy(why.clone()))?;
        }
        if let Some((theirs, _)) = self.peer_busy.as_ref().filter(|(_, at)| at.elapsed() < 3 * Self::BUSY_EVERY) {
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
        let ordered = LiveSettings { limit_bit_s: 16_000_000, ..LiveSettings::default() };
        let control = Control::new(label, ordered, Arc::default());
        let is_sent = |steering: &Steering<'_>| steering.sent_version == control.settings().1;
        assert!(is_sent(&Steering::new(&control, &ordered)), "the settings are those of the order");
        control.change(&Change { limit_bit_s: Some(20_000_000), ..Change::default() });
        assert!(!is_sent(&Steering::new(&control, &ordered)));
    }
}
