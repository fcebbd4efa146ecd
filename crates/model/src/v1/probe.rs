//! The public JSON of tests. Rates are bit/s, sizes bytes, times seconds.

pub mod disk;
pub mod host;
pub mod latency;
pub mod route;
pub mod tcp;
pub mod udp;

use serde::{Deserialize, Serialize};

/// A test that a node is asked to run the far half of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The number of the test's first stream in its session; the others follow.
    pub first_stream: u32,
    /// The test.
    pub test: Test,
}

/// Tests with two ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// TCP.
    Tcp(tcp::Order),
}
