//! `make bench-http-service` and `make bench-root`: the services of a node compared with those of xrootd, on the same files, over loopback:
//! large and small files, third-party copies, idle connections, requests per second. Runs binaries.

pub mod cells;
pub mod connection;
pub mod idle;
pub mod judge;
pub mod long_path;
pub mod picture;
pub mod report;
pub mod requests;
pub mod root_client;
pub mod run;
pub mod servers;

use clap::ValueEnum;

/// The protocol that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasuredProtocol {
    /// HTTP, with third-party copies by COPY.
    Http,
    /// XRootD's.
    Root,
}

impl MeasuredProtocol {
    /// Its `make` target.
    pub fn make_target(self) -> &'static str {
        match self {
            MeasuredProtocol::Http => "bench-http-service",
            MeasuredProtocol::Root => "bench-root",
        }
    }

    /// The name of its documents in docs/results.
    pub fn document(self) -> &'static str {
        match self {
            MeasuredProtocol::Http => "http-service",
            MeasuredProtocol::Root => "root-service",
        }
    }
}

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Longhaul.
    Ours,
    /// xrootd.
    Theirs,
}

impl ServerKind {
    /// Both kinds, in the order of a round.
    pub const ALL: [ServerKind; 2] = [ServerKind::Ours, ServerKind::Theirs];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Ours => "Longhaul",
            ServerKind::Theirs => "xrootd",
        }
    }
}

/// The figures of one run of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Bytes of payload per second.
    pub bytes_s: f64,
    /// CPU seconds of the server for 1e9 bytes.
    pub server_s_per_gb: f64,
    /// CPU seconds of the client for 1e9 bytes.
    pub client_s_per_gb: f64,
    /// Processors that others kept busy meanwhile.
    pub others_cores: f64,
}

/// A cell with the runs of both servers.
#[derive(Clone, Debug)]
pub struct Row {
    /// The operation, in words.
    pub title: String,
    /// Runs of each server, in the order of the rounds.
    pub samples: [Vec<Sample>; 2],
    /// A note in place of the numbers.
    pub note: Option<String>,
}

impl Row {
    /// The runs of one server.
    pub fn of(&self, kind: ServerKind) -> &[Sample] {
        &self.samples[kind as usize]
    }
}
