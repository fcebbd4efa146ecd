//! What-if questions to a hub, and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::plan::PlanSimulation;

/// A collaboration as its hub knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanTwin {
    /// The text of a scenario for `longhaul plan` (TOML).
    pub scenario: String,
}

/// A change of the collaboration that is to be simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WhatIf {
    /// Links that are taken out of service.
    pub cut: Vec<String>,
    /// Links with another high-water mark, a part from 0 to 1.
    pub marks: BTreeMap<String, f64>,
    /// Links with another capacity, bit/s.
    pub capacities_bit_s: BTreeMap<String, u64>,
    /// Endpoints that are added.
    pub add: Vec<AddedEndpoint>,
    /// Data that are to move besides what waits today.
    pub campaigns: Vec<Campaign>,
}

/// An endpoint that is added to the collaboration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AddedEndpoint {
    /// Its name.
    pub name: String,
    /// The endpoint whose limits and routes it has.
    pub like: String,
}

/// Data that are to move between two endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Campaign {
    /// The endpoint that has the data.
    pub source: String,
    /// The endpoint that gets them.
    pub target: String,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Seconds until all are to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

/// What happens today, and what would happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfAnswer {
    /// The simulation of the collaboration and its queue as they are.
    pub today: PlanSimulation,
    /// With the change.
    pub changed: PlanSimulation,
}
