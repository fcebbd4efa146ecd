//! `longhaul tune apply`.

use std::path::Path;

use model::Exit;
use serde::Serialize;
use tune::apply::apply;
use tune::plan::{Change, diff, plan};
use tune::rule::Persist;

use super::{Sight, agreed, ids, now};
use crate::args::TuneApply;
use crate::failure::Failure;
use crate::printer::Printer;

/// What was done, as JSON.
#[derive(Serialize)]
struct Said<'a> {
    v: u8,
    event: &'static str,
    /// Where what was there before is kept; none where nothing had to be changed.
    snapshot: Option<String>,
    persistent: bool,
    changes: &'a [Change],
}

/// Changes what differs.
pub fn run(args: &TuneApply, sight: &Sight<'_>, kept: &Path, printer: &Printer) -> Result<Exit, Failure> {
    let only = sight.ids(&args.rules)?;
    let changes = plan(sight.host, &sight.rules, &sight.audit.findings, &sight.subjects, &only)?;
    let said = |snapshot| Said { v: 1, event: "tune_apply", snapshot, persistent: args.persist, changes: &changes };
    if changes.is_empty() {
        return Ok(nothing(&said(None), printer));
    }
    if printer.is_chatty() {
        Printer::say(diff(&changes).trim_end_matches('\n'));
    }
    let question = format!("Make these {} changes of this host?", changes.len());
    if only.is_empty() && !args.yes && !agreed(&question)? {
        Printer::note("nothing was changed");
        return Ok(Exit::Failed);
    }
    let snapshot = apply(sight.host, &changes, kept, &now(), args.persist)?;
    match printer.is_json() {
        true => printer.object(&said(Some(snapshot.display().to_string()))),
        false => tell(args, &changes, &snapshot, printer),
    }
    Ok(Exit::Done)
}

fn nothing(said: &Said<'_>, printer: &Printer) -> Exit {
    match printer.is_json() {
        true => printer.object(said),
        false => printer.line("nothing differs that this user can change here"),
    }
    Exit::Done
}

fn tell(args: &TuneApply, changes: &[Change], snapshot: &Path, printer: &Printer) {
    printer.line(&format!("changed: {}", ids(changes).join(", ")));
    printer.line(&format!("kept in {}; `longhaul tune undo` brings it back", snapshot.display()));
    if !args.persist {
        printer.line("it lasts until the next boot; with --persist it stays");
        return;
    }
    let manual: Vec<Change> = changes.iter().filter(|change| change.persist == Persist::Manual).cloned().collect();
    if !manual.is_empty() {
        printer.line(&format!("until the next boot only, as there is no file for it: {}", ids(&manual).join(", ")));
    }
}
