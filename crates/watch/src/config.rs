//! What is watched: nodes, targets, groups and tests, from one TOML file.

mod file;
mod interface;
mod problem;
mod register;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use model::id::Uuid;
use model::units::BitRate;

pub use interface::{CounterSource, Interface};
pub use problem::ConfigError;
pub use register::{LookupService, RecordForm, Register};

/// Nodes and targets of a configuration.
pub const PLACES_MAX: usize = 1_000;
/// Tests of a configuration, with both directions of each pair.
pub const TESTS_MAX: usize = 40_000;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `sqlite:FILE` or `postgres://…`; beside the hub's state where it is not said.
    pub archive: Option<String>,
    /// The domain of the nodes, as others are told; empty where nobody says.
    pub domain: String,
    /// How long what is kept.
    pub keep: Keep,
    /// Nodes and others, by name.
    pub places: BTreeMap<String, Place>,
    /// Who is tested with whom, how.
    pub groups: Vec<Group>,
    /// What is known of paths.
    pub paths: Vec<KnownPath>,
    /// Interfaces whose counters are read.
    pub interfaces: Vec<Interface>,
    /// How patient the judge is.
    pub judge: JudgeConfig,
    /// Who is told.
    pub notify: Vec<Notify>,
    /// When nobody is told of what is not critical: minutes of the day, UTC.
    pub quiet: Vec<(u16, u16)>,
    /// Where everything is written to as well (Prometheus remote-write).
    pub remote_write: Option<String>,
    /// Archives of perfSONAR that hear of everything as well.
    pub post_records: Vec<PostRecords>,
    /// Lookup services of perfSONAR that hear of our nodes.
    pub registers: Vec<Register>,
    /// What other domains may see.
    pub shows: Vec<Show>,
}

/// An archive of perfSONAR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostRecords {
    /// Where records go.
    pub url: String,
    /// Fields of each request: `Authorization`, `x-ps-observer`.
    pub headers: Vec<(String, String)>,
}

/// How long what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// What nodes said, whole.
    pub raw: Duration,
    /// Minutes.
    pub minutes: Duration,
    /// Hours.
    pub hours: Duration,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Default for Keep {
    fn default() -> Keep {
        Keep { raw: DAY * 30, minutes: DAY * 366, hours: DAY * 366 * 5 }
    }
}

/// A node, or something else that answers tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// What it is.
    pub kind: PlaceKind,
    /// Its site: what shares a link to the rest of the world.
    pub site: String,
    /// What the link of its site gives; none where nobody says.
    pub link: Option<BitRate>,
    /// Latitude and longitude, degrees.
    pub location: Option<(f64, f64)>,
    /// The domain that it belongs to.
    pub domain: String,
}

/// What answers tests, and whether it makes some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A node whose tests we order.
    Node {
        /// Its address, `HOST[:PORT]`.
        address: String,
        /// Who we are there: a file with an access key.
        key_file: Option<PathBuf>,
    },
    /// Somebody else's: `stamp://`, `twamp://`, `ping://`, `iperf3://`, `pscheduler://`, or a node that only answers (`lh://`).
    Target {
        /// As the node is to call it.
        url: String,
    },
}

/// How a group's members are paired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everybody with everybody.
    Mesh(Vec<String>),
    /// Some of ours with others.
    Island {
        /// Nodes.
        from: Vec<String>,
        /// Nodes and targets.
        to: Vec<String>,
    },
    /// These pairs.
    Pairs(Vec<(String, String)>),
    /// Nobody is tested: others test these, which only answer.
    Beacon(Vec<String>),
}

/// Places that are tested with one another, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Who with whom.
    pub mode: Mode,
    /// Packets without end.
    pub latency: Option<Latency>,
    /// TCP at times.
    pub throughput: Option<Throughput>,
    /// Routers and MTU at times.
    pub path: Option<PathTest>,
}

/// Packets without end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Packets per second.
    pub rate: f64,
    /// Octets of each.
    pub bytes: u32,
    /// Source ports at once.
    pub ports: u16,
    /// How long a measurement is.
    pub report: Duration,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { rate: 10.0, bytes: 100, ports: 8, report: Duration::from_secs(60) }
    }
}

/// TCP at times.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// From one test of a direction to the next.
    pub every: Duration,
    /// How long one is.
    pub lasts: Duration,
    /// Streams.
    pub streams: u32,
    /// Congestion control. CUBIC, unless said: BBR hides what loses.
    pub congestion: Option<String>,
    /// No faster than this.
    pub limit: Option<BitRate>,
    /// It waits for transfers, as long as its slot allows.
    pub waits_for_transfers: bool,
}

impl Default for Throughput {
    fn default() -> Throughput {
        Throughput {
            every: Duration::from_secs(6 * 3_600),
            lasts: Duration::from_secs(20),
            streams: 1,
            congestion: Some("cubic".into()),
            limit: None,
            waits_for_transfers: true,
        }
    }
}

/// Routers and MTU at times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTest {
    /// From one to the next.
    pub every: Duration,
    /// Flows: with more than one, members of bundles are looked for.
    pub flows: u16,
}

impl Default for PathTest {
    fn default() -> PathTest {
        PathTest { every: Duration::from_secs(600), flows: 1 }
    }
}

/// What is known of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownPath {
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// What it is to give.
    pub rate: Option<BitRate>,
    /// Links on it, nearest first, without those of the sites.
    pub segments: Vec<String>,
    /// Routers that it should pass, nearest first.
    pub hops: Vec<String>,
}

/// How patient the judge is. `scale` makes a day shorter, so that a year is seen in a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeConfig {
    /// Seconds of one of the judge's seconds: 1 in life.
    pub scale: f64,
    /// Tests of throughput before anything is said of them.
    pub learn: usize,
}

impl Default for JudgeConfig {
    fn default() -> JudgeConfig {
        JudgeConfig { scale: 1.0, learn: 10 }
    }
}

/// Somebody to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// How.
    pub how: NotifyKind,
    /// Only of what is at least so bad.
    pub critical_only: bool,
}

/// How somebody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyKind {
    /// `POST` of JSON.
    Webhook(String),
    /// Alertmanager's API.
    Alertmanager(String),
    /// Mail by SMTP.
    Mail {
        /// `smtp://HOST[:PORT]`, `smtps://USER:PASSWORD@HOST`.
        server: String,
        /// From whom.
        from: String,
        /// To whom.
        to: Vec<String>,
    },
}

/// What others may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Show {
    /// Who.
    pub to: String,
    /// From these networks; from anywhere where there is none.
    pub networks: Vec<IpNet>,
    /// Which places, by the beginnings of their names; all of them where there is none.
    pub places: Vec<String>,
    /// Which tests; all of them where there is none.
    pub tests: Vec<String>,
    /// Questions in a minute.
    pub per_minute: u32,
}

impl Config {
    /// Reads a text.
    ///
    /// # Errors
    /// It is no TOML, or says what cannot be: where, and what.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        file::parse(text)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or says what cannot be.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(path.display().to_string(), error.to_string()))?;
        Config::parse(&text)
            .map_err(|error| ConfigError { place: format!("{}: {}", path.display(), error.place), ..error })
    }

    /// The nodes whose tests we order.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Place)> {
        self.places.iter().filter(|(_, place)| matches!(place.kind, PlaceKind::Node { .. }))
    }
}

/// The id of a schedule: the same for the same names, so that a watch that is started anew finds its own.
pub fn schedule_id(from: &str, to: &str, test: &str) -> Uuid {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("longhaul watch\0{from}\0{to}\0{test}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8: made as its maker likes (RFC 9562, section 5.8).
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests;
