//! One job of one contestant: what is moved, and where it lies. Values only.

use std::path::PathBuf;

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// One file.
    File {
        /// Its size.
        bytes: u64,
    },
    /// Directories of a thousand files.
    Tree {
        /// How many files.
        files: u64,
        /// Size of each.
        bytes_each: u64,
    },
    /// Zeros, from memory to memory.
    Zeros {
        /// How many.
        bytes: u64,
    },
}

impl Data {
    /// All of it.
    pub fn bytes(self) -> u64 {
        match self {
            Data::File { bytes } | Data::Zeros { bytes } => bytes,
            Data::Tree { files, bytes_each } => files * bytes_each,
        }
    }

    /// How many files.
    pub fn files(self) -> u64 {
        match self {
            Data::Tree { files, .. } => files,
            Data::File { .. } | Data::Zeros { .. } => 1,
        }
    }
}

/// One job of one contestant: what it needs to know to make its command.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is moved.
    pub data: Data,
    /// The file or directory to be moved.
    pub source: PathBuf,
    /// The directory that servers show.
    pub root: PathBuf,
    /// An empty directory below it, made for this job.
    pub target: PathBuf,
    /// The contestant's own files: configuration, state, logs.
    pub state: PathBuf,
    /// Where its server listens.
    pub port: u16,
}

impl Job {
    /// The target directory below the root.
    pub fn below(&self) -> String {
        self.target.strip_prefix(&self.root).unwrap_or(&self.target).display().to_string()
    }
}
