//! What is told of transfers to those who ask: each of his own.

use std::sync::Arc;

use model::id::Uuid;
use model::v1::{Stage, Transfer};

use super::Transfers;
use super::table::{Changed, Entry};
use crate::order_table::{Asked, Page};

impl Transfers {
    /// What is told of a transfer to its holder.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<Arc<Transfer>> {
        self.table().orders.of(holder, id).map(Entry::show)
    }

    /// A page of a holder's transfers; none where the one that it is to begin behind is not known.
    pub fn page(&self, holder: &str, asked: &Asked<Stage>) -> Option<Page<Arc<Transfer>>> {
        self.table().page(holder, asked)
    }

    /// The receipt of a transfer, as JSON; none where there is none.
    pub fn receipt(&self, holder: &str, id: &Uuid) -> Option<String> {
        let found = self.table().orders.of(holder, id).map(|entry| entry.receipt.clone())?;
        match (found, &self.shelf) {
            (Some(receipt), _) => Some(receipt.to_string()),
            (None, Some(shelf)) => shelf.receipt(id).ok().filter(|text| !text.is_empty()),
            (None, None) => None,
        }
    }

    /// What has changed behind a mark, of what a holder may know of, and the mark of the last change of all: behind that there is
    /// nothing yet, whosever it was.
    pub fn changed_since(&self, mark: u64, holder: &str, only: Option<&Uuid>) -> (Vec<Changed>, u64) {
        let table = self.table();
        (table.changed_since(mark, holder, only), table.revision())
    }

    /// What has not ended, of what a holder may know of, and the mark of the last change of all.
    pub fn unended_of(&self, holder: &str, only: Option<&Uuid>) -> (Vec<Changed>, u64) {
        let table = self.table();
        (table.unended_of(holder, only), table.revision())
    }

    /// What is under way, of what a holder may know of.
    pub fn under_way_of(&self, holder: &str, only: Option<&Uuid>) -> Vec<Changed> {
        self.table().under_way_of(holder, only)
    }

    /// How many are under way, and how many wait.
    pub fn load(&self) -> (usize, usize) {
        let table = self.table();
        (table.orders.running("").1, table.orders.waiting())
    }
}
