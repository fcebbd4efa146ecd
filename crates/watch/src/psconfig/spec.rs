//! Tests and schedules become settings of the watch, with a remark for each key of a specification that has no counterpart.

use jiff::{Span, SpanRelativeTo, Unit};
use serde_json::Value;

use super::template::{Schedule, Task, Template, Test};
use super::{ImportError, ImportResult};

/// The settings that a test becomes.
pub(super) struct Settings {
    /// `latency`, `throughput` or `path`.
    pub kind: &'static str,
    pub values: toml::Table,
}

/// Keys that name the two ends, which the group does, or that have no effect at the watch.
const IGNORED_KEYS: [&str; 13] = [
    "schema",
    "source",
    "dest",
    "source-node",
    "dest-node",
    "flip",
    "reverse",
    "single-participant-mode",
    "ip-version",
    "output-raw",
    "interval",
    "link-rtt",
    "omit",
];

/// The settings of a test under a task; none if the watch has no such test.
pub(super) fn settings(
    template: &Template,
    task_name: &str,
    task: &Task,
    test_name: &str,
    remarks: &mut Vec<String>,
) -> ImportResult<Option<Settings>> {
    let place = format!("tests {test_name}");
    let test = template.tests.get(test_name);
    let test =
        test.ok_or_else(|| ImportError::new(format!("tasks {task_name}"), format!("there is no test {test_name}")))?;
    let schedule = match &task.schedule {
        None => None,
        Some(name) => {
            let unknown = || ImportError::new(format!("tasks {task_name}"), format!("there is no schedule {name}"));
            Some((name, template.schedules.get(name).ok_or_else(unknown)?))
        }
    };
    check_ends(test, &place, remarks)?;
    let every = schedule.map(|(name, schedule)| every(name, schedule, remarks)).transpose()?.flatten();
    let mut settings = match test.kind.as_str() {
        "throughput" => throughput(test, &place, remarks)?,
        "latency" | "latencybg" => latency(test, &place, remarks)?,
        "rtt" => rtt(test, &place, remarks)?,
        "trace" | "mtu" => Settings { kind: "path", values: empty_values(test, &[], &place, remarks) },
        other => {
            remarks.push(format!("{place}: a test of {other} is not imported"));
            return Ok(None);
        }
    };
    if let Some(every) = every.filter(|_| settings.kind != "latency") {
        settings.values.insert("every".into(), every.into());
    }
    Ok(Some(settings))
}

/// Checks that the two ends are those of the group.
fn check_ends(test: &Test, place: &str, remarks: &mut Vec<String>) -> ImportResult<()> {
    for (key, index) in [("source", 0), ("dest", 1)] {
        let Some(Value::String(text)) = test.spec.get(key) else { continue };
        let variable = format!("address[{index}]");
        let inner = text.trim().strip_prefix("{%").and_then(|rest| rest.strip_suffix("%}")).map(str::trim);
        match inner {
            Some(inner) if inner == variable => {}
            Some(inner) if inner.starts_with("jq") => {
                remarks.push(format!("{place}: {key} by jq is not supported: the ends of the group are used"))
            }
            _ => {
                return Err(ImportError::new(
                    place,
                    format!("{key} is {text}, and not {{% {variable} %}} of the group"),
                ));
            }
        }
    }
    Ok(())
}

/// An empty table, with a remark for each key that is not in `known`.
fn empty_values(test: &Test, known: &[&str], place: &str, remarks: &mut Vec<String>) -> toml::Table {
    for (key, value) in &test.spec {
        if !known.contains(&key.as_str()) && !IGNORED_KEYS.contains(&key.as_str()) {
            remarks.push(format!("{place}: {key} ({value}) is not imported"));
        }
    }
    toml::Table::new()
}

fn number(test: &Test, key: &str, place: &str) -> ImportResult<Option<f64>> {
    let Some(value) = test.spec.get(key) else { return Ok(None) };
    let read = value.as_f64().or_else(|| value.as_str().and_then(si_number));
    read.filter(|number| number.is_finite() && *number > 0.0)
        .map(Some)
        .ok_or_else(|| ImportError::new(place, format!("{key} is {value}, and not a number above 0")))
}

/// Numbers with a prefix: `10G`.
fn si_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let factor = match text[end..].trim() {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => return None,
    };
    Some(text[..end].parse::<f64>().ok()? * factor)
}

fn throughput(test: &Test, place: &str, remarks: &mut Vec<String>) -> ImportResult<Settings> {
    let mut values = empty_values(test, &["duration", "parallel", "congestion", "bandwidth"], place, remarks);
    if let Some(Value::String(duration)) = test.spec.get("duration") {
        values.insert("lasts".into(), span(duration, &format!("{place} duration"))?.into());
    }
    if let Some(streams) = number(test, "parallel", place)? {
        values.insert("streams".into(), toml::Value::Integer(streams as i64));
    }
    if let Some(Value::String(congestion)) = test.spec.get("congestion") {
        values.insert("congestion".into(), congestion.clone().into());
    }
    if let Some(bandwidth) = number(test, "bandwidth", place)? {
        values.insert("limit".into(), format!("{}Mbit/s", (bandwidth / 1e6).max(1.0) as u64).into());
    }
    if test.spec.get("udp").and_then(Value::as_bool).unwrap_or(false) {
        remarks.push(format!("{place}: throughput of UDP is measured with TCP"));
    }
    Ok(Settings { kind: "throughput", values })
}

fn latency(test: &Test, place: &str, remarks: &mut Vec<String>) -> ImportResult<Settings> {
    let known = ["packet-interval", "packet-padding", "packet-count", "bucket-width", "protocol"];
    let mut values = empty_values(test, &known, place, remarks);
    if let Some(interval_s) = number(test, "packet-interval", place)? {
        values.insert("rate".into(), toml::Value::Float(1.0 / interval_s));
    }
    if let Some(padding) = number(test, "packet-padding", place)? {
        // OWAMP counts the padding after its 14 octets.
        values.insert("bytes".into(), toml::Value::Integer((padding as i64 + 14).max(44)));
    }
    Ok(Settings { kind: "latency", values })
}

fn rtt(test: &Test, place: &str, remarks: &mut Vec<String>) -> ImportResult<Settings> {
    let mut values = empty_values(test, &["count", "length", "protocol", "ttl", "timeout"], place, remarks);
    if let Some(length) = number(test, "length", place)? {
        values.insert("bytes".into(), toml::Value::Integer((length as i64).max(44)));
    }
    values.insert("rate".into(), toml::Value::Float(1.0));
    Ok(Settings { kind: "latency", values })
}

fn every(name: &str, schedule: &Schedule, remarks: &mut Vec<String>) -> ImportResult<Option<String>> {
    let place = format!("schedules {name}");
    let ignored = [
        ("start", schedule.start.is_some()),
        ("until", schedule.until.is_some()),
        ("max-runs", schedule.max_runs.is_some()),
    ];
    for (key, _) in ignored.into_iter().filter(|(_, is_set)| *is_set) {
        remarks.push(format!("{place}: {key} is not imported: a watch has no end"));
    }
    if schedule.slip.is_some() || schedule.sliprand.is_some() {
        remarks.push(format!("{place}: slip is not imported: the watch books slots itself"));
    }
    schedule.repeat.as_ref().map(|repeat| span(repeat, &format!("{place} repeat"))).transpose()
}

/// An ISO 8601 duration in the notation of the configuration.
fn span(text: &str, place: &str) -> ImportResult<String> {
    let wrong = |what: &str| ImportError::new(place, format!("{text} {what}"));
    let read: Span = text.parse().map_err(|_| wrong("is not a duration of ISO 8601, such as PT6H"))?;
    let seconds = read
        .total((Unit::Second, SpanRelativeTo::days_are_24_hours()))
        .map_err(|_| wrong("has months or years, whose length varies"))?;
    if !seconds.is_finite() || seconds <= 0.0 {
        return Err(wrong("is not above 0"));
    }
    Ok(format!("{seconds}s"))
}
