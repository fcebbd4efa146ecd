//! What a node says to its movers, and they to it, about the streams of its jobs that they carry.
//!
//! The node that a client spoke to is the head: it alone runs the machine of the job. A mover takes streams of it, reads or
//! writes the same files, and asks the head for every step. Each stream asks one thing at a time.

use std::net::SocketAddr;

use model::checksum::BlockSum;
use model::name::RelPath;

use crate::frame::order::Open;
use crate::frame::refusal::Refusal;
use crate::join::SessionId;
use crate::range::{Built, Range};
use crate::record::{Part, Suite};

/// A bit of a built part: its checksum is the file's.
pub(crate) const WHOLE: u64 = 1;
/// A bit of a built part: nothing of it was carried.
pub(crate) const HOLE: u64 = 2;

/// Where streams of a job are taken besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// A mover's address.
    pub at: SocketAddr,
    /// The session that streams join there.
    pub session: SessionId,
}

/// A session of its own for a mover's streams of one job.
#[derive(Clone, PartialEq, Eq)]
pub struct Lend {
    /// Its name, chosen at random by the head, for this mover and this time.
    pub session: SessionId,
    /// Its secret, derived from the client's session and this name: no key is used at two places. Only ever sent inside TLS to a
    /// node whose identity was checked.
    pub secret: [u8; 32],
    /// How records are sealed; none where they go in clear.
    pub suite: Option<Suite>,
    /// The job.
    pub order: Open,
}

impl std::fmt::Debug for Lend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lend").field("session", &self.session).field("order", &self.order).finish_non_exhaustive()
    }
}

/// What head and mover say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Mover: streams of the session may join here.
    Ready,
    /// Mover, every second: whether it may still write, with its own time. Head: the same, back. A mover that has had no
    /// answer for a while, counted from when it asked, writes nothing more.
    Beat(u64),
    /// Mover: a stream asks, or tells.
    Ask(u32, Ask),
    /// Head: the answer to what the stream asked last.
    Answer(u32, Answer),
    /// Mover: these streams of its own are too many; others that were need not end.
    Surplus(Vec<u32>),
    /// Mover: a stream is over.
    Gone(u32),
    /// Head: nothing more is to be written to this file.
    Close(u64),
    /// Mover: nothing more will be.
    Closed(u64),
    /// Head: the job is over.
    Over,
}

/// What a stream of a mover asks of the head, or tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What to send next.
    Next,
    /// A hole of a file, from here to there: which part of it is this stream's to tell.
    Claim {
        /// The file.
        file: u64,
        /// Where it begins, or goes on.
        from: u64,
        /// Where it ends.
        to: u64,
    },
    /// A record is about to leave.
    Built {
        /// What it covers.
        parts: Vec<Built>,
        /// Its bytes of payload.
        bytes: u64,
        /// Files of which nothing is left to deal after it.
        last: Vec<u64>,
    },
    /// A file that was to be sent cannot be read here.
    Unread(u64, Refusal),
    /// Where the blocks of this file go.
    Where(u64),
    /// A record of files that are not worth asking about, for the head to take in.
    Pass(Vec<u8>),
    /// A record was taken in: its parts, each with its checksum where it was right.
    Took(Vec<(Part, Option<BlockSum>)>),
}

/// The head's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Read these, and send them as one record.
    Send(Vec<Range>),
    /// There are streams enough without this one.
    Retire,
    /// The job is over.
    Over,
    /// This part of the hole, if any; and whether nothing of the file is left to deal.
    Claimed(Option<(u64, u64)>, bool),
    /// It is noted.
    Noted,
    /// There.
    Here(Here),
    /// Nobody wants it.
    Nowhere,
}

/// Where the blocks of a file go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// Its path below the job's target.
    pub path: RelPath,
    /// The tag of the unfinished file.
    pub tag: String,
    /// Its length.
    pub size: u64,
    /// What nobody writes there is not zero by itself.
    pub fills_holes: bool,
}
