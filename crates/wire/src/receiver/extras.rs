//! What is at the target and not at the source, where that is to be removed: noted as directories are left, and removed last.

use model::Refusal;
use model::name::RelPath;

use super::{Action, Receiver};
use crate::frame::Removal;

/// What becomes of what the source lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extras {
    /// It stays.
    Stay,
    /// It is noted.
    Noting,
    /// It is being removed.
    Removing,
    /// It has been.
    Settled,
}

impl Receiver {
    /// For a job that removes what the source lacks.
    pub fn deleting(mut self) -> Receiver {
        self.extras = Extras::Noting;
        self
    }

    /// All that was offered is in place, and what was not is to go.
    pub(super) fn extras_due(&mut self) -> Option<Action> {
        if self.extras != Extras::Noting || !self.all_in_place() {
            return None;
        }
        self.extras = Extras::Removing;
        Some(Action::RemoveExtras { unread: self.unread })
    }

    /// What the source lacks is about to be removed.
    pub fn removing(&mut self, removal: Removal) {
        self.removal = Some(removal);
    }

    /// That what the source lacks is about to be removed; once.
    pub fn take_removal(&mut self) -> Option<Removal> {
        self.removal.take()
    }

    /// An extra was removed, or would be.
    pub fn removed(&mut self) {
        self.totals.deleted += 1;
    }

    /// There is no more to be removed.
    pub fn extras_settled(&mut self) {
        self.extras = Extras::Settled;
    }

    /// Extras could not be removed, or were not.
    pub fn not_removed(&mut self, path: RelPath, refusal: Refusal) {
        self.missed_besides(path, refusal);
    }
}
