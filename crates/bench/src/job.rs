//! One job of one contestant: its data, and their directories. Values only.

use std::path::PathBuf;

/// The data of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// One file.
    File {
        /// Its size.
        bytes: u64,
    },
    /// Directories of a thousand files.
    Tree {
        /// The number of files.
        files: u64,
        /// Size of each.
        bytes_each: u64,
    },
    /// Zeros, from memory to memory.
    Zeros {
        /// The number of zeros.
        bytes: u64,
    },
}

impl Data {
    /// Bytes of all files.
    pub fn bytes(self) -> u64 {
        match self {
            Data::File { bytes } | Data::Zeros { bytes } => bytes,
            Data::Tree { files, bytes_each } => files * bytes_each,
        }
    }

    /// The number of files.
    pub fn files(self) -> u64 {
        match self {
            Data::Tree { files, .. } => files,
            Data::File { .. } | Data::Zeros { .. } => 1,
        }
    }
}

/// One job of one contestant: the inputs of its command.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its data.
    pub data: Data,
    /// The file or directory to be moved.
    pub source: PathBuf,
    /// The directory that servers show.
    pub root: PathBuf,
    /// An empty directory below it, made for this job.
    pub target: PathBuf,
    /// The contestant's own files: configuration, state, logs.
    pub state: PathBuf,
    /// The port of its server.
    pub port: u16,
}

impl Job {
    /// The target directory below the root.
    pub fn target_below_root(&self) -> String {
        self.target.strip_prefix(&self.root).unwrap_or(&self.target).display().to_string()
    }
}
