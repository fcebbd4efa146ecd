//! The bounds on every wait for a peer.

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
    /// For progress of a job.
    pub stall: Duration,
    /// For a job or question of a session.
    pub idle: Duration,
    /// For the next job of a session with another node, which is kept with its streams.
    pub kept: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            pace: Pace::default(),
            stall: Duration::from_secs(15 * 60),
            idle: Duration::from_secs(60),
            kept: Duration::from_secs(60),
        }
    }
}
