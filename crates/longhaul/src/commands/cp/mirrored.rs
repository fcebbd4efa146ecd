//! A copy from several sources of the same bytes. This process reads all of them, whatever the target is.

use model::Locator;
use model::fault::Exit;

use super::job::{CopyJob, is_opened_here};
use super::{CopyEnd, common_end, loopback};
use crate::args::Cp;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;
use crate::ssh::Role;

/// The source and its mirrors; none without `--mirror`.
pub(super) fn open_mirrors(cp: &Cp, settings: &Settings, sources: &[Locator]) -> Result<Option<Mirrors>, Failure> {
    if cp.mirror.is_empty() {
        return Ok(None);
    }
    let [source] = sources else {
        return Err(Failure::usage(
            "--mirror names a further place of a single source; copy several sources one by one",
        ));
    };
    let further = cp.mirror.iter().map(|text| settings.locator(text)).collect::<Result<Vec<_>, _>>()?;
    let mirrors = Mirrors::open(source, &further, settings)?;
    // Of a directory whose files are listed only these are read: a web server need not show the directory.
    if cp.files_from.is_none() {
        mirrors.check()?;
    }
    Ok(Some(mirrors))
}

/// Runs a copy with mirrors.
pub(super) fn run(job: &CopyJob<'_>) -> Result<Exit, Failure> {
    match job.target {
        Locator::Pipe => loopback::to_standard_output(job),
        target if is_opened_here(target) => loopback::to_target(job),
        target => match common_end(job.cp, std::slice::from_ref(target), Role::Target)? {
            CopyEnd::Remote(peer, mut places) => job.push(&peer, places.remove(0)),
            CopyEnd::Local => loopback::to_target(job),
        },
    }
}

impl CopyJob<'_> {
    /// Prints the new messages about the sources.
    pub(super) fn print_mirror_notes(&self) {
        self.mirrors.iter().flat_map(Mirrors::notes).for_each(|note| Printer::note(&note));
    }
}
