//! The JSON of the hosts and users that move most bytes through a node: `GET /api/v1/flows`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer. A principal that may not see the whole node gets only its own row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flows {
    /// Always 1.
    pub v: u32,
    /// The rows are about all users, not only about the principal.
    pub whole_node: bool,
    /// The last minute, the last hour, and since the node started, in this order.
    pub windows: Vec<Window>,
}

/// A span of time that ends now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// `minute`, `hour` or `start`.
    pub window: String,
    /// The exact length, seconds: up to 5 s more than a minute, up to 5 min more than an hour, less if the node has just started.
    pub seconds: f64,
    /// All traffic, counted exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Volume>,
    /// The part that went over IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Volume>,
    /// The part that went over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Volume>,
    /// Addresses that sent bytes, most bytes first.
    #[serde(default)]
    pub sources: Vec<Host>,
    /// Addresses that received bytes, most bytes first.
    #[serde(default)]
    pub targets: Vec<Host>,
    /// Users, most bytes first.
    #[serde(default)]
    pub users: Vec<User>,
}

/// The volume of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Bytes of files that came in.
    pub bytes_in: u64,
    /// Bytes of files that went out.
    pub bytes_out: u64,
    /// Files that came in.
    pub files_in: u64,
    /// Complete files that went out.
    pub files_out: u64,
    /// HTTP requests and native transfers.
    pub requests: u64,
}

impl Volume {
    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes_in.saturating_add(self.bytes_out)
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Volume) {
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.files_in = self.files_in.saturating_add(other.files_in);
        self.files_out = self.files_out.saturating_add(other.files_out);
        self.requests = self.requests.saturating_add(other.requests);
    }

    /// The difference to `before`, an earlier reading.
    pub fn since(&self, before: &Volume) -> Volume {
        Volume {
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
            files_in: self.files_in.saturating_sub(before.files_in),
            files_out: self.files_out.saturating_sub(before.files_out),
            requests: self.requests.saturating_sub(before.requests),
        }
    }
}

/// An address at the other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// The address.
    pub address: String,
    /// Bytes of files, in one direction.
    pub bytes: u64,
    /// The number of files.
    pub files: u64,
    /// The mean rate in the window, bit/s.
    pub rate_bit_s: u64,
    /// The most bytes that may be missing from `bytes`: see the bound in docs/metrics.md.
    pub missed_bytes_max: u64,
}

/// A user for whom bytes were moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// The name of the user, as in the audit log.
    pub user: String,
    /// The volume.
    #[serde(flatten)]
    pub volume: Volume,
    /// The mean rate in the window, both directions together, bit/s.
    pub rate_bit_s: u64,
    /// The most bytes that may be missing from the volume.
    pub missed_bytes_max: u64,
}
