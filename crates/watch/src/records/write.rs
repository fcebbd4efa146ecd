//! Measurements as records for perfSONAR's archives.

use jiff::Timestamp;
use model::v1::node::{Delays, StreamReport};
use model::v1::probe::Direction;
use serde_json::{Map, Value, json};

use crate::mesh::{Test, TestKind};
use crate::observation::{DirectionFacts, Observation, Throughput};

/// The width of a bucket of a histogram, seconds.
const BUCKET_S: f64 = 0.001;

/// The records of a measurement. A stream has one for each direction, like latencybg.
pub fn records(test: &Test, observation: &Observation, at_ms: i64, seconds: f64) -> Vec<Value> {
    let record = |kind: &str, spec: Value, result: Value, tool: &str, ends: (&str, &str)| {
        document(kind, spec, result, tool, ends, at_ms, seconds, test)
    };
    let from = test.from.as_str();
    let to = test.to.as_str();
    match observation {
        Observation::Stream(report) => {
            let forward = stream(report, report.sent, report.lost_forward, report.reordered_forward, report.forward);
            let reflected = report.received + report.lost_reverse;
            let reverse = stream(report, reflected, report.lost_reverse, report.reordered_reverse, report.reverse);
            vec![
                record("latencybg", json!({"schema": 1, "source": from, "dest": to}), forward, "longhaul", (from, to)),
                record("latencybg", json!({"schema": 1, "source": to, "dest": from}), reverse, "longhaul", (to, from)),
            ]
        }
        Observation::Throughput(found) => {
            let ends = if found.direction == Direction::Forward { (from, to) } else { (to, from) };
            let spec = json!({"schema": 1, "source": ends.0, "dest": ends.1, "duration": format!("PT{}S", seconds.round()), "parallel": found.streams});
            vec![record("throughput", spec, throughput(found, seconds), "longhaul", ends)]
        }
        Observation::Path(facts) => [(&facts.forward, (from, to)), (&facts.reverse, (to, from))]
            .into_iter()
            .filter_map(|(facts, ends)| {
                let spec = json!({"schema": 1, "source": ends.0, "dest": ends.1});
                Some(record("trace", spec, trace(facts.as_ref()?), "longhaul", ends))
            })
            .collect(),
        Observation::Silent | Observation::Answers | Observation::Failed(_) => Vec::new(),
    }
}

#[allow(clippy::too_many_arguments, reason = "the parts of one document, each used once")]
fn document(
    kind: &str,
    spec: Value,
    result: Value,
    tool: &str,
    ends: (&str, &str),
    at_ms: i64,
    seconds: f64,
    test: &Test,
) -> Value {
    let start = Timestamp::from_millisecond(at_ms).map_or_else(|_| String::new(), |time| time.to_string());
    let id = crate::config::schedule_id(&test.from, &test.to, &format!("{} {at_ms} {}", test.word(), ends.0));
    json!({
        "id": id,
        "schedule": {"start": start, "duration": format!("PT{}S", seconds.round())},
        "test": {"type": kind, "spec": spec},
        "tool": {"name": tool, "version": env!("CARGO_PKG_VERSION")},
        "participants": [ends.0, ends.1],
        "reference": {"display-task-name": format!("{} {}", TestKind::word(test.kind), test.to)},
        "result": result,
    })
}

fn stream(report: &StreamReport, sent: u64, lost: u64, reordered: u64, delays: Option<Delays>) -> Value {
    let mut histogram = Map::new();
    if let Some(delays) = delays {
        // Only quantiles are kept: the packets between two of them are counted at the upper one.
        let received = sent.saturating_sub(lost);
        let parts = [(delays.min_us, 0.05), (delays.median_us, 0.45), (delays.p95_us, 0.46), (delays.max_us, 0.04)];
        for (us, share) in parts {
            let bucket = format!("{:.2}", us as f64 / 1e3);
            let count =
                histogram.get(&bucket).and_then(Value::as_u64).unwrap_or(0) + (received as f64 * share).round() as u64;
            histogram.insert(bucket, json!(count));
        }
    }
    json!({
        "schema": 1, "succeeded": true, "packets-sent": sent, "packets-received": sent.saturating_sub(lost), "packets-lost": lost,
        "packets-duplicated": report.duplicates, "packets-reordered": reordered, "histogram-latency": histogram,
        "histogram-bucket-size": BUCKET_S, "max-clock-error": report.clock_error_us.map(|us| us as f64 / 1e3),
    })
}

fn throughput(found: &Throughput, seconds: f64) -> Value {
    let bytes = (found.rate_bit_s / 8.0 * seconds) as u64;
    let retransmits = (found.resent * bytes as f64 / found.mss_bytes.max(1.0)) as u64;
    json!({
        "schema": 1, "succeeded": true, "diags": found.limit, "mss": found.mss_bytes as u64, "intervals": [],
        "summary": {"streams": [], "summary": {"start": 0.0, "end": seconds, "throughput-bits": found.rate_bit_s, "throughput-bytes": bytes,
            "retransmits": retransmits, "rtt": found.min_rtt_s.map(|rtt| (rtt * 1e6) as u64)}},
    })
}

fn trace(facts: &DirectionFacts) -> Value {
    let hop = |hop: &String| if hop.is_empty() { json!({}) } else { json!({"ip": hop}) };
    json!({"schema": 1, "succeeded": true, "paths": [facts.hops.iter().map(hop).collect::<Vec<_>>()], "mtu": facts.mtu_bytes})
}
