//! The decisions of a sender and the judgement of a transfer, as pure functions. [`Pilot`] decides the number of streams, their pace
//! and their congestion control; [`path_set`] does so for several paths; [`eta`] predicts the end; [`verdict`] says what limited it.
//!
//! The limit is read from evidence, not searched for: one more stream is tried only where the evidence says that a stream, not
//! the path or a disk, is the limit, and it is removed where it did not help. Design and arithmetic:
//! `docs/design/path.md`.
//!
//! What this crate does not know: sockets, clocks, threads. Time and measurements are arguments, decisions are values; so a simulator runs
//! the same code as a real transfer.

mod accumulator;
mod congestion;
pub mod eta;
mod pace;
pub mod path_set;
pub mod series;
mod steering;
mod stream_count;
pub mod verdict;

use model::account::{Account, StageTimes};
use model::tcp::TcpInfo;

pub use accumulator::{Accumulator, PathEstimate};
pub use congestion::{Evidence, Kind, Permitted, choose, wanted};
pub use path_set::PathSet;
pub use steering::Pilot;
pub use stream_count::{STREAMS_MAX, first_streams};

/// One stream at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its number.
    pub stream: u32,
    /// The kernel's `TCP_INFO`.
    pub tcp: TcpInfo,
    /// Its congestion control.
    pub congestion: String,
    /// The time of its thread, by stage.
    pub spent: StageTimes,
    /// Bytes that have arrived and were not read yet.
    pub unread_bytes: u64,
}

/// The conditions that hold for all streams at this moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The limit of the transfer, bytes per second of payload; 0 for none.
    pub limit_bytes_s: u64,
    /// The number of streams that the user asked for; 0 leaves it to the pilot.
    pub streams: u32,
    /// The transfer is paused.
    pub paused: bool,
    /// The transfer's share of a path that other transfers of the node use, bytes per second; 0 for none.
    pub share_bytes_s: u64,
    /// The last account of the other end.
    pub peer: Option<&'a Account>,
}

/// A decision of the pilot.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Use so many streams from now on.
    Streams(u32),
    /// Set the congestion control of this stream.
    Congestion(u32, String),
    /// Restart the congestion control of this stream, without its model of the path.
    Refresh(u32),
    /// Limit this stream to so many bytes per second; none removes the limit.
    Pace(u32, Option<u64>),
}

/// Facts that are known before the first byte.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The permitted congestion controls, and the one that the user asked for.
    pub permitted: Permitted,
    /// Processors of this host.
    pub processors: u32,
    /// The largest send buffer that this host gives a stream.
    pub send_buffer_bytes: u64,
    /// The history of the same path.
    pub past: Option<PathHistory>,
}

/// What a transfer measured on a path, for the next transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathHistory {
    /// The rate of the full path, bytes per second of payload; 0 if it never was full.
    pub capacity_bytes_s: u64,
    /// Streams that were in use.
    pub streams: u32,
    /// Smallest round-trip time, seconds.
    pub min_rtt_s: f64,
    /// Share of the bytes that were sent again while no queue stood on the path.
    pub loss: f64,
}
