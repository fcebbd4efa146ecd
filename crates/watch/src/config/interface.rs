//! The tables of interfaces whose counters are read.

use std::path::PathBuf;
use std::time::Duration;

use model::units::BitRate;
use serde::Deserialize;

use super::ConfigError;
use super::values::{ConfigResult, check_name, rate, time_within};

/// Interfaces of a configuration: each has a thread.
pub(super) const INTERFACES_MAX: usize = 500;
/// Bounds of the time from one reading to the next, and its default.
const EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3_600));
const EVERY_DEFAULT: Duration = Duration::from_secs(60);

/// An interface whose counters are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The segment whose packets it receives.
    pub segment_in: String,
    /// The segment whose packets it sends.
    pub segment_out: String,
    /// Its capacity; none for the speed that it reports itself.
    pub capacity: Option<BitRate>,
    /// The time from one reading to the next.
    pub every: Duration,
    /// The source of its counters.
    pub source: CounterSource,
}

/// A source of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterSource {
    /// A file or a URL of CSV.
    Csv(String),
    /// A file or a URL of JSON.
    Json(String),
    /// A node that reports the counters of its host's NICs.
    Node(String),
    /// An agent of SNMP v2c.
    Snmp {
        /// `HOST:PORT`.
        agent: String,
        /// Its number, or its ifName.
        interface: String,
        /// A file with the community; `public` where there is none.
        community_file: Option<PathBuf>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileInterface {
    name: String,
    site: Option<String>,
    link: Option<String>,
    capacity: Option<String>,
    every: Option<String>,
    csv: Option<String>,
    json: Option<String>,
    node: Option<String>,
    snmp: Option<String>,
    community_file: Option<PathBuf>,
}

pub(super) fn interface(table: FileInterface) -> ConfigResult<Interface> {
    check_name(&table.name)?;
    let at = format!("interface {}", table.name);
    let (segment_in, segment_out) = match (&table.site, &table.link) {
        (Some(site), None) => (format!("{site} in"), format!("{site} out")),
        (None, Some(link)) => (format!("{link} (back)"), link.clone()),
        _ => return Err(ConfigError::new(at, "write either site or link: that whose packets the interface carries")),
    };
    let source = match (table.csv, table.json, table.node, table.snmp) {
        (Some(from), None, None, None) => CounterSource::Csv(from),
        (None, Some(from), None, None) => CounterSource::Json(from),
        (None, None, Some(node), None) => CounterSource::Node(node),
        (None, None, None, Some(url)) => snmp(&at, &url, table.community_file)?,
        _ => return Err(ConfigError::new(at, "it has one of csv, json, node or snmp: the source of its counters")),
    };
    Ok(Interface {
        segment_in,
        segment_out,
        capacity: rate(&at, table.capacity.as_deref())?,
        every: time_within(&format!("{at}, every"), table.every.as_deref(), EVERY_DEFAULT, EVERY)?,
        source,
        name: table.name,
    })
}

/// `snmp://HOST[:PORT]/INTERFACE`, where the interface's name may have slashes itself.
fn snmp(at: &str, url: &str, community_file: Option<PathBuf>) -> ConfigResult<CounterSource> {
    let read = url.strip_prefix("snmp://").and_then(|rest| rest.split_once('/'));
    let (host, interface) = read
        .filter(|(host, interface)| !host.is_empty() && !interface.is_empty() && !host.contains('@'))
        .ok_or_else(|| ConfigError::new(at, "snmp is snmp://HOST[:PORT]/INTERFACE, by number or ifName"))?;
    let has_port = host.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
    let agent = if has_port { host.to_owned() } else { format!("{host}:161") };
    Ok(CounterSource::Snmp { agent, interface: interface.to_owned(), community_file })
}
