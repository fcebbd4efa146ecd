//! The request for an audit of a node's host settings.

use serde::{Deserialize, Serialize};

/// The purpose of the host, by which its settings are judged. The answer is a line of JSON that names the host,
/// and a line for each finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The rate that transfers are to reach; none for that of its NICs.
    pub rate_bit_s: Option<u64>,
    /// The longest round trip.
    pub rtt_s: f64,
    /// `dtn`, `measurement` or `both`.
    pub role: String,
}
