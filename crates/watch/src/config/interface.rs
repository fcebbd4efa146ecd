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
    /// An agent of SNMP.
    Snmp {
        /// `HOST:PORT`.
        agent: String,
        /// Its number, or its ifName.
        interface: String,
        /// What the watch presents to the agent.
        login: SnmpLogin,
    },
}

/// What the watch presents to an SNMP agent. Secrets stay in their files until a session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnmpLogin {
    /// SNMP v2c: a file with the community; `public` where there is none.
    Community(Option<PathBuf>),
    /// SNMPv3 with the user-based security model (RFC 3414).
    User(SnmpUser),
}

/// A user of SNMPv3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnmpUser {
    /// Its name.
    pub name: String,
    /// The digest of its authentication.
    pub auth: SnmpDigest,
    /// A file with the password of its authentication.
    pub auth_file: PathBuf,
    /// The cipher, and a file with its password; none sends counters readable, though authenticated.
    pub privacy: Option<(SnmpCipher, PathBuf)>,
}

/// Digests of SNMPv3 (RFC 3414, RFC 7860). MD5 is not offered: it is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum SnmpDigest {
    /// HMAC-SHA-96, which older agents have.
    #[serde(rename = "sha-1")]
    Sha1,
    /// HMAC-128-SHA-224.
    #[serde(rename = "sha-224")]
    Sha224,
    /// HMAC-192-SHA-256.
    #[default]
    #[serde(rename = "sha-256")]
    Sha256,
    /// HMAC-256-SHA-384.
    #[serde(rename = "sha-384")]
    Sha384,
    /// HMAC-384-SHA-512.
    #[serde(rename = "sha-512")]
    Sha512,
}

impl SnmpDigest {
    /// The length of a digest, which is the length of the keys made with it, bytes.
    fn key_bytes(self) -> usize {
        match self {
            SnmpDigest::Sha1 => 20,
            SnmpDigest::Sha224 => 28,
            SnmpDigest::Sha256 => 32,
            SnmpDigest::Sha384 => 48,
            SnmpDigest::Sha512 => 64,
        }
    }
}

/// Ciphers of SNMPv3 (RFC 3826, and its longer keys). DES is not offered: its keys can be searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum SnmpCipher {
    /// AES with a key of 128 bits.
    #[default]
    #[serde(rename = "aes-128")]
    Aes128,
    /// AES with a key of 192 bits.
    #[serde(rename = "aes-192")]
    Aes192,
    /// AES with a key of 256 bits.
    #[serde(rename = "aes-256")]
    Aes256,
}

impl SnmpCipher {
    fn key_bytes(self) -> usize {
        match self {
            SnmpCipher::Aes128 => 16,
            SnmpCipher::Aes192 => 24,
            SnmpCipher::Aes256 => 32,
        }
    }
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
    user: Option<FileUser>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileUser {
    name: String,
    #[serde(default)]
    auth: SnmpDigest,
    auth_file: PathBuf,
    privacy: Option<SnmpCipher>,
    privacy_file: Option<PathBuf>,
}

pub(super) fn interface(table: FileInterface) -> ConfigResult<Interface> {
    check_name(&table.name)?;
    let at = format!("interface {}", table.name);
    let (segment_in, segment_out) = match (&table.site, &table.link) {
        (Some(site), None) => (format!("{site} in"), format!("{site} out")),
        (None, Some(link)) => (format!("{link} (back)"), link.clone()),
        _ => {
            return Err(ConfigError::new(at, "write either site or link: the one whose packets the interface carries"));
        }
    };
    if table.snmp.is_none() && (table.community_file.is_some() || table.user.is_some()) {
        return Err(ConfigError::new(at, "community-file and user belong to snmp"));
    }
    let source = match (table.csv, table.json, table.node, table.snmp) {
        (Some(from), None, None, None) => CounterSource::Csv(from),
        (None, Some(from), None, None) => CounterSource::Json(from),
        (None, None, Some(node), None) => CounterSource::Node(node),
        (None, None, None, Some(url)) => snmp(&at, &url, login(&at, table.community_file, table.user)?)?,
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
fn snmp(at: &str, url: &str, login: SnmpLogin) -> ConfigResult<CounterSource> {
    let read = url.strip_prefix("snmp://").and_then(|rest| rest.split_once('/'));
    let (host, interface) = read
        .filter(|(host, interface)| !host.is_empty() && !interface.is_empty() && !host.contains('@'))
        .ok_or_else(|| ConfigError::new(at, "snmp is snmp://HOST[:PORT]/INTERFACE, by number or ifName"))?;
    let has_port = host.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
    let agent = if has_port { host.to_owned() } else { format!("{host}:161") };
    Ok(CounterSource::Snmp { agent, interface: interface.to_owned(), login })
}

fn login(at: &str, community_file: Option<PathBuf>, user: Option<FileUser>) -> ConfigResult<SnmpLogin> {
    let refuse = |what: &str| Err(ConfigError::new(format!("{at}, user"), what));
    let Some(user) = user else { return Ok(SnmpLogin::Community(community_file)) };
    if community_file.is_some() {
        return refuse("community-file is for SNMP v2c, user is for SNMPv3: it has one of them");
    }
    if !(1..=32).contains(&user.name.len()) {
        return refuse("name has 1 to 32 bytes");
    }
    let privacy = match (user.privacy, user.privacy_file) {
        (cipher, Some(file)) => Some((cipher.unwrap_or_default(), file)),
        (Some(_), None) => return refuse("privacy-file is missing: the file with the password of its privacy"),
        (None, None) => None,
    };
    if privacy.as_ref().is_some_and(|(cipher, _)| cipher.key_bytes() > user.auth.key_bytes()) {
        // Vendors lengthen keys in two ways, of which neither is a standard.
        return refuse(
            "the digest of auth is shorter than the key of privacy: choose sha-256 or longer for aes-192 and aes-256",
        );
    }
    Ok(SnmpLogin::User(SnmpUser { name: user.name, auth: user.auth, auth_file: user.auth_file, privacy }))
}
