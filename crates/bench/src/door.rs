//! `make bench-door`: the node's HTTP door beside xrootd's, same files, over loopback: large files and small ones, third-party
//! copies, connections that say nothing, questions by the second. Runs binaries.

pub mod asks;
pub mod cells;
pub mod idle;
pub mod judge;
pub mod picture;
pub mod pki;
pub mod report;
pub mod run;
pub mod servers;

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Longhaul.
    Ours,
    /// xrootd.
    Theirs,
}

impl Who {
    /// Both, in the order of a round.
    pub const ALL: [Who; 2] = [Who::Ours, Who::Theirs];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Who::Ours => "Longhaul",
            Who::Theirs => "xrootd",
        }
    }
}

/// What one run of a cell gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Bytes of payload in a second.
    pub bytes_s: f64,
    /// CPU seconds of the server for 1e9 bytes.
    pub server_s_per_gb: f64,
    /// CPU seconds of the client for 1e9 bytes.
    pub client_s_per_gb: f64,
    /// Processors that others kept busy meanwhile.
    pub others: f64,
}

/// A cell with the runs of both.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub title: String,
    /// Runs by whose server it was, in the order of the rounds.
    pub samples: [Vec<Sample>; 2],
    /// Instead of numbers.
    pub note: Option<String>,
}

impl Row {
    /// The runs of one.
    pub fn of(&self, who: Who) -> &[Sample] {
        &self.samples[who as usize]
    }
}
