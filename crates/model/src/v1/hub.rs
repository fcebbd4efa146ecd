//! Requests and responses of a hub's API (`/api/v1`): jobs of a collaboration, why their files wait, and the collaboration itself.
//!
//! A field here is a promise to programs, as everywhere in `v1`. Requests refuse unknown fields; responses may
//! have more fields in a later version. Times are RFC 3339, rates bits per second, sizes bytes.

mod audit;
mod catalogue;
mod collaboration;
mod folder;
mod plan;
mod portal;
mod queue;
mod repeat;
mod rule;
mod session;
mod site_catalogue;
mod subscription;
mod webhook;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Limit, Stage};
use crate::id::Uuid;

pub use audit::{Audit, AuditFinding, AuditFindings, AuditOrder, AuditState, Audits, ListedFile};
pub use catalogue::{
    BadReplica, Data, DataAccess, DataAccessed, DataAccesses, DataAt, DataChange, DataConflict, DataEvent, DataHistory,
    DataKind, DataList, DataMerged, DataNames, DataRemoval, DataWhere, FileReplicas, FileReplicasList, Metadata,
    NewData, NewDataList, NewReplica, Quota, Quotas, Removable, Removables, Replica, Scope, ScopeOrder, Scopes,
    StorageUse, StorageUses,
};
pub use collaboration::{
    Activity, Collaboration, Community, Endpoint, EndpointKind, EndpointLimits, Link, LinkMark, Role, Route, Site,
    Stopped, Storage,
};
pub use folder::{Download, FileUrl, Folder, FolderEntry};
pub use plan::{AddedEndpoint, Campaign, PlanTwin, WhatIf, WhatIfAnswer};
pub use portal::{
    Deletion, Deletions, HubAction, HubActions, RenameOrder, ShareKind, ShareLink, ShareLinkOrder, ShareLinks, Shared,
    SharedQuery,
};
pub use queue::{Constraint, ConstraintKind, NotPromised, Offer, QueueLine, Queues, ResourceLine, Shares, Why};
pub use repeat::{Estimate, Every, Repeat, RepeatOrder, Repeats};
pub use rule::{Grouping, NotPlaced, Rule, RuleChange, RuleLock, RuleOrder, RuleState, RuleWhy, Rules};
pub use session::{SignInProvider, SignInProviders, WhoAmI};
pub use site_catalogue::{
    SiteAnswers, SiteCatalogue, SiteFinding, SiteQuestion, SiteQuestions, SiteRecord, SiteRound, SiteStatistics,
};
pub use subscription::{DataFilter, RuleTemplate, Subscription, SubscriptionOrder, Subscriptions};
pub use webhook::{Webhook, WebhookOrder, Webhooks};

/// An order for a job: files, each from one of its sources to its target.
///
/// The client chooses the id. The same order sent twice is one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOrder {
    /// The id, chosen by the client: a UUID, best of version 7. Without an id, every order is a new job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub id: Option<Uuid>,
    /// The files.
    pub files: Vec<FileOrder>,
    /// The community; default: that of the member who submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// The activity of the community; default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The priority, 1 to 5; default: 3. Each has twice the weight of the next lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// When all files shall be at their targets. The hub promises this time, or refuses the order and says what it could promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The highest rate of the whole job, bit/s; 0 or absent: no limit but those of the links. It cannot be combined with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// How the files are transferred.
    #[serde(default)]
    pub options: JobOptions,
    /// The URL (`https://…`) to which the hub posts the job as JSON when it has ended. A failed post is repeated a few times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// Metadata that the hub returns with the job; at most 4 KiB.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// A file of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOrder {
    /// The sources, each with the same bytes: `lh://HOST/EXPORT/PATH`, `https://…`, `davs://…` or `s3://BUCKET/KEY`.
    pub sources: Vec<String>,
    /// The target.
    pub target: String,
    /// The size in bytes, if it is known. Shares and deadlines are computed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The digest that the file must have at its target, `ALGORITHM:VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Metadata that the hub returns with the file; at most 4 KiB.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// How the files of a job are transferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobOptions {
    /// Sources may be directories; they are copied with all their entries.
    pub recursive: bool,
    /// An existing target that differs is replaced; otherwise the file fails.
    pub overwrite: bool,
    /// With `multihop`: existing files at intermediate targets are replaced. The last target follows `overwrite`.
    pub overwrite_hops: bool,
    /// The number of further attempts of a file after a temporary failure; default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The longest time that a file may wait in the queue, seconds. After it, its transfer is not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_for_s: Option<u64>,
    /// The sources of a file are tried in the order of the list; otherwise the source that is expected to be fastest is tried first.
    pub in_order: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// The files of the job are hops: the source of each is the target of the one before it.
    pub multihop: bool,
    /// The flow label of the packets (SciTags), 65 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}

/// A job and its progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// The id of the job.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The state of the job.
    pub state: Stage,
    /// The member who submitted it.
    pub owner: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// The priority, 1 to 5.
    pub priority: u8,
    /// The job is paused: no more of its files begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The highest rate of the job, bit/s; absent if it has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// When it was submitted.
    pub submitted: String,
    /// When its first file began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When its last file ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The deadline that the hub has promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The number of files.
    pub files: u64,
    /// The number of files that wait.
    pub queued: u64,
    /// The number of files that are being transferred.
    pub running: u64,
    /// The number of files that are at their targets, verified.
    pub done: u64,
    /// The number of files that failed.
    pub failed: u64,
    /// The number of files that were cancelled.
    pub cancelled: u64,
    /// The bytes of all files whose size is known.
    pub bytes: u64,
    /// Bytes of the files that are done.
    pub done_bytes: u64,
    /// The limit of the job's last transfer that took more than a few seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// The metadata of the order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// A transfer that carries files of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobTransfer {
    /// The id of the transfer at its node; a file refers to it in `transfer`.
    pub id: String,
    /// The endpoint that carries the transfer.
    pub carrier: String,
    /// The number of its files, of this and other jobs.
    pub files: u64,
    /// The bytes of the files whose size is known.
    pub bytes: u64,
    /// Bytes that have arrived; absent if another hub has ordered the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_bytes: Option<u64>,
    /// The current rate, bit/s.
    pub rate_bit_s: u64,
    /// When the transfer was ordered.
    pub created: String,
}

/// The transfers that carry files of a job now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobTransfers {
    /// The transfers, newest first.
    pub transfers: Vec<JobTransfer>,
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins (`?before=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A file of a job and its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// The number of the file, unique in the hub.
    pub number: i64,
    /// The index of the file in the job. A file with several sources has an entry for each of them, with the same index.
    pub index: i64,
    /// `queued`, `running`, `standby` (waits until another source fails or the previous hop is done), `done`, `failed` or `cancelled`.
    pub state: String,
    /// The source.
    pub source: String,
    /// The target.
    pub target: String,
    /// The size in bytes; 0 if it is unknown.
    pub bytes: u64,
    /// The digest that the file must have at its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The number of attempts so far.
    pub attempts: u64,
    /// When the last attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When the last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The earliest time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Whose fault the failure of the last attempt was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The id of the transfer that carries the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// The metadata of the order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// A page of files, in the order of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Files {
    /// The files.
    pub files: Vec<File>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A change of a job that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobChange {
    /// The new priority of the files that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Cancels the job; data that has arrived stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// Pauses the job (true) or continues it (false). Running transfers go on to their end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The new highest rate of the job, bit/s; 0 removes the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
}

/// An event of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    /// The time of the event.
    pub at: String,
    /// The id of the job.
    pub job: String,
    /// `submitted`, `progress`, `ended` or `changed`.
    pub kind: String,
    /// Facts of the event; they depend on `kind`.
    #[schema(value_type = Object)]
    pub facts: serde_json::Value,
}
