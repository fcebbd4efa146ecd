//! The arguments of `longhaul watch`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{Anonymous, HubOption};

/// Watch paths: run regular tests among many nodes, keep an archive, compare with expectations, raise alarms.
///
/// `watch serve` runs a hub that has only the watch; `hub serve --watch FILE` adds the watch to a hub. The other commands query a
/// hub (--hub, or LONGHAUL_HUB).
#[derive(Debug, ClapArgs)]
pub struct Watch {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: WatchAction,
}

#[derive(Debug, Subcommand)]
pub enum WatchAction {
    /// Run a watch in the foreground
    Serve(WatchServe),
    /// Convert a pSConfig template of perfSONAR to a configuration; report the parts that cannot be converted
    Import {
        /// The template (JSON): a file or a URL; its includes are fetched
        template: String,
        /// Write the configuration to this file (default: stdout)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Find nodes of other domains to test with; print them as `[target]` tables for a configuration
    ///
    /// Searches the signed directory of another domain's watch (--key), or a lookup service of perfSONAR.
    Find {
        /// A directory (`…/api/v1/watch/directory`, or a file), records (`…/lookup/records`), or a search (`…/lookup/_search`)
        url: String,
        /// The public key of the other domain, as `longhaul watch directory` prints it there
        #[arg(long, value_name = "KEY", conflicts_with = "community")]
        key: Option<String>,
        /// Find only members of this community
        #[arg(long, value_name = "NAME")]
        community: Option<String>,
    },
    /// Print the public key with which the watch signs its directory, for other domains
    Directory,
    /// Show the state of all pairs, forward and reverse
    Grid {
        /// Show this test only
        #[arg(long, value_enum, value_name = "TEST")]
        test: Option<WatchTest>,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// Show the measurements of a pair
    History {
        /// One end of the pair; or an interface
        #[arg(value_name = "A")]
        from: String,
        /// The other end; leave it out for the counters of an interface
        #[arg(value_name = "B")]
        to: Option<String>,
        /// The test
        #[arg(long, value_name = "TEST", default_value = "latency", requires = "to")]
        test: String,
        /// Begin at this time: 7d (seven days ago), or 2026-11-01T10:00:00Z
        #[arg(long, value_name = "TIME", default_value = "1d")]
        since: String,
        /// Print at most this number of lines
        #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        rows: u32,
    },
    /// List the current alarms; with --since also alarms that are over
    Alarms {
        /// Begin at this time: 7d (seven days ago), or 2026-11-01T10:00:00Z
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// Explain the state of a path: expectation, causes, segment, remedies
    Why {
        #[command(flatten)]
        pair: WatchPair,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// Print one line and exit with a code for Nagios: 0 ok, 1 warning, 2 critical, 3 unknown
    Check {
        /// One end of the pair (default: all pairs)
        #[arg(value_name = "A", requires = "to")]
        from: Option<String>,
        /// The other end
        #[arg(value_name = "B")]
        to: Option<String>,
    },
    /// Acknowledge an alarm: the watch does not send it again until it is over
    Acknowledge {
        /// The alarm's number
        id: i64,
        /// A note for other operators
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Note an event ("firewall update"); alarms that begin near its time show it
    Note {
        /// The text of the note
        text: String,
        /// The time of the event: 2026-11-01T10:00:00Z (default: now)
        #[arg(long, value_name = "TIME", default_value = "")]
        at: String,
        /// The site, node or link of the event (default: everywhere)
        #[arg(long, value_name = "PLACE", default_value = "")]
        place: String,
    },
    /// Show the interfaces whose counters the watch reads: utilisation, errors, optical power
    Interfaces,
    /// Show the addresses that move the most bytes through all nodes
    Talkers {
        /// Count over this time
        #[arg(long, value_enum, value_name = "WINDOW", default_value = "hour")]
        window: TalkersWindow,
        /// Show at most this number of addresses
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        top: u32,
    },
    /// Show which nodes measure for the watch, and which tests they refuse
    Nodes,
}

/// The two ends of a path.
#[derive(Debug, ClapArgs)]
pub struct WatchPair {
    /// One end
    #[arg(value_name = "A")]
    pub from: String,
    /// The other end
    #[arg(value_name = "B")]
    pub to: String,
}

/// Whether the exit code shows the state.
#[derive(Debug, ClapArgs)]
pub struct WatchCheckFlag {
    /// Exit with 0 ok, 1 warning, 2 critical, 3 unknown
    #[arg(long)]
    pub check: bool,
}

/// The time over which nodes count the bytes of each address.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TalkersWindow {
    /// The last minute
    Minute,
    /// The last hour
    Hour,
    /// Since each node started
    Start,
}

impl TalkersWindow {
    /// Its name in the API.
    pub fn word(self) -> &'static str {
        match self {
            TalkersWindow::Minute => "minute",
            TalkersWindow::Hour => "hour",
            TalkersWindow::Start => "start",
        }
    }
}

/// The tests of a pair.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum WatchTest {
    /// Loss and delays
    Latency,
    /// The rate of TCP
    Throughput,
    /// Routers and MTU
    Path,
}

impl WatchTest {
    /// Its name in the API.
    pub fn word(self) -> &'static str {
        match self {
            WatchTest::Latency => "latency",
            WatchTest::Throughput => "throughput",
            WatchTest::Path => "path",
        }
    }
}

/// Run a watch: a hub that has only the watch.
///
/// The watch prints `listening on https://HOST:PORT` on stdout when it is ready, and serves until it is stopped (SIGINT, SIGTERM).
/// SIGHUP makes it read the file of --config again.
#[derive(Debug, Clone, ClapArgs)]
pub struct WatchServe {
    /// The configuration of the watch (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Listen at this address; port 0 selects a free port
    ///
    /// Default: all addresses, port 8446.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// The database of keys (default: hub.db in the state directory)
    ///
    /// Measurements are in another database: `archive` in the file of --config, or watch.db in the state directory.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,
    /// Allow http:// as well as https://
    #[arg(long)]
    pub plain: bool,
    /// Give rights to clients without a credential: rw lets them see everything
    #[arg(long, value_name = "rw")]
    pub anonymous: Option<Anonymous>,
    /// Show this certificate chain to clients that do not know the watch's key (PEM, the watch's certificate first)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM; default: in the file of --certificate)
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
}
