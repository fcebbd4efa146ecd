//! A copy from several sources of the same bytes. This process reads all of them, whatever the target is.

use model::Locator;
use model::fault::Exit;

use super::job::{CopyJob, is_near};
use super::{CopyEnd, ends, near};
use crate::args::Cp;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;
use crate::ssh::Role;

/// The source and its mirrors; none without `--mirror`.
pub(super) fn gather(cp: &Cp, settings: &Settings, sources: &[Locator]) -> Result<Option<Mirrors>, Failure> {
    if cp.mirror.is_empty() {
        return Ok(None);
    }
    let [source] = sources else {
        return Err(Failure::usage(
            "--mirror names another place of the one source; of several sources copy each by itself",
        ));
    };
    let further = cp.mirror.iter().map(|text| settings.locator(text)).collect::<Result<Vec<_>, _>>()?;
    Mirrors::gather(source, &further, settings).map(Some)
}

pub(super) fn run(job: &CopyJob<'_>) -> Result<Exit, Failure> {
    match job.target {
        Locator::Pipe => near::outwards(job),
        target if is_near(target) => near::within(job),
        target => match ends(job.cp, std::slice::from_ref(target), Role::Target)? {
            CopyEnd::There(peer, mut places) => job.push(&peer, places.remove(0)),
            CopyEnd::Here => near::within(job),
        },
    }
}

impl CopyJob<'_> {
    /// Prints the new messages about the sources.
    pub(super) fn tell_of_mirrors(&self) {
        self.mirrors.iter().flat_map(Mirrors::notes).for_each(|note| Printer::note(&note));
    }
}
