//! The arguments of `longhaul watch`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{Anonymous, HubOption};

/// Watch paths: regular tests among many nodes, an archive, expectation, alarms.
///
/// `watch serve` runs a hub with that part alone; `hub serve --watch FILE` adds it to a hub. The other commands ask a hub (--hub, or LONGHAUL_HUB).
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
    /// Make a configuration of a psConfig template of perfSONAR; what is not understood is named
    Import {
        /// The template (JSON): a file, or a URL; what it includes is fetched
        template: String,
        /// Write the configuration here; default: stdout
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Find others that can be tested: tables of targets for a configuration
    ///
    /// In the signed directory of another domain's watch (--key), or in a lookup service of perfSONAR.
    Find {
        /// A directory (`…/api/v1/watch/directory`, or a file), records (`…/lookup/records`), or a search (`…/lookup/_search`)
        url: String,
        /// The public key of the domain, as its `longhaul watch directory` prints it
        #[arg(long, value_name = "KEY", conflicts_with = "community")]
        key: Option<String>,
        /// Of this community alone
        #[arg(long, value_name = "NAME")]
        community: Option<String>,
    },
    /// The public key that the watch signs its directory with, for other domains
    Directory,
    /// How all pairs fare: forward and reverse
    Grid {
        /// This test alone
        #[arg(long, value_enum, value_name = "TEST")]
        test: Option<WatchTest>,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// What was measured of a pair
    History {
        /// One end, or an interface
        #[arg(value_name = "A")]
        from: String,
        /// The other end; none for the counters of an interface
        #[arg(value_name = "B")]
        to: Option<String>,
        /// Which test
        #[arg(long, value_name = "TEST", default_value = "latency", requires = "to")]
        test: String,
        /// From when on: 7d, or 2026-11-01T10:00:00Z
        #[arg(long, value_name = "TIME", default_value = "1d")]
        since: String,
        /// Lines at most
        #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        rows: u32,
    },
    /// What is wrong; with --since also what was
    Alarms {
        /// From when on: 7d, or 2026-11-01T10:00:00Z
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// Why a path fares as it does: expectation, causes, segment, remedies
    Why {
        #[command(flatten)]
        pair: WatchPair,
        #[command(flatten)]
        check: WatchCheckFlag,
    },
    /// A line and an exit code for Nagios: 0 ok, 1 warning, 2 critical, 3 unknown
    Check {
        /// One end; without a pair, all of them
        #[arg(value_name = "A", requires = "to")]
        from: Option<String>,
        /// The other end
        #[arg(value_name = "B")]
        to: Option<String>,
    },
    /// Say that somebody has seen an alarm: nobody is told of it again until it is over
    Acknowledge {
        /// The alarm's number
        id: i64,
        /// What to say
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Note what happened, so that alarms that begin near it name it: "firewall update"
    Note {
        /// What
        text: String,
        /// When: 2026-11-01T10:00:00Z; default: now
        #[arg(long, value_name = "TIME", default_value = "")]
        at: String,
        /// At which site, node or link; default: everywhere
        #[arg(long, value_name = "PLACE", default_value = "")]
        place: String,
    },
    /// Interfaces whose counters are read: utilisation, errors, light
    Interfaces,
    /// Who moves most through all nodes
    Talkers {
        /// Over how long
        #[arg(long, value_enum, value_name = "WINDOW", default_value = "hour")]
        window: TalkersWindow,
        /// Addresses at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        top: u32,
    },
    /// Which nodes measure for the watch, and what they refuse
    Nodes,
}

/// Two places.
#[derive(Debug, ClapArgs)]
pub struct WatchPair {
    /// One end
    #[arg(value_name = "A")]
    pub from: String,
    /// The other end
    #[arg(value_name = "B")]
    pub to: String,
}

/// What the exit code says.
#[derive(Debug, ClapArgs)]
pub struct WatchCheckFlag {
    /// Exit with 0 where all is well, 1 warning, 2 critical, 3 unknown
    #[arg(long)]
    pub check: bool,
}

/// Over how long nodes count who moves most.
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

/// What is measured of a pair.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum WatchTest {
    /// Loss and delays
    Latency,
    /// What TCP gets
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

/// Run a watch: a hub with that part alone.
///
/// Prints `listening on https://HOST:PORT` on stdout once ready, then serves until it is stopped (SIGINT, SIGTERM). SIGHUP reads the file of --config
/// again.
#[derive(Debug, Clone, ClapArgs)]
pub struct WatchServe {
    /// What is watched (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Where to listen; port 0 takes a free one
    ///
    /// Default: all addresses, port 8446.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// The database of keys; default: hub.db in the state directory
    ///
    /// Measurements have one of their own: `archive` in the file of --config, or watch.db in the state directory.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,
    /// Allow http:// beside https://
    #[arg(long)]
    pub plain: bool,
    /// What those may who show no key: rw lets them see all of it
    #[arg(long, value_name = "rw")]
    pub anonymous: Option<Anonymous>,
    /// Show this certificate to clients that do not know the watch by its key (PEM, its own first)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM); default: it stands in the certificate's file
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
}
