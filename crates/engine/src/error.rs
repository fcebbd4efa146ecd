//! The errors of sessions and jobs. Each message says what failed, where, and the remedy; [`Blame`] says whose fault it is.

use model::Refusal;
use std::io;

use auth::Fingerprint;
use model::fault::{Blame, Fault, Retry};
use wire::WireError;

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed session or job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host name does not resolve.
    #[error("cannot find the host {host} (check its spelling, or the name service here)")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// No connection can be made to the host.
    #[error("cannot connect to {to}{}", connect_remedy(.source))]
    Connect {
        /// Host and port.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// The host answers, but not as a node.
    #[error("{to} answers, but not as a Longhaul node ({why}); check the port")]
    NotANode {
        /// Host and port.
        to: String,
        /// What it did instead.
        why: String,
    },
    /// The node and this program have no protocol version in common.
    #[error("{to} speaks no protocol version that this program speaks ({ours}); update the older of the two")]
    Version {
        /// Host and port.
        to: String,
        /// The versions of this program.
        ours: String,
    },
    /// The node does not have the identity that it had before, or the one that the key is for.
    #[error("the identity of {to} is not the expected one: it shows {shown}, expected {expected}. {remedy}")]
    Identity {
        /// Host and port.
        to: String,
        /// Its fingerprint now.
        shown: Fingerprint,
        /// What was expected.
        expected: String,
        /// What to do.
        remedy: String,
    },
    /// No given authority has signed the node's certificate.
    #[error("no given authority vouches for {to}: {why}")]
    Certificate {
        /// Host and port.
        to: String,
        /// Why.
        why: String,
    },
    /// The peer refused; the message is its own.
    #[error("{peer}: {}", .refusal.reason)]
    Refused {
        /// The peer.
        peer: String,
        /// Its refusal.
        refusal: Refusal,
    },
    /// The peer has sent nothing for too long.
    #[error(
        "{peer} has been silent for {seconds} s; the path or the host is down (run the same command again to go on)"
    )]
    Silent {
        /// The peer.
        peer: String,
        /// For how long.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to {peer} broke (run the same command again to go on)")]
    Broken {
        /// The peer.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// The target lies within the source.
    #[error("{target} lies within the source: a tree cannot be copied into itself; choose a target outside of it")]
    TargetWithinSource {
        /// Its path in the export.
        target: String,
    },
    /// The source lies within a target from which `--delete` removes what the source lacks.
    #[error(
        "the source lies within {target}: --delete would remove what is being copied; choose another target, or leave \
         --delete away"
    )]
    SourceWithinTarget {
        /// Its path in the export.
        target: String,
    },
    /// The target has no room for the files.
    #[error("{why} (free space there, then run the same command again)")]
    Full {
        /// How much is missing, and where.
        why: String,
    },
    /// A write has not returned though the job is over.
    #[error("a write to a file is still under way though the job is over; is the storage stuck?")]
    WriteUnderWay,
    /// This end failed, and the job cannot go on; the other end gets the same refusal.
    #[error("{}", .0.reason)]
    ThisEnd(Refusal),
    /// No access key at hand is one of the mover's.
    #[error(
        "none of the access keys at hand is its own (there: longhaul grant --export NAME --write; the key belongs into this \
         node's --key-file)"
    )]
    NoKeyOfMover,
    /// The coordinator no longer uses a mover for the job.
    #[error("{why}")]
    Expelled {
        /// What the mover did or did not do.
        why: String,
    },
    /// A mover cannot read a file that the coordinator can read.
    #[error("it cannot read a file that this node can read: {why}")]
    MoverCannotRead {
        /// The mover's own message.
        why: String,
    },
    /// A mover does not see the file that the coordinator has made.
    #[error(
        "the unfinished file of {path} that the coordinator has made is not visible here, or belongs to another user; the exports \
         of coordinator and movers must be the same file system, and their processes run as the same user"
    )]
    UnseenFile {
        /// Its path in the export.
        path: String,
    },
    /// Nothing moved for too long.
    #[error(
        "nothing has moved between here and {peer} for {seconds} s, though it still answers (is its storage stuck?)"
    )]
    Stalled {
        /// The peer.
        peer: String,
        /// For how long.
        seconds: u64,
    },
    /// The peer broke the protocol.
    #[error("{peer} does not keep to the protocol")]
    Protocol {
        /// The peer.
        peer: String,
        /// How.
        source: WireError,
    },
    /// The state of this end is inconsistent: a defect of Longhaul.
    #[error("this end's state is inconsistent, a defect of Longhaul; please report it with this message and the log")]
    Bookkeeping(#[source] WireError),
    /// A record does not open: it was damaged or forged.
    #[error("a sealed record from {peer} does not open: it was damaged or forged on the way")]
    Seal {
        /// The peer.
        peer: String,
    },
    /// Storage at this end failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The order cannot be carried out.
    #[error("{0}")]
    Order(String),
    /// The user stopped the job.
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
    /// A system call of this host failed.
    #[error("cannot {doing} on this host")]
    Host {
        /// What was being done.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn connect_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => " (is `longhaul serve` running there, and is this its port?)",
        io::ErrorKind::TimedOut => " (no answer: a firewall on the way, or the host is down)",
        _ => "",
    }
}

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Resolve { .. } | Error::Connect { .. } | Error::Silent { .. } => Fault::Path,
            Error::Broken { .. } | Error::Stalled { .. } => Fault::Path,
            Error::ThisEnd(refusal) => refusal.fault,
            Error::TargetWithinSource { .. } | Error::SourceWithinTarget { .. } => Fault::Config,
            Error::Full { .. } | Error::WriteUnderWay | Error::Expelled { .. } => Fault::Storage,
            Error::MoverCannotRead { .. } | Error::UnseenFile { .. } => Fault::Storage,
            Error::Bookkeeping(_) => Fault::Bug,
            Error::NotANode { .. } | Error::Version { .. } => Fault::Peer,
            Error::Identity { .. } | Error::Certificate { .. } | Error::NoKeyOfMover => Fault::Auth,
            Error::Refused { refusal, .. } => refusal.fault,
            Error::Protocol { source, .. } => source.fault(),
            Error::Seal { .. } => Fault::Integrity,
            Error::Store(error) => error.fault(),
            Error::Order(_) => Fault::Config,
            Error::Interrupted => Fault::Interrupted,
            Error::Host { .. } => Fault::Local,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Store(error) => error.retry(),
            other if other.fault() == Fault::Path => Retry::After,
            _ => Retry::Never,
        }
    }
}

impl Error {
    /// The refusal that tells the peer of this failure; the peer's own words are not sent back to it.
    pub fn as_refusal(&self) -> Refusal {
        match self {
            Error::Refused { refusal, .. } => refusal.clone(),
            other => Refusal::from_error(other),
        }
    }
}
