//! What can go wrong on the way: where, whose fault, and what to do about it.

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
    /// The name means nothing.
    #[error("cannot find the host {host} (check its spelling, or the name service here)")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers there.
    #[error("cannot connect to {to}{}", connect_remedy(.source))]
    Connect {
        /// Host and port.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody answers, but not a node.
    #[error("{to} answers, but not as a Longhaul node ({why}); check the port")]
    NotANode {
        /// Host and port.
        to: String,
        /// What was seen.
        why: String,
    },
    /// A node of another age.
    #[error("{to} speaks no protocol version that this program speaks ({ours}); update the older of the two")]
    Version {
        /// Host and port.
        to: String,
        /// What we speak.
        ours: String,
    },
    /// Not the node it was, or not the one the key is for.
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
    /// No authority vouches for it.
    #[error("no given authority vouches for {to}: {why}")]
    Certificate {
        /// Host and port.
        to: String,
        /// Why.
        why: String,
    },
    /// The peer said no, in its own words.
    #[error("{peer}: {}", .refusal.reason)]
    Refused {
        /// Who.
        peer: String,
        /// What it said.
        refusal: Refusal,
    },
    /// The peer fell silent.
    #[error(
        "{peer} has been silent for {seconds} s; the path or the host is down (run the same command again to go on)"
    )]
    Silent {
        /// Who.
        peer: String,
        /// How long.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to {peer} broke (run the same command again to go on)")]
    Broken {
        /// Who.
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
    /// The target has no room for what comes.
    #[error("{why} (free space there, then run the same command again)")]
    Full {
        /// How much is missing, and where.
        why: String,
    },
    /// A write has not returned though the job is over.
    #[error("a write to a file is still under way though the job is over; is the storage stuck?")]
    WriteUnderWay,
    /// A file or an answer of this end that the job cannot go on without; the other end is told the same.
    #[error("{}", .0.reason)]
    ThisEnd(Refusal),
    /// No access key at hand is one of the mover's.
    #[error(
        "none of the access keys at hand is its own (there: longhaul grant --export NAME --write; the key belongs into this \
         node's --key-file)"
    )]
    NoKeyOfMover,
    /// The coordinator does without a mover from here on.
    #[error("{why}")]
    Expelled {
        /// What the mover did or did not do.
        why: String,
    },
    /// A mover cannot read a file that the coordinator can read.
    #[error("it cannot read what can be read here: {why}")]
    MoverCannotRead {
        /// The mover's own words.
        why: String,
    },
    /// A mover does not see the file that the coordinator has made.
    #[error(
        "the unfinished file of {path} that the coordinator has made is not to be seen here, or is another user's; the exports \
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
        /// Who.
        peer: String,
        /// How long.
        seconds: u64,
    },
    /// The peer broke the protocol.
    #[error("{peer} does not keep to the protocol")]
    Protocol {
        /// Who.
        peer: String,
        /// How.
        source: WireError,
    },
    /// This end broke its own rules: a defect of Longhaul.
    #[error("this end's own bookkeeping does not hold; please report it with this message and the log")]
    Bookkeeping(#[source] WireError),
    /// A record that does not open: damaged or forged.
    #[error("a sealed record from {peer} does not open: it was damaged or forged on the way")]
    Seal {
        /// Who.
        peer: String,
    },
    /// Storage on this side.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A job that makes no sense.
    #[error("{0}")]
    Order(String),
    /// The user stopped it.
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
    /// This host withheld something.
    #[error("cannot {doing} on this host")]
    Host {
        /// What.
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
