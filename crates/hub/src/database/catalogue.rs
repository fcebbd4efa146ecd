//! The catalogue's tables: names and what they contain, replicas, rules and their locks.
//!
//! A change of several tables is one function within a transaction: when two hubs on one database make the same change, it is made once.
//! The invariants between the tables are in docs/design/catalogue.md, "Invariants".

mod accesses;
mod audits;
mod closure;
mod contents;
mod copies;
mod counts;
mod ended_rules;
mod ending;
mod entering;
mod evaluation;
mod history;
mod locks;
mod metadata;
mod names;
mod pending;
mod placing;
mod quotas;
mod removals;
mod replicas;
mod rule_rows;
mod rules;
mod scopes;
mod settling;
mod states;
mod stores;
mod subscriptions;
mod suspicions;
mod uncompared;
mod webhooks;
mod work;

pub use accesses::AccessCounts;
pub use audits::{AuditCounts, AuditRow, Finding};
pub use copies::{CopyBatch, CopyFile, CopySource};
pub use ending::RemovalPreview;
pub use entering::{EnteredNames, MergeResult, NewName};
pub use evaluation::EvaluationStep;
pub use history::HistoryEvent;
pub use metadata::MetadataChange;
pub use names::{DataRow, NameFilter};
pub use removals::Removal;
pub use replicas::{ExistingReplica, FileRow, ReplicaCounts, ReplicaRow};
pub use rule_rows::RuleRow;
pub use rules::{LockRow, NewRule, RuleFilter, RuleUpdate};
pub use states::{LockState, ReplicaState, grouping_code, grouping_of_code, kind_code, kind_of_code};
pub use stores::StoreUse;
pub use subscriptions::{MissingRules, SubscriptionRow, UncomparedName};
pub use suspicions::Suspicion;
pub use webhooks::WebhookRow;
pub use work::RuleJobs;

/// How long a replica stays after the last rule has released it, before it may be deleted: in this time a removed rule can be made again
/// without moving a byte.
pub const UNDO_MS: i64 = 24 * 3_600_000;
