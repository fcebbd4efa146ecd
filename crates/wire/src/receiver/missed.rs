//! The failures of a job, by name.

use model::Refusal;
use model::name::RelPath;

use super::Receiver;
use crate::limits::MISSES_NAMED_MAX;
use crate::sender::Miss;

impl Receiver {
    /// Notes a failure that belongs to no offered entry.
    pub(super) fn note_failure(&mut self, path: RelPath, refusal: Refusal) {
        self.totals.failed += 1;
        if self.misses.len() < MISSES_NAMED_MAX {
            self.unsent_misses.push_back(Miss { path: path.clone(), refusal: refusal.clone() });
        }
        self.note_miss(path, refusal);
    }

    pub(super) fn note_miss(&mut self, path: RelPath, refusal: Refusal) {
        if self.misses.len() < MISSES_NAMED_MAX {
            self.misses.push(Miss { path, refusal });
        }
    }
}
