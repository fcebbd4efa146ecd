//! The arguments of `longhaul hub`: a hub, its keys, and the description of a collaboration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

use super::Anonymous;
use crate::copy_defaults::limit;

/// Where the hub is.
#[derive(Debug, Clone, ClapArgs)]
pub struct HubOption {
    /// The hub: https://HOST:PORT
    ///
    /// Default: LONGHAUL_HUB. Access keys are taken from LONGHAUL_KEY and --key-file.
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    pub hub: Option<String>,
}

/// Run a hub, describe a collaboration, hand out keys to it.
///
/// A hub joins nodes into a collaboration: jobs wait in its queue, links and endpoints are shared by weights below their marks, and
/// `longhaul queue why` says why something waits. It moves no byte: nodes do.
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
    /// Hand out, list and revoke keys to a hub; it need not run
    Grant(HubGrant),
    /// Show everything that is described, as TOML
    Show,
    /// Replace everything that is described by what is in a TOML file
    Apply {
        /// The file
        file: PathBuf,
    },
    /// Sites
    Site(NamedCommand<SiteFacts>),
    /// Endpoints: nodes, WebDAV servers, S3 servers
    Endpoint(NamedCommand<EndpointFacts>),
    /// Links between sites
    Link(NamedCommand<LinkFacts>),
    /// Communities and their shares
    Community(NamedCommand<CommunityFacts>),
    /// Say how much of a link may be used, percent: operators may
    Mark {
        /// The link
        link: String,
        /// Percent of its capacity
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: u8,
    },
    /// Show who has changed what, the latest first: the audit trail
    Actions {
        /// Only those of this member
        #[arg(long, value_name = "NAME", default_value = "")]
        by: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Begin nothing new there; what runs may end
    Drain(HubStop),
    /// Begin nothing new there, and refuse new jobs for it
    Ban(HubStop),
    /// Begin nothing new there; what waits keeps its place
    Stop(HubStop),
    /// Go on after drain, ban or stop
    Start {
        /// `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`
        what: String,
    },
}

/// Run a hub.
///
/// Prints `listening on https://HOST:PORT` on stdout once ready, then serves until it is stopped (SIGINT, SIGTERM). SIGHUP reads the
/// collaboration in the file of --config again.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct HubServe {
    /// Where to listen; port 0 takes a free one
    ///
    /// Default: all addresses, port 8446.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Speak FTS3's REST API at the root of a port of its own, too; port 0 takes a free one
    ///
    /// It is under /fts3 on the hub's port in any case. This is for clients that take a host and a port, and no path.
    #[arg(long, value_name = "HOST:PORT")]
    pub fts_listen: Option<String>,
    /// The database: sqlite:FILE, or postgres://USER@HOST/NAME for hubs on several machines
    ///
    /// Default: hub.db in the state directory.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,
    /// Allow http:// beside https://
    #[arg(long)]
    pub plain: bool,
    /// Let anybody submit jobs without a key, and see and change those: rw
    #[arg(long, value_name = "rw")]
    pub anonymous: Option<Anonymous>,
    /// Show this certificate to clients that do not know the hub by its key (PEM, the hub's own first)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM); default: it stands in the certificate's file
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
    /// Ask clients for certificates, and believe those that the authorities in this PEM file vouch for
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// Believe VOMS attributes of the servers in this directory: VO/HOST.lsc, as in /etc/grid-security/vomsdir
    #[arg(long, value_name = "DIR")]
    pub vomsdir: Option<PathBuf>,
    /// Tell a broker of each file, as FTS does, in the way that this TOML file says
    #[arg(long, value_name = "FILE")]
    pub messages: Option<PathBuf>,
    /// Watch paths as this TOML file says, as `longhaul watch serve` does
    #[arg(long, value_name = "FILE")]
    pub watch: Option<PathBuf>,
    /// Whose tokens count, and which addresses are served; default: access.toml in the state directory
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Read options, and what the collaboration consists of, from this TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Hand out, list and revoke keys to a hub.
///
/// Without a subcommand it makes a key: the last line on stdout is the key alone. It is written to the hub's database, so the hub need not run.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HubGrant {
    #[command(subcommand)]
    pub action: Option<HubGrantAction>,
    /// The hub's database; default: hub.db in the state directory
    #[arg(long, global = true, value_name = "URL")]
    pub db: Option<String>,
    /// What the key allows
    #[arg(long, value_enum, value_name = "ROLE")]
    pub role: Option<RoleWord>,
    /// The community that the key is for; without one, for all of them
    #[arg(long, value_name = "C", default_value = "")]
    pub community: String,
    /// Whose it is: jobs are submitted under this name
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub name: String,
    /// Let the key end after this time, for example 7d
    #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
    pub lasting: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum HubGrantAction {
    /// List grants
    List,
    /// Revoke a grant
    Revoke {
        /// Its id, as listed
        id: String,
    },
}

/// Roles.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RoleWord {
    /// Submit, and see one's own jobs
    User,
    /// See and change all jobs, stop and start
    Operator,
    /// Describe the collaboration as well
    Admin,
}

/// Something that has a name.
#[derive(Debug, ClapArgs)]
pub struct NamedCommand<F: ClapArgs> {
    #[command(subcommand)]
    pub action: NamedAction<F>,
}

#[derive(Debug, Subcommand)]
pub enum NamedAction<F: ClapArgs> {
    /// Describe one
    Add(Named<F>),
    /// List their names
    List,
    /// Show one
    Show {
        /// Its name
        name: String,
    },
    /// Change what is named, and leave the rest
    Set(Named<F>),
    /// Remove one
    Rm {
        /// Its name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Named<F: ClapArgs> {
    /// Its name: letters, digits, `-`, `_` and `.`
    pub name: String,
    #[command(flatten)]
    pub facts: F,
}

#[derive(Debug, ClapArgs)]
pub struct SiteFacts {
    /// What people call it
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where it is on the map of the portal, degrees
    #[arg(long, value_name = "LATITUDE,LONGITUDE", value_parser = location, allow_hyphen_values = true)]
    pub location: Option<[f64; 2]>,
}

#[derive(Debug, ClapArgs)]
pub struct EndpointFacts {
    /// The site that it is at
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
    /// What it is
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<EndpointKindWord>,
    /// URLs that begin with this are its: lh://HOST/, davs://HOST/PATH, s3://BUCKET/; may be given again
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// Where its API is, for a node whose URL does not say it: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub api: Option<String>,
    /// Where browsers reach it, if elsewhere than its URLs say: https://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub web: Option<String>,
    /// The fingerprint of a node; the key that the hub has for it says it as well
    #[arg(long, value_name = "SHA256:…")]
    pub node: Option<String>,
    /// Read the key with which the hub orders there from this file: an access key of a node, or a token
    #[arg(long, value_name = "FILE")]
    pub endpoint_key_file: Option<PathBuf>,
    /// A node through which goes what it cannot do by itself
    #[arg(long, value_name = "ENDPOINT")]
    pub gateway: Option<String>,
    /// Transfers from it at once
    #[arg(long, value_name = "N")]
    pub out_transfers: Option<u32>,
    /// Transfers to it at once
    #[arg(long, value_name = "N")]
    pub in_transfers: Option<u32>,
    /// What may be read from it
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub out_limit: Option<BitRate>,
    /// What may be written to it
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub in_limit: Option<BitRate>,
    /// Files that may be opened there per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub files_per_second: Option<u32>,
    /// Space that is reserved at it for what the hub brings: so much is on its way there at once at the most
    #[arg(long, value_name = "SIZE")]
    pub space: Option<Bytes>,
    /// Its files are on tape: they are brought to disk by the WLCG tape REST API before they are read
    #[arg(long, value_name = "true|false")]
    pub tape: Option<bool>,
    /// Users may rename and delete files there in the portal; operators may in any case
    #[arg(long, value_name = "true|false")]
    pub changeable: Option<bool>,
    #[command(flatten)]
    pub storage: StorageFacts,
}

/// What the catalogue may store at an endpoint.
#[derive(Debug, ClapArgs)]
pub struct StorageFacts {
    /// The directory where the catalogue may store files: a URL of the endpoint, or below one
    #[arg(long, value_name = "URL")]
    pub storage: Option<String>,
    /// How files are named there: `identity` (SCOPE/NAME) or `hash` (Rucio's)
    #[arg(long, value_name = "HOW", value_parser = ["identity", "hash"])]
    pub naming: Option<String>,
    /// What rules may say of it: region=eu; may be given again
    #[arg(long, value_name = "WORD=VALUE")]
    pub attribute: Vec<String>,
    /// What the catalogue may store there
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,
    /// Copies that no rule holds go once more than this part of the capacity is used, percent; 90 unless said
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub high_water: Option<u8>,
    /// Until no more than this is, percent; 80 unless said
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub low_water: Option<u8>,
    /// Copies that no rule holds go as soon as they may
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
    /// What it carries in each direction: 10Gbit/s
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub capacity: Option<BitRate>,
    /// Which part of it the collaboration may use, 0 to 1
    #[arg(long, value_name = "PART")]
    pub mark: Option<f64>,
    /// Traffic of others that is known of
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub others: Option<BitRate>,
    /// Both directions share the capacity
    #[arg(long)]
    pub half_duplex: bool,
    /// It lies between these two sites: A,B; `*` for any. May be given again
    #[arg(long, value_name = "A,B")]
    pub between: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct CommunityFacts {
    /// Its weight among the communities
    #[arg(long, value_name = "WEIGHT")]
    pub share: Option<f64>,
    /// The most it may have everywhere together
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub cap: Option<BitRate>,
    /// Members of this virtual organisation (VOMS) belong to it; may be given again
    #[arg(long, value_name = "VO")]
    pub vo: Vec<String>,
    /// An activity of it and its weight: production=4; may be given again
    #[arg(long, value_name = "NAME=WEIGHT")]
    pub activity: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct HubStop {
    /// `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`
    pub what: String,
    /// For whoever asks why nothing moves
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// From then on: a downtime that is declared ahead, 2026-12-24T18:00:00Z; now unless said
    #[arg(long, value_name = "TIME", default_value = "")]
    pub from: String,
    /// Until then; until `hub start` unless said
    #[arg(long, value_name = "TIME", default_value = "")]
    pub until: String,
}

/// Parses a place on the map: latitude and longitude, degrees.
fn location(text: &str) -> Result<[f64; 2], String> {
    let numbers = text.split_once(',').and_then(|(a, b)| Some([a.trim().parse().ok()?, b.trim().parse().ok()?]));
    let on_earth = |[latitude, longitude]: &[f64; 2]| latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
    numbers.filter(on_earth).ok_or_else(|| "write degrees, north and east: 52.1,4.4".to_owned())
}
