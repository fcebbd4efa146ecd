//! Whether the peer is still there: a heartbeat on the control connection, and the bound on silence.
//!
//! Time is an argument: how long the session has lasted, on a clock that never steps.

use std::time::Duration;

/// How often to speak, and how long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Silence on our side after which a ping is due.
    pub ping_after: Duration,
    /// Silence of the peer after which it counts as gone.
    pub gone_after: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { ping_after: Duration::from_secs(5), gone_after: Duration::from_secs(30) }
    }
}

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this time.
    At(Duration),
    /// A ping.
    Ping,
    /// The peer is gone.
    Gone,
}

/// Watches one connection.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    pace: Pace,
    heard: Duration,
    spoke: Duration,
}

impl Liveness {
    /// Starts now, as if the peer had just been heard.
    pub fn new(pace: Pace, now: Duration) -> Liveness {
        Liveness { pace, heard: now, spoke: now }
    }

    /// The peer sent something.
    pub fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// How long the peer has sent nothing.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard)
    }

    /// We sent something.
    pub fn spoke(&mut self, now: Duration) {
        self.spoke = now;
    }

    /// What is due.
    pub fn due(&self, now: Duration) -> Due {
        let gone = self.heard + self.pace.gone_after;
        let ping = self.spoke + self.pace.ping_after;
        match now {
            _ if now >= gone => Due::Gone,
            _ if now >= ping => Due::Ping,
            _ => Due::At(gone.min(ping)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_then_gives_up() {
        let s = Duration::from_secs;
        let mut live = Liveness::new(Pace::default(), s(0));
        assert_eq!(live.due(s(1)), Due::At(s(5)));
        assert_eq!(live.due(s(5)), Due::Ping);
        live.spoke(s(5));
        assert_eq!(live.due(s(6)), Due::At(s(10)));
        live.heard(s(9));
        live.spoke(s(36));
        assert_eq!(live.due(s(38)), Due::At(s(39)));
        assert_eq!(live.due(s(39)), Due::Gone);
    }
}
