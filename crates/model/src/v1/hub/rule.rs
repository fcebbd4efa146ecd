//! Rules: how many copies of a name shall be where.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::node::Problem;

/// Which files of a rule go to the same endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// All of them.
    All,
    /// Those of a dataset: a data product is at one site whole.
    #[default]
    Dataset,
    /// Each file by itself.
    File,
}

/// A rule that is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleOrder {
    /// Chosen by whoever orders, best a UUID of version 7: the same order twice is one rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of what: `scope:name`.
    pub name: String,
    /// How many copies; 1 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// At which endpoints: `region=eu&tier=1`.
    pub at: String,
    /// Which files go to the same endpoints.
    #[serde(default)]
    pub grouping: Grouping,
    /// An attribute whose number is the part that an endpoint is to have, beside the others; equal parts unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// It ends then, and holds nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// 1 to 5; 3 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// For which activity of the community.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// For which community; the owner's unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// For which account; whoever asks unless said. Only operators make rules for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Copies are read from these endpoints alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// By when it is to be fulfilled; asked of the queue as the deadline of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// What changes of a rule; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleChange {
    /// It ends then; an empty text for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// 1 to 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Of which activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Copies are read from these endpoints alone; an empty text for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Nothing new is copied for it, or it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// How far a rule is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// Copies are made.
    #[default]
    Replicating,
    /// All copies are there.
    Ok,
    /// Some copies cannot be made, for a reason that is told.
    Stuck,
    /// Somebody has suspended it.
    Suspended,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// Its id.
    pub id: String,
    /// Of what: `scope:name`.
    pub name: String,
    /// Whose it is.
    pub account: String,
    /// For which community.
    pub community: String,
    /// For which activity.
    pub activity: String,
    /// 1 to 5.
    pub priority: u8,
    /// How many copies.
    pub copies: u32,
    /// At which endpoints.
    pub at: String,
    /// Which files go to the same endpoints.
    pub grouping: Grouping,
    /// An attribute that says how large a part of it an endpoint is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// Copies are read from these endpoints alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When it was made.
    pub created: String,
    /// It ends then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// By when it is to be fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// When all of it was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fulfilled: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How far it is.
    pub state: RuleState,
    /// Files of it that have not been looked at yet.
    pub is_evaluating: bool,
    /// Copies that are there.
    pub ok: u64,
    /// Copies that are made, or wait for it.
    pub replicating: u64,
    /// Copies that could not be made.
    pub stuck: u64,
    /// Bytes of all copies.
    pub bytes: u64,
    /// Bytes of those that are not there.
    pub bytes_left: u64,
    /// Why it cannot go on.
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

/// A rule's hold on a copy of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleLock {
    /// The file.
    pub name: String,
    /// The endpoint.
    pub endpoint: String,
    /// `ok`, `replicating` or `stuck`.
    pub state: String,
    /// Its size.
    pub bytes: u64,
    /// Copies that have failed.
    pub attempts: u64,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// What a rule waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleWhy {
    /// The rule.
    pub rule: Rule,
    /// One sentence.
    pub text: String,
    /// Jobs of the queue that make copies for it: `GET /api/v1/jobs/{id}/why` says more.
    pub jobs: Vec<String>,
    /// What it moves now, bit/s.
    pub rate_bit_s: u64,
    /// When the rest would be there at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Copies that are not there, 100 at most; those that failed come first.
    pub locks: Vec<RuleLock>,
}

/// A rule that cannot be fulfilled, and what could be (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotPlaced {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// Copies that could be placed.
    pub copies: u32,
    /// Endpoints that can take it.
    pub able: Vec<String>,
    /// Endpoints that the expression means and that have no room for it.
    pub full: Vec<String>,
}
