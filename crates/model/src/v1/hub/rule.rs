//! Rules: how many replicas of a name there shall be, and at which endpoints.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::node::Problem;

/// Which files of a rule go to the same endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// All of them.
    All,
    /// The files of one dataset: each data product is complete at one endpoint.
    #[default]
    Dataset,
    /// Each file by itself.
    File,
}

/// A request to create a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleOrder {
    /// The id, chosen by the client: a UUID, best of version 7. The same order sent twice is one rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name whose replicas are wanted: `scope:name`.
    pub name: String,
    /// The number of replicas; default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// The expression that selects the endpoints: `region=eu&tier=1`.
    pub at: String,
    /// Which files go to the same endpoints.
    #[serde(default)]
    pub grouping: Grouping,
    /// An attribute whose number is the weight of an endpoint in the distribution of files; default: equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// When the rule ends and releases its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The priority, 1 to 5; default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The activity of the community.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The community; default: that of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// The account that will own the rule; default: the account of the client. Only operators make rules for other accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// An expression: files are copied only from these endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When the rule shall be fulfilled. It becomes the deadline of the jobs of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// A comment for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A change of a rule. Fields that are left out do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleChange {
    /// When the rule ends; an empty string for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The priority, 1 to 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// An expression: files are copied only from these endpoints; an empty string for any endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Suspends the rule (true: no new copies begin) or continues it (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// A comment for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// Replicas are being made.
    #[default]
    Replicating,
    /// All replicas exist.
    Ok,
    /// Some replicas cannot be made; `error` says why.
    Stuck,
    /// The rule is suspended.
    Suspended,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// The id of the rule.
    pub id: String,
    /// The name whose replicas are wanted: `scope:name`.
    pub name: String,
    /// The account that owns the rule.
    pub account: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// The priority, 1 to 5.
    pub priority: u8,
    /// The number of replicas.
    pub copies: u32,
    /// The expression that selects the endpoints.
    pub at: String,
    /// Which files go to the same endpoints.
    pub grouping: Grouping,
    /// The attribute whose number is the weight of an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// An expression: files are copied only from these endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When the rule was made.
    pub created: String,
    /// When the rule ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// When the rule shall be fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// When all replicas existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fulfilled: Option<String>,
    /// A comment for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The state of the rule.
    pub state: RuleState,
    /// Whether some files of the rule have not been evaluated yet.
    pub is_evaluating: bool,
    /// The number of replicas that exist.
    pub ok: u64,
    /// The number of replicas that are being made or wait to be made.
    pub replicating: u64,
    /// The number of replicas that could not be made.
    pub stuck: u64,
    /// The bytes of all replicas.
    pub bytes: u64,
    /// The bytes of the replicas that do not exist yet.
    pub bytes_left: u64,
    /// Why the rule is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of rules, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Where the next page begins (`?before=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// A lock: a rule's hold on a replica of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleLock {
    /// The file.
    pub name: String,
    /// The endpoint.
    pub endpoint: String,
    /// `ok`, `replicating` or `stuck`.
    pub state: String,
    /// The size of the file, bytes.
    pub bytes: u64,
    /// The number of failed attempts to make the replica.
    pub attempts: u64,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The earliest time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// Why a rule is not fulfilled yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleWhy {
    /// The rule.
    pub rule: Rule,
    /// The reason in one sentence.
    pub text: String,
    /// The ids of the jobs that make the replicas: `GET /api/v1/jobs/{id}/why` says more.
    pub jobs: Vec<String>,
    /// The current rate of these jobs, bit/s.
    pub rate_bit_s: u64,
    /// When the remaining replicas would exist at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The locks whose replicas do not exist yet, at most 100; failed ones come first.
    pub locks: Vec<RuleLock>,
}

/// A refusal of a rule that cannot be fulfilled, with what could be (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotPlaced {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// The number of replicas that could be placed.
    pub copies: u32,
    /// Endpoints that can take the data.
    pub able: Vec<String>,
    /// Endpoints that the expression selects but that have no room for the data.
    pub full: Vec<String>,
}
