//! Reads an order of a test. Nothing is sent to the other node yet; an invalid order is refused here.

use std::time::Duration;

use auth::{AccessKey, Fingerprint};
use model::fault::Fault;
use model::locator::NodePlace;
use model::v1::node::{LatencyProbe, PathProbe, ProbeOrder, ProbeTest, TcpProbe, UdpProbe};
use model::v1::probe::route::RouteOrder;
use model::v1::probe::tcp::{self, Directions};
use model::v1::probe::udp::{UdpOrder, UdpPace};
use model::{HostPort, Locator, Refusal};
use probe::stamp;

use crate::transfers::{identity_of, locator};

/// The longest test, seconds: other tests wait meanwhile.
pub(crate) const SECONDS_MAX: f64 = 600.0;
/// The default length of a test, seconds: that of `longhaul probe`.
const SECONDS: f64 = 10.0;
/// The length of each part of a test of a path, seconds; each direction has three parts.
const PART_S: f64 = 90.0;
/// The default rate of datagrams, bit/s: that of `longhaul probe`.
const RATE_BIT_S: u64 = 100_000_000;
/// Packets per second of a test of latency, at most: outstanding packets are in memory.
const PACKETS_S_MAX: f64 = 10_000.0;
/// Intervals of a report, counted for each stream: about 550 bytes each from both ends, 5.5 MB in all.
const INTERVALS_MAX: f64 = 10_000.0;
/// Bytes of a target: a DNS name has at most 253 characters.
const TARGET_BYTES_MAX: usize = 300;

/// An order of a test that has been read.
#[derive(Debug)]
pub(super) struct TestPlan {
    pub to: HostPort,
    pub node: Fingerprint,
    pub keys: Vec<AccessKey>,
    pub test: PlannedTest,
    /// The duration of the test.
    pub duration: Duration,
}

/// The test, as an order of the `probe` crate.
#[derive(Debug)]
pub(super) enum PlannedTest {
    Tcp(tcp::Order),
    Latency(stamp::Order),
    Udp { order: UdpOrder, is_forward: bool },
    Path(RouteOrder),
    Limits,
}

fn wrong(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

fn invalid(error: probe::Error) -> Refusal {
    wrong(error.to_string())
}

/// Reads an order.
///
/// # Errors
/// The target, the key or a parameter is invalid.
pub(super) fn read(order: &ProbeOrder) -> Result<TestPlan, Refusal> {
    let to = target(&order.target)?;
    let key = order.credentials.as_ref().and_then(|credentials| credentials.key.as_deref());
    let (keys, node) = identity_of(&to, key, order.node.as_deref())?;
    let node = node.ok_or_else(|| wrong("say which node it is: give one of its access keys, or its fingerprint"))?;
    let (test, seconds) = match &order.test {
        ProbeTest::Tcp(tcp) => of_tcp(tcp)?,
        ProbeTest::Latency(latency) => of_latency(latency)?,
        ProbeTest::Udp(udp) => of_udp(udp)?,
        ProbeTest::Path(path) => of_path(path),
        ProbeTest::Limits(_) => (PlannedTest::Limits, 0.0),
    };
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(wrong(format!("a test from this node lasts {SECONDS_MAX} s at most, not {seconds} s")));
    }
    Ok(TestPlan { to, node, keys, test, duration: Duration::from_secs_f64(seconds) })
}

fn target(text: &str) -> Result<HostPort, Refusal> {
    let is_node = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("lh://"));
    if !is_node || text.len() > TARGET_BYTES_MAX {
        return Err(wrong("the target of a test is a node: lh://HOST[:PORT]"));
    }
    match locator(text)? {
        Locator::Node { at, place: NodePlace::Exports, .. } => Ok(at),
        _ => Err(wrong("the target of a test is a node: lh://HOST[:PORT], without a path")),
    }
}

/// A test of TCP as an order of the `probe` crate.
///
/// # Errors
/// A parameter is invalid.
pub(crate) fn tcp_order(test: &TcpProbe) -> Result<tcp::Order, Refusal> {
    if test.seconds.is_some() && test.bytes.is_some() {
        return Err(wrong("a test ends after seconds or after bytes, not after both"));
    }
    let order = tcp::Order {
        streams: test.streams,
        direction: test.direction,
        seconds: if test.bytes.is_some() { 0.0 } else { test.seconds.unwrap_or(SECONDS) },
        bytes: test.bytes.unwrap_or(0),
        omit_s: test.omit_s,
        interval_s: test.interval_s,
        block_bytes: test.block_bytes,
        congestion: test.congestion.clone(),
        window_bytes: test.window_bytes,
        mss_bytes: test.mss_bytes,
        pace_bit_s: test.pace_bit_s,
        dscp: test.dscp,
        near_cores: Vec::new(),
        far_cores: Vec::new(),
    };
    probe::tcp::check(&order).map_err(invalid)?;
    Ok(order)
}

fn of_tcp(test: &TcpProbe) -> Result<(PlannedTest, f64), Refusal> {
    let order = tcp_order(test)?;
    let seconds = if order.bytes > 0 { SECONDS_MAX } else { order.seconds + order.omit_s };
    if seconds / order.interval_s * f64::from(streams(&order)) > INTERVALS_MAX {
        return Err(wrong(format!(
            "a report holds {INTERVALS_MAX} intervals of all streams at most: choose longer intervals (interval_s)"
        )));
    }
    Ok((PlannedTest::Tcp(order), seconds))
}

/// Streams of both directions.
fn streams(order: &tcp::Order) -> u32 {
    order.streams * if order.direction == Directions::Both { 2 } else { 1 }
}

fn of_latency(test: &LatencyProbe) -> Result<(PlannedTest, f64), Refusal> {
    let time = |seconds: f64| {
        let wrong = |_| wrong(format!("{seconds} s is not a duration"));
        Duration::try_from_secs_f64(seconds).map_err(wrong)
    };
    let extent = match test.count {
        Some(count) => stamp::Extent::Packets(count),
        None => stamp::Extent::Time(time(test.seconds)?),
    };
    if test.rate_packets_s > PACKETS_S_MAX {
        return Err(wrong(format!("a test from this node sends {PACKETS_S_MAX} packets/s at most")));
    }
    let order = stamp::Order {
        rate_packets_s: test.rate_packets_s,
        extent,
        packet_bytes: test.packet_bytes as usize,
        dscp: test.dscp,
        timeout: time(test.timeout_s)?,
        ..stamp::Order::default()
    };
    order.check().map_err(invalid)?;
    let seconds = order.packets() as f64 / order.rate_packets_s;
    Ok((PlannedTest::Latency(order), seconds))
}

fn of_udp(test: &UdpProbe) -> Result<(PlannedTest, f64), Refusal> {
    let pace = match (test.rate_bit_s, test.spacing_s, test.burst) {
        (rate, None, None) => UdpPace::Rate { rate_bit_s: rate.unwrap_or(RATE_BIT_S) },
        (None, Some(spacing_s), None) => UdpPace::Spacing { spacing_s },
        (None, None, Some(length)) => UdpPace::Bursts { length, spacing_s: 0.0, gap_s: test.gap_s.unwrap_or_default() },
        _ => {
            return Err(wrong(
                "datagrams leave by rate_bit_s, by spacing_s or by burst and gap_s: choose one of these",
            ));
        }
    };
    let is_forward = match test.direction {
        Directions::Forward => true,
        Directions::Reverse => false,
        Directions::Both => return Err(wrong("a test sends datagrams one way only: forward or reverse")),
    };
    let order = UdpOrder { bytes: test.bytes, pace, count: test.count, seconds: Some(test.seconds) };
    probe::udp::Plan::of(&order).map_err(invalid)?;
    Ok((PlannedTest::Udp { order, is_forward }, test.seconds))
}

/// A test of a path as an order of the `probe` crate.
pub(crate) fn path_order(test: &PathProbe) -> RouteOrder {
    RouteOrder {
        flows: test.flows,
        probes: test.probes,
        ttl_max: test.ttl_max,
        mtu_bytes_max: (test.mtu_bytes_max > 0).then_some(test.mtu_bytes_max),
        lasts_s: PART_S,
        ..RouteOrder::default()
    }
}

fn of_path(test: &PathProbe) -> (PlannedTest, f64) {
    (PlannedTest::Path(path_order(test)), 6.0 * PART_S)
}

/// Checks a test against the bound on streams of clients' orders.
///
/// # Errors
/// The test has too many streams.
pub(super) fn within(plan: &TestPlan, streams_max: u32) -> Result<(), Refusal> {
    match &plan.test {
        PlannedTest::Tcp(order) if streams(order) > streams_max => {
            let reason = format!("a test from this node has {streams_max} streams at most, of both directions");
            Err(Refusal::new(Fault::Auth, reason))
        }
        _ => Ok(()),
    }
}
