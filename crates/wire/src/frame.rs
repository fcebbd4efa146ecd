//! The control connection's messages.
//!
//! On the wire: length u32 (big-endian, of what follows), type u8, flags u8, body. Flag bit 0 says that a peer which
//! does not know the type may ignore the message; without it an unknown type ends the session. Names and numbers as in
//! [`crate::codec`].

mod decode;
mod encode;
pub(crate) mod order;

use model::{Algorithm, Refusal};
use std::net::SocketAddr;

use model::account::{Account, Waited};
use model::checksum::Digest;
use model::entry::{Attributes, Kind, Meta, Timestamp};
use model::locator::{HostPort, NodePlace};
use model::name::{Name, RelPath};
use model::spec::{Steer, Step};
use model::v1;

use crate::join::SessionId;
use crate::mover::{DelegatedAddress, DelegatedSession, MoverMessage};

pub use crate::record::Suite;
pub use decode::{FrameBuffer, decode};
pub use encode::encode;
pub use order::{Direction, JobName, Open};

/// Length of a frame's head: length, type, flags.
pub const HEAD_BYTES: usize = 6;

/// The longest time among the facts about a stream, µs: 35 years. Up to here a time in seconds, as a float, gives back
/// the very microseconds it was made of.
const MICROS_MAX: u64 = 1 << 50;

/// The secret half of an access key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyProof {
    /// The grant's id.
    pub id: [u8; 8],
    /// The secret that proves it. Only ever sent inside TLS to a node whose identity was checked.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for KeyProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyProof").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A question outside of any job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Facts about one entry.
    Stat(NodePlace),
    /// The entries of a directory, or the exports.
    List(NodePlace),
    /// Make a directory, with its parents.
    Mkdir(NodePlace),
    /// Remove a file, link or empty directory; with all below it where asked.
    Remove(NodePlace, bool),
    /// Rename within an export.
    Rename(NodePlace, NodePlace),
    /// Digests of a file, or of every file below a directory.
    Digest(NodePlace, Vec<Algorithm>),
    /// An access key for one job into this place, for another node to use.
    KeyFor {
        /// The job.
        job: JobName,
        /// Its target here.
        place: NodePlace,
        /// It may remove what the source lacks.
        delete: bool,
    },
    /// A job to another node, which this node is to carry by itself.
    Carry(Box<Errand>),
    /// The jobs here that the guest may know of, or one of them.
    Jobs(Option<JobName>),
    /// Change a running job.
    Change(JobName, v1::Change),
    /// The far half of a test (`v1::probe::Ask` as JSON); its answer are lines of text.
    Probe(String),
}

/// A job that a node carries to another: third-party copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The order, as a client would give it to the other node: a push to one place there.
    pub order: Open,
    /// What to send, here.
    pub sources: Vec<NodePlace>,
    /// The other node.
    pub to: HostPort,
    /// Its fingerprint.
    pub node: [u8; 32],
    /// The key that the other node gave out for this job.
    pub key: KeyProof,
    /// Payload in clear, where the other node allows it.
    pub plain: bool,
    /// How long to keep trying without progress, seconds.
    pub retry_for_s: u64,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path below the place that was asked for; the root for the place itself.
    pub path: RelPath,
    /// Facts.
    pub meta: Meta,
    /// Where a symbolic link points.
    pub link: Option<Vec<u8>>,
    /// Digests, where those were asked for.
    pub digests: Vec<Digest>,
    /// What kept a digest from being made.
    pub failure: Option<Refusal>,
}

/// What an offered entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A directory; entries below it name it as their parent until it is left.
    Dir {
        /// Permission bits.
        mode: u32,
        /// Last change.
        mtime: Timestamp,
    },
    /// A file. A size of [`UNKNOWN_SIZE`] says that it ends where it ends.
    File {
        /// Permission bits.
        mode: u32,
        /// Last change.
        mtime: Timestamp,
        /// Length, bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Last change.
        mtime: Timestamp,
        /// Where it points, verbatim.
        target: Vec<u8>,
    },
    /// One more name for a file of this job.
    HardLink {
        /// The file's id.
        to: u64,
        /// Its path below the same source root.
        path: RelPath,
    },
    /// Left out by design: a FIFO, socket or device.
    Special,
    /// Could not be read at the source.
    Failed(Refusal),
}

/// The size of a file that ends where it ends.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// One entry of the tree, in depth-first order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A new entry.
    New {
        /// Its id: 1, 2, 3 … within the job.
        id: u64,
        /// The directory it is in; 0 for a source root.
        parent: u64,
        /// Its name.
        name: Name,
        /// What it is.
        what: Offered,
        /// What else there is to say about it.
        attributes: Option<Box<Attributes>>,
    },
    /// All entries of this directory have been offered.
    Leave(u64),
}

/// What the receiver wants of an offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it.
    Want,
    /// These ranges are there from before: the rest of it, and those of them that are not the source's any more.
    WantRest(Vec<Claim>),
    /// All of it, unless its digest is this.
    WantUnless(Digest),
}

/// A range that the receiver has from an earlier attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where it starts.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
    /// The CRC32C of what is there.
    pub crc32c: u32,
}

/// A step of a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What would be done.
    pub step: Step,
    /// To what, below the target.
    pub path: RelPath,
    /// Length of a file.
    pub bytes: u64,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in place, verified.
    Done,
    /// It was there already.
    Skipped,
    /// It could not be put in place.
    Failed(Refusal),
}

/// A file whose blocks have all left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The file.
    pub id: u64,
    /// Its length.
    pub size: u64,
    /// The digests the source made; the receiver must find the same.
    pub digests: Vec<Digest>,
}

/// The receiver's count at the end of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files put in place.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories in place.
    pub directories: u64,
    /// Symbolic links put in place.
    pub links: u64,
    /// Files that were there already.
    pub skipped: u64,
    /// Their bytes.
    pub skipped_bytes: u64,
    /// FIFOs, sockets, devices left out.
    pub special: u64,
    /// Entries that failed at either end.
    pub failed: u64,
    /// Bytes that crossed more than once.
    pub resent_bytes: u64,
    /// Bytes that were there from an earlier attempt.
    pub resumed_bytes: u64,
    /// Entries removed because the source lacks them.
    pub deleted: u64,
}

/// Bytes of a [`PlaceToken`].
pub const PLACE_TOKEN_BYTES: usize = 16;

/// A directory or file of a host, told so that only whoever has the same one knows it again.
pub type PlaceToken = [u8; PLACE_TOKEN_BYTES];

/// What one end counts that the other cannot see, for the receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sender: unfinished files that were left out.
    pub unfinished: u64,
    /// Receiver: entries whose data was there already, and whose mode, owner, attributes or ACL were brought up to date.
    pub refreshed: u64,
}

/// A message on the control connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Client's first: who it is.
    Login {
        /// A random name for the session.
        session: SessionId,
        /// Program and version, for logs.
        software: String,
        /// The key, if it has one for this node.
        key: Option<KeyProof>,
        /// Suites it can use, best first.
        suites: Vec<Suite>,
        /// It asks for payload in clear.
        plain: bool,
    },
    /// Node's answer.
    Welcome {
        /// Program and version, for logs.
        software: String,
        /// The suite for sealed streams.
        suite: Suite,
        /// Payload goes in clear: asked for and allowed.
        plain: bool,
    },
    /// The end of the session, or of the job, with the reason.
    Abort(Refusal),
    /// Heartbeat.
    Ping(u64),
    /// Its answer.
    Pong(u64),
    /// A question.
    Ask(u32, Request),
    /// Lines of the answer; `true` where more follow.
    Answer(u32, Vec<Listed>, bool),
    /// No.
    Denied(u32, Refusal),
    /// A job begins.
    Open(Open),
    /// Sender: entries of the tree.
    Entries(Vec<Entry>),
    /// Sender: a record on the control connection.
    Inline(Vec<u8>),
    /// Sender: files whose blocks have all left.
    Ends(Vec<End>),
    /// Sender: files that will not come after all.
    Drops(Vec<(u64, Refusal)>),
    /// Sender: files found equal by digest.
    Same(Vec<u64>),
    /// Sender: the tree has been offered in full: so many entries.
    ScanEnd(u64),
    /// Receiver: what it wants of offered files.
    Verdicts(Vec<(u64, Verdict)>),
    /// Receiver: what became of entries.
    Outcomes(Vec<(u64, Outcome)>),
    /// Receiver: ranges (file, offset, length) that must come again.
    Again(Vec<(u64, u64, u64)>),
    /// Receiver: records taken in so far, per stream.
    Received(Vec<(u32, u64)>),
    /// Receiver: everything is settled.
    Finished(Totals),
    /// Sender, after `Finished`: the kernel's facts about its streams.
    Facts(Vec<v1::Stream>),
    /// Sender: claimed ranges (file, offset, length) that are the source's.
    Held(Vec<(u64, u64, u64)>),
    /// Either end: the job's limit, streams and pause from now on.
    Steer(Steer),
    /// Either end: why nothing moves for a while, in words for people. It is no stall.
    Busy(String),
    /// Receiver, in a dry run: what would be done.
    Plans(Vec<Plan>),
    /// Client, after `Open`: files to send (path below the source, path below the target); `true` where more follow.
    Files(Vec<(RelPath, RelPath)>, bool),
    /// A line of an answer in words or JSON; `true` where more follow.
    Told(u32, String, bool),
    /// Either end, now and then: what it can say about itself.
    Account(Box<Account>),
    /// Client: it would keep the session, and its streams, for so many seconds between jobs. Node: it does, for so
    /// long; who does not know this says nothing.
    Keep(u64),
    /// Client, in a session that is kept, before its next job: who it is from now on.
    Renew {
        /// The key, if it has one for this node. What the former one allowed is over.
        key: Option<KeyProof>,
        /// Streams opened so far: no number up to here may still join.
        opened: u32,
        /// Streams of the last job that the next one begins with.
        kept: Vec<u32>,
    },
    /// Node, behind its Welcome: where it takes streams too. Each is a path of its own.
    Addresses(Vec<SocketAddr>),
    /// Sender that was called: how many streams each path should have; a path is told by one of its streams.
    Spread(Vec<(u32, u32)>),
    /// Node, while a job runs: where movers of it take streams, from now on and nowhere else: what goes to others of them is
    /// lost.
    Movers(Vec<DelegatedAddress>),
    /// Head, to a mover: a session for streams that it is to take.
    Lend(Box<DelegatedSession>),
    /// Head and mover, from then on.
    Word(MoverMessage),
    /// Sender, before the end of its list; receiver, before it has finished: what it counted. Said only where there is something.
    Counts(Counts),
    /// Sender, before its first entry: of each source its own token and those of the directories above it, innermost first.
    Lineage(Vec<Vec<PlaceToken>>),
    /// Receiver: what failed there that is no entry's outcome, by the path it would have below its source root: an extra that could not
    /// be removed, a directory that could not be finished.
    Missed(Vec<(RelPath, Refusal)>),
    /// Receiver: it is about to remove what the source lacks.
    Removing(Removal),
    /// Receiver, before it has finished: how long it had to wait at its target. Said only where it had to.
    Waited(Waited),
    /// Sender, before it offers them: files that were changed since they were last copied there, to be compared by what is in them.
    Doubted(Vec<u64>),
}

/// What is about to be removed at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Entries that it lacks.
    pub extras: u64,
    /// Entries that were there, those among them.
    pub there: u64,
}

impl Frame {
    /// Whether this may still arrive from a peer whose job is over: a file that failed at the receiver can be settled before its sender has
    /// said all it had to say about it.
    pub fn is_late(&self) -> bool {
        matches!(
            self,
            Frame::Ends(_)
                | Frame::Drops(_)
                | Frame::Same(_)
                | Frame::Inline(_)
                | Frame::Held(_)
                | Frame::Steer(_)
                | Frame::Busy(_)
                | Frame::Account(_)
                | Frame::Spread(_)
                | Frame::Word(_)
                | Frame::Counts(_)
        )
    }
}

impl Listed {
    /// A line with facts only.
    pub fn plain(path: RelPath, meta: Meta, link: Option<Vec<u8>>) -> Listed {
        Listed { path, meta, link, digests: Vec::new(), failure: None }
    }
}

impl Offered {
    /// The kind of entry that the target will have.
    pub fn kind(&self) -> Kind {
        match self {
            Offered::Dir { .. } => Kind::Dir,
            Offered::Symlink { .. } => Kind::Symlink,
            Offered::Special => Kind::Special,
            _ => Kind::File,
        }
    }
}
