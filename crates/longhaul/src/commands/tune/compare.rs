//! `longhaul tune compare`: two hosts side by side; this one, nodes, or audits in files.

use std::path::Path;

use model::Exit;
use model::fault::Fault;
use model::v1::tune::AuditRequest;
use serde::Serialize;
use serde_json::{Value, json};
use tune::compare::{Drift, Side, SideValue, drift, without_counterpart};
use tune::rule::{Nature, Rule, rules};

use super::audit::audit_lines;
use super::role;
use super::show::measured;
use crate::args::TuneCompare;
use crate::commands::check_status::CheckStatus;
use crate::commands::probe::{Target, connect};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The most rules that a line for monitoring names.
const NAMED_MAX: usize = 8;
/// The word for this host.
const HERE: &str = "here";

/// The differences of two hosts, as JSON.
#[derive(Serialize)]
struct CompareReport<'a> {
    v: u8,
    event: &'static str,
    a: SideReport<'a>,
    b: SideReport<'a>,
    drift: &'a [Drift],
    /// NICs and disks without a counterpart on the other host.
    alone: UnpairedDevices,
}

#[derive(Serialize)]
struct UnpairedDevices {
    a: Vec<String>,
    b: Vec<String>,
}

#[derive(Serialize)]
struct SideReport<'a> {
    asked: &'a str,
    name: Option<&'a str>,
    kernel: Option<&'a str>,
    target: &'a Value,
}

impl<'a> SideReport<'a> {
    fn of(asked: &'a str, side: &'a Side) -> SideReport<'a> {
        let Side { host, target, .. } = side;
        SideReport { asked, name: host.name.as_deref(), kernel: host.kernel.as_deref(), target }
    }
}

/// Compares two hosts. With `--check` the exit code is that of a monitoring plug-in, and hosts that cannot be compared are
/// unknown.
///
/// # Errors
/// Without `--check`: an audit cannot be obtained or read.
pub fn run(args: &TuneCompare, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let result = compare(args, settings);
    if args.check {
        let (status, line) = match &result {
            Ok((_, _, drift)) => status_line(drift),
            Err(failure) => (CheckStatus::Unknown, failure.message.clone()),
        };
        printer.line(&format!("{} - {line}", status.word()));
        return Ok(status as u8);
    }
    let (a, b, drift) = result?;
    if printer.is_json() {
        let (alone_a, alone_b) = without_counterpart(&a, &b);
        printer.object(&CompareReport {
            v: 1,
            event: "tune_compare",
            a: SideReport::of(&args.a, &a),
            b: SideReport::of(&args.b, &b),
            drift: &drift,
            alone: UnpairedDevices { a: alone_a, b: alone_b },
        });
    } else {
        show(args, &a, &b, &drift, printer);
    }
    Ok(Exit::Done as u8)
}

fn compare(args: &TuneCompare, settings: &Settings) -> Result<(Side, Side, Vec<Drift>), Failure> {
    let rules = rules().map_err(|e| Failure::from_chain(Fault::Bug, &e))?;
    let a = side(&args.a, args, settings)?;
    let b = side(&args.b, args, settings)?;
    let is_transient_rule = |id: &str| is_transient(&rules, id);
    let drift = drift(&a, &b, &is_transient_rule);
    Ok((a, b, drift))
}

/// Whether a rule is about a state of the host that changes by itself, and not about a setting.
fn is_transient(rules: &[Rule], id: &str) -> bool {
    rules.iter().any(|rule| rule.id == id && rule.nature != Nature::Setting)
}

/// The audit of one side: of this host, a node or a file.
fn side(from: &str, args: &TuneCompare, settings: &Settings) -> Result<Side, Failure> {
    let ask = AuditRequest {
        rate_bit_s: args.purpose.rate.map(|rate| rate.0),
        rtt_s: args.purpose.rtt.as_secs_f64(),
        role: role(args.purpose.role).word().to_owned(),
    };
    if from == HERE {
        let lines = audit_lines(&ask)?;
        let lines = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Value>, _>>();
        return assemble(from, lines.map_err(|e| Failure::local(e.to_string()))?);
    }
    let file = Path::new(from);
    // No host name has a slash.
    if file.is_file() || (from.contains('/') && !from.contains("://")) {
        return read(file);
    }
    match Target::parse(from)? {
        Target::Node(at) => assemble(from, connect(&at, settings)?.audit(&ask)?),
        _ => Err(Failure::usage(format!("{from} is not a node: write here, HOST[:PORT], or the name of a file"))),
    }
}

/// The audit of a host from its first line and the lines of its findings.
fn assemble(from: &str, lines: Vec<Value>) -> Result<Side, Failure> {
    let mut lines = lines.into_iter();
    let mut whole = lines.next().unwrap_or_default();
    if let Some(head) = whole.as_object_mut() {
        head.insert("rules".into(), json!(lines.collect::<Vec<_>>()));
    }
    parse_side(from, whole)
}

fn parse_side(from: &str, whole: Value) -> Result<Side, Failure> {
    let wrong = |why: String| Failure {
        exit: Exit::Protocol,
        fault: Fault::Peer,
        message: format!("{from} gives no audit of schema 1: {why}"),
    };
    match whole.get("schema").and_then(Value::as_u64) {
        Some(1) => serde_json::from_value(whole).map_err(|e| wrong(e.to_string())),
        other => Err(wrong(format!("its schema is {}", other.map_or("missing".into(), |schema| schema.to_string())))),
    }
}

fn read(file: &Path) -> Result<Side, Failure> {
    let from = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| Failure::usage(format!("cannot read {from}: {e}")))?;
    let whole = serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("{from} is not what `tune audit --json` writes: {e}")))?;
    parse_side(&from, whole)
}

fn show(args: &TuneCompare, a: &Side, b: &Side, drift: &[Drift], printer: &Printer) {
    for (word, typed, side) in [("a", &args.a, a), ("b", &args.b, b)] {
        let name = side.host.name.as_deref().unwrap_or("unknown");
        let kernel = side.host.kernel.as_deref().unwrap_or("unknown");
        printer.line(&format!("{word}: {typed} ({name}, Linux {kernel})"));
    }
    if a.target != b.target {
        printer.line(
            "the two audits are for different rates, round trips or roles, so their wanted values may differ as well: \
             give --rate, --rtt and --role here, and record files with the same",
        );
    }
    let (of_a, of_b) = without_counterpart(a, b);
    for (word, names) in [("a", of_a), ("b", of_b)] {
        if !names.is_empty() {
            printer.line(&format!("only {word} has {}: there is no counterpart", names.join(", ")));
        }
    }
    for found in drift {
        let Drift { rule, title, severity, unit, a, b, change } = found;
        let who = match *change {
            "both" => "both are to change".to_owned(),
            "neither" => "neither is wrong".to_owned(),
            one => format!("{one} is to change"),
        };
        printer.line(&format!(
            "{severity:<6} {rule:<5} {title}: a {}, b {}; {who}{}",
            side_text(a, unit.as_deref()),
            side_text(b, unit.as_deref()),
            wanted(found)
        ));
    }
    let total = drift.len();
    printer.line(&match total {
        0 => "no drift".to_owned(),
        _ => format!("{total} differ, {} of them wrong on one side or both", wrong(drift).count()),
    });
}

fn side_text(side: &SideValue, unit: Option<&str>) -> String {
    let observed = measured(side.observed.as_deref(), unit);
    match &side.subject {
        Some(subject) => format!("{observed} ({subject})"),
        None => observed,
    }
}

/// The wanted value of the host that is to change, as text.
fn wanted(drift: &Drift) -> String {
    let wanted = match drift.change {
        "a" | "both" => &drift.a.wanted,
        "b" => &drift.b.wanted,
        _ => &None,
    };
    wanted.as_ref().map_or(String::new(), |wanted| format!(": {}", measured(Some(wanted), drift.unit.as_deref())))
}

fn wrong(drift: &[Drift]) -> impl Iterator<Item = &Drift> {
    drift.iter().filter(|drift| drift.change != "neither")
}

/// The status and the line for a monitoring system.
fn status_line(drift: &[Drift]) -> (CheckStatus, String) {
    let mut status = CheckStatus::Well;
    for drift in wrong(drift) {
        let drift_status = match drift.severity.as_str() {
            "high" => CheckStatus::Critical,
            "info" => CheckStatus::Well,
            _ => CheckStatus::Warning,
        };
        status = status.and(drift_status);
    }
    let ids: Vec<&str> = wrong(drift).map(|drift| drift.rule.as_str()).collect();
    let more = if ids.len() > NAMED_MAX { format!(", {} more", ids.len() - NAMED_MAX) } else { String::new() };
    let first = ids.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let named = if ids.is_empty() { String::new() } else { format!(" ({first}{more})") };
    let differ = drift.len();
    let wrong = ids.len();
    (status, format!("{differ} differ, {wrong} wrong{named} | differ={differ} wrong={wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_without_an_audit_is_refused() {
        let failed = |text: &str| parse_side("f", serde_json::from_str(text).unwrap()).unwrap_err();
        assert!(failed("{}").message.contains("schema is missing"));
        assert!(failed("{\"schema\":2}").message.contains("schema is 2"));
        assert_eq!(failed("{\"schema\":1}").exit, Exit::Protocol);
    }

    #[test]
    fn a_host_does_not_drift_from_itself() {
        let ask = AuditRequest { rate_bit_s: Some(10_000_000_000), rtt_s: 0.1, role: "dtn".into() };
        let lines = || audit_lines(&ask).unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (a, b) = (assemble("here", lines()).unwrap(), assemble("here", lines()).unwrap());
        let rules = rules().unwrap();
        let found = drift(&a, &b, &|id| is_transient(&rules, id));
        assert_eq!(found, [], "two audits of one host agree");
        assert_eq!(status_line(&found).0, CheckStatus::Well);
        for wrong in [AuditRequest { role: "x".into(), ..ask.clone() }, AuditRequest { rtt_s: f64::NAN, ..ask.clone() }]
        {
            assert!(audit_lines(&wrong).is_err());
        }
    }
}
