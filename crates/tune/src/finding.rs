//! What an audit finds: one rule on one subject, and how it stands.

use serde::Serialize;

use crate::rule::{Area, Confidence, Conflict, Means, Nature, Persist, Severity};

/// How a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As wanted.
    Ok,
    /// Not as wanted.
    Differs,
    /// Nobody can say; `note` has the reason.
    Unknown,
    /// Not for this host; `note` has the reason.
    NotApplicable,
}

/// One rule on one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its area.
    pub area: Area,
    /// The NIC or disk; none where it is of the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is there; none where it could not be read.
    pub observed: Option<String>,
    /// What should be, in words; none where that is not known.
    pub wanted: Option<String>,
    /// The unit of both, where they are numbers that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What it would be set to.
    #[serde(skip)]
    pub value: Option<String>,
    /// How it stands.
    pub status: Status,
    /// Why it is unknown or not applicable, or why what differs is left to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What it costs.
    pub severity: Severity,
    /// Why.
    pub why: String,
    /// Who says so.
    pub source: String,
    /// How that is known.
    pub confidence: Confidence,
    /// Where the field disagrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// The exact command.
    pub command: String,
    /// How it survives a reboot.
    pub persist: Persist,
    /// Whether this program can change it here.
    pub writable: bool,
    /// By what; by a person where undo could not bring back what is there, whatever the rule says.
    #[serde(skip)]
    pub set: Means,
    /// What kind of value it is.
    #[serde(skip)]
    pub nature: Nature,
}
