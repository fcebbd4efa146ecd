//! Estimates of an order before it is submitted, and orders that are submitted regularly.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobOrder;

/// How long a job would take if it had its pairs of endpoints to itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// The bytes of the files whose size is known.
    pub bytes: u64,
    /// The number of files and folders whose size is not known.
    pub unsized_files: u64,
    /// The rate of the pair of endpoints that takes longest, bit/s; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<u64>,
    /// The time that the job would take, seconds; absent if sizes or rates are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Where the rate comes from: a capacity, the limit of the job, or the rate last seen.
    pub bound_by: String,
}

/// How often an order is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    /// Every day.
    #[default]
    Day,
    /// Every week, on the day of the first time.
    Week,
}

/// A request to repeat an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatOrder {
    /// The order that is submitted each time. It has no id and no deadline.
    pub order: JobOrder,
    /// How often.
    #[serde(default)]
    pub every: Every,
    /// The time of day, UTC: `02:30`.
    pub at: String,
}

/// An order that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repeat {
    /// The id of the repeat.
    pub id: String,
    /// The member who owns it.
    pub owner: String,
    /// The source of the first file.
    pub source: String,
    /// The target of the first file.
    pub target: String,
    /// The number of files.
    pub files: u64,
    /// How often.
    pub every: Every,
    /// The time of day, UTC.
    pub at: String,
    /// When the order is submitted next.
    pub next: String,
    /// The id of the last job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<String>,
    /// Why the last submission failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Orders that are repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repeats {
    /// The repeats, newest first.
    pub repeats: Vec<Repeat>,
}
