//! A copy from several sources of the same bytes: this process reads them all, whatever the target is.

use model::Locator;
use model::fault::Exit;

use super::job::{Job, is_near};
use super::{End, ends, near};
use crate::args::Cp;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;
use crate::ssh::Role;

/// The sources, where there are further ones.
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

pub(super) fn run(job: &Job<'_>) -> Result<Exit, Failure> {
    match job.target {
        Locator::Pipe => near::outwards(job),
        target if is_near(target) => near::within(job),
        target => match ends(job.cp, std::slice::from_ref(target), Role::Target)? {
            End::There(peer, mut places) => job.push(&peer, places.remove(0)),
            End::Here => near::within(job),
        },
    }
}

impl Job<'_> {
    /// What has become of sources, for people.
    pub(super) fn tell_of_mirrors(&self) {
        self.mirrors.iter().flat_map(Mirrors::notes).for_each(|note| Printer::note(&note));
    }
}
