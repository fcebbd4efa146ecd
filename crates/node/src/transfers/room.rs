//! Memory for a new order, and the forgetting of ended transfers.

use parking_lot::MutexGuard;

use engine::budget::Part;
use model::id::Uuid;
use model::v1::node::Order;

use super::spent::{SPENT_MAX, Spent};
use super::table::{UNENDED_MAX, footprint};
use super::{Transfers, Unaccepted, now_s};

impl Transfers {
    /// The memory of a new order. Checks as well that its end can be remembered.
    ///
    /// # Errors
    /// There are too many orders, or they take too much memory.
    pub(super) fn room_for(&self, holder: &str, order: &Order) -> Result<Part, Unaccepted> {
        let full = |why: String| Unaccepted::Full(why);
        let (is_full, known) = {
            let table = self.table();
            (table.orders.is_full_for(holder), table.orders.known(holder))
        };
        if is_full {
            let (own, all) = UNENDED_MAX;
            return Err(full(format!(
                "{own} transfers of one holder and {all} in all may wait or be under way; order again when some have ended"
            )));
        }
        if !self.spent().has_room(holder, known, now_s()) {
            let own = SPENT_MAX.0;
            return Err(full(format!("{own} transfers of one holder within a day are the most; order again tomorrow")));
        }
        let mut part = self.budget.part(holder);
        part.grow(footprint(order)).map_err(|why| full(why.to_string()))?;
        Ok(part)
    }

    pub(super) fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock()
    }

    /// Forgets transfers except for their ids. The record of an id that cannot be written down stays for the next start.
    pub(super) fn forget(&self, gone: Vec<(Uuid, String)>) {
        for (id, holder) in gone {
            match self.spent().add(id, &holder, now_s()) {
                Ok(()) => self.records.iter().for_each(|records| records.remove(&id)),
                Err(error) => {
                    tracing::warn!(job = %id, %error, "the id of an ended transfer cannot be written down: its file stays");
                }
            }
        }
    }
}
