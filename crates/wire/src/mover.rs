//! Messages between a coordinator and its movers, about the streams of a job that the movers carry.
//!
//! The coordinator is the node that the client connected to: it alone runs the machine of the job. A mover takes streams of the job, reads
//! or writes the same files, and asks the coordinator for every step. Each stream asks one question at a time. `docs/wire.md` calls the
//! coordinator the head.

use model::Refusal;
use std::net::SocketAddr;

use model::checksum::BlockSum;
use model::name::RelPath;

use crate::frame::order::Open;
use crate::join::SessionId;
use crate::range::{Built, Range};
use crate::record::{Part, Suite};

/// The flag of a built part whose checksum is the file's.
pub(crate) const WHOLE: u64 = 1;
/// The flag of a built part that is a hole: it has no payload.
pub(crate) const HOLE: u64 = 2;

/// A further address for streams of a job, at a mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegatedAddress {
    /// A mover's address.
    pub at: SocketAddr,
    /// The session that streams join there.
    pub session: SessionId,
}

/// A delegated session: a mover's own, for its streams of one job.
#[derive(Clone, PartialEq, Eq)]
pub struct DelegatedSession {
    /// The session's id, chosen at random by the coordinator, for this mover and this delegation.
    pub session: SessionId,
    /// The session's secret, derived from the client's session and this id: no key is used at two places. It is sent only inside TLS, to
    /// a node whose identity was checked.
    pub secret: [u8; 32],
    /// How records are sealed; none where they go in clear.
    pub suite: Option<Suite>,
    /// The job.
    pub order: Open,
}

impl std::fmt::Debug for DelegatedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelegatedSession")
            .field("session", &self.session)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

/// A message between a coordinator and a mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoverMessage {
    /// Mover: streams may join the delegated session.
    Ready,
    /// Mover, twice a second: a request for the lease under which it writes, with its own time. Coordinator: the same message, back. A
    /// mover writes nothing more once its lease is over; the lease counts from the request.
    Beat(u64),
    /// Mover: a query or a report of a stream.
    Ask(u32, StreamQuery),
    /// Coordinator: the answer to the stream's last query.
    Answer(u32, Answer),
    /// Mover: the complete list of its streams that are surplus. A stream that is no longer listed need not end.
    Surplus(Vec<u32>),
    /// Mover: a stream has ended.
    Gone(u32),
    /// Coordinator: nothing more may be written to this file.
    Close(u64),
    /// Mover: nothing more will be written to this file.
    Closed(u64),
    /// Coordinator: the job is over.
    Over,
}

/// A query or report of a mover's stream to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamQuery {
    /// Asks for the next ranges to send.
    Next,
    /// Asks for the part of a file's hole that this stream is to report.
    Claim {
        /// The file.
        file: u64,
        /// Offset of the hole's unreported rest, bytes.
        from: u64,
        /// Offset of the hole's end, bytes.
        to: u64,
    },
    /// Reports a record that is about to be sent.
    Built {
        /// The parts that it covers.
        parts: Vec<Built>,
        /// Its payload, bytes.
        bytes: u64,
        /// Files whose last range is in it.
        last: Vec<u64>,
    },
    /// Reports a file that the mover cannot read.
    Unread(u64, Refusal),
    /// Asks for the location of this file.
    Where(u64),
    /// Passes on a record of small files: the coordinator writes them itself.
    Pass(Vec<u8>),
    /// Reports a record that has arrived: its parts, each with its checksum if that was right.
    Took(Vec<(Part, Option<BlockSum>)>),
}

/// The coordinator's answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Read these, and send them as one record.
    Send(Vec<Range>),
    /// The stream is surplus: it ends.
    Retire,
    /// The job is over.
    Over,
    /// The part of the hole (offset, length), if any, and whether nothing of the file is left to send.
    Claimed(Option<(u64, u64)>, bool),
    /// The report is noted.
    Noted,
    /// The blocks of the file go to this location.
    Here(FileLocation),
    /// The file is not wanted.
    Nowhere,
}

/// The location of a file: where its blocks are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// The file's path below the job's target.
    pub path: RelPath,
    /// The tag of the unfinished file.
    pub tag: String,
    /// The file's length, bytes.
    pub size: u64,
    /// Holes must be written as zeros: ranges that are not written do not read as zeros.
    pub fills_holes: bool,
}
