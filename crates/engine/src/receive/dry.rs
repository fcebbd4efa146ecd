//! What a dry run would do, and what `--delete` does: the two share the look at what is there and was not offered.

use std::collections::HashSet;

use model::fault::Fault;
use model::name::RelPath;
use model::spec::Step;
use wire::frame::{Outcome, Plan, Refusal};
use wire::receiver::{Judgement, Wanted, name_key};

use super::Receiving;

/// Steps that may wait to be told; a peer that does not listen makes the clerk wait.
const STEPS_WAITING_MAX: usize = 1 << 16;

impl Receiving {
    /// Notes a step of a dry run.
    pub(super) fn plan(&self, step: Step, path: &RelPath, bytes: u64) {
        while self.state().machine.plans_waiting() >= STEPS_WAITING_MAX {
            if self.sleep(std::time::Duration::from_millis(20)) {
                return;
            }
        }
        let path = path
            .below(&self.target.path)
            .filter(|below| !below.is_root())
            .unwrap_or_else(|| path.name().map(|name| RelPath::root().join(&name)).unwrap_or_default());
        self.state().machine.planned(Plan { step, path, bytes });
    }

    /// A file's judgement in a dry run: told and settled, or left to the sender to compare.
    pub(super) fn judge_dry(&self, wanted: &Wanted, judgement: Judgement) {
        let outcome = match judgement {
            Judgement::WantUnless(_) => return self.state().machine.judged(wanted.id, judgement),
            Judgement::Skip => Outcome::Skipped,
            Judgement::Refuse(refusal) => Outcome::Failed(refusal),
            Judgement::Want | Judgement::WantRest(_) => {
                let bytes = if wanted.size == wire::frame::UNKNOWN_SIZE { 0 } else { wanted.size };
                self.plan(Step::Copy, &wanted.path, bytes);
                Outcome::Done
            }
        };
        self.settle(wanted.id, outcome);
    }

    /// Removes what is in a directory and was not offered; what the rules leave out, and what other jobs are writing,
    /// stays.
    pub(super) fn prune(&self, path: &RelPath, shown: &RelPath, offered: &HashSet<u64>) {
        let entries = match self.store.list(path) {
            Ok(entries) => entries.finished(),
            // In a dry run it may not have been made.
            Err(error) if error.is_not_found() => return,
            Err(error) => return self.not_pruned(shown, &error),
        };
        let is_root = strip_root(shown).is_root();
        for entry in entries {
            let (name, stat) = match entry {
                Ok(entry) => entry,
                Err(error) => return self.not_pruned(shown, &error),
            };
            let is_dir = stat.is_ok_and(|stat| stat.meta.kind == model::Kind::Dir);
            let stays = offered.contains(&name_key(&name));
            let (below, shown) = (path.join(&name), shown.join(&name));
            if stays || self.is_left_out(&shown, is_dir) {
                continue;
            }
            if is_root && offered.is_empty() {
                return self.not_emptied(path);
            }
            match if is_dir { self.spares(&below, &shown) } else { Ok(false) } {
                Ok(false) => self.remove(&below, &shown),
                // It stays for the sake of what stays in it.
                Ok(true) => self.prune(&below, &shown, &HashSet::new()),
                Err(error) => self.not_pruned(&shown, &error),
            }
            if self.is_over() {
                return;
            }
        }
    }

    fn is_left_out(&self, shown: &RelPath, is_dir: bool) -> bool {
        !self.filters.takes(&strip_root(shown), is_dir)
    }

    /// Whether something in a directory that the source lacks is to stay.
    fn spares(&self, path: &RelPath, shown: &RelPath) -> store::Result<bool> {
        // As with removing: only the names of directories outlive a listing's descriptor.
        let mut dirs = Vec::new();
        let mut entries = self.store.list(path)?.finished();
        for entry in entries.by_ref() {
            let (name, stat) = entry?;
            let is_dir = stat?.meta.kind == model::Kind::Dir;
            if self.is_left_out(&shown.join(&name), is_dir) {
                return Ok(true);
            }
            dirs.extend(is_dir.then_some(name));
        }
        if entries.left_out() > 0 {
            return Ok(true);
        }
        for name in dirs {
            if self.spares(&path.join(&name), &shown.join(&name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remove(&self, path: &RelPath, shown: &RelPath) {
        if let Err(refusal) = &self.policy.may_replace {
            return self.state().machine.not_pruned(shown.clone(), refusal.clone());
        }
        if self.policy.options.dry_run {
            self.plan(Step::Delete, path, 0);
            return self.state().machine.pruned(1);
        }
        match store::remove_all(&*self.store, path) {
            Ok(()) => self.state().machine.pruned(1),
            Err(error) => self.not_pruned(shown, &error),
        }
    }

    /// A source without anything in it is a disk that is not mounted more often than a wish to remove all there is.
    fn not_emptied(&self, path: &RelPath) {
        let reason = format!(
            "the source is empty, so --delete would remove all that is in {path}: nothing was removed. If that is meant, remove it with \
             `longhaul rm -r`"
        );
        self.state().machine.not_pruned(path.clone(), Refusal::new(Fault::Storage, reason));
    }

    fn not_pruned(&self, shown: &RelPath, error: &store::Error) {
        self.state().machine.not_pruned(shown.clone(), Refusal::from_error(error));
    }
}

/// A path below its source root, without the root's own name.
fn strip_root(shown: &RelPath) -> RelPath {
    let rest = shown.as_bytes().splitn(2, |b| *b == b'/').nth(1).unwrap_or_default();
    RelPath::parse(rest).unwrap_or_default()
}
