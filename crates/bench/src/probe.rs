//! `make bench-probe`: the probe compared with iperf3 over loopback, by rate and processor time. Runs binaries.

pub mod datagrams;
pub mod faults;
pub mod report;
pub mod run;

use std::path::Path;

use anyhow::Result;

use crate::account::Accounts;
use crate::process::{Server, free_port};

/// Starts a server of iperf3, with an account and a log of this name.
fn start_iperf3_server(accounts: &Accounts, name: &str, scratch: &Path) -> Result<Server> {
    let port = free_port()?;
    let words = ["iperf3", "-s", "-B", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
    Server::start(accounts.side(name)?, &words, port, &scratch.join(format!("{name}.log")))
}

/// One participant of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `longhaul probe tcp` with a node.
    Probe,
    /// `iperf3 -l 1M`: large blocks make it cheap.
    Iperf3Large,
    /// iperf3 with its default blocks of 128 KiB.
    Iperf3,
}

impl Tool {
    /// All tools, in the order of a round.
    pub const ALL: [Tool; 3] = [Tool::Probe, Tool::Iperf3Large, Tool::Iperf3];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Probe => "longhaul probe tcp",
            Tool::Iperf3Large => "iperf3 -l 1M",
            Tool::Iperf3 => "iperf3",
        }
    }
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The rate of the payload that arrived, bit/s.
    pub rate_bit_s: f64,
    /// Processor seconds of both ends for 1e9 bytes.
    pub cpu_s_per_gb: f64,
}

/// Runs of one tool over a number of streams.
#[derive(Clone, Debug)]
pub struct Row {
    /// The tool.
    pub tool: Tool,
    /// The number of streams.
    pub streams: u32,
    /// Its runs, in the order of the rounds.
    pub samples: Vec<Sample>,
}
