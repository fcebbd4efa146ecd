//! Checks of a copy's command line before any peer is contacted, and the signals that cancel a copy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::Locator;
use model::fault::Exit;

use super::memory_test;
use crate::args::Cp;
use crate::failure::Failure;
use crate::printer::Printer;

/// All checks that need only the command line.
pub(super) fn all(
    cp: &Cp,
    sources: &[Locator],
    target: &Locator,
    into_dir: bool,
    is_json: bool,
) -> Result<(), Failure> {
    pipes(sources, target)?;
    checksum_none(cp, sources, target)?;
    if cp.delete && !into_dir {
        delete_target_is_explicit(target)?;
    }
    memory_test::check_endless(sources, target)?;
    if *target == Locator::Pipe && is_json {
        return Err(Failure::usage(
            "--json and - both want standard output; write the receipt to a file with --receipt",
        ));
    }
    receipt(cp, target, is_json)?;
    delete(cp)?;
    if !cp.copy_links {
        warn_of_links(sources);
    }
    Ok(())
}

fn pipes(sources: &[Locator], target: &Locator) -> Result<(), Failure> {
    if sources.contains(&Locator::Pipe) && sources.len() > 1 {
        return Err(Failure::usage("- (standard input) is copied alone"));
    }
    if *target == Locator::Pipe && sources.len() > 1 {
        return Err(Failure::usage("- (standard output) takes one file"));
    }
    Ok(())
}

fn checksum_none(cp: &Cp, sources: &[Locator], target: &Locator) -> Result<(), Failure> {
    if cp.checksums().is_empty() && !memory_test::is_memory(target) && !sources.iter().all(memory_test::is_memory) {
        return Err(Failure::usage("--checksum none is for null: and zero: only; data that is kept is verified"));
    }
    Ok(())
}

/// Requires an absolute path where a mistake with `--delete` would cost most: for the working directory, a directory above it,
/// and the home directory. The root of the host is always refused.
fn delete_target_is_explicit(target: &Locator) -> Result<(), Failure> {
    let Locator::Local(path) = target else { return Ok(()) };
    let Ok(target_dir) = path.canonicalize() else { return Ok(()) };
    if target_dir.parent().is_none() {
        return Err(Failure::usage("--delete does not take / as its target: it would remove the whole of this host"));
    }
    let contains_working_dir = std::env::current_dir().is_ok_and(|working_dir| working_dir.starts_with(&target_dir));
    let is_home = std::env::home_dir().and_then(|home| home.canonicalize().ok()).is_some_and(|home| home == target_dir);
    if !path.is_absolute() && (contains_working_dir || is_home) {
        let what = if is_home { "your home" } else { "where you are, or above it" };
        return Err(Failure::usage(format!(
            "{} is {what}, and --delete removes from it what the source lacks; if that is meant, name it in full: {}",
            path.display(),
            target_dir.display()
        )));
    }
    Ok(())
}

/// Checks that the receipt can be written, before the data is moved rather than after.
fn receipt(cp: &Cp, target: &Locator, is_json: bool) -> Result<(), Failure> {
    let Some(file) = &cp.receipt else { return Ok(()) };
    if is_standard_output(file) {
        return match (is_json, target) {
            (true, _) => Err(Failure::usage("--json ends with the receipt; --receipt - would print it twice")),
            (_, Locator::Pipe) => Err(Failure::usage("--receipt - and the target - both want standard output")),
            _ => Ok(()),
        };
    }
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).map_err(|e| Failure::usage(format!("cannot write the receipt to {}: {e}", file.display())))
}

/// Whether a receipt goes to standard output.
pub(super) fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Warns of a symbolic link as a source: it is copied as a link, which few users intend.
fn warn_of_links(sources: &[Locator]) {
    for source in sources {
        let Locator::Local(path) = source else { continue };
        if let Ok(to) = std::fs::read_link(path) {
            let to = path.with_file_name(to);
            let (path, to) = (path.display(), to.display());
            Printer::note(&format!(
                "{path} is a symbolic link, and is copied as one; name {to}, or add -L, for what it leads to"
            ));
        }
    }
}

/// `--delete` is only for trees.
fn delete(cp: &Cp) -> Result<(), Failure> {
    if cp.delete && !cp.recursive {
        return Err(Failure::usage(
            "--delete removes what the source lacks directory by directory: it goes with --recursive",
        ));
    }
    Ok(())
}

/// Registers the flag that the first Ctrl-C sets: the job then ends in order. The second Ctrl-C ends the process at once.
pub(super) fn cancel_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&cancel))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancel)))
            .map_err(|e| Failure::local(format!("cannot handle signals: {e}")))?;
    }
    Ok(cancel)
}
