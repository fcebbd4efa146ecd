//! The hosts and users that move most bytes through a node, in public JSON: `GET /api/v1/flows`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer. Who may not see the whole node gets a row about himself, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flows {
    /// Always 1.
    pub v: u32,
    /// Rows are about everybody, not about who asks alone.
    pub whole_node: bool,
    /// The last minute, the last hour, and since the node started, in this order.
    pub windows: Vec<Window>,
}

/// A span of time that ends now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// `minute`, `hour` or `start`.
    pub window: String,
    /// How long it really is: a minute and up to five seconds, an hour and up to five minutes, less where the node is younger.
    pub seconds: f64,
    /// Everything, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Volume>,
    /// Of it, what went over IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Volume>,
    /// Of it, what went over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Volume>,
    /// Addresses that bytes came from, most first.
    #[serde(default)]
    pub sources: Vec<Host>,
    /// Addresses that bytes went to, most first.
    #[serde(default)]
    pub targets: Vec<Host>,
    /// On whose behalf, most first.
    #[serde(default)]
    pub users: Vec<User>,
}

/// How much moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Bytes of files that came in.
    pub bytes_in: u64,
    /// Bytes of files that went out.
    pub bytes_out: u64,
    /// Files that came in.
    pub files_in: u64,
    /// Files that went out, whole.
    pub files_out: u64,
    /// Requests of HTTP, and jobs.
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
    /// Files.
    pub files: u64,
    /// The mean of the window.
    pub rate_bit_s: u64,
    /// At most so many bytes more than `bytes` were moved: see the bound in docs/metrics.md.
    pub missed_bytes_max: u64,
}

/// Somebody on whose behalf bytes moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// As the audit trail has them.
    pub user: String,
    /// How much.
    #[serde(flatten)]
    pub volume: Volume,
    /// The mean of the window, both directions together.
    pub rate_bit_s: u64,
    /// At most so many bytes more were moved.
    pub missed_bytes_max: u64,
}
