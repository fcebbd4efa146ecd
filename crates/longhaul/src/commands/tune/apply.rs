//! `longhaul tune apply`: changes the settings that differ, and stores the former ones in a snapshot.

use std::path::Path;

use model::Exit;
use serde::Serialize;
use tune::apply::apply;
use tune::plan::{Change, diff, plan};
use tune::rule::Persist;

use super::{AuditedHost, confirm, ids, now};
use crate::args::TuneApply;
use crate::failure::Failure;
use crate::printer::Printer;

/// The applied changes, as JSON.
#[derive(Serialize)]
struct ApplyReport<'a> {
    v: u8,
    event: &'static str,
    /// The snapshot of the former settings; none where nothing had to be changed.
    snapshot: Option<String>,
    persistent: bool,
    changes: &'a [Change],
}

/// Changes the settings that differ, once the user has agreed.
///
/// # Errors
/// A rule is unknown, the user cannot be asked, or a change fails.
pub fn run(
    args: &TuneApply,
    audited: &AuditedHost<'_>,
    snapshot_dir: &Path,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let only = audited.ids(&args.rules)?;
    let changes = plan(audited.host, &audited.rules, &audited.audit.findings, &audited.subjects, &only)?;
    let persistent = args.persist;
    let report = |snapshot| ApplyReport { v: 1, event: "tune_apply", snapshot, persistent, changes: &changes };
    if changes.is_empty() {
        return Ok(print_nothing(&report(None), printer));
    }
    if printer.is_chatty() {
        Printer::stderr_line(diff(&changes).trim_end_matches('\n'));
    }
    let question = format!("Make these {} changes of this host?", changes.len());
    if only.is_empty() && !args.yes && !confirm(&question)? {
        Printer::note("nothing was changed");
        return Ok(Exit::Failed);
    }
    let snapshot = apply(audited.host, &changes, snapshot_dir, &now(), args.persist)?;
    if printer.is_json() {
        printer.object(&report(Some(snapshot.display().to_string())));
    } else {
        print_result(args, &changes, &snapshot, printer);
    }
    Ok(Exit::Done)
}

fn print_nothing(report: &ApplyReport<'_>, printer: &Printer) -> Exit {
    if printer.is_json() {
        printer.object(report);
    } else {
        printer.line("nothing differs that this user can change here");
    }
    Exit::Done
}

fn print_result(args: &TuneApply, changes: &[Change], snapshot: &Path, printer: &Printer) {
    printer.line(&format!("changed: {}", ids(changes).join(", ")));
    printer.line(&format!("the former settings are in {}; `longhaul tune undo` restores them", snapshot.display()));
    if !args.persist {
        printer.line("the changes last until the next boot; with --persist they stay");
        return;
    }
    let manual: Vec<Change> = changes.iter().filter(|change| change.persist == Persist::Manual).cloned().collect();
    if !manual.is_empty() {
        printer.line(&format!(
            "these changes last until the next boot only, because no file sets them at boot: {}",
            ids(&manual).join(", ")
        ));
    }
}
