//! Jobs in which nothing moves, and peers that are not heard of.

use std::time::{Duration, Instant};

use model::Progress;

use crate::error::{Error, Result};
use crate::link::Link;

/// Notices that nothing moves though everybody is still there.
pub(super) struct Stall {
    last: Progress,
    since: Instant,
}

impl Stall {
    pub(super) fn new(now: Instant) -> Stall {
        Stall { last: Progress::default(), since: now }
    }

    pub(super) fn check(&mut self, progress: &Progress, waits: bool, link: &Link) -> Result<()> {
        if waits || *progress != self.last {
            self.last = *progress;
            self.since = Instant::now();
        } else if self.since.elapsed() > link.timeouts().stall {
            return Err(Error::Stalled { peer: link.peer().to_owned(), seconds: link.timeouts().stall.as_secs() });
        }
        Ok(())
    }
}

/// How long the other end was not heard of, all together. Who is there says so when it is asked: who does not for longer than that
/// takes was away, or the path was.
#[derive(Default)]
pub(super) struct Silence {
    /// Spells that have ended.
    past: Duration,
    /// The one that lasts.
    spell: Duration,
}

impl Silence {
    /// The other end has said nothing for so long; up to `usual` that means nothing. All of it so far.
    pub(super) fn heard(&mut self, silent: Duration, usual: Duration) -> Duration {
        if silent < self.spell {
            self.past += std::mem::take(&mut self.spell);
        }
        if silent > usual {
            self.spell = silent;
        }
        self.past + self.spell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_adds_up() {
        let s = Duration::from_secs;
        let mut silence = Silence::default();
        let mut after = |silent| silence.heard(s(silent), s(10));
        assert_eq!([after(2), after(9), after(1)], [s(0); 3], "nobody need say anything for so long");
        assert_eq!([after(11), after(45), after(0)], [s(11), s(45), s(45)]);
        assert_eq!([after(12), after(20), after(3)], [s(57), s(65), s(65)]);
    }
}
