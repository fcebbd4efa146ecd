//! How a test fails, and whose fault it is.

use std::io;

use model::fault::{Blame, Fault};

/// How a test fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers there.
    #[error("cannot reach {to}")]
    Connect {
        /// Whom.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// The other end stopped answering.
    #[error("{peer} has not answered for {seconds} s")]
    Silent {
        /// Who.
        peer: String,
        /// For how long.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to {peer} broke")]
    Broken {
        /// Who.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// The other end will not.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// Who.
        peer: String,
        /// Its reason.
        why: String,
    },
    /// The other end could not do its part.
    #[error("{peer}: {why}")]
    Far {
        /// Who.
        peer: String,
        /// Whose fault it says it is.
        fault: Fault,
        /// Its reason.
        why: String,
    },
    /// The other end says what its protocol does not allow.
    #[error("{peer} does not speak {protocol} as it should: {what}")]
    Protocol {
        /// Who.
        peer: String,
        /// Which one.
        protocol: &'static str,
        /// What was wrong.
        what: String,
    },
    /// The host will not.
    #[error("cannot {doing}")]
    Host {
        /// What was tried.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file or a directory.
    #[error("cannot {doing} {path}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// What was asked for cannot be done.
    #[error("{0}")]
    Order(String),
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
}

/// What this crate's functions return.
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
