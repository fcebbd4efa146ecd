//! What the controller of an exercise and a hub exchange: the state of a run, for the board of the portal, and its outcome, for the watch.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a run, as its controller reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExerciseProgress {
    /// The title of the exercise.
    pub title: String,
    /// When the run began (RFC 3339, by the clock of the controller).
    pub began: String,
    /// What it does now: the name of a phase, or `preparing`.
    pub doing: String,
    /// Seconds since it began.
    pub seconds: f64,
    /// The flows of the present phase.
    pub flows: Vec<ExerciseFlowState>,
    /// What is missing: sites that were left out, clocks that are off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// How it ended, in a sentence; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// A flow of the present phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExerciseFlowState {
    /// Its name.
    pub name: String,
    /// The site that sends.
    pub from: String,
    /// The site that receives.
    pub to: String,
    /// The rate to sustain, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_bit_s: Option<f64>,
    /// The rate between its last two samples, bit/s; absent without a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<f64>,
    /// Whether it moves data now.
    pub is_active: bool,
    /// Why it is behind, as far as that is known: what it waits for, its error, or the limit of its last round.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What a hub answers to a report: whether the run shall stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExerciseStop {
    /// The member that stopped it; absent if it may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

/// A run on the board of a hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExerciseBoard {
    /// The id of the run.
    pub id: String,
    /// The member whose controller reports it.
    pub owner: String,
    /// When the last report came (RFC 3339, by the clock of the hub).
    pub reported: String,
    /// The member that stopped it; absent if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The last report.
    pub progress: ExerciseProgress,
}

/// The runs on the board of a hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExerciseBoards {
    /// The runs, the latest first.
    pub exercises: Vec<ExerciseBoard>,
}

/// The outcome of a run of an exercise that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExerciseOutcome {
    /// The name of the exercise: runs of the same name are compared.
    pub exercise: String,
    /// When the run began (RFC 3339).
    pub began: String,
    /// Its flows.
    pub flows: Vec<ExerciseFlowOutcome>,
}

/// The outcome of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExerciseFlowOutcome {
    /// Its name: flows of the same name are compared.
    pub name: String,
    /// The site that sends: the name of a place of the watch.
    pub from: String,
    /// The site that receives.
    pub to: String,
    /// The rate that it sustained, bit/s.
    pub sustained_bit_s: f64,
    /// The rate to sustain, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_bit_s: Option<f64>,
}
