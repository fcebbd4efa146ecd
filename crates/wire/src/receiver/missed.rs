//! What did not make it, by name.

use model::name::RelPath;

use super::Receiver;
use crate::frame::Refusal;
use crate::limits::MISSES_NAMED_MAX;
use crate::sender::Miss;

impl Receiver {
    /// A failure that is no entry's outcome.
    pub(super) fn missed_besides(&mut self, path: RelPath, refusal: Refusal) {
        self.totals.failed += 1;
        if self.misses.len() < MISSES_NAMED_MAX {
            self.untold.push_back(Miss { path: path.clone(), refusal: refusal.clone() });
        }
        self.missed(path, refusal);
    }

    pub(super) fn missed(&mut self, path: RelPath, refusal: Refusal) {
        if self.misses.len() < MISSES_NAMED_MAX {
            self.misses.push(Miss { path, refusal });
        }
    }
}
