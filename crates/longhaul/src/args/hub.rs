//! The arguments of `longhaul hub`: a hub, its keys, and the description of a collaboration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

use super::Anonymous;
use crate::copy_defaults::limit;

/// The address of the hub.
#[derive(Debug, Clone, ClapArgs)]
pub struct HubOption {
    /// The address of the hub: https://HOST:PORT
    ///
    /// Default: the address in LONGHAUL_HUB. Access keys are read from LONGHAUL_KEY and --key-file.
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    pub hub: Option<String>,
}

/// Run a hub, describe a collaboration, create keys for it.
///
/// A hub joins nodes into a collaboration. Jobs wait in its queue. It shares links and endpoints by weight and keeps their use
/// below their marks. `longhaul queue why` explains why a job waits. The hub moves no payload: nodes do.
#[derive(Debug, ClapArgs)]
pub struct Hub {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: HubAction,
}

#[derive(Debug, Subcommand)]
pub enum HubAction {
    /// Run a hub in the foreground
    Serve(HubServe),
    /// Create, list and revoke keys to a hub; the hub does not need to run
    Grant(HubGrant),
    /// Print the whole description of the collaboration, as TOML
    Show,
    /// Replace the whole description of the collaboration with a TOML file
    Apply {
        /// The TOML file
        file: PathBuf,
    },
    /// Describe sites
    Site(NamedCommand<SiteFacts>),
    /// Describe endpoints: nodes, WebDAV servers, S3 servers
    Endpoint(NamedCommand<EndpointFacts>),
    /// Describe links between sites
    Link(NamedCommand<LinkFacts>),
    /// Describe communities and their shares
    Community(NamedCommand<CommunityFacts>),
    /// Set the mark of a link: the percentage of its capacity that may be used (operators)
    Mark {
        /// The link
        link: String,
        /// Percent of the link's capacity
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: u8,
    },
    /// Show the audit trail: who has changed what, newest first
    Actions {
        /// Only actions of this member
        #[arg(long, value_name = "NAME", default_value = "")]
        by: String,
        /// Show at most this number of actions
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Begin no new transfers at a site, endpoint or link, of a community, or at all; running transfers continue to their end
    Drain(HubStop),
    /// Drain, and refuse new jobs
    Ban(HubStop),
    /// Drain, and pause running transfers; waiting jobs keep their places
    Stop(HubStop),
    /// Continue after drain, ban or stop
    Start {
        /// `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`
        what: String,
    },
}

/// Run a hub.
///
/// The hub prints `listening on https://HOST:PORT` on stdout when it is ready, and serves until it is stopped (SIGINT, SIGTERM).
/// SIGHUP makes it read the collaboration in the file of --config again.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct HubServe {
    /// Listen at this address; port 0 selects a free port
    ///
    /// Default: all addresses, port 8446.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Serve the REST API of FTS3 at the root of this address as well; port 0 selects a free port
    ///
    /// The hub's own port always serves that API under /fts3. This option is for clients that accept a host and a port, but no path.
    #[arg(long, value_name = "HOST:PORT")]
    pub fts_listen: Option<String>,
    /// Use this database: sqlite:FILE, or postgres://USER@HOST/NAME for a hub on several machines
    ///
    /// Default: hub.db in the state directory.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,
    /// Allow http:// as well as https://
    #[arg(long)]
    pub plain: bool,
    /// Let clients without a credential submit jobs, and see and change such jobs: rw
    #[arg(long, value_name = "rw")]
    pub anonymous: Option<Anonymous>,
    /// Show this certificate chain to clients that do not know the hub's key (PEM, the hub's certificate first)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM; default: in the file of --certificate)
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
    /// Ask clients for certificates, and accept those of the authorities in this PEM file or directory
    ///
    /// A directory is one such as /etc/grid-security/certificates: its revocation lists and signing policies count, and are read again
    /// every ten minutes.
    #[arg(long, value_name = "FILE|DIR")]
    pub client_ca: Option<PathBuf>,
    /// Accept VOMS attributes from the servers in this directory: VO/HOST.lsc, as in /etc/grid-security/vomsdir
    #[arg(long, value_name = "DIR")]
    pub vomsdir: Option<PathBuf>,
    /// Send messages about each file to a broker, as FTS does; this TOML file configures it
    #[arg(long, value_name = "FILE")]
    pub messages: Option<PathBuf>,
    /// Watch paths as `longhaul watch serve` does, with this TOML file as its configuration
    #[arg(long, value_name = "FILE")]
    pub watch: Option<PathBuf>,
    /// Read from this file which tokens to accept and which addresses to serve (default: access.toml in the state directory)
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Read options and the description of the collaboration from this TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Create, list and revoke keys to a hub.
///
/// Without a subcommand, the command creates a key. The last line on stdout is the key alone. The command writes the grant to
/// the hub's database, so the hub does not need to run.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HubGrant {
    #[command(subcommand)]
    pub action: Option<HubGrantAction>,
    /// The hub's database (default: hub.db in the state directory)
    #[arg(long, global = true, value_name = "URL")]
    pub db: Option<String>,
    /// What the key allows
    #[arg(long, value_enum, value_name = "ROLE")]
    pub role: Option<RoleWord>,
    /// Restrict the key to this community (default: all communities)
    #[arg(long, value_name = "C", default_value = "")]
    pub community: String,
    /// The name of the member who gets the key; jobs are submitted under this name
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub name: String,
    /// Let the key expire after this time, for example 7d (default: never)
    #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
    pub valid_for: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum HubGrantAction {
    /// List grants
    List,
    /// Revoke a grant
    Revoke {
        /// The id of the grant, as `list` shows it
        id: String,
    },
}

/// Roles.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RoleWord {
    /// Submit jobs, and see one's own jobs
    User,
    /// See and change all jobs; drain, ban, stop and start endpoints, sites and links
    Operator,
    /// Everything that an operator may do, and describe the collaboration
    Admin,
}

/// Commands for one kind of named thing: sites, endpoints, links or communities.
#[derive(Debug, ClapArgs)]
pub struct NamedCommand<F: ClapArgs> {
    #[command(subcommand)]
    pub action: NamedAction<F>,
}

#[derive(Debug, Subcommand)]
pub enum NamedAction<F: ClapArgs> {
    /// Add one
    Add(Named<F>),
    /// List the names
    List,
    /// Show one
    Show {
        /// The name
        name: String,
    },
    /// Change the settings that are given, and keep the others
    Set(Named<F>),
    /// Remove one
    Rm {
        /// The name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Named<F: ClapArgs> {
    /// The name: letters, digits, `-`, `_` and `.`
    pub name: String,
    #[command(flatten)]
    pub facts: F,
}

#[derive(Debug, ClapArgs)]
pub struct SiteFacts {
    /// A title for people to read
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where the site is on the portal's map, degrees north and east: 52.1,4.4
    #[arg(long, value_name = "LATITUDE,LONGITUDE", value_parser = location, allow_hyphen_values = true)]
    pub location: Option<[f64; 2]>,
}

#[derive(Debug, ClapArgs)]
pub struct EndpointFacts {
    /// The site of the endpoint
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
    /// The kind of endpoint
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<EndpointKindWord>,
    /// URLs that begin with this belong to the endpoint: lh://HOST/, davs://HOST/PATH, s3://BUCKET/; can be repeated
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// The address of the node's API, if it is not that of its URL: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub api: Option<String>,
    /// The address of the endpoint for browsers, if it is not that of its URLs: https://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub web: Option<String>,
    /// The fingerprint of a node (default: the fingerprint in the hub's access key for that node)
    #[arg(long, value_name = "SHA256:…")]
    pub node: Option<String>,
    /// Read the credential that the hub uses at the endpoint from this file: an access key of a node, or a token
    #[arg(long, value_name = "FILE")]
    pub endpoint_key_file: Option<PathBuf>,
    /// Use this node for the transfers that the endpoint cannot make by itself
    #[arg(long, value_name = "ENDPOINT")]
    pub gateway: Option<String>,
    /// Transfers from the endpoint at the same time, at most (default: 20)
    #[arg(long, value_name = "N")]
    pub out_transfers: Option<u32>,
    /// Transfers to the endpoint at the same time, at most (default: 20)
    #[arg(long, value_name = "N")]
    pub in_transfers: Option<u32>,
    /// The highest rate of reading from the endpoint, all transfers together
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub out_limit: Option<BitRate>,
    /// The highest rate of writing to the endpoint, all transfers together
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub in_limit: Option<BitRate>,
    /// Files that the hub may open at the endpoint per second, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub files_per_second: Option<u32>,
    /// Bytes that may be in flight to the endpoint at the same time, at most
    #[arg(long, value_name = "SIZE")]
    pub space: Option<Bytes>,
    /// The endpoint's files are on tape; the hub stages them to disk (WLCG tape REST API) before they are read
    #[arg(long, value_name = "true|false")]
    pub tape: Option<bool>,
    /// Let users rename and delete files there in the portal; operators always may
    #[arg(long, value_name = "true|false")]
    pub changeable: Option<bool>,
    #[command(flatten)]
    pub storage: StorageFacts,
}

/// Where the catalogue may store files at an endpoint, and how many bytes.
#[derive(Debug, ClapArgs)]
pub struct StorageFacts {
    /// The directory where the catalogue may store files: a URL of the endpoint, or a URL below it
    #[arg(long, value_name = "URL")]
    pub storage: Option<String>,
    /// How files are named there: `identity` (SCOPE/NAME) or `hash` (as Rucio names them)
    #[arg(long, value_name = "HOW", value_parser = ["identity", "hash"])]
    pub naming: Option<String>,
    /// An attribute of the storage, for the expressions of rules: region=eu; can be repeated
    #[arg(long, value_name = "WORD=VALUE")]
    pub attribute: Vec<String>,
    /// Bytes that the catalogue may store there, at most
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,
    /// Delete copies that no rule holds when more than this percentage of the capacity is used (default: 90)
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub high_water: Option<u8>,
    /// Stop deleting copies when no more than this percentage of the capacity is used (default: 80)
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub low_water: Option<u8>,
    /// Delete copies a day after their last rule has ended, however much of the capacity is used
    #[arg(long, value_name = "true|false")]
    pub greedy: Option<bool>,
}

/// Kinds of endpoints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EndpointKindWord {
    /// A Longhaul node
    Node,
    /// A WebDAV server that makes third-party copies
    Webdav,
    /// An S3 server
    S3,
}

#[derive(Debug, ClapArgs)]
pub struct LinkFacts {
    /// The capacity in each direction: 10Gbit/s
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub capacity: Option<BitRate>,
    /// The part of the capacity that the collaboration may use, 0 to 1
    #[arg(long, value_name = "PART")]
    pub mark: Option<f64>,
    /// The rate of known traffic of others on the link
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub others: Option<BitRate>,
    /// The two directions share the capacity
    #[arg(long)]
    pub half_duplex: bool,
    /// The link connects these two sites: A,B; `*` for any site. Can be repeated
    #[arg(long, value_name = "A,B")]
    pub between: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct CommunityFacts {
    /// The weight of the community among all communities
    #[arg(long, value_name = "WEIGHT")]
    pub share: Option<f64>,
    /// The highest rate of the community, all links together
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub cap: Option<BitRate>,
    /// Members of this virtual organisation (VOMS) belong to the community; can be repeated
    #[arg(long, value_name = "VO")]
    pub vo: Vec<String>,
    /// An activity of the community and its weight: production=4; can be repeated
    #[arg(long, value_name = "NAME=WEIGHT")]
    pub activity: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct HubStop {
    /// `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`
    pub what: String,
    /// The reason, which users see when they ask why nothing moves
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// When the downtime begins: 2026-12-24T18:00:00Z (default: now)
    #[arg(long, value_name = "TIME", default_value = "")]
    pub from: String,
    /// When the downtime ends: 2026-12-24T18:00:00Z (default: at `hub start`)
    #[arg(long, value_name = "TIME", default_value = "")]
    pub until: String,
}

/// Parses a place on the map: latitude and longitude, degrees.
fn location(text: &str) -> Result<[f64; 2], String> {
    let numbers = text.split_once(',').and_then(|(a, b)| Some([a.trim().parse().ok()?, b.trim().parse().ok()?]));
    let on_earth = |[latitude, longitude]: &[f64; 2]| latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
    numbers.filter(on_earth).ok_or_else(|| "write degrees, north and east: 52.1,4.4".to_owned())
}
