//! The arguments of `longhaul probe`.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// Measure a path or a host, and report what limits it.
///
/// TARGET is a node, lh://HOST[:PORT] or HOST[:PORT], which runs the other half of the test; or an iperf3 server,
/// iperf3://HOST[:PORT] (tcp, udp); or a reflector of STAMP or TWAMP-Light, stamp://HOST[:PORT] (latency).
#[derive(Debug, ClapArgs)]
pub struct Probe {
    #[command(subcommand)]
    pub test: ProbeTest,
}

#[derive(Debug, Subcommand)]
pub enum ProbeTest {
    /// TCP: measure the rate in either direction, with the kernel's numbers of both ends
    Tcp(ProbeTcp),
    /// Measure round trips, loss, variation and delay by direction (STAMP, RFC 8762)
    Latency(ProbeLatency),
    /// Send datagrams at a rate or spacing, and count loss, order and spacing exactly
    Udp(ProbeUdp),
    /// Find hops, parallel paths and the MTU, forward and reverse
    Path(ProbePath),
    /// Measure a disk: rates by file size and workers, where a cache ends, flushes, small files
    Disk(ProbeDisk),
    /// Run the tests that a support desk needs: both hosts, the path, and a ranked list of causes
    All(ProbeAll),
    /// Show the bounds within which a node runs tests
    Limits(ProbeLimits),
}

/// Options that turn a result into the exit code of a monitoring plug-in.
#[derive(Debug, Default, ClapArgs)]
pub struct ProbeCheck {
    /// Print one line and exit as a monitoring plug-in: 0 ok, 1 warning, 2 critical, 3 unknown
    #[arg(long)]
    pub check: bool,
    /// Warn unless these bounds hold, separated by commas: rate>=900Mbit/s, loss<=0.1%, rtt<=310ms
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', requires = "check")]
    pub warn: Vec<super::Bound>,
    /// Critical unless these bounds hold; written as for --warn
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', requires = "check")]
    pub crit: Vec<super::Bound>,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeLatency {
    /// The other end: a node, or a server that has this test
    pub target: String,
    /// The length of the test
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// Send this number of packets, instead of testing for a time
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "time")]
    pub count: Option<u64>,
    /// Packets per second
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub rate: f64,
    /// The payload of each UDP packet, bytes; below 44 bytes it is a packet of TWAMP-Light
    #[arg(long, value_name = "BYTES", default_value_t = 44)]
    pub size: usize,
    /// The differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dscp: u8,
    /// Wait this long for each answer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = model::duration::parse)]
    pub timeout: Duration,
    /// Run a TCP test with N streams at the same time, to see the delay that the path's queue adds
    #[arg(long, value_name = "N")]
    pub under_load: Option<u32>,
    #[command(flatten)]
    pub check: ProbeCheck,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeUdp {
    /// The other end: a node, or a server that has this test
    pub target: String,
    /// Send from the other end to this host
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// The payload of each datagram, bytes; several values, separated by commas, make a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1472")]
    pub size: Vec<Bytes>,
    /// The time from the start of one datagram to the start of the next; several values make a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = model::duration::parse, group = "pace")]
    pub spacing: Vec<Duration>,
    /// Send at this rate of payload (default: 100Mbit/s)
    #[arg(long, value_name = "RATE", group = "pace")]
    pub rate: Option<BitRate>,
    /// Send N datagrams in a row, then pause: this shows how much a queue holds
    #[arg(long, value_name = "N", requires = "gap", group = "pace")]
    pub burst: Option<u32>,
    /// The pause after a burst
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse, requires = "burst")]
    pub gap: Option<Duration>,
    /// Send as fast as this host can; the kernel splits large buffers into datagrams, so their spacing has no meaning
    #[arg(long, group = "pace")]
    pub max: bool,
    /// Send requests, and wait for an answer of each SIZE: this measures latency by size
    #[arg(long, conflicts_with_all = ["pace", "reverse"])]
    pub request: bool,
    /// The length of each run
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// Send this number of datagrams in each run, instead of testing for a time
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "time")]
    pub count: Option<u64>,
    /// Print a row for each run as udpmon_bw_mon does, separated by semicolons
    #[arg(long, conflicts_with = "request")]
    pub udpmon: bool,
    #[command(flatten)]
    pub check: ProbeCheck,
}

#[derive(Debug, ClapArgs)]
pub struct ProbePath {
    /// The other end: a node; or any other host, for the forward direction only
    pub target: String,
    /// Use N flows, each with its own source port; with more than one, look for parallel paths (ECMP, bundles of links)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u16,
    /// Send this number of probes to the far end for each flow
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub probes: u32,
    /// The largest number of hops (TTL)
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub ttl_max: u8,
    /// The largest packet to try for the MTU, bytes; 0 skips the MTU
    #[arg(long, value_name = "BYTES", default_value_t = 9_216)]
    pub mtu_max: u32,
    /// Compare with the --json output of an earlier test in this file
    #[arg(long, value_name = "FILE")]
    pub before: Option<std::path::PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct ProbeDisk {
    /// A directory on this host, or an export of a node: lh://HOST/EXPORT. The test makes one new directory there, and removes it
    pub target: String,
    /// Run only these tests: write, read, fsync, small-files, sustained
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tests: Vec<ProbeDiskTest>,
    /// Write and read past the page cache (direct), through it (buffered), or both
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ways: Vec<ProbeDiskMode>,
    /// The sizes of the files; several values, separated by commas, make a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub file_size: Vec<Bytes>,
    /// The number of workers; several values, separated by commas, make a sweep
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub workers: Vec<u32>,
    /// The bytes of one write or read call
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Bytes>,
    /// The longest time for one point of a sweep
    #[arg(long, short = 't', value_name = "TIME", value_parser = model::duration::parse)]
    pub time: Option<Duration>,
    /// The length of the sustained write, which should go on beyond the end of a cache
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse)]
    pub sustained: Option<Duration>,
    /// The most that the test may keep on the disk at any time (default: 32GiB)
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
    /// The length of each test
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// The rate that the path should give
    #[arg(long, value_name = "RATE")]
    pub link: Option<BitRate>,
    /// Also write a page with plots to this file, for a browser
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
    /// The other end: a node, or a server that has this test
    pub target: String,
    /// Use this number of streams in each direction
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1)]
    pub streams: u32,
    /// Send from the other end to this host
    #[arg(long, short = 'R', conflicts_with = "both")]
    pub reverse: bool,
    /// Send in both directions at the same time
    #[arg(long)]
    pub both: bool,
    /// The length of the test, after the time of --omit
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = model::duration::parse)]
    pub time: Duration,
    /// Send this amount in each direction, instead of testing for a time
    #[arg(long, value_name = "SIZE", conflicts_with = "time")]
    pub bytes: Option<Bytes>,
    /// Leave out this time at the start
    #[arg(long, short = 'O', value_name = "TIME", default_value = "0s", value_parser = model::duration::parse)]
    pub omit: Duration,
    /// Print a line for each interval of this length
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1s", value_parser = model::duration::parse)]
    pub interval: Duration,
    /// The bytes of one write or read call
    #[arg(long, value_name = "SIZE", default_value = "512KiB")]
    pub block: Bytes,
    /// The congestion control of the sending ends
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// The socket buffers of both ends (default: the kernel chooses)
    #[arg(long, value_name = "SIZE")]
    pub window: Option<Bytes>,
    /// The largest TCP segment, bytes
    #[arg(long, value_name = "BYTES")]
    pub mss: Option<u32>,
    /// The highest rate of each direction
    #[arg(long, value_name = "RATE")]
    pub pace: Option<BitRate>,
    /// The differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dscp: u8,
    /// Run the threads of this end on these processors, in turn: 0,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// Run the threads of the other end on these processors, in turn
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub far_cores: Vec<u32>,
    /// Repeat the test with one setting changed each time, and find the smallest value that is as good as the best
    #[arg(long, value_name = "WHAT")]
    pub scan: Option<ProbeScan>,
    /// The values of the scan: 1,2,4 (streams), 1MiB,8MiB (buffers) or 0,1 (processors)
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "scan")]
    pub values: Vec<Bytes>,
    #[command(flatten)]
    pub check: ProbeCheck,
}

/// What a scan changes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProbeScan {
    /// The number of streams
    Streams,
    /// The socket buffers
    Window,
    /// The processor of this end
    Cores,
    /// The processor of the other end
    FarCores,
}
