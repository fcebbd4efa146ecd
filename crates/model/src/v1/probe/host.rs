//! The hosts of a test: software, processors, load.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host while a test ran on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Program and version.
    pub software: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Processors.
    pub processors: u32,
    /// Share of them that was busy, with everything.
    pub busy: f64,
    /// Share of them that the test itself used.
    pub own: f64,
    /// Share that a hypervisor gave to others.
    pub steal: f64,
    /// Share of the time for which a quota of its control group held the program back; 0 where it has none.
    #[serde(default)]
    pub held_back: f64,
    /// Congestion control of the host.
    pub congestion: String,
    /// Settings that matter to a test, as the kernel has them.
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
    /// The other end; none where it is no node.
    pub far: Option<Use>,
}
