//! Why a file makes no page.

use std::io;

use model::fault::{Blame, Fault};

/// Why a file cannot become a page.
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
    /// The file holds no receipt, series or test.
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
