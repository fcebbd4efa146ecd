//! The configuration of a watch: nodes, targets, groups and tests, from one TOML file.

mod diagnosis;
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

pub use diagnosis::DiagnosisConfig;
pub use interface::{CounterSource, Interface, SnmpCipher, SnmpDigest, SnmpLogin, SnmpUser};
pub use problem::ConfigError;
pub use register::{LookupService, RecordForm, Register};

/// The largest number of nodes and targets.
pub const PLACES_MAX: usize = 1_000;
/// The largest number of tests, with both directions of each pair.
pub const TESTS_MAX: usize = 40_000;

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `sqlite:FILE` or `postgres://…`; none for a file beside the hub's state.
    pub archive: Option<String>,
    /// The domain of the nodes, as it is published; empty if unknown.
    pub domain: String,
    /// How long rows are kept.
    pub keep: Keep,
    /// Nodes and targets, by name.
    pub places: BTreeMap<String, WatchedPlace>,
    /// The groups: which places are tested with which, and how.
    pub groups: Vec<Group>,
    /// Known facts of paths.
    pub paths: Vec<KnownPath>,
    /// Interfaces whose counters are read.
    pub interfaces: Vec<Interface>,
    /// The times of the judge.
    pub judge: JudgeConfig,
    /// What is ordered when an alarm is raised; none for nothing.
    pub diagnosis: Option<DiagnosisConfig>,
    /// The recipients of alarms.
    pub notify: Vec<Notify>,
    /// Quiet times, in which only critical alarms are sent: minutes of the day, UTC.
    pub quiet: Vec<(u16, u16)>,
    /// The URL of a receiver of all rows (Prometheus remote-write).
    pub remote_write: Option<String>,
    /// Archives of perfSONAR that all measurements are posted to.
    pub post_records: Vec<PostRecords>,
    /// Lookup services of perfSONAR that the nodes are registered at.
    pub registers: Vec<Register>,
    /// What other domains may see.
    pub shows: Vec<Show>,
}

/// An archive of perfSONAR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostRecords {
    /// The URL that records are posted to.
    pub url: String,
    /// Header fields of each request: `Authorization`, `x-ps-observer`.
    pub headers: Vec<(String, String)>,
}

/// How long rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Rows as measured, and whole reports.
    pub raw: Duration,
    /// Rows of minutes.
    pub minutes: Duration,
    /// Rows of hours.
    pub hours: Duration,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Default for Keep {
    fn default() -> Keep {
        Keep { raw: DAY * 30, minutes: DAY * 366, hours: DAY * 366 * 5 }
    }
}

/// A place that is watched: a node, or a target, which only answers tests.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedPlace {
    /// Node or target.
    pub kind: PlaceKind,
    /// Its site: the places that share one link to the outside.
    pub site: String,
    /// The rate of its site's link; none if unknown.
    pub link: Option<BitRate>,
    /// Latitude and longitude, degrees.
    pub location: Option<(f64, f64)>,
    /// The domain that it belongs to.
    pub domain: String,
}

/// The kind of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A node, which makes tests for the watch.
    Node {
        /// Its address, `HOST[:PORT]`.
        address: String,
        /// The file with the access key of the watch to the node.
        key_file: Option<PathBuf>,
    },
    /// A place that only answers: `stamp://`, `twamp://`, `ping://`, `iperf3://`, `pscheduler://`, or a node of another domain (`lh://`).
    Target {
        /// The URL at which a node reaches it.
        url: String,
    },
}

/// How a group's members are paired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All members with one another.
    Mesh(Vec<String>),
    /// Some nodes with other places.
    Island {
        /// Nodes.
        from: Vec<String>,
        /// Nodes and targets.
        to: Vec<String>,
    },
    /// These pairs.
    Pairs(Vec<(String, String)>),
    /// These places only answer: others test them.
    Beacon(Vec<String>),
}

/// Places that are tested with one another, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How its members are paired.
    pub mode: Mode,
    /// Endless streams of packets.
    pub latency: Option<Latency>,
    /// Tests of TCP.
    pub throughput: Option<Throughput>,
    /// Tests of routers and MTU.
    pub path: Option<PathTest>,
}

/// Endless streams of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Packets per second.
    pub rate: f64,
    /// Octets of each packet.
    pub bytes: u32,
    /// Source ports at once.
    pub ports: u16,
    /// The length of a measurement.
    pub report: Duration,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { rate: 10.0, bytes: 100, ports: 8, report: Duration::from_secs(60) }
    }
}

/// Tests of TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// The time from one test of a direction to the next.
    pub every: Duration,
    /// The length of a test.
    pub lasts: Duration,
    /// Streams.
    pub streams: u32,
    /// Congestion control; CUBIC by default, since BBR hides loss.
    pub congestion: Option<String>,
    /// The highest rate.
    pub limit: Option<BitRate>,
    /// Whether a test waits for transfers, as long as its slot allows.
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

/// Tests of routers and MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTest {
    /// The time from one test to the next.
    pub every: Duration,
    /// Flows of a test, each with its own source port; with more than one, the test looks for parallel paths.
    pub flows: u16,
}

impl Default for PathTest {
    fn default() -> PathTest {
        PathTest { every: Duration::from_secs(600), flows: 1 }
    }
}

/// Known facts of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownPath {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The rate that it should give.
    pub rate: Option<BitRate>,
    /// Links on it, nearest first, without those of the sites.
    pub segments: Vec<String>,
    /// Routers that it should pass, nearest first.
    pub hops: Vec<String>,
}

/// The times of the judge. `scale` shortens a day, so that a test covers a year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeConfig {
    /// Real seconds for one second of the judge: 1 in production.
    pub scale: f64,
    /// Tests of throughput before the first finding.
    pub learn: usize,
}

impl Default for JudgeConfig {
    fn default() -> JudgeConfig {
        JudgeConfig { scale: 1.0, learn: 10 }
    }
}

/// A recipient of alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The channel.
    pub how: NotifyKind,
    /// Whether it gets critical alarms only.
    pub critical_only: bool,
}

/// The channel of a recipient.
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
        /// The sender.
        from: String,
        /// The recipients.
        to: Vec<String>,
    },
}

/// A part of the watch that another domain may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Show {
    /// The name of the domain that may see it.
    pub to: String,
    /// The networks of the domain; empty for any.
    pub networks: Vec<IpNet>,
    /// The places, by the beginnings of their names; empty for all.
    pub places: Vec<String>,
    /// The tests; empty for all.
    pub tests: Vec<String>,
    /// Requests per minute.
    pub per_minute: u32,
}

impl Config {
    /// Parses a configuration.
    ///
    /// # Errors
    /// The text is not TOML, or has an invalid value; the error names the place.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        file::parse(text)
    }

    /// Reads a configuration from a file.
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid value.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(path.display().to_string(), error.to_string()))?;
        Config::parse(&text)
            .map_err(|error| ConfigError { place: format!("{}: {}", path.display(), error.place), ..error })
    }

    /// The nodes that make tests for the watch.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &WatchedPlace)> {
        self.places.iter().filter(|(_, place)| matches!(place.kind, PlaceKind::Node { .. }))
    }
}

/// The id of a schedule: the same for the same names, so that a restarted watch finds its own schedules.
pub fn schedule_id(from: &str, to: &str, test: &str) -> Uuid {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("longhaul watch\0{from}\0{to}\0{test}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8: a custom format (RFC 9562, section 5.8).
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests;
