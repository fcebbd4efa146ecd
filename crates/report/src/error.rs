//! Why a file makes no page.

use std::io;

use model::fault::{Blame, Fault};

/// Why a file makes no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// The file, as people know it.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file can be read, and holds nothing that a page could be about.
    #[error("{file}: {what}")]
    Content {
        /// The file, as people know it.
        file: String,
        /// What it holds instead, with the line.
        what: String,
    },
}

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Fault::Missing,
            Error::Read { .. } => Fault::Storage,
            Error::Content { .. } => Fault::Config,
        }
    }
}
