//! The error of this crate.

use std::io;

use model::fault::{Blame, Fault};

/// Why a file cannot become a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// The name of the file in messages.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file has no receipt, series or test.
    #[error("{file}: {what}")]
    Content {
        /// The name of the file in messages.
        file: String,
        /// What is wrong with its content, with the line.
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
