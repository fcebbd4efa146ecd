//! `longhaul tune plan`: prints the changes that `tune apply` would make.

use std::fmt::Write as _;

use model::Exit;
use serde::Serialize;
use tune::audit::{Finding, Status};
use tune::plan::{Change, diff, plan, script, unwritable_reason};
use tune::rule::ChangeMethod;

use super::{AuditedHost, ids};
use crate::args::TunePlan;
use crate::failure::Failure;
use crate::printer::Printer;

/// A plan as JSON.
#[derive(Serialize)]
struct PlanReport<'a> {
    v: u8,
    event: &'static str,
    changes: &'a [Change],
    /// Rules whose changes must be made by hand.
    manual: &'a [String],
}

/// Prints the changes that `apply` would make.
///
/// # Errors
/// A rule is unknown, or a change cannot be planned.
pub fn run(args: &TunePlan, audited: &AuditedHost<'_>, printer: &Printer) -> Result<Exit, Failure> {
    let only = audited.ids(&args.rules)?;
    let findings: Vec<Finding> = audited.audit.findings.iter().map(as_root).collect();
    let changes = plan(audited.host, &audited.rules, &findings, &audited.subjects, &only)?;
    let by_hand = by_hand(&audited.audit.findings, &only);
    if printer.is_json() {
        printer.object(&PlanReport { v: 1, event: "tune_plan", changes: &changes, manual: &by_hand });
        return Ok(Exit::Done);
    }
    let text = match (args.script, args.diff) {
        (true, _) => script(&changes),
        (_, true) => diff(&changes),
        _ => script_with_diff(&changes),
    };
    // The printer adds the last line break.
    if !text.is_empty() {
        printer.line(text.trim_end_matches('\n'));
    }
    if printer.is_chatty() {
        print_remarks(&audited.audit.findings, &changes, &by_hand, unwritable_reason(audited.host));
    }
    Ok(Exit::Done)
}

/// A finding as root would see it: a plan also has the settings that this user cannot write.
fn as_root(finding: &Finding) -> Finding {
    let is_settable = finding.status == Status::Differs && finding.set != ChangeMethod::Manual;
    Finding { writable: finding.writable || is_settable, ..finding.clone() }
}

/// The rules that differ and can be changed only by hand.
fn by_hand(findings: &[Finding], only: &[String]) -> Vec<String> {
    let is_selected = |finding: &&Finding| only.is_empty() || only.contains(&finding.id);
    let manual =
        findings.iter().filter(|f| f.status == Status::Differs && f.set == ChangeMethod::Manual).filter(is_selected);
    let mut ids: Vec<String> = manual.map(|finding| finding.id.clone()).collect();
    ids.dedup();
    ids
}

/// A script that can be run, with the diff in its comments.
fn script_with_diff(changes: &[Change]) -> String {
    let mut text = script(changes);
    if !changes.is_empty() {
        text.push_str("\n# As a diff:\n");
    }
    for line in diff(changes).lines() {
        let _ = writeln!(text, "# {line}");
    }
    text
}

fn print_remarks(findings: &[Finding], changes: &[Change], by_hand: &[String], why: &str) {
    if changes.is_empty() {
        Printer::note("nothing differs that a command could change");
    }
    let is_unwritable = |change: &&Change| !findings.iter().any(|f| f.writable && change.ids.contains(&f.id));
    let unwritable: Vec<Change> = changes.iter().filter(is_unwritable).cloned().collect();
    if !unwritable.is_empty() {
        let what = ids(&unwritable).join(", ");
        Printer::note(&format!("{what}: {why}"));
    }
    if !by_hand.is_empty() {
        Printer::note(&format!("to be changed by hand, as `tune audit` says: {}", by_hand.join(", ")));
    }
}
