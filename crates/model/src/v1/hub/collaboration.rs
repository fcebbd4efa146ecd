//! The description of a collaboration: sites, endpoints, links, communities. JSON and the hub's TOML file use the same names.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The description of a collaboration. In TOML: `[site.NAME]`, `[endpoint.NAME]`, `[link.NAME]`, `[[route]]`, `[community.NAME]`.
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
    /// The links between each pair of sites.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
    /// Communities by name.
    #[serde(rename = "community")]
    pub communities: BTreeMap<String, Community>,
    /// The whole collaboration is stopped: no new transfers begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// A stop or downtime of a part of the collaboration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stopped {
    /// The reason, shown to users who ask why their files wait.
    pub reason: String,
    /// Running transfers go on to their end; otherwise they are paused.
    pub drain: bool,
    /// New jobs that need the stopped part are refused; otherwise they wait.
    pub refuse: bool,
    /// When the stop begins, for a downtime that is declared ahead; default: now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// When the stop ends; default: when an operator starts the part again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
}

/// A site with endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// The name shown to people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Latitude and longitude, degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<[f64; 2]>,
    /// The site or endpoint is stopped: no new transfers begin from it or to it.
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
    /// The site of the endpoint.
    pub site: String,
    /// The kind of server.
    pub kind: EndpointKind,
    /// The prefixes of the endpoint's URLs: `lh://HOST[:PORT]/`, `davs://HOST/PATH`, `s3://BUCKET/`.
    pub urls: Vec<String>,
    /// The API of a node: `https://HOST:PORT`; default: host and port of the first of `urls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The address for browsers, if it differs from the address in the URLs: `https://HOST[:PORT]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// The fingerprint of a node; default: the fingerprint in `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The access key or token with which the hub orders transfers there. The hub never returns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub key: Option<String>,
    /// The name of the node that carries the transfers that the endpoint cannot carry itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The limits on transfers from and to the endpoint.
    pub limits: EndpointLimits,
    /// Files are on tape: they are staged before they are read.
    pub tape: bool,
    /// Users may rename and delete files of the endpoint in the portal. Operators always may.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changeable: bool,
    /// The storage that the catalogue may use; default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// The site or endpoint is stopped: no new transfers begin from it or to it.
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

/// The limits on transfers from and to an endpoint. A field that is left out means no limit, except for the numbers of transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointLimits {
    /// The most transfers from the endpoint at once; default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_transfers: Option<u32>,
    /// The most transfers to the endpoint at once; default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_transfers: Option<u32>,
    /// The highest rate of reading, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_bit_s: Option<u64>,
    /// The highest rate of writing, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_bit_s: Option<u64>,
    /// The most files opened there per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_s: Option<u32>,
    /// The most bytes of unfinished transfers to the endpoint: the space that the hub reserves there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
}

/// The storage of an endpoint that the catalogue may use. In TOML: `[endpoint.NAME.storage]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// The URL of the storage directory: one of the endpoint's `urls`, or below one of them.
    pub url: String,
    /// How files are named below `url`: `identity` (`scope/name`, the default) or `hash` (as in Rucio).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub naming: String,
    /// The attributes that expressions of rules use, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "scalars_as_text")]
    pub attributes: BTreeMap<String, String>,
    /// The capacity, bytes; default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Replicas without a lock are deleted when more than this part of the capacity is used, percent; default: 90.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_water_percent: Option<u8>,
    /// Deletion ends when no more than this part of the capacity is used, percent; default: 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water_percent: Option<u8>,
    /// Replicas without a lock are deleted as soon as they may be, even if there is free space.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub greedy: bool,
}

/// Reads a table whose values are strings, numbers or booleans; each value becomes text.
fn scalars_as_text<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
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
    /// The capacity in each direction, bit/s.
    pub capacity_bit_s: u64,
    /// The part of the capacity that the collaboration may use, 0 to 1; default: 1.
    #[serde(default = "default_mark")]
    pub mark: f64,
    /// Each direction has the full capacity; otherwise both directions share it. Default: true.
    #[serde(default = "default_true")]
    pub duplex: bool,
    /// Known traffic of others, bit/s.
    #[serde(default)]
    pub others_bit_s: u64,
    /// The link is stopped: no new transfers begin over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// A new mark of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkMark {
    /// The part of its capacity: above 0, and 1 at most.
    pub mark: f64,
}

fn default_mark() -> f64 {
    1.0
}

fn default_true() -> bool {
    true
}

/// The links between two sites. They are valid in both directions, unless the reverse direction has a route of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// A site; `*` for any.
    pub from: String,
    /// Another site; `*` for any.
    pub to: String,
    /// The links that are crossed. `!NAME` is a link that is crossed in the opposite direction; this matters for duplex links, which have
    /// the full capacity in each direction.
    pub links: Vec<String>,
}

/// A community (a virtual organisation) and its share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Community {
    /// The weight among the communities; default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The highest rate of the community over all links together, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bit_s: Option<u64>,
    /// The virtual organisations (VOMS) of the community. A user with a certificate belongs to the community only through one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vos: Vec<String>,
    /// Activities by name. Other activities have a share of 1.
    #[serde(rename = "activity")]
    pub activities: BTreeMap<String, Activity>,
    /// The community is stopped: no new transfers begin for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// A kind of work of a community.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Activity {
    /// The weight among the activities of the community; default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// The role of a member, which says what requests are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Submits jobs, and sees its own jobs.
    #[default]
    User,
    /// Also sees and changes all jobs, and stops and starts parts of the collaboration.
    Operator,
    /// Also changes the description of the collaboration.
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
