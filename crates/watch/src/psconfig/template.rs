//! A template as it is written. Required parts are checked, with a remark for each unknown section.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{ImportError, ImportResult};

/// The sections of a template.
const SECTIONS: [&str; 12] = [
    "_meta",
    "addresses",
    "address-classes",
    "archives",
    "contexts",
    "groups",
    "hosts",
    "includes",
    "schedules",
    "subtasks",
    "tasks",
    "tests",
];

/// A whole template.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub addresses: BTreeMap<String, Address>,
    pub classes: BTreeMap<String, Class>,
    pub archives: BTreeMap<String, Value>,
    pub groups: BTreeMap<String, Group>,
    pub hosts: BTreeMap<String, Host>,
    pub schedules: BTreeMap<String, Schedule>,
    pub subtasks: BTreeMap<String, Subtask>,
    pub tasks: BTreeMap<String, Task>,
    pub tests: BTreeMap<String, Test>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Address {
    pub address: String,
    pub host: Option<String>,
    pub labels: BTreeMap<String, Labelled>,
    pub remote_addresses: BTreeMap<String, Labelled>,
    pub tags: BTreeSet<String>,
    pub disabled: bool,
    pub no_agent: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Labelled {
    pub address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Host {
    pub tags: BTreeSet<String>,
    pub no_agent: bool,
    pub disabled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Class {
    #[serde(default)]
    pub data_source: Option<DataSource>,
    #[serde(default)]
    pub match_filter: Option<Filter>,
    #[serde(default)]
    pub exclude_filter: Option<Filter>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DataSource {
    #[serde(rename = "type")]
    pub kind: String,
}

/// A condition that addresses must meet.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum Filter {
    AddressClass { class: String },
    Host { no_agent: Option<bool>, tag: Option<String>, jq: Option<Value> },
    IpVersion { ip_version: u8 },
    Netmask { netmask: String },
    Tag { tag: String },
    Jq { jq: Value },
    And { filters: Vec<Filter> },
    Or { filters: Vec<Filter> },
    Not { filter: Box<Filter> },
}

/// A group: how its addresses are paired.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum Group {
    Mesh {
        addresses: Vec<Selector>,
        #[serde(flatten)]
        options: PairingOptions,
    },
    Disjoint {
        a_addresses: Vec<Selector>,
        b_addresses: Vec<Selector>,
        #[serde(default)]
        unidirectional: bool,
        #[serde(flatten)]
        options: PairingOptions,
    },
    List {
        addresses: Vec<Selector>,
    },
}

/// The options that all groups of pairs have.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct PairingOptions {
    pub excludes: Vec<Exclude>,
    pub excludes_self: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Exclude {
    pub local_address: Selector,
    pub target_addresses: Vec<Selector>,
}

/// An address by its name, or those of a class.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Selector {
    Named {
        name: String,
        #[serde(default)]
        label: Option<String>,
    },
    Class {
        class: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Schedule {
    pub start: Option<String>,
    pub slip: Option<String>,
    pub sliprand: Option<bool>,
    pub repeat: Option<String>,
    pub until: Option<String>,
    pub max_runs: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Test {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub spec: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Subtask {
    pub test: String,
    #[serde(default)]
    pub disabled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Task {
    pub group: String,
    pub test: String,
    #[serde(default)]
    pub schedule: Option<String>,
    #[serde(default)]
    pub subtasks: Vec<String>,
    #[serde(default)]
    pub disabled: bool,
}

impl Task {
    /// The names of its tests: its own, and those of its subtasks.
    pub fn tests(&self, template: &Template) -> Vec<String> {
        let subtasks =
            self.subtasks.iter().filter_map(|name| template.subtasks.get(name)).filter(|subtask| !subtask.disabled);
        std::iter::once(self.test.clone()).chain(subtasks.map(|subtask| subtask.test.clone())).collect()
    }
}

impl Address {
    /// The host as a URL has it: an IPv6 address in brackets.
    pub fn url_host(&self) -> String {
        let is_bare_v6 = self.address.parse::<std::net::Ipv6Addr>().is_ok();
        if is_bare_v6 { format!("[{}]", self.address) } else { self.address.clone() }
    }

    /// Addresses of one host are one site.
    pub fn site(&self, name: &str) -> String {
        self.host.clone().unwrap_or_else(|| name.to_owned())
    }

    /// Its host.
    pub fn host<'t>(&self, template: &'t Template) -> Option<&'t Host> {
        template.hosts.get(self.host.as_ref()?)
    }

    /// Whether it is to be tested at all.
    pub fn is_on(&self, template: &Template) -> bool {
        !self.disabled && self.host(template).is_none_or(|host| !host.disabled)
    }
}

impl Template {
    /// Reads a template after its includes were merged.
    pub fn read(whole: &Map<String, Value>, remarks: &mut Vec<String>) -> ImportResult<Template> {
        for section in whole.keys().filter(|section| !SECTIONS.contains(&section.as_str())) {
            remarks.push(format!("section {section} is unknown"));
        }
        if whole.contains_key("contexts") {
            remarks.push("contexts are not imported: nodes test in the network that they are in".into());
        }
        for needed in ["addresses", "groups", "tests", "tasks"] {
            if !whole.contains_key(needed) {
                return Err(ImportError::new("the template", format!("it has no {needed}")));
            }
        }
        let template = Template {
            addresses: section(whole, "addresses")?,
            classes: section(whole, "address-classes")?,
            archives: section(whole, "archives")?,
            groups: section(whole, "groups")?,
            hosts: section(whole, "hosts")?,
            schedules: section(whole, "schedules")?,
            subtasks: section(whole, "subtasks")?,
            tasks: section(whole, "tasks")?,
            tests: section(whole, "tests")?,
        };
        for (name, address) in &template.addresses {
            if address.address.is_empty() {
                return Err(ImportError::new(format!("addresses {name}"), "it has no address"));
            }
            let others = address.labels.values().chain(address.remote_addresses.values());
            if others.filter(|other| !other.address.is_empty() && other.address != address.address).count() > 0 {
                remarks.push(format!(
                    "addresses {name}: labels and remote addresses are not imported, {} is used",
                    address.address
                ));
            }
        }
        Ok(template)
    }
}

fn section<T: DeserializeOwned>(whole: &Map<String, Value>, name: &str) -> ImportResult<BTreeMap<String, T>> {
    let Some(value) = whole.get(name) else { return Ok(BTreeMap::new()) };
    let Value::Object(entries) = value else { return Err(ImportError::new(name, "it is not an object")) };
    let read = |(key, entry): (&String, &Value)| {
        let wrong = |error: serde_json::Error| ImportError::new(format!("{name} {key}"), error.to_string());
        Ok((key.clone(), serde_json::from_value(entry.clone()).map_err(wrong)?))
    };
    entries.iter().map(read).collect()
}
