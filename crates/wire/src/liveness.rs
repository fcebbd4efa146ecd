//! The heartbeat on the control connection, and the bound on the peer's silence.
//!
//! Time is an argument: the age of the session, on a clock that never steps.

use std::time::Duration;

/// How often a ping is sent, and how long the peer may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Silence of this side after which a ping is due.
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
    last_received: Duration,
    last_sent: Duration,
}

impl Liveness {
    /// Starts now, as if the peer had just sent something.
    pub fn new(pace: Pace, now: Duration) -> Liveness {
        Liveness { pace, last_received: now, last_sent: now }
    }

    /// Notes that the peer has sent something.
    pub fn received(&mut self, now: Duration) {
        self.last_received = now;
    }

    /// How long the peer has sent nothing.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_received)
    }

    /// Notes that this side has sent something.
    pub fn sent(&mut self, now: Duration) {
        self.last_sent = now;
    }

    /// What is due.
    pub fn due(&self, now: Duration) -> Due {
        let gone = self.last_received + self.pace.gone_after;
        let ping = self.last_sent + self.pace.ping_after;
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
    fn a_silent_peer_is_pinged_then_counts_as_gone() {
        let s = Duration::from_secs;
        let mut live = Liveness::new(Pace::default(), s(0));
        assert_eq!(live.due(s(1)), Due::At(s(5)));
        assert_eq!(live.due(s(5)), Due::Ping);
        live.sent(s(5));
        assert_eq!(live.due(s(6)), Due::At(s(10)));
        live.received(s(9));
        live.sent(s(36));
        assert_eq!(live.due(s(38)), Due::At(s(39)));
        assert_eq!(live.due(s(39)), Due::Gone);
    }
}
