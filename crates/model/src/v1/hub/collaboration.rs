//! What a collaboration consists of: sites, endpoints, links, communities. The same words in JSON and in the hub's TOML file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Everything that is described. In TOML: `[site.NAME]`, `[endpoint.NAME]`, `[link.NAME]`, `[[route]]`, `[community.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Collaboration {
    /// Sites by name.
    #[serde(rename = "site")]
    pub sites: BTreeMap<String, Site>,
    /// Endpoints by name.
    #[serde(rename = "endpoint")]
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Links by name.
    #[serde(rename = "link")]
    pub links: BTreeMap<String, Link>,
    /// Which links lie between which sites.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
    /// Communities by name.
    #[serde(rename = "community")]
    pub communities: BTreeMap<String, Community>,
    /// Nothing new is begun anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// Why something is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stopped {
    /// For whoever asks why nothing moves.
    pub reason: String,
    /// What runs may end; otherwise it is paused.
    pub drain: bool,
    /// Jobs for it are refused; otherwise they wait.
    pub refuse: bool,
    /// From then on: a downtime that is declared ahead; now unless said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Until then; until somebody starts it again unless said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
}

/// A place that has endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// What people call it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Where it is: latitude and longitude, degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<[f64; 2]>,
    /// Nothing new is begun from or to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// What kind of server an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// A Longhaul node.
    #[default]
    Node,
    /// A WebDAV server that makes third-party copies.
    Webdav,
    /// An S3 server.
    S3,
}

/// A server with storage.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// The site that it is at.
    pub site: String,
    /// What it is.
    pub kind: EndpointKind,
    /// URLs that begin with one of these are its: `lh://HOST[:PORT]/`, `davs://HOST/PATH`, `s3://BUCKET/`.
    pub urls: Vec<String>,
    /// Where its API is, for a node: `https://HOST:PORT`; made from the first of `urls` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Where browsers reach it, if elsewhere than its URLs say: `https://HOST[:PORT]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// The fingerprint of a node; that of its key unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// An access key, or a token, with which the hub orders there. Never told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub key: Option<String>,
    /// The name of a node through which what it cannot do by itself goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// What may be asked of it.
    pub limits: EndpointLimits,
    /// Files come from tape: reading begins with staging.
    pub tape: bool,
    /// Users may rename and delete files there in the portal. Operators may in any case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changeable: bool,
    /// What the catalogue may store there; nothing unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Nothing new is begun from or to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("site", &self.site)
            .field("kind", &self.kind)
            .field("urls", &self.urls)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What may be asked of an endpoint; what is not said is not bounded, but for transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointLimits {
    /// Transfers from it at once; 20 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_transfers: Option<u32>,
    /// Transfers to it at once; 20 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_transfers: Option<u32>,
    /// What may be read from it, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_bit_s: Option<u64>,
    /// What may be written to it, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_bit_s: Option<u64>,
    /// Files opened there per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_s: Option<u32>,
    /// Bytes that the hub may have under way to it and not yet finished: what is reserved of its space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
}

/// What the catalogue may store at an endpoint. In TOML: `[endpoint.NAME.storage]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// The directory of its files: a URL that is one of the endpoint's `urls` or lies below one.
    pub url: String,
    /// How files are named below it: `identity` (`scope/name`, unless said) or `hash` (Rucio's).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub naming: String,
    /// What rules may say of it: words and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "words_and_values")]
    pub attributes: BTreeMap<String, String>,
    /// What it may hold; not bounded unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Copies that no rule holds are deleted once more than this part of the capacity is used, percent; 90 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_water_percent: Option<u8>,
    /// Until no more than this is, percent; 80 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water_percent: Option<u8>,
    /// Copies that no rule holds are deleted as soon as they may be, whatever room there is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub greedy: bool,
}

/// Values that may be texts, numbers or true and false.
fn words_and_values<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Bool(bool),
        Integer(i64),
        Number(f64),
        Text(String),
    }
    let all = BTreeMap::<String, Value>::deserialize(from)?;
    let text = |value| match value {
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Text(value) => value,
    };
    Ok(all.into_iter().map(|(word, value)| (word, text(value))).collect())
}

/// A shared resource between sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What it carries in each direction, bit/s.
    pub capacity_bit_s: u64,
    /// Which part of it the collaboration may use, 0 to 1; all of it unless said.
    #[serde(default = "whole")]
    pub mark: f64,
    /// Each direction has the capacity for itself; otherwise both share it.
    #[serde(default = "yes")]
    pub duplex: bool,
    /// Traffic of others that is known of, bit/s.
    #[serde(default)]
    pub others_bit_s: u64,
    /// Nothing new is begun over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// How much of a link may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkMark {
    /// The part of its capacity: above 0, and 1 at most.
    pub mark: f64,
}

fn whole() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// The links between two sites, in both directions unless one of them has a route of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// A site; `*` for any.
    pub from: String,
    /// Another site; `*` for any.
    pub to: String,
    /// The links that are crossed; `!NAME` is crossed against the direction in which others cross it: each direction of a duplex link has its capacity for itself.
    pub links: Vec<String>,
}

/// A community (a virtual organisation) and its share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Community {
    /// Its weight among the communities; 1 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The most it may have everywhere together, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bit_s: Option<u64>,
    /// Virtual organisations (VOMS) whose members it consists of; a user with a certificate belongs to it by one of these alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vos: Vec<String>,
    /// Its activities by name. Others than these have a share of 1.
    #[serde(rename = "activity")]
    pub activities: BTreeMap<String, Activity>,
    /// Nothing new is begun for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// A kind of work of a community.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Activity {
    /// Its weight among the activities of the community; 1 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// What a key to a hub allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Submit, and see one's own jobs.
    #[default]
    User,
    /// See and change all jobs, stop and start what is described.
    Operator,
    /// Describe the collaboration as well.
    Admin,
}

impl Role {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role of a word.
    pub fn of_word(word: &str) -> Option<Role> {
        [Role::User, Role::Operator, Role::Admin].into_iter().find(|role| role.word() == word)
    }
}
