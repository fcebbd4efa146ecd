//! The catalogue: names of data, their replicas, and the rules that say where replicas shall be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Metadata: keys and their values.
pub type Metadata = BTreeMap<String, serde_json::Value>;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// A file: it has a size, checksums, replicas.
    #[default]
    File,
    /// Files that are managed together.
    Dataset,
    /// Datasets and containers that are managed together.
    Container,
}

/// A name to be entered into the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewData {
    /// `scope:name`.
    pub name: String,
    /// What the name stands for; default: a file.
    #[serde(default)]
    pub kind: DataKind,
    /// The size of a file, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The Adler-32 of a file, 8 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// The MD5 of a file, 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// The metadata; at most 4 KiB.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// Entries can be added to the dataset or container, but not removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub monotonic: bool,
    /// When the name is removed, with its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Of a file: its replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<NewReplica>,
}

/// An existing replica of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReplica {
    /// The endpoint.
    pub endpoint: String,
    /// The path relative to the storage directory of the endpoint, if it differs from the endpoint's naming of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Names to be entered into the catalogue: either all of them are entered or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDataList {
    /// The names, at most 1,000. A file that exists already counts as the same file if its size and checksums are equal.
    pub data: Vec<NewData>,
    /// The dataset or container to which the names are attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// The result of a merge of names into the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataMerged {
    /// The number of new names.
    pub new: u64,
    /// The number of names that existed already and are equal.
    pub known: u64,
    /// Names that exist already and differ. They were not changed.
    pub conflicts: Vec<DataConflict>,
    /// Replicas that were left out because the hub does not know their endpoints.
    pub skipped_replicas: u64,
    /// The endpoints that the hub does not know.
    pub unknown_endpoints: Vec<String>,
}

/// A name that exists already and differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataConflict {
    /// The name.
    pub name: String,
    /// What differs.
    pub why: String,
}

/// A name of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Data {
    /// `scope:name`.
    pub name: String,
    /// What the name stands for.
    pub kind: DataKind,
    /// The account that owns the name.
    pub account: String,
    /// When the name was entered.
    pub created: String,
    /// When its contents or its metadata changed last.
    pub changed: String,
    /// The size in bytes: of a file, of all files of a dataset, or of all files below a container.
    pub bytes: u64,
    /// The number of files of a dataset, or of datasets and containers of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// The Adler-32 of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// The MD5 of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// Whether entries can be added to the dataset or container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Entries cannot be removed from the dataset or container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub monotonic: bool,
    /// When the name is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// The replicas of a file, if the request asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
}

/// A page of names, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataList {
    /// The names.
    pub data: Vec<Data>,
    /// Where the next page begins (`?after_name=` of names, `?after=` of contents), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A change of a name. Fields that are left out do not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataChange {
    /// Whether entries can be added. Only an operator can open a closed dataset again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Metadata to set; a key with the value null is removed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// When the name is removed; an empty string for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Names to attach to a dataset or container, or to detach from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DataNames {
    /// The names, at most 1,000.
    pub names: Vec<String>,
}

/// A replica of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// The endpoint.
    pub endpoint: String,
    /// `available`, `wanted` (a rule asks for it), `copying`, `bad` or `deleting`.
    pub state: String,
    /// The URL where the replica is, or will be.
    pub url: String,
    /// The path relative to the storage directory of the endpoint, if it differs from the endpoint's naming of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The number of rules that hold the replica. A replica without a lock may be deleted.
    pub locks: u64,
    /// From when on the replica may be deleted, unless a rule locks it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlocked: Option<String>,
    /// The number of failed attempts to make the replica.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u64,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A file and its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReplicas {
    /// `scope:name`.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The Adler-32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adler32: Option<String>,
    /// The MD5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// The replicas.
    pub replicas: Vec<Replica>,
}

/// A page of the files below a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReplicasList {
    /// The files.
    pub files: Vec<FileReplicas>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A report of a bad replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BadReplica {
    /// The endpoint.
    pub endpoint: String,
    /// What is wrong with it.
    pub why: String,
}

/// What is removed together with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataRemoval {
    /// `scope:name`.
    pub name: String,
    /// Files that are removed: those that no other dataset contains.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The number of their replicas.
    pub copies: u64,
    /// Files that stay, because another dataset contains them.
    pub kept_files: u64,
    /// Accounts whose rules on the name end.
    pub accounts: Vec<String>,
}

/// A replica that may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removable {
    /// The file.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// The replicas that the hub would delete first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removables {
    /// The replicas, the least recently used first.
    pub copies: Vec<Removable>,
}

/// The replicas of a name at one endpoint: number of files and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAt {
    /// The endpoint.
    pub endpoint: String,
    /// The number of files with a replica at the endpoint.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The number of files whose replicas at the endpoint are wanted or being copied.
    pub coming_files: u64,
    /// The bytes of these files.
    pub coming_bytes: u64,
    /// All files of the name are at the endpoint.
    pub complete: bool,
}

/// The endpoints that have replicas of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataWhere {
    /// `scope:name`.
    pub name: String,
    /// The number of files below the name.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The endpoints that have replicas of its files.
    pub endpoints: Vec<DataAt>,
}

/// A report that files of a name were read at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DataAccess {
    /// The endpoint.
    pub endpoint: String,
    /// The number of files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// How often a name was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAccessed {
    /// `scope:name`.
    pub name: String,
    /// The day (UTC), `2026-12-24`; absent in a sum of several days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The number of reads.
    pub count: u64,
    /// The number of files read.
    pub files: u64,
    /// The bytes read.
    pub bytes: u64,
}

/// How often names were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataAccesses {
    /// By day, newest first; or by name, most often read first.
    pub accesses: Vec<DataAccessed>,
}

/// An event of a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataEvent {
    /// The number of the event; later events have larger numbers.
    pub number: i64,
    /// The time of the event.
    pub at: String,
    /// `scope:name`.
    pub name: String,
    /// The account that caused the event; `hub` for events that the hub itself caused.
    pub account: String,
    /// `created`, `attached`, `detached`, `changed`, `rule`, `rule_changed`, `rule_ended`, `complete`, `ending`, `kept`, `replica_bad`,
    /// `replica_removed`, `removed`.
    pub kind: String,
    /// Facts of the event; they depend on `kind`.
    #[schema(value_type = Object)]
    pub facts: serde_json::Value,
}

/// The events of a name, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataHistory {
    /// The events.
    pub events: Vec<DataEvent>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A scope: a namespace in which names are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scope {
    /// Its name.
    pub scope: String,
    /// The account that may enter and change names in the scope.
    pub account: String,
    /// When the scope was created.
    pub created: String,
}

/// The scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scopes {
    /// The scopes, sorted by name.
    pub scopes: Vec<Scope>,
}

/// A request to create a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeOrder {
    /// The account that will own the scope; default: the account of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// Storage of an endpoint, as the catalogue uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageUse {
    /// The endpoint.
    pub endpoint: String,
    /// Its site.
    pub site: String,
    /// The URL of the storage directory.
    pub url: String,
    /// How files are named below it: `identity` or `hash`.
    pub naming: String,
    /// The attributes that expressions use.
    pub attributes: BTreeMap<String, String>,
    /// The number of files of the catalogue that are stored there or will be.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The capacity, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes at the endpoint that are held by rules of the client's account.
    pub held_bytes: u64,
    /// Bytes that rules of the client's account may still hold at the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_left_bytes: Option<u64>,
}

/// Endpoints with storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageUses {
    /// The endpoints, sorted by name.
    pub storage: Vec<StorageUse>,
}

/// The most bytes that the rules of an account may hold at all endpoints of an expression together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The expression that selects the endpoints.
    pub expression: String,
    /// The quota, bytes.
    pub bytes: u64,
}

/// The quotas of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// All quotas of the account. At an endpoint that no quota selects, the account has no quota.
    pub quotas: Vec<Quota>,
}
