//! Detects jobs in which nothing moves, and peers that are silent.

use std::time::{Duration, Instant};

use model::Progress;

use crate::error::{Error, Result};
use crate::link::Link;

/// Detects that nothing moves though the peer still answers.
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

/// Adds up how long the other end was silent. A peer answers pings: one that is silent for longer than an answer takes was down, or its
/// path was.
#[derive(Default)]
pub(super) struct Silence {
    /// The length of all spells of silence that have ended.
    past: Duration,
    /// The length of the present spell.
    spell: Duration,
}

impl Silence {
    /// Takes the present silence of the other end, which counts only beyond `usual`. Returns the silence of the job so far.
    pub(super) fn update(&mut self, silent: Duration, usual: Duration) -> Duration {
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
        let mut after = |silent| silence.update(s(silent), s(10));
        assert_eq!([after(2), after(9), after(1)], [s(0); 3], "a silence up to the usual one does not count");
        assert_eq!([after(11), after(45), after(0)], [s(11), s(45), s(45)]);
        assert_eq!([after(12), after(20), after(3)], [s(57), s(65), s(65)]);
    }
}
