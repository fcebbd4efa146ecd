//! The errors of a test, and the fault that each of them maps to.

use std::io;

use model::fault::{Blame, Fault};

/// A failed test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer cannot be reached.
    #[error("cannot reach {to}")]
    Connect {
        /// Address of the peer.
        to: String,
        /// The host's error.
        source: io::Error,
    },
    /// The peer stopped answering.
    #[error("{peer} has not answered for {seconds} s")]
    Silent {
        /// Name or address of the peer.
        peer: String,
        /// Seconds without an answer.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to {peer} broke")]
    Broken {
        /// Name or address of the peer.
        peer: String,
        /// The host's error.
        source: io::Error,
    },
    /// The peer refuses the test.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// Name or address of the peer.
        peer: String,
        /// The peer's reason.
        why: String,
    },
    /// The far end's half of the test failed.
    #[error("{peer}: {why}")]
    Far {
        /// Name or address of the peer.
        peer: String,
        /// The fault that the peer reports.
        fault: Fault,
        /// The peer's reason.
        why: String,
    },
    /// The peer violates the protocol.
    #[error("{peer} does not speak {protocol} as it should: {what}")]
    Protocol {
        /// Name or address of the peer.
        peer: String,
        /// Name of the protocol.
        protocol: &'static str,
        /// The violation.
        what: String,
    },
    /// A call to this host's kernel failed.
    #[error("cannot {doing}")]
    Host {
        /// The attempted action, as words after "cannot".
        doing: &'static str,
        /// The host's error.
        source: io::Error,
    },
    /// An operation on a file or a directory failed.
    #[error("cannot {doing} {path}")]
    File {
        /// The attempted action, as words between "cannot" and the path.
        doing: &'static str,
        /// Path of the file or directory.
        path: String,
        /// The host's error.
        source: io::Error,
    },
    /// The order is out of bounds or contradicts itself.
    #[error("{0}")]
    Order(String),
    /// The test was stopped.
    #[error("interrupted")]
    Interrupted,
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Connect { .. } | Error::Silent { .. } | Error::Broken { .. } => Fault::Path,
            Error::Refused { .. } => Fault::Auth,
            Error::Far { fault, .. } => *fault,
            Error::Protocol { .. } => Fault::Peer,
            Error::Host { .. } => Fault::Local,
            Error::File { .. } => Fault::Storage,
            Error::Order(_) => Fault::Config,
            Error::Interrupted => Fault::Interrupted,
        }
    }
}
