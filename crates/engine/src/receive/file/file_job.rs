//! What an incoming file needs of its job: the target's store, the policy, journals, space.

use std::sync::Arc;

use model::RelPath;
use store::Store;
use wire::receiver::Wanted;

use crate::journal::{Journal, Journals, Row};
use crate::receive::reorder::HeldBlocks;
use crate::receive::{Policy, Receiving};

/// The job of an incoming file, as the file sees it.
pub(in crate::receive) trait FileJob {
    /// The target's store.
    fn store(&self) -> &dyn Store;

    /// The job's settings and rights.
    fn policy(&self) -> &Policy;

    /// The blocks that all files of the job hold in memory, where the target takes files in order.
    fn held_blocks(&self) -> &Arc<HeldBlocks>;

    /// A path of the store below the job's target; none where it lies elsewhere.
    fn below_target(&self, path: &RelPath) -> Option<RelPath>;

    /// Called before an unfinished file without a journal is made in this directory.
    fn before_unfinished_file(&self, directory: &RelPath);

    /// The job's journals, and the journal of a file with its rows; none where the file is not worth a journal, or another job keeps it.
    fn journal_of(&self, wanted: &Wanted) -> Option<(&Journals, Journal, Vec<Row>)>;

    /// Tries an operation again for as long as the target is full and the job's patience lasts.
    fn with_room<T>(&self, operation: impl FnMut() -> store::Result<T>) -> store::Result<T>;

    /// Whether the job is over.
    fn is_over(&self) -> bool;

    /// Reports why nothing moves, until the result is dropped.
    fn busy_with(&self, why: String) -> impl Drop + '_;
}

impl FileJob for Receiving {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn held_blocks(&self) -> &Arc<HeldBlocks> {
        &self.held_blocks
    }

    fn below_target(&self, path: &RelPath) -> Option<RelPath> {
        path.below(&self.target.path)
    }

    fn before_unfinished_file(&self, directory: &RelPath) {
        (self.before_unfinished_file)(directory);
    }

    fn journal_of(&self, wanted: &Wanted) -> Option<(&Journals, Journal, Vec<Row>)> {
        let journals = self.policy.journals.as_ref().filter(|_| self.is_journalled(wanted))?;
        let (journal, rows) = self.take_journal(journals, wanted)?;
        Some((journals, journal, rows))
    }

    fn with_room<T>(&self, operation: impl FnMut() -> store::Result<T>) -> store::Result<T> {
        Receiving::with_room(self, operation)
    }

    fn is_over(&self) -> bool {
        Receiving::is_over(self)
    }

    fn busy_with(&self, why: String) -> impl Drop + '_ {
        Receiving::busy_with(self, why)
    }
}
