//! The hosts of a test: software, processors, load.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host while a test ran on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Program and version.
    pub software: String,
    /// The release of the kernel.
    pub kernel: String,
    /// The number of processors.
    pub processors: u32,
    /// The share of the processors that was busy, with the work of all programs, from 0 to 1.
    pub busy: f64,
    /// The share of the processors that the test itself used.
    pub own: f64,
    /// The share of the processors that the hypervisor gave to other machines.
    pub steal: f64,
    /// The share of time in which the processor quota of the control group stopped the program; 0 without a quota.
    #[serde(default)]
    pub held_back: f64,
    /// Congestion control of the host.
    pub congestion: String,
    /// The kernel's settings that affect a test.
    pub settings: BTreeMap<String, String>,
}

impl Use {
    /// Share of the processors that others used.
    pub fn others(&self) -> f64 {
        (self.busy - self.own).max(0.0)
    }
}

/// Both hosts of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// Where the command runs.
    pub near: Use,
    /// The other end; absent if it is not a node.
    pub far: Option<Use>,
}
