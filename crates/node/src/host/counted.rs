//! What of a node's life goes into its numbers, and which of them who may read.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use auth::{Access, Actions, Issuer};
use engine::Error;
use model::RelPath;
use model::fault::{Blame, Fault};
use wire::frame::{Refusal, Totals};

use super::Exports;
use crate::flows::User;
use crate::meters::{Ended, Reading, Why, label};
use crate::probes::KINDS;

/// On whose behalf.
pub(crate) fn user(access: &Access) -> User {
    User { holder: access.holder().to_owned(), who: crate::audit::cut(&access.who()).into_owned() }
}

/// How full an export is.
pub(crate) struct Filled {
    pub export: String,
    pub is_writable: bool,
    /// The device that it lies on: several exports may share one.
    pub device: u64,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Whose tokens can be for it: the names of their issuers.
    pub communities: Vec<String>,
}

impl Exports {
    /// Takes in what moved since the last time: once a second, and when somebody reads. Errands come from elsewhere than
    /// sessions, and after a restart without any: they are found in the list of jobs.
    pub fn settle(&self) {
        let new = self.jobs.carried_after(self.meters.last_errand());
        let named = |holder: String| match self.access_of(&holder) {
            Some(access) => user(&access),
            None => User { who: holder.clone(), holder },
        };
        // Named before they are taken in: that may read a file.
        let new: Vec<_> = new.into_iter().map(|(number, holder, control)| (number, named(holder), control)).collect();
        self.meters.errands(new.into_iter());
        self.meters.settle();
    }

    /// Whether somebody may read the numbers without a credential, also in clear.
    pub fn is_monitored_from(&self, address: IpAddr) -> bool {
        self.offer.now().metrics.contain(address)
    }

    /// The same, over a line that nobody reads along on: this host itself, where the node is more than one copy's.
    pub fn tells_numbers_to(&self, address: IpAddr) -> bool {
        self.is_monitored_from(address) || (address.to_canonical().is_loopback() && !self.own_guests)
    }

    /// Whether somebody may see what others do here: with a credential, where it reads every export as a whole.
    pub fn shows_all_to(&self, access: &Access) -> bool {
        let offer = self.offer.now();
        let reads = |export: &str| access.actions_below(export, false, &RelPath::root()).contains(Actions::FOR_READ);
        !access.is_guest() && !offer.served.is_empty() && offer.served.iter().all(|s| reads(&s.export.name))
    }

    /// All numbers of this node: of exports those that somebody may know of, or all.
    pub fn numbers(&self, access: Option<&Access>) -> Reading {
        self.settle();
        let mut all = self.meters.read();
        let (offer, mut free, mut size) = (self.offer.now(), Vec::new(), Vec::new());
        for served in &offer.served {
            let name = &served.export.name;
            if served.export.abroad.is_some() || !access.is_none_or(|access| access.may_see(name)) {
                continue;
            }
            if let Ok(Some(space)) = served.store.space(&RelPath::root()) {
                free.push((label("export", name.clone()), space.free_bytes));
                size.push((label("export", name.clone()), space.total_bytes));
            }
        }
        all.gauges("longhaul_export_free_bytes", "Room that is left for this node's user.", free);
        all.gauges("longhaul_export_size_bytes", "Size of the file system.", size);
        if let Some(ends) = offer.certificate_ends {
            let name = "longhaul_certificate_expiry_timestamp_seconds";
            all.gauge(name, "When the site's certificate ends, since 1970.", ends.max(0) as u64);
        }
        all.gauge("longhaul_probes_running", "Tests of guests under way.", self.probes.running());
        let tally = &self.probes.tally;
        let begun = KINDS.iter().zip(&tally.begun);
        let begun = begun.map(|(kind, count)| (label("kind", *kind), count.load(Ordering::Relaxed))).collect();
        all.counters("longhaul_probes", "Tests that were answered.", begun);
        all.counter("longhaul_probe_bytes", "Bytes that tests moved.", tally.bytes.load(Ordering::Relaxed));
        all
    }

    /// How full the exports are that lie on this host: those that somebody may know of, or all.
    pub fn filled(&self, access: Option<&Access>) -> Vec<Filled> {
        let (offer, policy) = (self.offer.now(), self.policy());
        let here = offer.served.iter().filter(|served| served.export.abroad.is_none());
        let told = here.filter(|served| access.is_none_or(|access| access.may_see(&served.export.name)));
        let filled = told.filter_map(|served| {
            let (name, space) = (&served.export.name, served.store.space(&RelPath::root()).ok()??);
            let is_for = |issuer: &&Issuer| match (&issuer.export, &issuer.exports) {
                (Some(export), _) => export == name,
                (None, Some(exports)) => exports.contains(name),
                (None, None) => true,
            };
            Some(Filled {
                export: name.clone(),
                is_writable: served.export.writable,
                device: space.device,
                total_bytes: space.total_bytes,
                free_bytes: space.free_bytes,
                communities: policy.issuers.iter().filter(is_for).map(|issuer| issuer.name.clone()).collect(),
            })
        });
        filled.collect()
    }

    /// Somebody was not let in.
    pub(super) fn count_turned_away(&self, peer: SocketAddr, refusal: &Refusal) {
        match refusal.fault {
            Fault::Auth if !self.policy().admits(peer.ip()) => self.meters.refused(Why::Policy),
            Fault::Auth => self.meters.refused(Why::Auth),
            _ => {}
        }
    }

    /// A job of a guest has ended.
    pub(super) fn count_job(&self, totals: &Totals, error: Option<&Error>) {
        let how = match error.map(Blame::fault) {
            None if totals.failed > 0 => Ended::Partial,
            None => Ended::Done,
            Some(Fault::Auth) => {
                self.meters.refused(Why::Policy);
                Ended::Refused
            }
            Some(Fault::Interrupted) => Ended::Interrupted,
            Some(fault) => {
                if fault == Fault::Integrity {
                    self.meters.damaged();
                }
                Ended::Failed
            }
        };
        self.meters.job_ended(how, totals);
    }
}
