//! Reserves memory for new orders, and forgets ended transfers.

use parking_lot::MutexGuard;

use engine::budget::Part;
use model::id::Uuid;
use model::v1::node::Order;

use super::spent::{SPENT_MAX, SpentIds};
use super::table::{UNENDED_MAX, footprint};
use super::{Transfers, Unaccepted, now_s};
use crate::holder_bound::HolderBound;

impl Transfers {
    /// Reserves the memory of a new order, and checks that its id can be remembered after its end.
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
            let HolderBound { each, all } = UNENDED_MAX;
            return Err(full(format!(
                "at most {each} transfers of one holder and {all} in all wait or run at once; order again when some have ended"
            )));
        }
        if !self.spent().has_room(holder, known, now_s()) {
            let each = SPENT_MAX.each;
            return Err(full(format!("a holder orders at most {each} transfers within a day; order again tomorrow")));
        }
        let mut part = self.budget.part(holder);
        part.grow(footprint(order)).map_err(|why| full(why.to_string()))?;
        Ok(part)
    }

    pub(super) fn spent(&self) -> MutexGuard<'_, SpentIds> {
        self.spent.lock()
    }

    /// Forgets transfers except for their ids. If an id cannot be stored, the record of its transfer stays for the next start.
    pub(super) fn forget(&self, forgotten: Vec<(Uuid, String)>) {
        for (id, holder) in forgotten {
            match self.spent().add(id, &holder, now_s()) {
                Ok(()) => self.records.iter().for_each(|records| records.remove(&id)),
                Err(error) => {
                    tracing::warn!(job = %id, %error, "the id of an ended transfer cannot be stored; its record stays");
                }
            }
        }
    }
}
