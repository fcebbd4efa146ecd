//! Tests that a node repeats by itself, and what they found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ProbeKey, ProbeTest};
use crate::id::Uuid;

/// A test that a node repeats until it is removed. It outlasts restarts of the node.
///
/// The client chooses the id. The same schedule sent twice is one; the key does not count when two are compared, and the newer one is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Chosen by whoever orders.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The other end: a node (`lh://HOST[:PORT]`), or whatever answers `stamp://HOST[:PORT]`, `twamp://HOST[:PORT]`, `ping://HOST`,
    /// `iperf3://HOST[:PORT]`.
    pub target: String,
    /// What is done, and when.
    pub test: ScheduledTest,
    /// The fingerprint of the other node. An access key says it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who one is there. Kept in the node's state directory until the schedule is removed, and never told again.
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
    /// Packets without end: round trips, loss and order of each minute.
    Stream(StreamTest),
    /// A test again and again.
    Repeat(Repeat),
}

/// A stream of packets. It needs no key: the other end answers STAMP, TWAMP or ping to whom it likes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamTest {
    /// Packets per second, 0.1 to 100; 10 unless said. Where nothing answers for a minute, it is one a second at most.
    pub rate_packets_s: f64,
    /// Octets of each packet above UDP, 44 to 8,972.
    pub packet_bytes: u32,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// A packet without an answer for so long is lost, 0.1 to 30.
    pub timeout_s: f64,
    /// How long a measurement is, 1 to 300; they begin at multiples of it.
    pub report_s: f64,
    /// Source ports in use at once, 1 to 32, so that members of a bundle are told apart; one of them is renewed with each measurement.
    pub ports: u16,
}

impl Default for StreamTest {
    fn default() -> StreamTest {
        StreamTest { rate_packets_s: 10.0, packet_bytes: 100, dscp: 0, timeout_s: 3.0, report_s: 60.0, ports: 8 }
    }
}

/// A test at times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Which test, and how.
    pub test: ProbeTest,
    /// From one run to the next, 10 s to 30 d.
    pub every_s: f64,
    /// Runs begin this long after each multiple of `every_s` since 1970.
    #[serde(default)]
    pub offset_s: f64,
    /// How much later a run may begin where something else is in its way; it is missed otherwise. `every_s` at most.
    #[serde(default)]
    pub slip_s: f64,
    /// It waits, within its slip, also for transfers of either node.
    #[serde(default)]
    pub waits_for_transfers: bool,
}

/// A schedule as whoever ordered it sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleStatus {
    /// What was ordered, without secrets.
    pub schedule: Schedule,
    /// When it was ordered (RFC 3339).
    pub created: String,
    /// When its next run begins (RFC 3339); none of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Measurements so far, since the node was started.
    #[serde(default)]
    pub measurements: u64,
    /// Why there is none just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Schedules of whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedules {
    /// In the order of their ids.
    pub schedules: Vec<ScheduleStatus>,
}

/// What a schedule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurement {
    /// Its number at the node; each is larger than those before.
    pub number: u64,
    /// Whose.
    #[schema(value_type = String, format = "uuid")]
    pub schedule: Uuid,
    /// When it began, seconds since 1970.
    pub at_s: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// What was found.
    pub found: Found,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A part of a stream.
    Stream(StreamReport),
    /// Nothing has answered for some seconds: told at once, before the measurement that it is part of.
    Silent,
    /// Answers come again.
    Answers,
    /// The line `result` of `longhaul probe --json`.
    #[schema(value_type = Object)]
    Report(serde_json::Value),
    /// The run did not begin: something else was in its way.
    Missed {
        /// What.
        why: String,
    },
    /// The run failed.
    Failed {
        /// Whose fault it is: `config`, `auth`, `path`, `peer`, …
        fault: String,
        /// Why.
        why: String,
    },
}

/// A part of a stream. Forward is to the other end. `lost` is the sum of the three that say where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StreamReport {
    /// Packets that left.
    pub sent: u64,
    /// Of those, answered in time.
    pub received: u64,
    /// Lost forward.
    pub lost_forward: u64,
    /// Lost in reverse.
    pub lost_reverse: u64,
    /// Lost, nobody knows in which direction: no answer came since, or the other end does not count for itself.
    pub lost_unplaced: u64,
    /// Answers beyond the first to the same packet.
    pub duplicates: u64,
    /// Packets that reached the other end behind a later one.
    pub reordered_forward: u64,
    /// Answers that came behind a later one.
    pub reordered_reverse: u64,
    /// There and back without the time that the other end held the packet, microseconds.
    pub round_trip: Option<Delays>,
    /// By the two clocks, microseconds: off by what they differ.
    pub forward: Option<Delays>,
    /// By the two clocks, microseconds.
    pub reverse: Option<Delays>,
    /// The most by which the two clocks may differ, microseconds; none where one of them is not synchronised.
    pub clock_error_us: Option<u64>,
    /// The clock of the node was set by so much, microseconds.
    pub clock_step_us: Option<i64>,
    /// Routers forward, at the most.
    pub hops_forward: Option<u8>,
    /// Routers in reverse, at the most.
    pub hops_reverse: Option<u8>,
    /// Source ports in use.
    pub ports: u16,
    /// Packets by source port; empty where nothing was lost.
    pub by_port: Vec<PortLoss>,
    /// The node sent later than half an interval more than once in twenty times: delays may be its own.
    pub host_limited: bool,
}

impl StreamReport {
    /// Packets without an answer in time.
    pub fn lost(&self) -> u64 {
        self.lost_forward + self.lost_reverse + self.lost_unplaced
    }
}

/// Delays in microseconds. Those by two clocks may be less than nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delays {
    /// The least.
    pub min_us: i64,
    /// Half were shorter.
    pub median_us: i64,
    /// 95 % were shorter.
    pub p95_us: i64,
    /// The most.
    pub max_us: i64,
}

/// Loss by source port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortLoss {
    /// The port.
    pub port: u16,
    /// Packets from it that left.
    pub sent: u32,
    /// Of those, without an answer in time.
    pub lost: u32,
    /// Of those, known to be lost in reverse.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_reverse: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Measurements in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurements {
    /// Some of them.
    pub measurements: Vec<Measurement>,
    /// What to ask next time (`?after=`).
    pub next: u64,
    /// Measurements behind `after` that had to make room before they were fetched.
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
