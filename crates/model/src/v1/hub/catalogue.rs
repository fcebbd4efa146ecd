//! The catalogue: names of data, where their copies are, and the rules that say where they shall be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Metadata: words and their values.
pub type Metadata = BTreeMap<String, serde_json::Value>;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// A file: it has a size, checksums, replicas.
    #[default]
    File,
    /// Files that belong together.
    Dataset,
    /// Datasets and containers that belong together.
    Container,
}

/// A name that is to be in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewData {
    /// `scope:name`.
    pub name: String,
    /// What it stands for; a file unless said.
    #[serde(default)]
    pub kind: DataKind,
    /// The size of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The Adler-32 of a file, 8 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// The MD5 of a file, 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// What is said of it; 4 KiB at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// Nothing is taken out of it: it only grows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub monotonic: bool,
    /// It is removed then, with its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Of a file: endpoints where a copy of it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<NewReplica>,
}

/// A copy of a file that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReplica {
    /// The endpoint.
    pub endpoint: String,
    /// Its path below the directory of the endpoint, where that is not as the endpoint names files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Names that are to be in the catalogue; all of them, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDataList {
    /// The names, 1,000 at most. A file that is there already is taken for the same if its size and its checksums are.
    pub data: Vec<NewData>,
    /// A dataset or container that they become a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// What became of names that were merged into the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataMerged {
    /// Names that were not there.
    pub new: u64,
    /// Names that were there and the same.
    pub known: u64,
    /// Names that are there and something else: they are as they were.
    pub conflicts: Vec<DataConflict>,
    /// Copies that were not taken note of, because their endpoints are not described here.
    pub skipped_replicas: u64,
    /// Those endpoints.
    pub unknown_endpoints: Vec<String>,
}

/// A name that is there already and something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataConflict {
    /// The name.
    pub name: String,
    /// What is not the same.
    pub why: String,
}

/// A name of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Data {
    /// `scope:name`.
    pub name: String,
    /// What it stands for.
    pub kind: DataKind,
    /// Whose it is.
    pub account: String,
    /// When it was entered.
    pub created: String,
    /// When what it contains or what is said of it changed last.
    pub changed: String,
    /// The size of a file, the sum of a dataset's files; of a container, of all that is below it.
    pub bytes: u64,
    /// Files of a dataset, datasets and containers of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// The Adler-32 of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// The MD5 of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// Whether more can be added to a dataset or container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Nothing is taken out of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub monotonic: bool,
    /// It is removed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// What is said of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// The copies of a file, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
}

/// A page of names, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataList {
    /// The names.
    pub data: Vec<Data>,
    /// Where the next page begins (`?after_name=` of names, `?after=` of contents), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What changes of a name; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataChange {
    /// Whether more can be added. A dataset that was closed is opened again by an operator alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Words of its metadata; null takes one away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// It is removed then; an empty text for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Names, of what a dataset or container contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DataNames {
    /// The names, 1,000 at most.
    pub names: Vec<String>,
}

/// A copy of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// The endpoint.
    pub endpoint: String,
    /// `available`, `wanted` (a rule asks for it), `copying`, `bad` or `deleting`.
    pub state: String,
    /// Where it is, or will be.
    pub url: String,
    /// Its path below the directory of the endpoint, where that is not as the endpoint names files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Rules that hold it. One that none holds may be deleted.
    pub locks: u64,
    /// It may be deleted from then on, unless a rule comes to hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlocked: Option<String>,
    /// Copies that have failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u64,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A file and its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReplicas {
    /// `scope:name`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its Adler-32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// Its MD5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// Its copies.
    pub replicas: Vec<Replica>,
}

/// A page of files, of all that is below a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReplicasList {
    /// The files.
    pub files: Vec<FileReplicas>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A copy that is not what it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BadReplica {
    /// The endpoint.
    pub endpoint: String,
    /// What is wrong with it.
    pub why: String,
}

/// What goes with a name when it is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataRemoval {
    /// `scope:name`.
    pub name: String,
    /// Files that go: those that are in nothing else.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies of them.
    pub copies: u64,
    /// Files that stay, because something else contains them.
    pub kept_files: u64,
    /// Accounts whose rules of it end.
    pub accounts: Vec<String>,
}

/// A copy that may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removable {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Copies that would be deleted first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removables {
    /// Those that were used longest ago first.
    pub copies: Vec<Removable>,
}

/// Copies at an endpoint: of so many files, so many bytes are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAt {
    /// The endpoint.
    pub endpoint: String,
    /// Files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are wanted there, or on their way.
    pub coming_files: u64,
    /// Their bytes.
    pub coming_bytes: u64,
    /// All that the name has is there.
    pub complete: bool,
}

/// Where a name is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataWhere {
    /// `scope:name`.
    pub name: String,
    /// Files below it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The endpoints that have something of it.
    pub endpoints: Vec<DataAt>,
}

/// Files of a name that somebody has fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DataAccess {
    /// From which endpoint.
    pub endpoint: String,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was fetched of a name, or is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAccessed {
    /// `scope:name`.
    pub name: String,
    /// The day (UTC), `2026-12-24`; none where it is the sum of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// How often.
    pub count: u64,
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How often names were fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAccesses {
    /// By day, the newest first; or by name, those that were fetched most often first.
    pub accesses: Vec<DataAccessed>,
}

/// Something that happened to a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataEvent {
    /// Its number, larger than those of all before it.
    pub number: i64,
    /// When.
    pub at: String,
    /// `scope:name`.
    pub name: String,
    /// Who did it; `hub` where it happened by itself.
    pub account: String,
    /// `created`, `attached`, `detached`, `changed`, `rule`, `rule_changed`, `rule_ended`, `complete`, `ending`, `kept`, `replica_bad`,
    /// `replica_removed`, `removed`.
    pub kind: String,
    /// The facts.
    #[schema(value_type = Object)]
    pub facts: serde_json::Value,
}

/// What happened to a name, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataHistory {
    /// The events.
    pub events: Vec<DataEvent>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A scope, in which names are unlike one another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scope {
    /// Its name.
    pub scope: String,
    /// Who may enter and change names in it.
    pub account: String,
    /// When it was made.
    pub created: String,
}

/// The scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scopes {
    /// By name.
    pub scopes: Vec<Scope>,
}

/// Whose a scope is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeOrder {
    /// An account; whoever asks unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// Storage of an endpoint, for the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageUse {
    /// The endpoint.
    pub endpoint: String,
    /// Its site.
    pub site: String,
    /// Where its files are.
    pub url: String,
    /// How it names them: `identity` or `hash`.
    pub naming: String,
    /// What is said of it.
    pub attributes: BTreeMap<String, String>,
    /// Files of the catalogue that are there, or promised to be.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes that rules of whoever asks hold there.
    pub held_bytes: u64,
    /// What rules of whoever asks may still hold there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_left_bytes: Option<u64>,
}

/// Endpoints with storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageUses {
    /// By name.
    pub storage: Vec<StorageUse>,
}

/// What the rules of an account may hold at the endpoints of an expression, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Which endpoints.
    pub expression: String,
    /// So many bytes.
    pub bytes: u64,
}

/// The quotas of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// All of them; where none means an endpoint, nothing bounds the account there.
    pub quotas: Vec<Quota>,
}
