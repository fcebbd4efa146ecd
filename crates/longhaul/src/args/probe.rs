//! The arguments of `longhaul probe`.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// Measure a path or a host, and say what limits it.
///
/// TARGET is a node (lh://HOST[:PORT], or HOST[:PORT]), which runs the other half of the test; iperf3://HOST[:PORT], a
/// server of iperf3 (tcp, udp); or stamp://HOST[:PORT], a reflector of STAMP or TWAMP-Light (latency).
#[derive(Debug, ClapArgs)]
pub struct Probe {
    #[command(subcommand)]
    pub test: ProbeTest,
}

#[derive(Debug, Subcommand)]
pub enum ProbeTest {
    /// TCP: rate in either direction, with what the kernel of both ends says about it
    Tcp(ProbeTcp),
    /// Round trips, loss, variation and delay by direction (STAMP, RFC 8762)
    Latency(ProbeLatency),
    /// Datagrams at a rate or spacing: loss, order and spacing, to the number
    Udp(ProbeUdp),
    /// Hops, other ways and MTU, forward and reverse
    Path(ProbePath),
    /// A disk: rates against size and workers, caches that end, flushes, small files
    Disk(ProbeDisk),
    /// All that a support desk wants: both hosts, the path, and a ranked list of causes
    All(ProbeAll),
    /// Within which bounds a node runs tests
    Limits(ProbeLimits),
}

/// What turns a result into the exit code of a monitoring plug-in.
#[derive(Debug, Default, ClapArgs)]
pub struct ProbeCheck {
    /// One line and the exit code of a monitoring plug-in: 0 well, 1 a warning, 2 critical, 3 unknown
    #[arg(long)]
    pub check: bool,
    /// Bounds beyond which it is a warning: rate>=900Mbit/s, loss<=0.1%, rtt<=310ms; separated by commas
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', requires = "check")]
    pub warn: Vec<super::Bound>,
    /// The same, beyond which it is critical
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', requires = "check")]
    pub crit: Vec<super::Bound>,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeLatency {
    /// The other end
    pub target: String,
    /// How long
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// So many packets, however long it takes
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "time")]
    pub count: Option<u64>,
    /// Packets per second
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub rate: f64,
    /// Bytes of a packet above UDP; below 44 it is one of TWAMP-Light
    #[arg(long, value_name = "BYTES", default_value_t = 44)]
    pub size: usize,
    /// Differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dscp: u8,
    /// How long an answer is waited for
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = model::duration::parse)]
    pub timeout: Duration,
    /// Beside a TCP test with so many streams: what the queue of the path adds
    #[arg(long, value_name = "N")]
    pub under_load: Option<u32>,
    #[command(flatten)]
    pub check: ProbeCheck,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeUdp {
    /// The other end
    pub target: String,
    /// From the other end to here
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// Payload of a datagram; several, separated by commas, are a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1472")]
    pub size: Vec<Bytes>,
    /// From start to start of two datagrams; several are a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = model::duration::parse, group = "pace")]
    pub spacing: Vec<Duration>,
    /// The same, as a rate of payload
    #[arg(long, value_name = "RATE", group = "pace")]
    pub rate: Option<BitRate>,
    /// So many datagrams in a row, and a pause: what a queue holds
    #[arg(long, value_name = "N", requires = "gap", group = "pace")]
    pub burst: Option<u32>,
    /// The pause after a burst
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse, requires = "burst")]
    pub gap: Option<Duration>,
    /// As fast as this host can, in trains that the kernel cuts: spacing means nothing then
    #[arg(long, group = "pace")]
    pub max: bool,
    /// Ask, and wait for an answer of each SIZE, in place of sending: latency against size
    #[arg(long, conflicts_with_all = ["pace", "reverse"])]
    pub request: bool,
    /// How long each run
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// So many datagrams in each run, however long it takes
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "time")]
    pub count: Option<u64>,
    /// A row for each run as udpmon_bw_mon prints it, separated by semicolons
    #[arg(long, conflicts_with = "request")]
    pub udpmon: bool,
    #[command(flatten)]
    pub check: ProbeCheck,
}

#[derive(Debug, ClapArgs)]
pub struct ProbePath {
    /// The other end: a node, or any host, of which only the forward direction is seen
    pub target: String,
    /// Flows, each of its own source port: with more than one, other ways are looked for (ECMP, bundles)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u16,
    /// Probes to the far end for each of them
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub probes: u32,
    /// The highest TTL
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub ttl_max: u8,
    /// The largest packet that is tried; 0 leaves the MTU out
    #[arg(long, value_name = "BYTES", default_value_t = 9_216)]
    pub mtu_max: u32,
    /// Compare with what an earlier --json said
    #[arg(long, value_name = "FILE")]
    pub before: Option<std::path::PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeDisk {
    /// A directory here, or an export of a node: lh://HOST/EXPORT. All is made in one new directory in it, and removed
    pub target: String,
    /// Which tests: write, read, fsync, small-files, sustained
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tests: Vec<ProbeDiskTest>,
    /// Past the page cache, through it, or both
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ways: Vec<ProbeDiskMode>,
    /// Lengths of the files: a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub file_size: Vec<Bytes>,
    /// How many at once: a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub workers: Vec<u32>,
    /// What one call writes or reads
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Bytes>,
    /// The longest that one point may take
    #[arg(long, short = 't', value_name = "TIME", value_parser = model::duration::parse)]
    pub time: Option<Duration>,
    /// How long the sustained write goes on: beyond the end of a cache
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse)]
    pub sustained: Option<Duration>,
    /// The most that ever lies on the disk
    #[arg(long, value_name = "SIZE")]
    pub budget: Option<Bytes>,
}

/// A part of the disk test.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProbeDiskTest {
    Write,
    Read,
    Fsync,
    SmallFiles,
    Sustained,
}

/// How bytes go between memory and the disk.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProbeDiskMode {
    Direct,
    Buffered,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeAll {
    /// The other end: a node
    pub target: String,
    /// How long each of its tests
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// What the path is meant to give
    #[arg(long, value_name = "RATE")]
    pub link: Option<BitRate>,
    /// Also a page for a browser, with plots, in one file
    #[arg(long, value_name = "FILE")]
    pub html: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub check: ProbeCheck,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeLimits {
    /// The node
    pub target: String,
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
    #[arg(long, value_name = "SIZE", default_value = "512KiB")]
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
    #[command(flatten)]
    pub check: ProbeCheck,
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
