//! Measurements of nodes as numbers for the archive and the judge. Implausible measurements are refused with a reason.

use model::v1::node::{Delays, Found, Measurement, StreamReport};
use model::v1::probe::Direction;
use model::v1::probe::route::{Route, Routes, SuspectBy};
use model::v1::probe::tcp::Report;

use crate::archive::Row;
use crate::archive::columns::{LATENCY, PATH, THROUGHPUT};
use crate::mesh::{Test, TestKind};

/// A plausible measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// A part of a stream.
    Stream(Box<StreamReport>),
    /// TCP in one direction.
    Throughput(Box<Throughput>),
    /// Routers and MTU of both directions.
    Path(Box<PathFacts>),
    /// The other end has become silent.
    Silent,
    /// The other end answers again.
    Answers,
    /// A test did not take place.
    Failed(String),
}

/// The result of a test of TCP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// The direction of the data.
    pub direction: Direction,
    /// The rate of payload.
    pub rate_bit_s: f64,
    /// Share of bytes that were sent again.
    pub resent: f64,
    /// Least round trip, seconds; none where the sending end did not report it.
    pub min_rtt_s: Option<f64>,
    /// Mean smoothed round trip, seconds.
    pub rtt_s: Option<f64>,
    /// Bytes of a segment.
    pub mss_bytes: f64,
    /// The share of time in which the receiver's window was the limit.
    pub window_limited: f64,
    /// The share of time in which the send buffer was the limit.
    pub buffer_limited: f64,
    /// The window that the receiver offered, bytes.
    pub window_bytes: f64,
    /// Streams.
    pub streams: f64,
    /// Congestion control.
    pub congestion: String,
    /// The term that the rate reached, by `probe`; empty for none.
    pub binding: String,
    /// The least term of the expectation of `probe`.
    pub expected_bit_s: Option<f64>,
    /// What limited the rate, in words, by `probe`.
    pub limit: String,
    /// Its length in round trips.
    pub rounds: f64,
}

/// Routers and MTU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathFacts {
    /// Forward.
    pub forward: Option<DirectionFacts>,
    /// In reverse.
    pub reverse: Option<DirectionFacts>,
}

/// One direction of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionFacts {
    /// Routers, nearest first; empty names for routers that did not answer.
    pub hops: Vec<String>,
    /// Whether the trace reached the other end.
    pub is_whole: bool,
    /// The largest packet that passes.
    pub mtu_bytes: Option<u32>,
    /// Whether larger packets vanish without an ICMP message.
    pub black_hole: bool,
    /// A member of a bundle that loses, in words.
    pub lossy_member: Option<String>,
}

/// A measurement further in the future than this is refused, seconds: the clock of its node is wrong.
const AHEAD_S: f64 = 120.0;
/// A measurement older than this is refused, seconds: nodes do not keep measurements so long.
const BEHIND_S: f64 = 40.0 * 86_400.0;
/// A higher rate is refused, bit/s.
const RATE_MAX: f64 = 1e13;
/// A longer round trip is refused, microseconds.
const DELAY_MAX_US: i64 = 100_000_000;
/// The largest difference of two clocks, microseconds: a hundred years.
const CLOCKS_MAX_US: i64 = 3_200_000_000_000_000;

/// Reads a measurement of a test at `now_s`.
///
/// # Errors
/// The measurement is implausible: of another test, of another time, or with impossible numbers.
pub fn read(test: &Test, measurement: &Measurement, now_s: f64) -> Result<Observation, String> {
    let ahead_s = measurement.at_s - now_s;
    if !measurement.at_s.is_finite() || !(0.0..=1e6).contains(&measurement.seconds) {
        return Err("it has no valid time".into());
    }
    if ahead_s > AHEAD_S {
        return Err(format!("its clock is ahead by {ahead_s:.0} s"));
    }
    if ahead_s < -BEHIND_S {
        return Err(format!("its clock is behind by {:.0} s, or it is older than a node keeps it", -ahead_s));
    }
    match (&measurement.found, test.kind) {
        (Found::Stream(report), TestKind::Latency) => stream(test, measurement, report),
        (Found::Silent, TestKind::Latency) => Ok(Observation::Silent),
        (Found::Answers, TestKind::Latency) => Ok(Observation::Answers),
        (Found::Missed { why }, _) => Ok(Observation::Failed(format!("missed: {why}"))),
        (Found::Failed { fault, why }, _) => Ok(Observation::Failed(format!("{fault}: {why}"))),
        (Found::Report(report), TestKind::Throughput) => throughput(test, report),
        (Found::Report(report), TestKind::Path) => path(report),
        _ => Err("it is of another test than was ordered".into()),
    }
}

fn stream(test: &Test, measurement: &Measurement, report: &StreamReport) -> Result<Observation, String> {
    let model::v1::node::ScheduledTest::Stream(order) = &test.order else { return Err("no stream was ordered".into()) };
    // Twice the ordered number: for jitter, and for a clock that was set in between.
    let most = (order.rate_packets_s * measurement.seconds.max(1.0) * 2.0).ceil() as u64 + 100;
    if report.sent > most {
        return Err(format!("it sent {} packets where {most} at most were ordered", report.sent));
    }
    if report.received.checked_add(report.lost()).is_none_or(|all| all > report.sent) {
        return Err(format!(
            "{} packets were answered or lost, and {} were sent",
            report.received + report.lost(),
            report.sent
        ));
    }
    let one_way = [&report.forward, &report.reverse].into_iter().flatten();
    let is_round_trip = report.round_trip.as_ref().is_none_or(|delays| is_plausible(delays, 0, DELAY_MAX_US));
    if !is_round_trip || !one_way.into_iter().all(|delays| is_plausible(delays, -CLOCKS_MAX_US, CLOCKS_MAX_US)) {
        return Err("its delays are implausible".into());
    }
    Ok(Observation::Stream(Box::new(report.clone())))
}

/// Whether delays are in ascending order, and within bounds.
fn is_plausible(delays: &Delays, least: i64, most: i64) -> bool {
    let order = [delays.min_us, delays.median_us, delays.p95_us, delays.max_us];
    order.is_sorted() && delays.min_us >= least && delays.max_us <= most
}

fn throughput(test: &Test, value: &serde_json::Value) -> Result<Observation, String> {
    let report: Report = serde_json::from_value(value.clone()).map_err(|error| format!("no report of TCP: {error}"))?;
    let found = report.directions.iter().find(|found| found.direction == test.direction);
    let found = found.ok_or("it is of another direction than was ordered")?;
    let rate = found.rate_bit_s as f64;
    if rate > RATE_MAX || !(0.0..=1.0).contains(&found.resent) {
        return Err("its rate, or its share of bytes sent again, is implausible".into());
    }
    let sender = if test.direction == Direction::Forward { &report.near } else { &report.far };
    let kernels: Vec<_> = sender.totals.iter().filter_map(|total| total.flow.kernel.as_ref()).collect();
    let mean = |of: fn(&model::v1::probe::tcp::Kernel) -> f64| {
        let finite = kernels.iter().map(|kernel| of(kernel)).filter(|value| value.is_finite() && *value >= 0.0);
        let all: Vec<f64> = finite.collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let busy_s = mean(|kernel| kernel.busy_s).filter(|busy| *busy > 0.0);
    let share = |limited: Option<f64>| busy_s.zip(limited).map_or(0.0, |(busy, limited)| (limited / busy).min(1.0));
    let min_rtt_s = mean(|kernel| kernel.min_rtt_s).filter(|rtt| *rtt > 0.0);
    let lasted = report.order.seconds + report.order.omit_s;
    Ok(Observation::Throughput(Box::new(Throughput {
        direction: test.direction,
        rate_bit_s: rate,
        resent: found.resent,
        min_rtt_s,
        rtt_s: mean(|kernel| kernel.rtt_s),
        mss_bytes: mean(|kernel| f64::from(kernel.mss_bytes)).filter(|mss| *mss > 0.0).unwrap_or(1_448.0),
        window_limited: share(mean(|kernel| kernel.receive_window_limited_s)),
        buffer_limited: share(mean(|kernel| kernel.send_buffer_limited_s)),
        window_bytes: mean(|kernel| kernel.window_bytes as f64).unwrap_or(0.0),
        streams: f64::from(report.order.streams),
        congestion: sender.totals.first().map(|total| total.congestion.clone()).unwrap_or_default(),
        binding: found.binding.clone(),
        expected_bit_s: found.expected.first().map(|term| term.rate_bit_s as f64),
        limit: found.limit.clone(),
        rounds: min_rtt_s.map_or(0.0, |rtt| lasted / rtt),
    })))
}

fn path(value: &serde_json::Value) -> Result<Observation, String> {
    let routes: Routes =
        serde_json::from_value(value.clone()).map_err(|error| format!("no report of a path: {error}"))?;
    let direction_facts = |route: &Route| DirectionFacts {
        hops: route
            .path
            .hops
            .iter()
            .map(|hop| hop.routers.first().map(|router| router.address.clone()).unwrap_or_default())
            .collect(),
        is_whole: route.path.distance.is_some(),
        mtu_bytes: route.mtu.as_ref().map(|mtu| mtu.mtu_bytes),
        black_hole: route.mtu.as_ref().is_some_and(|mtu| mtu.black_hole),
        lossy_member: route
            .sweep
            .iter()
            .filter(|sweep| sweep.judged)
            .flat_map(|sweep| &sweep.suspects)
            .find_map(|suspect| (suspect.by == SuspectBy::Loss).then(|| suspect.text.clone())),
    };
    let facts = PathFacts {
        forward: Some(direction_facts(&routes.forward)),
        reverse: routes.reverse.as_ref().map(direction_facts),
    };
    Ok(Observation::Path(Box::new(facts)))
}

/// A hash of a list of routers, for the archive.
pub fn route_number(hops: &[String]) -> i64 {
    let hash = hops
        .iter()
        .flat_map(|hop| hop.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 32) as i64
}

impl Observation {
    /// Its row in the archive; none for an observation without numbers.
    pub fn row(&self, at: i64, seconds: f64) -> Option<Row> {
        let values = match self {
            Observation::Stream(report) => latency_values(report, seconds),
            Observation::Throughput(found) => {
                let mut values = vec![None; THROUGHPUT.len()];
                values[0] = Some(found.rate_bit_s as i64);
                values[1] = Some((found.resent * 1e6) as i64);
                values[2] = found.min_rtt_s.map(|rtt| (rtt * 1e6) as i64);
                values[3] = found.expected_bit_s.map(|rate| rate.min(RATE_MAX) as i64);
                values
            }
            Observation::Path(facts) => {
                let mut values = vec![None; PATH.len()];
                for (at, facts) in [&facts.forward, &facts.reverse].into_iter().enumerate() {
                    let Some(facts) = facts else { continue };
                    values[at] = facts.is_whole.then_some(facts.hops.len() as i64);
                    values[2 + at] = facts.mtu_bytes.map(i64::from);
                    values[4 + at] = Some(route_number(&facts.hops));
                }
                values
            }
            Observation::Silent | Observation::Answers | Observation::Failed(_) => return None,
        };
        Some(Row { at, values })
    }
}

fn latency_values(report: &StreamReport, seconds: f64) -> Vec<Option<i64>> {
    let mut values = vec![None; LATENCY.len()];
    let counts = [
        (seconds * 1e3) as i64,
        report.sent as i64,
        report.lost_forward as i64,
        report.lost_reverse as i64,
        report.lost_unplaced as i64,
        report.duplicates as i64,
        report.reordered_forward as i64,
        report.reordered_reverse as i64,
    ];
    values.iter_mut().zip(counts).for_each(|(value, count)| *value = Some(count));
    if let Some(delays) = &report.round_trip {
        let delays = [delays.min_us, delays.median_us, delays.p95_us, delays.max_us];
        values[8..12].iter_mut().zip(delays).for_each(|(value, delay)| *value = Some(delay));
    }
    values[12] = report.forward.as_ref().map(|delays| delays.p95_us.saturating_sub(delays.min_us));
    values[13] = report.reverse.as_ref().map(|delays| delays.p95_us.saturating_sub(delays.min_us));
    values[14] = report.hops_forward.map(i64::from);
    values[15] = report.hops_reverse.map(i64::from);
    values
}

#[cfg(test)]
mod tests {
    use model::id::Uuid;
    use model::v1::node::{ScheduledTest, StreamTest};

    use super::*;

    const NOW_S: f64 = 1_790_000_000.0;

    fn test(kind: TestKind) -> Test {
        let order = ScheduledTest::Stream(StreamTest::default());
        Test { from: "a".into(), to: "b".into(), kind, direction: Direction::Forward, order, every_s: 60.0 }
    }

    fn measurement(found: Found) -> Measurement {
        Measurement { number: 1, schedule: Uuid::nil(), at_s: NOW_S - 60.0, seconds: 60.0, found }
    }

    fn report() -> StreamReport {
        let round_trip = Some(Delays { min_us: 1_000, median_us: 1_100, p95_us: 1_500, max_us: 2_000 });
        StreamReport { sent: 600, received: 598, lost_forward: 2, round_trip, ..StreamReport::default() }
    }

    #[test]
    fn an_implausible_measurement_is_refused_with_a_reason() {
        let refused = |measurement: Measurement| read(&test(TestKind::Latency), &measurement, NOW_S).unwrap_err();
        let of = |report| measurement(Found::Stream(report));
        assert!(read(&test(TestKind::Latency), &of(report()), NOW_S).is_ok());
        assert!(refused(of(StreamReport { received: 700, ..report() })).contains("702 packets"));
        assert!(refused(of(StreamReport { sent: u64::MAX, ..report() })).contains("were ordered"));
        assert!(refused(of(StreamReport { lost_forward: u64::MAX / 2, ..report() })).contains("were sent"));
        let backwards = Some(Delays { min_us: 5, median_us: 4, p95_us: 6, max_us: 7 });
        assert!(refused(of(StreamReport { round_trip: backwards, ..report() })).contains("implausible"));
        let ages = Some(Delays { min_us: i64::MIN, median_us: 0, p95_us: 0, max_us: i64::MAX });
        assert!(refused(of(StreamReport { forward: ages, ..report() })).contains("implausible"));
        assert!(refused(Measurement { at_s: NOW_S + 86_400.0, ..of(report()) }).contains("ahead by 86400 s"));
        assert!(refused(Measurement { at_s: f64::NAN, ..of(report()) }).contains("no valid time"));
        assert!(refused(Measurement { at_s: 0.0, ..of(report()) }).contains("behind"));
        assert!(refused(measurement(Found::Report(serde_json::json!({})))).contains("another test"));
        let throughput = test(TestKind::Throughput);
        let nonsense = measurement(Found::Report(serde_json::json!({"directions": 7})));
        assert!(read(&throughput, &nonsense, NOW_S).unwrap_err().contains("no report of TCP"));
    }

    #[test]
    fn a_row_has_the_numbers_of_its_measurement() {
        let row = Observation::Stream(Box::new(report())).row(5, 60.0).unwrap();
        assert_eq!((row.at, row.values[1], row.values[2], row.values[8]), (5, Some(600), Some(2), Some(1_000)));
        assert_eq!((row.values[12], Observation::Silent.row(5, 0.0)), (None, None));
        let hops = |names: &[&str]| route_number(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_ne!(hops(&["ab", "c"]), hops(&["a", "bc"]));
    }
}
