//! `longhaul tune undo`: restores snapshots, the newest first, each once.

use std::fs;
use std::path::{Path, PathBuf};

use model::Exit;
use model::fault::Fault;
use serde::Serialize;
use tune::apply::{self, Snapshot};
use tune::host::Host;
use tune::plan::Change;

use super::ids;
use crate::args::TuneUndo;
use crate::failure::Failure;
use crate::printer::Printer;

/// The extension of a snapshot's file after the snapshot was restored.
const UNDONE: &str = "undone";

/// A snapshot that was restored, or can be, as JSON.
#[derive(Serialize)]
struct UndoReport<'a> {
    v: u8,
    event: &'static str,
    snapshot: String,
    made: &'a str,
    rules: Vec<&'a str>,
}

impl<'a> UndoReport<'a> {
    fn of(event: &'static str, path: &Path, snapshot: &'a Snapshot) -> UndoReport<'a> {
        let snapshot_path = path.display().to_string();
        let made = &snapshot.made;
        UndoReport { v: 1, event, snapshot: snapshot_path, made, rules: ids(&snapshot.changes) }
    }
}

/// Restores the settings of a snapshot, or lists the snapshots.
///
/// # Errors
/// There is no such snapshot, a newer one must be restored first, or a setting cannot be written.
pub fn run(args: &TuneUndo, host: &dyn Host, snapshot_dir: &Path, printer: &Printer) -> Result<Exit, Failure> {
    let all = snapshots(snapshot_dir)?;
    if args.list {
        return Ok(list(&all, host, printer));
    }
    let path = match &args.snapshot {
        Some(name) => find_snapshot(name, snapshot_dir)?,
        None => all.last().cloned().ok_or_else(|| no_snapshot(snapshot_dir))?,
    };
    let snapshot = apply::read(host, &path)?;
    check_no_newer_change(host, &all, &path, &snapshot)?;
    if snapshot.boot != apply::identity(host).1 && printer.is_chatty() {
        Printer::note("the host has started again since: changes without --persist were lost already");
    }
    apply::undo(host, &snapshot)?;
    mark_restored(&path)?;
    if printer.is_json() {
        printer.object(&UndoReport::of("tune_undo", &path, &snapshot));
    } else {
        printer.line(&format!("restored the settings before {}: {}", snapshot.made, ids(&snapshot.changes).join(", ")));
    }
    Ok(Exit::Done)
}

fn no_snapshot(snapshot_dir: &Path) -> Failure {
    let message = format!("there is nothing to undo: {} has no snapshot", snapshot_dir.display());
    Failure { exit: Exit::Failed, fault: Fault::Missing, message }
}

/// The snapshots that were not restored yet, the oldest first: their names are times.
fn snapshots(snapshot_dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |e: std::io::Error| Failure::local(format!("cannot read {}: {e}", snapshot_dir.display()));
    let entries = match fs::read_dir(snapshot_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    Ok(paths)
}

/// Checks that no newer snapshot has changed the same settings. Restored out of order, neither snapshot would give the former
/// settings.
fn check_no_newer_change(host: &dyn Host, all: &[PathBuf], path: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    for newer in all.iter().filter(|other| other.file_name() > path.file_name()) {
        let Ok(later) = apply::read(host, newer) else { continue };
        let shares = |change: &Change| later.changes.iter().any(|other| other.place == change.place);
        let file = |file: &String| later.files.contains_key(file);
        if snapshot.changes.iter().any(shares) || snapshot.files.keys().any(file) {
            let name = newer.file_stem().unwrap_or_default().to_string_lossy();
            return Err(Failure::usage(format!(
                "{name} is newer and changed some of the same settings: undo that first"
            )));
        }
    }
    Ok(())
}

/// The snapshots of this host that were not restored yet, the oldest first.
///
/// # Errors
/// The directory of snapshots cannot be read.
pub fn pending_snapshots(host: &dyn Host, snapshot_dir: &Path) -> Result<Vec<Snapshot>, Failure> {
    Ok(snapshots(snapshot_dir)?.iter().filter_map(|path| apply::read(host, path).ok()).collect())
}

fn list(all: &[PathBuf], host: &dyn Host, printer: &Printer) -> Exit {
    for path in all {
        match (apply::read(host, path), printer.is_json()) {
            (Ok(snapshot), true) => printer.object(&UndoReport::of("tune_snapshot", path, &snapshot)),
            (Ok(snapshot), false) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                printer.line(&format!("{name}  {}", ids(&snapshot.changes).join(", ")));
            }
            (Err(error), _) => Printer::note(&error.to_string()),
        }
    }
    Exit::Done
}

/// A snapshot by its name in the list, or by the path of its file.
fn find_snapshot(name: &str, snapshot_dir: &Path) -> Result<PathBuf, Failure> {
    let listed = snapshot_dir.join(format!("{name}.json"));
    // A name with a slash is the path of a file.
    let is_plain = !name.contains('/');
    match [listed].into_iter().filter(|_| is_plain).chain([PathBuf::from(name)]).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err(Failure::usage(format!("there is no snapshot {name}; `longhaul tune undo --list` lists them"))),
    }
}

/// Renames a restored snapshot, so that the next `undo` does not restore it again. It is not deleted.
fn mark_restored(path: &Path) -> Result<(), Failure> {
    let to = path.with_extension(UNDONE);
    let failed =
        |e| Failure::local(format!("the settings are restored, but {} cannot be renamed: {e}", path.display()));
    fs::rename(path, to).map_err(failed)
}
