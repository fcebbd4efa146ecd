//! How long to wait for what.

use std::time::Duration;

use wire::liveness::Pace;

/// Bounds on every wait for a peer.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a TCP connection to be answered.
    pub connect: Duration,
    /// For a TLS handshake and a login, or for a data stream's join.
    pub handshake: Duration,
    /// Heartbeat on the control connection.
    pub pace: Pace,
    /// A job without any progress.
    pub stall: Duration,
    /// A session without a job or question.
    pub idle: Duration,
    /// A session with another node, and its streams, kept for the next job there.
    pub warm: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            pace: Pace::default(),
            stall: Duration::from_secs(15 * 60),
            idle: Duration::from_secs(60),
            warm: Duration::from_secs(60),
        }
    }
}
