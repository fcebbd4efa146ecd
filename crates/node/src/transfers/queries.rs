//! Queries about transfers: a holder sees only its own.

use std::sync::Arc;

use model::id::Uuid;
use model::v1::{Stage, Transfer};

use super::Transfers;
use super::table::{Entry, TransferChange};
use crate::order_table::{Page, PageQuery};

impl Transfers {
    /// A transfer of a holder.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<Arc<Transfer>> {
        self.table().orders.of(holder, id).map(Entry::show)
    }

    /// A page of a holder's transfers; none if the transfer of `after` is not known.
    pub fn page(&self, holder: &str, query: &PageQuery<Stage>) -> Option<Page<Arc<Transfer>>> {
        self.table().page(holder, query)
    }

    /// The receipt of a transfer, as JSON; none if the transfer has none.
    pub fn receipt(&self, holder: &str, id: &Uuid) -> Option<String> {
        let found = self.table().orders.of(holder, id).map(|entry| entry.receipt.clone())?;
        match (found, &self.records) {
            (Some(receipt), _) => Some(receipt.to_string()),
            (None, Some(records)) => records.receipt(id).ok().filter(|text| !text.is_empty()),
            (None, None) => None,
        }
    }

    /// The changes of a holder's transfers since `mark`, and the mark of the last change of all holders.
    pub fn changed_since(&self, mark: u64, holder: &str, only: Option<&Uuid>) -> (Vec<TransferChange>, u64) {
        let table = self.table();
        (table.changed_since(mark, holder, only), table.revision())
    }

    /// A holder's transfers that have not ended, and the mark of the last change of all holders.
    pub fn unended_of(&self, holder: &str, only: Option<&Uuid>) -> (Vec<TransferChange>, u64) {
        let table = self.table();
        (table.unended_of(holder, only), table.revision())
    }

    /// A holder's transfers under way.
    pub fn under_way_of(&self, holder: &str, only: Option<&Uuid>) -> Vec<TransferChange> {
        self.table().under_way_of(holder, only)
    }

    /// The number of transfers under way, and of those that wait.
    pub fn load(&self) -> (usize, usize) {
        let table = self.table();
        (table.orders.running("").1, table.orders.waiting())
    }
}
