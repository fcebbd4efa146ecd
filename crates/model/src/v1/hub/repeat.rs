//! Estimates of an order before it is submitted, and orders that are submitted regularly.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobOrder;

/// How long a job would take if it had its pairs of endpoints to itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// Bytes, as far as they are known.
    pub bytes: u64,
    /// Files and folders of which nobody has said how large they are.
    pub unsized_files: u64,
    /// The rate of the pair of endpoints that takes longest; none where nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<u64>,
    /// How long it would take; none where sizes or rates are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What the rate is taken from.
    pub bound_by: String,
}

/// How often something is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    /// Every day.
    #[default]
    Day,
    /// Every week, on the day of the first time.
    Week,
}

/// An order that is to be repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatOrder {
    /// What is submitted each time; without an id and a deadline.
    pub order: JobOrder,
    /// How often.
    #[serde(default)]
    pub every: Every,
    /// At which time of the day, UTC: `02:30`.
    pub at: String,
}

/// An order that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repeat {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub owner: String,
    /// Where its first file comes from.
    pub source: String,
    /// Where that goes.
    pub target: String,
    /// How many files it has.
    pub files: u64,
    /// How often.
    pub every: Every,
    /// At which time of the day, UTC.
    pub at: String,
    /// When it is due next.
    pub next: String,
    /// The job of the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<String>,
    /// Why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Orders that are repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repeats {
    /// The latest first.
    pub repeats: Vec<Repeat>,
}
