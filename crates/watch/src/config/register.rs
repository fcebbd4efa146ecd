//! The tables of lookup services that nodes are registered at.

use serde::Deserialize;

use super::ConfigError;
use super::values::ConfigResult;

/// A lookup service of perfSONAR that nodes are registered at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The URL that records are posted to.
    pub url: String,
    /// The form of the records.
    pub form: RecordForm,
    /// The nodes; empty for all.
    pub nodes: Vec<String>,
    /// Communities that the nodes belong to.
    pub communities: Vec<String>,
    /// Further services that their hosts answer.
    pub services: Vec<LookupService>,
    /// The role of the hosts in their network (`science-dmz`, …).
    pub role: Option<String>,
    /// Who may test with them (`public`, `research-education`, …).
    pub access_policy: Option<String>,
}

/// The form of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RecordForm {
    /// Flat maps of lists, one for each host, interface and service.
    #[default]
    #[serde(rename = "legacy")]
    Legacy,
    /// The server of 2026: one document for each interface.
    #[serde(rename = "2026")]
    Interface,
}

/// A service of perfSONAR that a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LookupService {
    /// TWAMP-Control, on 862.
    Twamp,
    /// Throughput tests that a pScheduler leads.
    Pscheduler,
}

impl LookupService {
    /// Its name in records.
    pub fn word(self) -> &'static str {
        match self {
            LookupService::Twamp => "twamp",
            LookupService::Pscheduler => "pscheduler",
        }
    }
}

/// The roles that the server of 2026 accepts.
const ROLES: [&str; 10] = [
    "nren",
    "regional",
    "site-border",
    "site-internal",
    "science-dmz",
    "exchange-point",
    "test-host",
    "default-path",
    "backup-path",
    "public",
];
const ACCESS_POLICIES: [&str; 4] = ["public", "private", "research-education", "limited"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileRegister {
    url: String,
    #[serde(default)]
    form: RecordForm,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    communities: Vec<String>,
    #[serde(default)]
    services: Vec<LookupService>,
    role: Option<String>,
    access_policy: Option<String>,
}

pub(super) fn register(table: FileRegister, is_node: impl Fn(&str) -> bool) -> ConfigResult<Register> {
    let at = format!("register {}", table.url);
    if !table.url.starts_with("https://") && !table.url.starts_with("http://") {
        return Err(ConfigError::new(at, "url is http:// or https:// of a lookup service"));
    }
    if let Some(unknown) = table.nodes.iter().find(|name| !is_node(name)) {
        return Err(ConfigError::new(at, format!("there is no node {unknown:?}")));
    }
    let one_of = |name: &str, value: &Option<String>, words: &[&str]| match value {
        Some(value) if !words.contains(&value.as_str()) => {
            Err(ConfigError::new(at.clone(), format!("{name} is one of {}, and not {value:?}", words.join(", "))))
        }
        _ => Ok(()),
    };
    one_of("role", &table.role, &ROLES)?;
    one_of("access-policy", &table.access_policy, &ACCESS_POLICIES)?;
    Ok(Register {
        url: table.url,
        form: table.form,
        nodes: table.nodes,
        communities: table.communities,
        services: table.services,
        role: table.role,
        access_policy: table.access_policy,
    })
}
