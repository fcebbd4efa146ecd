//! Extras: entries that the target has and the source lacks. Where they are to be removed, they are noted as directories are left, and
//! removed last.

use model::Refusal;
use model::name::RelPath;

use super::{Action, Receiver};
use crate::frame::Removal;

/// The phase of the extras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extras {
    /// They stay.
    Stay,
    /// They are being noted.
    Noting,
    /// They are being removed.
    Removing,
    /// They have been removed, or reported as not removed.
    Settled,
}

impl Receiver {
    /// Makes the job remove extras.
    pub fn deleting(mut self) -> Receiver {
        self.extras = Extras::Noting;
        self
    }

    /// The action that removes the extras, once all offered entries are settled.
    pub(super) fn extras_due(&mut self) -> Option<Action> {
        if self.extras != Extras::Noting || !self.all_in_place() {
            return None;
        }
        self.extras = Extras::Removing;
        Some(Action::RemoveExtras { unread: self.unread })
    }

    /// Reports that extras are about to be removed.
    pub fn removing(&mut self, removal: Removal) {
        self.removal = Some(removal);
    }

    /// The removal that is about to begin; once.
    pub fn take_removal(&mut self) -> Option<Removal> {
        self.removal.take()
    }

    /// Counts an extra that was removed, or in a dry run would be.
    pub fn removed(&mut self) {
        self.totals.deleted += 1;
    }

    /// Reports that the removal is over.
    pub fn extras_settled(&mut self) {
        self.extras = Extras::Settled;
    }

    /// Reports extras that were not removed.
    pub fn not_removed(&mut self, path: RelPath, refusal: Refusal) {
        self.note_failure(path, refusal);
    }
}
