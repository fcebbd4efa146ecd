//! What a sender decides while it sends, and what can be said of a transfer from what was measured: how many streams, how
//! fast each may send and with which congestion control ([`Pilot`]), by path where there are several ([`path_set`]); when it
//! ends ([`eta`]); what limited it ([`verdict`]).
//!
//! White box: the part that limits is read off, not searched for. One more stream is tried only where the evidence says
//! that a stream, not the path or a disk, is the limit, and is taken back where it did not help. Design and arithmetic:
//! `docs/design/path.md`.
//!
//! What this crate does not know: sockets, clocks, threads. Time and measurements are arguments, decisions are values; so a
//! simulator steps the code that runs for real.

mod accumulator;
mod congestion;
pub mod eta;
mod pace;
pub mod path_set;
pub mod series;
mod steering;
mod stream_count;
pub mod verdict;

use model::account::{Account, Spent};
use model::tcp::TcpInfo;

pub use accumulator::{Accumulator, PathEstimate};
pub use congestion::{Evidence, Kind, Permitted, choose, wanted};
pub use path_set::PathSet;
pub use steering::Pilot;
pub use stream_count::{STREAMS_MAX, first_streams};

/// What is seen of one stream.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its number.
    pub stream: u32,
    /// What the kernel says.
    pub tcp: TcpInfo,
    /// Its congestion control.
    pub congestion: String,
    /// Where its thread's time went.
    pub spent: Spent,
    /// Bytes that have arrived and that nobody has read yet.
    pub unread_bytes: u64,
}

/// What holds for all streams together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The job's limit, bytes per second of payload; 0 for none.
    pub limit_bytes_s: u64,
    /// Streams that somebody asked for; 0 where it is left to us.
    pub streams: u32,
    /// Nothing is to be sent.
    pub paused: bool,
    /// This job's part of a path that it shares with others of this node, bytes per second; 0 for no opinion.
    pub share_bytes_s: u64,
    /// What the other end said about itself last.
    pub peer: Option<&'a Account>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// So many streams from now on.
    Streams(u32),
    /// The stream is to use this congestion control.
    Congestion(u32, String),
    /// The stream's congestion control is to take its model of the path anew.
    Refresh(u32),
    /// The stream is to send at most so many bytes per second; none for no bound.
    Pace(u32, Option<u64>),
}

/// What is known before the first byte.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Congestion controls, and whether one was asked for.
    pub permitted: Permitted,
    /// Processors of this host.
    pub processors: u32,
    /// The largest send buffer that it gives a stream.
    pub send_buffer_bytes: u64,
    /// What an earlier job found on the same path.
    pub past: Option<Past>,
}

/// What a job found out about a path, for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// What the path gave when it was full, bytes per second of payload; 0 where it never was.
    pub capacity_bytes_s: u64,
    /// Streams that were in use.
    pub streams: u32,
    /// Smallest round-trip time, seconds.
    pub min_rtt_s: f64,
    /// Share of the bytes that were sent again while no queue stood.
    pub loss: f64,
}
