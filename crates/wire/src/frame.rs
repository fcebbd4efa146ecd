//! The control connection's messages.
//!
//! On the wire: length u32 (big-endian, of the rest), type u8, flags u8, body. If flag bit 0 is set, a peer that
//! does not know the type ignores the message; otherwise an unknown type ends the session. Fields are encoded by [`crate::codec`].

mod decode;
mod encode;
pub(crate) mod order;

use model::{Algorithm, Refusal};
use std::net::SocketAddr;

use model::account::{Account, TargetWaits};
use model::checksum::Digest;
use model::entry::{Attributes, Kind, Meta, Timestamp};
use model::locator::{HostPort, NodePlace};
use model::name::{Name, RelPath};
use model::spec::{LiveSettings, Step};
use model::v1;

use crate::join::SessionId;
use crate::mover::{DelegatedAddress, DelegatedSession, MoverMessage};

pub use crate::record::Suite;
pub use decode::{FrameBuffer, decode};
pub use encode::encode;
pub use order::{Direction, JobName, Open};

/// Length of a frame's head: length, type, flags.
pub const HEAD_BYTES: usize = 6;

/// The longest time among the facts about a stream, µs: 35 years. Up to it, a time in seconds as a float converts back to the same number
/// of microseconds.
const MICROS_MAX: u64 = 1 << 50;

/// The secret half of an access key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyProof {
    /// The grant's id.
    pub id: [u8; 8],
    /// The secret that proves it. It is sent only inside TLS, to a node whose identity was checked.
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
    /// A delegated transfer: a job to another node, which this node carries.
    Carry(Box<DelegationOrder>),
    /// The jobs of this node that the client may see, or one of them.
    Jobs(Option<JobName>),
    /// Change a running job.
    Change(JobName, v1::Change),
    /// The node's part of a test (`v1::probe::Ask` as JSON); the answer is lines of text.
    Probe(String),
}

/// A delegated transfer: a job that a node carries to another node (third-party copy).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationOrder {
    /// The order, as a client would give it to the other node: a push to one place there.
    pub order: Open,
    /// The sources at this node.
    pub sources: Vec<NodePlace>,
    /// The other node.
    pub to: HostPort,
    /// Its fingerprint.
    pub node: [u8; 32],
    /// The key that the other node issued for this job.
    pub key: KeyProof,
    /// Payload in clear, where the other node allows it.
    pub plain: bool,
    /// How long to keep trying without progress, seconds.
    pub retry_for_s: u64,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path below the requested place; the root for the place itself.
    pub path: RelPath,
    /// Kind, size, mode and time.
    pub meta: Meta,
    /// The target of a symbolic link.
    pub link: Option<Vec<u8>>,
    /// Digests, where they were requested.
    pub digests: Vec<Digest>,
    /// Why a digest could not be made.
    pub failure: Option<Refusal>,
}

/// An offered entry: its kind, with the metadata of that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A directory; entries below it name it as their parent until it is left.
    Dir {
        /// Permission bits.
        mode: u32,
        /// Last change.
        mtime: Timestamp,
    },
    /// A file. [`UNKNOWN_SIZE`] stands for a size that is known only at the end of the file.
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
        /// Its target, verbatim.
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

/// The size of a file whose size is not known before its end.
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
        /// Its kind, with the metadata of that kind.
        what: Offered,
        /// Its further attributes.
        attributes: Option<Box<Attributes>>,
    },
    /// All entries of this directory have been offered.
    Leave(u64),
}

/// The receiver's decision about an offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole file is wanted.
    Want,
    /// The receiver has these ranges from an earlier attempt: the rest is wanted, and the ranges in which the source has changed.
    WantRest(Vec<Claim>),
    /// The whole file is wanted, unless its digest is this.
    WantUnless(Digest),
}

/// A range that the receiver has from an earlier attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its offset in the file, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub len: u64,
    /// The CRC32C of the receiver's bytes.
    pub crc32c: u32,
}

/// A step of a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind of step.
    pub step: Step,
    /// The path of the entry below the target.
    pub path: RelPath,
    /// Length of a file.
    pub bytes: u64,
}

/// The result of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in place, verified.
    Done,
    /// The target had it already.
    Skipped,
    /// It could not be put in place.
    Failed(Refusal),
}

/// A file whose blocks have all been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The file.
    pub id: u64,
    /// Its length.
    pub size: u64,
    /// The digests that the source made; the receiver's must be the same.
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
    /// Files that the target had already.
    pub skipped: u64,
    /// Their bytes.
    pub skipped_bytes: u64,
    /// FIFOs, sockets, devices left out.
    pub special: u64,
    /// Entries that failed at either end.
    pub failed: u64,
    /// Bytes that were received more than once.
    pub resent_bytes: u64,
    /// Bytes that the target had from an earlier attempt.
    pub resumed_bytes: u64,
    /// Entries removed because the source lacks them.
    pub deleted: u64,
}

/// Bytes of a [`PlaceToken`].
pub const PLACE_TOKEN_BYTES: usize = 16;

/// A token of a directory or file of a host: equal for both ends where they see the same one; it reveals nothing else.
pub type PlaceToken = [u8; PLACE_TOKEN_BYTES];

/// Counts of one end that the other cannot make, for the receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sender: unfinished files that were left out.
    pub unfinished: u64,
    /// Receiver: entries whose data the target had already, and whose mode, owner, attributes or ACL were updated.
    pub refreshed: u64,
}

/// A message on the control connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Client, first message: its login.
    Login {
        /// A random name for the session.
        session: SessionId,
        /// Program and version, for logs.
        software: String,
        /// The key, if it has one for this node.
        key: Option<KeyProof>,
        /// The suites that it can use, best first.
        suites: Vec<Suite>,
        /// It requests payload in clear.
        plain: bool,
    },
    /// Node: the answer to a login.
    Welcome {
        /// Program and version, for logs.
        software: String,
        /// The suite for sealed streams.
        suite: Suite,
        /// Payload goes in clear: it was requested, and is allowed.
        plain: bool,
    },
    /// The end of the session, or of the job, with the reason.
    Abort(Refusal),
    /// Heartbeat.
    Ping(u64),
    /// The answer to a heartbeat.
    Pong(u64),
    /// A question.
    Request(u32, Request),
    /// Lines of the answer; `true` where more follow.
    Reply(u32, Vec<Listed>, bool),
    /// The refusal of a question.
    Denied(u32, Refusal),
    /// A job begins.
    Open(Open),
    /// Sender: entries of the tree.
    Entries(Vec<Entry>),
    /// Sender: a record on the control connection.
    Inline(Vec<u8>),
    /// Sender: files whose blocks have all been sent.
    Ends(Vec<End>),
    /// Sender: files that will not be sent after all.
    Drops(Vec<(u64, Refusal)>),
    /// Sender: files found equal by digest.
    Same(Vec<u64>),
    /// Sender: the number of entries; the tree has been offered in full.
    ScanEnd(u64),
    /// Receiver: verdicts on offered files.
    Verdicts(Vec<(u64, Verdict)>),
    /// Receiver: the results of entries.
    Outcomes(Vec<(u64, Outcome)>),
    /// Receiver: ranges (file, offset, length) that must be sent again.
    Again(Vec<(u64, u64, u64)>),
    /// Receiver: the number of records received so far, per stream.
    Received(Vec<(u32, u64)>),
    /// Receiver: everything is settled.
    Finished(Totals),
    /// Sender, after `Finished`: the kernel's facts about its streams.
    Facts(Vec<v1::Stream>),
    /// Sender: claimed ranges (file, offset, length) that equal the source's.
    Held(Vec<(u64, u64, u64)>),
    /// Either end: the job's limit, streams and pause from now on.
    Steer(LiveSettings),
    /// Either end: why nothing moves for a while, as text for people. The job is not stalled.
    Busy(String),
    /// Receiver, in a dry run: the steps that would be done.
    Plans(Vec<Plan>),
    /// Client, after `Open`: files to send (path below the source, path below the target); `true` where more follow.
    Files(Vec<(RelPath, RelPath)>, bool),
    /// A line of an answer in text or JSON; `true` where more follow.
    Told(u32, String, bool),
    /// Either end, about twice a second: its account.
    Account(Box<Account>),
    /// Client: a request to keep the session, and its streams, for this number of seconds between jobs. Node: the time for
    /// which it keeps them; a node that does not know the message does not answer.
    Keep(u64),
    /// Client, in a session that is kept, before its next job: a new login.
    Renew {
        /// The key, if it has one for this node. The rights of the former key end.
        key: Option<KeyProof>,
        /// Streams opened so far: no stream with a number up to this one may still join.
        opened: u32,
        /// Streams of the last job that the next one begins with.
        kept: Vec<u32>,
    },
    /// Node, after its Welcome: further addresses at which it takes streams. Each is a path.
    Addresses(Vec<SocketAddr>),
    /// Sender that was dialled: how many streams each path should have; a path is identified by one of its streams.
    Spread(Vec<(u32, u32)>),
    /// Node, while a job runs: the complete list of addresses at which its movers take streams. Data sent to other movers is lost.
    Movers(Vec<DelegatedAddress>),
    /// Coordinator, to a mover: a delegated session.
    Lend(Box<DelegatedSession>),
    /// Coordinator and mover, after [`Frame::Lend`].
    Word(MoverMessage),
    /// Sender, before the end of its list; receiver, before it has finished: its counts. Sent only where one is not 0.
    Counts(Counts),
    /// Sender, before its first entry: for each source its own token and those of the directories above it, innermost first.
    Lineage(Vec<Vec<PlaceToken>>),
    /// Receiver: failures that belong to no offered entry (an extra that could not be removed, a directory that could not be finished),
    /// each with the path that it would have below its source root.
    Missed(Vec<(RelPath, Refusal)>),
    /// Receiver: entries that the source lacks are about to be removed.
    Removing(Removal),
    /// Receiver, before it has finished: how long it waited for its target. Sent only where it had to wait.
    Waited(TargetWaits),
    /// Sender, before it offers them: files that have changed since they were last copied to this target; they are compared by content.
    Doubted(Vec<u64>),
}

/// The entries that are about to be removed at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The number of entries that the source lacks.
    pub extras: u64,
    /// The number of all entries that the target had, extras included.
    pub total: u64,
}

impl Frame {
    /// Whether this may still arrive from a peer whose job is over: a file that failed at the receiver can be settled before its sender has
    /// sent all messages about it.
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
