//! What can be typed after `longhaul probe`.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// Measure a path or a host, and say what limits it.
///
/// TARGET is a node (lh://HOST[:PORT], or HOST[:PORT]), which runs the other half of the test; or iperf3://HOST[:PORT], a
/// server of iperf3.
#[derive(Debug, ClapArgs)]
pub struct Probe {
    #[command(subcommand)]
    pub test: ProbeTest,
}

#[derive(Debug, Subcommand)]
pub enum ProbeTest {
    /// TCP: rate in either direction, with what the kernel of both ends says about it
    Tcp(ProbeTcp),
}

#[derive(Debug, ClapArgs)]
pub struct ProbeTcp {
    /// The other end
    pub target: String,
    /// Streams in each direction
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1)]
    pub streams: u32,
    /// From the other end to here
    #[arg(long, short = 'R', conflicts_with = "both")]
    pub reverse: bool,
    /// Both directions at once
    #[arg(long)]
    pub both: bool,
    /// How long, after what is left out
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// So much in each direction, however long it takes
    #[arg(long, value_name = "SIZE", conflicts_with = "time")]
    pub bytes: Option<Bytes>,
    /// What is left out at the start
    #[arg(long, short = 'O', value_name = "TIME", default_value = "0s", value_parser = model::duration::parse)]
    pub omit: Duration,
    /// A line for each
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1s", value_parser = model::duration::parse)]
    pub interval: Duration,
    /// Bytes of one write and one read
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub block: Bytes,
    /// Congestion control of the sending ends
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Socket buffers of both ends, in place of the kernel's own choice
    #[arg(long, value_name = "SIZE")]
    pub window: Option<Bytes>,
    /// Largest segment, in bytes
    #[arg(long, value_name = "BYTES")]
    pub mss: Option<u32>,
    /// What each direction may send at most
    #[arg(long, value_name = "RATE")]
    pub pace: Option<BitRate>,
    /// Differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dscp: u8,
    /// Processors for the threads of this end, in turn: 0,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// The same of the other end
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub far_cores: Vec<u32>,
    /// Run it again and again with one thing changed, and find the least that is as good as the best
    #[arg(long, value_name = "WHAT")]
    pub scan: Option<ProbeScan>,
    /// The values of the scan: 1,2,4 streams, 1MiB,8MiB of buffer, processors 0,1
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "scan")]
    pub values: Vec<Bytes>,
}

/// What a scan changes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProbeScan {
    /// How many streams
    Streams,
    /// The socket buffers
    Window,
    /// The processor of this end
    Cores,
    /// The processor of the other end
    FarCores,
}
