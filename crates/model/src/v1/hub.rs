//! Requests and responses of a hub's API (`/api/v1`): jobs of a collaboration, why their files wait, and what the collaboration consists of.
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

/// A job to be done: files, each from one of its sources to its target.
///
/// The client chooses the id. The same order sent twice is one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOrder {
    /// Chosen by whoever submits, best a UUID of version 7; without one, every order is a new job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub id: Option<Uuid>,
    /// The files.
    pub files: Vec<FileOrder>,
    /// For which community; the submitter's own unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// For which of its activities; `default` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// 1 to 5; 3 unless said. Each has twice the weight of the one below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// By when all of it is to be there. It is promised, or refused with what could be promised instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// What all of it may use at most; 0 or nothing: what the links give. It does not go with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// How its files are transferred.
    #[serde(default)]
    pub options: JobOptions,
    /// The job is posted here as JSON when it has ended, a few times if that is not taken: `https://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// Told again with the job; 4 KiB at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// A file of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOrder {
    /// Where its bytes are: any of these. `lh://HOST/EXPORT/PATH`, `https://…`, `davs://…` or `s3://BUCKET/KEY`.
    pub sources: Vec<String>,
    /// Where they go.
    pub target: String,
    /// Its size, where it is known: what is queued is shared and promised by bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `ALGORITHM:VALUE`: what arrives must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Told again with the file; 4 KiB at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// How the files of a job are transferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobOptions {
    /// Sources may be directories, and are copied with all that is in them.
    pub recursive: bool,
    /// An existing target that differs is replaced; otherwise the file fails.
    pub overwrite: bool,
    /// Of hops: what is there already where one ends is replaced, but for the last.
    pub overwrite_hops: bool,
    /// Attempts of a file after the first that may fail for reasons that pass; 3 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Files that have waited for so long, in seconds, are not begun any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_for_s: Option<u64>,
    /// Sources of a file are tried in the order in which they are named; otherwise the one by which it is expected first is tried first.
    pub in_order: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// Its files are hops: each is read where the one before it was written.
    pub multihop: bool,
    /// The flow label of its packets (SciTags), 65 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
}

/// A job as whoever may see it sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// What it is doing, or what became of it.
    pub state: Stage,
    /// Who submitted it.
    pub owner: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// 1 to 5.
    pub priority: u8,
    /// Somebody has paused it: nothing more begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What it may use at most; none where nobody has limited it.
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
    /// By when it is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How many files it has.
    pub files: u64,
    /// Of them, those that wait.
    pub queued: u64,
    /// Those that move.
    pub running: u64,
    /// Those at their targets, verified.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Bytes of all its files, as far as sizes are known.
    pub bytes: u64,
    /// Bytes of the files that are done.
    pub done_bytes: u64,
    /// What held its last transfer back that took more than some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// What the client wanted to be told again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// A transfer that carries files of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobTransfer {
    /// Its id at the node: `files` name it.
    pub id: String,
    /// The endpoint that carries it.
    pub carrier: String,
    /// How many files it has, of this and other jobs.
    pub files: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Bytes that have arrived; none where another hub has it carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_bytes: Option<u64>,
    /// How fast it moves.
    pub rate_bit_s: u64,
    /// Since when.
    pub created: String,
}

/// The transfers that carry files of a job now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobTransfers {
    /// The newest first.
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

/// A file of a job, and how it fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Its number, unlike that of any other file of the hub.
    pub number: i64,
    /// Which file of the job; sources of one file have one index, and a line each.
    pub index: i64,
    /// `queued`, `running`, `standby` (until another source has failed, or the hop before is done), `done`, `failed` or `cancelled`.
    pub state: String,
    /// Where its bytes come from.
    pub source: String,
    /// Where they go.
    pub target: String,
    /// Its size; 0 where nobody knows.
    pub bytes: u64,
    /// What must arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Attempts so far.
    pub attempts: u64,
    /// When its last attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// It is not tried again before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Whose fault it was that the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The id of the transfer that carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// What the client wanted to be told again.
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
    /// The new priority, of the files that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// End it; what has arrived stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// Begin nothing more of it, or go on. What moves arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// What it may use at most from here on; 0 ends its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
}

/// What happened to a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    /// When.
    pub at: String,
    /// The job.
    pub job: String,
    /// `submitted`, `progress`, `ended` or `changed`.
    pub kind: String,
    /// The facts.
    #[schema(value_type = Object)]
    pub facts: serde_json::Value,
}
