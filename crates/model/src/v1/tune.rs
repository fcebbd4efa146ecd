//! The request for an audit of a node's host settings.

use serde::{Deserialize, Serialize};

/// The purpose of the host, by which its settings are judged. The answer is a line of JSON that names the host,
/// and a line for each finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRequest {
    /// The rate that transfers are to reach, bit/s; without it, the rate of the host's NICs.
    pub rate_bit_s: Option<u64>,
    /// The longest round-trip time, seconds.
    pub rtt_s: f64,
    /// The purpose of the host: `dtn`, `measurement` or `both`.
    pub role: String,
}
