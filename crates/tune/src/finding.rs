//! A finding of an audit: one rule on one subject, with its status.

use serde::Serialize;

use crate::rule::{Area, ChangeMethod, Confidence, Conflict, Nature, Persist, Severity};

/// The status of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As wanted.
    Ok,
    /// Not as wanted.
    Differs,
    /// It cannot be determined; `note` has the reason.
    Unknown,
    /// The rule does not apply to this host; `note` has the reason.
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
    /// The NIC or disk; none for the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The observed value; none where it could not be read.
    pub observed: Option<String>,
    /// The wanted value in words; none where it is not known.
    pub wanted: Option<String>,
    /// The unit of both, if they are numbers with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The value that it would be set to.
    #[serde(skip)]
    pub value: Option<String>,
    /// The status.
    pub status: Status,
    /// Why it is unknown or not applicable, or why a setting that differs is left to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The cost if it is wrong.
    pub severity: Severity,
    /// The reason for the rule.
    pub why: String,
    /// The source of the rule.
    pub source: String,
    /// How well the source supports it.
    pub confidence: Confidence,
    /// Where other recommendations differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// The exact command.
    pub command: String,
    /// How it survives a reboot.
    pub persist: Persist,
    /// Whether this program can change it here.
    pub writable: bool,
    /// How it is changed; by a person where undo could not restore the present value, whatever the rule says.
    #[serde(skip)]
    pub set: ChangeMethod,
    /// The nature of the value.
    #[serde(skip)]
    pub nature: Nature,
}
