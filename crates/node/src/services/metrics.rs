//! Collects the metrics of a node, as far as a principal may read them.

use model::Refusal;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use auth::Access;
use engine::Error;
use model::fault::{Blame, Fault};
use wire::frame::Totals;

use super::Services;
use crate::access::ExportSpace;
use crate::flows::User;
use crate::meters::{JobOutcome, MetricsSnapshot, RefusalReason, label};
use crate::test_service::KINDS;

/// The user of an access, for the top talkers.
pub(crate) fn user(access: &Access) -> User {
    User { holder: access.holder().to_owned(), who: crate::audit::cut(&access.who()).into_owned() }
}

impl Services {
    /// Adds the bytes that have moved since the last call to the totals: once a second, and when the metrics are read. Delegated
    /// transfers have no session of a client, so they are found in the list of jobs.
    pub fn update_totals(&self) {
        let new = self.jobs.delegated_after(self.meters.last_delegated());
        let named = |holder: String| match self.access.access_of(&holder) {
            Some(access) => user(&access),
            None => User { who: holder.clone(), holder },
        };
        // Users are looked up before the meters are locked, because the lookup may read a file.
        let new: Vec<_> = new.into_iter().map(|(number, holder, control)| (number, named(holder), control)).collect();
        self.meters.add_delegated(new.into_iter());
        self.meters.update_totals();
    }

    /// All metrics of this node; of the exports those that a principal may see, or all.
    pub fn metrics(&self, access: Option<&Access>) -> MetricsSnapshot {
        self.update_totals();
        let mut all = self.meters.snapshot();
        let spaces = self.access.export_spaces(access);
        let each = |bytes: fn(&ExportSpace) -> u64| {
            spaces.iter().map(|export| (label("export", export.export.clone()), bytes(export))).collect()
        };
        let free = each(|export| export.free_bytes);
        all.gauges("longhaul_export_free_bytes", "Free space for the node's user, bytes.", free);
        let size = each(|export| export.total_bytes);
        all.gauges("longhaul_export_size_bytes", "Size of the file system, bytes.", size);
        if let Some(ends) = self.access.certificate_ends() {
            let name = "longhaul_certificate_expiry_timestamp_seconds";
            all.gauge(name, "Expiry time of the certificate, seconds since 1970.", ends.max(0) as u64);
        }
        all.gauge("longhaul_probes_running", "Running tests of clients.", self.tests.running());
        let counts = &self.tests.counts;
        let begun = KINDS.iter().zip(&counts.begun);
        let begun = begun.map(|(kind, count)| (label("kind", *kind), count.load(Ordering::Relaxed))).collect();
        all.counters("longhaul_probes", "Tests that the node answered, by kind.", begun);
        all.counter(
            "longhaul_probe_bytes",
            "Bytes that tests moved over the network.",
            counts.bytes.load(Ordering::Relaxed),
        );
        all
    }

    /// Counts a login that was refused.
    pub(super) fn count_refused_login(&self, peer: SocketAddr, refusal: &Refusal) {
        match refusal.fault {
            Fault::Auth if !self.access.policy().admits(peer.ip()) => self.meters.refused(RefusalReason::Policy),
            Fault::Auth => self.meters.refused(RefusalReason::Auth),
            _ => {}
        }
    }

    /// Counts a client's job that has ended.
    pub(super) fn count_job(&self, totals: &Totals, error: Option<&Error>) {
        let how = match error.map(Blame::fault) {
            None if totals.failed > 0 => JobOutcome::Partial,
            None => JobOutcome::Done,
            Some(Fault::Auth) => {
                self.meters.refused(RefusalReason::Policy);
                JobOutcome::Refused
            }
            Some(Fault::Interrupted) => JobOutcome::Interrupted,
            Some(fault) => {
                if fault == Fault::Integrity {
                    self.meters.damaged();
                }
                JobOutcome::Failed
            }
        };
        self.meters.job_ended(how, totals);
    }
}
