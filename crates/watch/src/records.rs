//! Records of perfSONAR's archivers, in both directions: a record that a pScheduler posts becomes a row, and measurements of the watch become records.
//!
//! A record is the document that pScheduler hands to its archivers, or `{"message": "…"}` with that document as text: perfSONAR's pipeline
//! takes both. An end has the name of the configured place with its address; without such a place, its address is its name.

mod write;

use model::v1::node::{Delays, StreamReport};
use serde_json::Value;

use crate::archive::Row;
use crate::archive::columns::{PATH, THROUGHPUT};
use crate::archive::store::SeriesKey;
use crate::config::{Config, PlaceKind};
use crate::observation::{Observation, route_number};
use crate::time;

pub use write::records;

/// The contents of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its series.
    pub key: SeriesKey,
    /// Its row.
    pub row: Row,
}

/// Reads a record.
///
/// # Errors
/// The document is not a record, or is of a test that is not kept; the text says why.
pub fn read(config: &Config, value: &Value) -> Result<Record, String> {
    if let Some(text) = value.get("message").and_then(Value::as_str) {
        let inner: Value = serde_json::from_str(text).map_err(|error| format!("message is not JSON: {error}"))?;
        return if inner.get("message").is_some() {
            Err("a message within a message".into())
        } else {
            read(config, &inner)
        };
    }
    let test = &value["test"];
    let result = &value["result"];
    let kind = test["type"].as_str().ok_or("there is no test.type: it is not a record of an archiver")?;
    if result["succeeded"] == false {
        return Err(format!(
            "the test did not succeed: {}",
            result["error"].as_str().or(result["diags"].as_str()).unwrap_or("no reason is given")
        ));
    }
    let at = start(value).ok_or("there is no time: schedule.start or run.start-time")?;
    let seconds = duration(value);
    let ends = ends(value)?;
    let named = |address: &str| place(config, address);
    let key = |test: &str| SeriesKey { from: named(&ends.0), to: named(&ends.1), test: test.to_owned() };
    let (test, values) = match kind {
        "throughput" => ("throughput", throughput(result)?),
        "latency" | "latencybg" => ("latency", latency(result, seconds)?),
        "rtt" => ("latency", rtt(result, seconds)?),
        "trace" => ("path", trace(result)?),
        other => return Err(format!("records of {other} are not kept")),
    };
    Ok(Record { key: key(test), row: Row { at, values } })
}

/// The place with an address, or the address.
fn place(config: &Config, address: &str) -> String {
    let host_of = |kind: &PlaceKind| {
        let text = match kind {
            PlaceKind::Node { address, .. } => address.as_str(),
            PlaceKind::Target { url } => url.split_once("://").map_or(url.as_str(), |(_, rest)| rest),
        };
        let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let host = if has_port { text.rsplit_once(':').map_or(text, |(host, _)| host) } else { text };
        host.trim_matches(['[', ']']).to_owned()
    };
    let found = config.places.iter().find(|(_, place)| host_of(&place.kind).eq_ignore_ascii_case(address));
    found.map_or_else(|| address.to_owned(), |(name, _)| name.clone())
}

fn start(value: &Value) -> Option<i64> {
    let candidates = [&value["schedule"]["start"], &value["run"]["start-time"], &value["pscheduler"]["start_time"]];
    candidates.into_iter().find_map(|text| time::parse(text.as_str()?))
}

/// Seconds of an ISO 8601 duration, or of a number.
fn seconds_of(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    let span: jiff::Span = value.as_str()?.parse().ok()?;
    span.total((jiff::Unit::Second, jiff::SpanRelativeTo::days_are_24_hours())).ok()
}

fn duration(value: &Value) -> f64 {
    let candidates = [&value["schedule"]["duration"], &value["run"]["duration"], &value["task"]["detail"]["duration"]];
    candidates.into_iter().find_map(seconds_of).filter(|seconds| (0.0..1e6).contains(seconds)).unwrap_or(60.0)
}

/// Source and target: those of the test, or the participants.
fn ends(value: &Value) -> Result<(String, String), String> {
    let spec = &value["test"]["spec"];
    let participants = value["participants"].as_array();
    let participant = |at: usize| participants.and_then(|all| all.get(at)).and_then(Value::as_str);
    let from = spec["source"].as_str().or(participant(0)).ok_or("there is no source")?;
    let to = spec["dest"].as_str().or(participant(1)).ok_or("there is no dest")?;
    let is_reverse = spec["reverse"].as_bool().unwrap_or(false);
    let (from, to) = if is_reverse { (to, from) } else { (from, to) };
    if from.len() > 253 || to.len() > 253 || from.is_empty() || to.is_empty() {
        return Err("source and dest are not names".into());
    }
    Ok((from.to_owned(), to.to_owned()))
}

/// A plausible number: finite and not negative.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

fn throughput(result: &Value) -> Result<Vec<Option<i64>>, String> {
    let summary =
        if result["summary"]["summary"].is_object() { &result["summary"]["summary"] } else { &result["summary"] };
    let rate =
        number(&summary["throughput-bits"]).filter(|rate| *rate < 1e13).ok_or("there is no summary.throughput-bits")?;
    let mut values = vec![None; THROUGHPUT.len()];
    values[0] = Some(rate as i64);
    let sent = number(&summary["throughput-bytes"]).filter(|bytes| *bytes > 0.0);
    let mss = number(&result["mss"]).unwrap_or(1_448.0);
    if let (Some(retransmits), Some(bytes)) = (number(&summary["retransmits"]), sent) {
        values[1] = Some((retransmits * mss / bytes * 1e6) as i64);
    }
    values[2] = number(&summary["rtt"]).map(|microseconds| microseconds as i64);
    Ok(values)
}

fn latency(result: &Value, seconds: f64) -> Result<Vec<Option<i64>>, String> {
    let sent = number(&result["packets-sent"]).ok_or("there is no packets-sent")?;
    let lost = number(&result["packets-lost"]).unwrap_or(0.0).min(sent);
    let mut report = StreamReport {
        sent: sent as u64,
        lost_forward: lost as u64,
        received: (sent - lost) as u64,
        ..StreamReport::default()
    };
    report.duplicates = number(&result["packets-duplicated"]).unwrap_or(0.0) as u64;
    report.reordered_forward = number(&result["packets-reordered"]).unwrap_or(0.0) as u64;
    report.forward = histogram(&result["histogram-latency"]);
    let values = Observation::Stream(Box::new(report)).row(0, seconds).map(|row| row.values);
    values.ok_or_else(|| "it has no numbers".to_owned())
}

/// The largest difference of two clocks, milliseconds: a hundred years.
const DELAY_MAX_MS: f64 = 3.2e12;

/// Delays of a histogram, whose keys are milliseconds and whose values are counts.
fn histogram(value: &Value) -> Option<Delays> {
    let mut buckets: Vec<(f64, f64)> =
        value.as_object()?.iter().filter_map(|(ms, count)| Some((ms.parse().ok()?, number(count)?))).collect();
    buckets.retain(|(ms, count)| ms.abs() < DELAY_MAX_MS && *count > 0.0);
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = buckets.iter().map(|(_, count)| count).sum();
    let at = |share: f64| {
        let mut seen = 0.0;
        let found = buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= all * share
        });
        found.or(buckets.last()).map(|(ms, _)| (ms * 1e3) as i64)
    };
    Some(Delays { min_us: at(0.0)?, median_us: at(0.5)?, p95_us: at(0.95)?, max_us: at(1.0)? })
}

fn rtt(result: &Value, seconds: f64) -> Result<Vec<Option<i64>>, String> {
    let trips = result["roundtrips"].as_array().map_or(0, Vec::len) as f64;
    let loss = number(&result["loss"]).unwrap_or(0.0);
    // A fraction, but 100.0 where the tool got no answer.
    let loss = if loss > 1.0 { (loss / 100.0).min(1.0) } else { loss };
    let sent = number(&result["sent"]).unwrap_or(trips).max(1.0);
    let lost = (sent * loss).round() as u64;
    let us = |name: &str| seconds_of(&result[name]).filter(|s| (0.0..100.0).contains(s)).map(|s| (s * 1e6) as i64);
    let delays = us("min").zip(us("max")).map(|(min_us, max_us)| {
        let mean = us("mean").unwrap_or(min_us).clamp(min_us, max_us.max(min_us));
        Delays { min_us, median_us: mean, p95_us: max_us, max_us }
    });
    let report = StreamReport {
        sent: sent as u64,
        received: sent as u64 - lost,
        lost_unplaced: lost,
        round_trip: delays,
        ..StreamReport::default()
    };
    Observation::Stream(Box::new(report))
        .row(0, seconds)
        .map(|row| row.values)
        .ok_or_else(|| "it has no numbers".to_owned())
}

fn trace(result: &Value) -> Result<Vec<Option<i64>>, String> {
    let path = result["paths"].get(0).and_then(Value::as_array).ok_or("there are no paths")?;
    let hops: Vec<String> = path.iter().map(|hop| hop["ip"].as_str().unwrap_or_default().to_owned()).collect();
    let mut values = vec![None; PATH.len()];
    values[0] = Some(hops.len() as i64);
    values[2] = number(&result["mtu"]).map(|mtu| mtu as i64);
    values[4] = Some(route_number(&hops));
    Ok(values)
}

#[cfg(test)]
mod tests;
