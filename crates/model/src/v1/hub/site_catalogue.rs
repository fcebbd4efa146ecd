//! The catalogue of sites: questions, answers, findings, the confirmation round, statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A question that sites are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteQuestion {
    /// The name of the answer.
    pub name: String,
    /// The question.
    pub text: String,
    /// What helps to answer it; may be empty.
    pub hint: String,
    /// `number`, `year`, `yes_no`, `choice` or `text`.
    pub kind: String,
    /// The unit of a number; empty for others.
    pub unit: String,
    /// The words of a choice.
    pub choices: Vec<String>,
    /// Whether a record without an answer is incomplete.
    pub required: bool,
}

/// All questions, in the order of the form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteQuestions {
    /// The questions.
    pub questions: Vec<SiteQuestion>,
}

/// The answers of a site, as texts: `29.5`, `yes`, `raid6`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteAnswers {
    /// By the names of the questions. An answer that is missing or empty is taken back.
    pub answers: BTreeMap<String, String>,
}

/// The record of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteRecord {
    /// Its name.
    pub site: String,
    /// By the names of the questions.
    pub answers: BTreeMap<String, String>,
    /// Who wrote it last.
    pub owner: String,
    /// When it was written last (RFC 3339).
    pub changed: String,
    /// `asked`, `opened`, `corrected`, `confirmed` or `overdue`.
    pub state: String,
    /// What is missing, contradicts itself or is contradicted by a measurement.
    pub findings: Vec<SiteFinding>,
}

/// A finding about an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteFinding {
    /// The question, by its name.
    pub question: String,
    /// Whether the record cannot be used as it is; otherwise somebody should look at it.
    pub is_error: bool,
    /// What is wrong, and what to do.
    pub text: String,
}

/// A confirmation round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteRound {
    /// The last day on which sites can answer: `2027-01-31`.
    pub deadline: String,
    /// Where reminders are posted: `https://…`; without it, nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
}

/// The catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteCatalogue {
    /// The records, by name.
    pub sites: Vec<SiteRecord>,
    /// The last round; none if there was none.
    pub round: Option<SiteRound>,
    /// The reports of all sites together.
    pub statistics: SiteStatistics,
}

/// Counts and bounds over the records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteStatistics {
    /// Records.
    pub sites: usize,
    /// The least disk space, PB.
    pub disk_least_pb: Option<f64>,
    /// The most disk space, PB.
    pub disk_most_pb: Option<f64>,
    /// Disk space of all sites, PB.
    pub disk_sum_pb: f64,
    /// Sites by the protection of their disks.
    pub raid: BTreeMap<String, usize>,
    /// Sites that write faster than 10 Gbit/s.
    pub writes_beyond_10g: usize,
    /// Sites with a link of 10 Gbit/s or more.
    pub link_10g: usize,
    /// Sites with a link of 100 Gbit/s or more.
    pub link_100g: usize,
    /// Sites whose link can be raised to 100 Gbit/s.
    pub can_100g: usize,
    /// Sites that have or plan a data transfer node.
    pub dtn: usize,
    /// Sites with a science DMZ.
    pub dmz: usize,
    /// Sites with a firewall.
    pub firewall: usize,
}
