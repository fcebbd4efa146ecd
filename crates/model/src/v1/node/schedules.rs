//! Tests that a node repeats by itself, and what they found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ProbeKey, ProbeTest};
use crate::id::Uuid;

/// A test that a node repeats until the schedule is removed. A schedule outlasts restarts of the node.
///
/// The client chooses the id. The same schedule sent twice is one schedule. The comparison ignores the key; the newer key is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The id, chosen by the client.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The other end: a node (`lh://HOST[:PORT]`), or a responder (`stamp://HOST[:PORT]`, `twamp://HOST[:PORT]`, `ping://HOST`,
    /// `iperf3://HOST[:PORT]`).
    pub target: String,
    /// The test, and when it runs.
    pub test: ScheduledTest,
    /// The fingerprint of the other node. An access key contains it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The credentials for the other node. They are kept in the state directory until the schedule is removed, and never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ProbeKey>,
}

impl Schedule {
    /// The same without secrets.
    #[must_use]
    pub fn without_credentials(&self) -> Schedule {
        Schedule { credentials: None, ..self.clone() }
    }
}

/// What a schedule does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledTest {
    /// A continuous stream of packets, with a report of round trips, loss and order every `report_s` seconds.
    Stream(StreamTest),
    /// A test that runs at regular times.
    Repeat(Repeat),
}

/// A continuous stream of packets. It needs no key: the other end decides which addresses it answers by STAMP, TWAMP or ping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamTest {
    /// Packets per second, 0.1 to 100; default: 10. After a minute without an answer, at most one packet a second is sent.
    pub rate_packets_s: f64,
    /// The UDP payload of each packet, bytes, 44 to 8,972.
    pub packet_bytes: u32,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// A packet without an answer counts as lost after this time, seconds, 0.1 to 30.
    pub timeout_s: f64,
    /// The length of a measurement, seconds, 1 to 300. Measurements begin at multiples of it.
    pub report_s: f64,
    /// The number of source ports in use at once, 1 to 32. Several ports tell the members of a bundle apart. Each measurement
    /// replaces one of them.
    pub ports: u16,
}

impl Default for StreamTest {
    fn default() -> StreamTest {
        StreamTest { rate_packets_s: 10.0, packet_bytes: 100, dscp: 0, timeout_s: 3.0, report_s: 60.0, ports: 8 }
    }
}

/// A test that runs at regular times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The test and its settings.
    pub test: ProbeTest,
    /// The time from one run to the next, seconds: 10 s to 30 d.
    pub every_s: f64,
    /// Runs begin this time after each multiple of `every_s` since 1970, seconds.
    #[serde(default)]
    pub offset_s: f64,
    /// The longest delay of a run that another test prevents from beginning, seconds; at most `every_s`. After it the run is missed.
    #[serde(default)]
    pub slip_s: f64,
    /// A run also waits for the transfers of both nodes, for at most `slip_s`.
    #[serde(default)]
    pub waits_for_transfers: bool,
}

/// A schedule and its status, for the principal that created it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleStatus {
    /// The schedule without secrets.
    pub schedule: Schedule,
    /// When the schedule was created (RFC 3339).
    pub created: String,
    /// When the next run begins (RFC 3339); absent for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The number of measurements since the node was started.
    #[serde(default)]
    pub measurements: u64,
    /// Why there are no measurements at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The schedules of the principal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedules {
    /// In the order of their ids.
    pub schedules: Vec<ScheduleStatus>,
}

/// A measurement of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurement {
    /// The number of the measurement at its node; it grows with each measurement.
    pub number: u64,
    /// The id of the schedule.
    #[schema(value_type = String, format = "uuid")]
    pub schedule: Uuid,
    /// When the measurement began, seconds since 1970.
    pub at_s: f64,
    /// The duration, seconds.
    pub seconds: f64,
    /// The result.
    pub found: Found,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Statistics of a part of a stream.
    Stream(StreamReport),
    /// Nothing has answered for some seconds. This is reported at once, before the measurement that covers the time.
    Silent,
    /// Answers arrive again.
    Answers,
    /// The `result` line of `longhaul probe --json`.
    #[schema(value_type = Object)]
    Report(serde_json::Value),
    /// The run did not begin: another test or transfer prevented it.
    Missed {
        /// The test or transfer that prevented it.
        why: String,
    },
    /// The run failed.
    Failed {
        /// Whose fault it is: `config`, `auth`, `path`, `peer`, …
        fault: String,
        /// The reason.
        why: String,
    },
}

/// Statistics of a part of a stream. Forward is to the other end. The packets lost are the sum of the three fields `lost_…`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StreamReport {
    /// Packets sent.
    pub sent: u64,
    /// Packets that were answered in time.
    pub received: u64,
    /// Packets lost in forward direction.
    pub lost_forward: u64,
    /// Packets lost in reverse direction.
    pub lost_reverse: u64,
    /// Packets lost in an unknown direction: no later answer has arrived, or the other end does not count packets by itself.
    pub lost_unplaced: u64,
    /// Answers beyond the first to the same packet.
    pub duplicates: u64,
    /// Packets that reached the other end after a later packet.
    pub reordered_forward: u64,
    /// Answers that arrived after a later answer.
    pub reordered_reverse: u64,
    /// Round-trip times without the time that the other end held the packet, microseconds.
    pub round_trip: Option<Delays>,
    /// One-way delays forward, microseconds. They contain the difference of the two clocks.
    pub forward: Option<Delays>,
    /// One-way delays in reverse, microseconds. They contain the difference of the two clocks.
    pub reverse: Option<Delays>,
    /// The largest possible difference of the two clocks, microseconds; absent if a clock is not synchronised.
    pub clock_error_us: Option<u64>,
    /// By how much the node's clock was set during the measurement, microseconds.
    pub clock_step_us: Option<i64>,
    /// The largest number of routers seen forward.
    pub hops_forward: Option<u8>,
    /// The largest number of routers seen in reverse.
    pub hops_reverse: Option<u8>,
    /// The number of source ports in use.
    pub ports: u16,
    /// Packets and loss by source port; empty if nothing was lost.
    pub by_port: Vec<PortLoss>,
    /// The node sent more than 5 % of the packets late by more than half an interval. The delays may be those of the node itself.
    pub host_limited: bool,
}

impl StreamReport {
    /// Packets without an answer in time.
    pub fn lost(&self) -> u64 {
        self.lost_forward + self.lost_reverse + self.lost_unplaced
    }
}

/// Delays in microseconds. One-way delays may be negative, because they compare two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delays {
    /// The smallest delay.
    pub min_us: i64,
    /// The median.
    pub median_us: i64,
    /// The 95th percentile.
    pub p95_us: i64,
    /// The largest delay.
    pub max_us: i64,
}

/// Loss by source port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortLoss {
    /// The source port.
    pub port: u16,
    /// Packets sent from the port.
    pub sent: u32,
    /// Packets of the port without an answer in time.
    pub lost: u32,
    /// Packets of the port that are known to be lost in reverse.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_reverse: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Measurements in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurements {
    /// The measurements.
    pub measurements: Vec<Measurement>,
    /// Where the next request continues (`?after=`).
    pub next: u64,
    /// Measurements after `after` that the node dropped for lack of room before they were fetched.
    #[serde(default)]
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_says_little_and_hides_its_key() {
        let text = r#"{"id":"00000000-0000-0000-0000-000000000001","target":"lh://far","test":{"stream":{}},
            "credentials":{"key":"k3y"}}"#;
        let schedule: Schedule = serde_json::from_str(text).unwrap();
        assert_eq!(schedule.test, ScheduledTest::Stream(StreamTest::default()));
        assert!(!format!("{schedule:?}").contains("k3y") && schedule.without_credentials().credentials.is_none());
        let repeat = r#"{"repeat":{"test":{"tcp":{"seconds":5}},"every_s":3600,"slip_s":60}}"#;
        assert!(serde_json::from_str::<ScheduledTest>(repeat).is_ok());
        assert!(serde_json::from_str::<ScheduledTest>(r#"{"stream":{"pps":3}}"#).is_err(), "a misspelt field");
    }
}
