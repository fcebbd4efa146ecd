//! A budget for the memory that a process keeps for its clients: a bound in bytes for each holder, and one for all.
//!
//! A bound on the number of items does not bound their size. This budget counts bytes, whatever they hold.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// A budget in bytes. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    all_bytes: usize,
    each_bytes: usize,
    taken: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    all: usize,
    each: HashMap<String, usize>,
}

/// Why a part of the budget cannot grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All holders together have the whole budget.
    #[error("the memory that this node keeps for all its clients is used up; try again later")]
    All,
    /// This holder has as much as one holder may have.
    #[error(
        "the memory that this node keeps for one holder is used up; try again when one of its transfers or tests has ended"
    )]
    Holder,
}

impl Budget {
    /// A budget of `all_bytes` for all holders together, and of `each_bytes` for one of them.
    pub fn new(all_bytes: usize, each_bytes: usize) -> Budget {
        Budget(Arc::new(SharedBudget { all_bytes, each_bytes, taken: Mutex::default() }))
    }

    /// A part of the budget for a holder, empty at first.
    pub fn part(&self, holder: &str) -> Part {
        Part { budget: self.clone(), holder: holder.to_owned(), bytes: 0 }
    }

    /// Bytes that all holders have taken.
    pub fn taken(&self) -> usize {
        self.usage().all
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.taken.lock()
    }
}

/// The bytes that a holder has taken. Dropping it gives them back.
#[derive(Debug)]
pub struct Part {
    budget: Budget,
    holder: String,
    bytes: usize,
}

impl Part {
    /// Takes more bytes.
    ///
    /// # Errors
    /// [`Full`]: the budget is used up. The part keeps its size.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let all_bytes = self.budget.0.all_bytes;
        let each_bytes = self.budget.0.each_bytes;
        let mut taken = self.budget.usage();
        let own = taken.each.get(&self.holder).copied().unwrap_or(0);
        if own.saturating_add(bytes) > each_bytes {
            return Err(Full::Holder);
        }
        if taken.all.saturating_add(bytes) > all_bytes {
            return Err(Full::All);
        }
        taken.all += bytes;
        taken.each.insert(self.holder.clone(), own + bytes);
        drop(taken);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut taken = self.budget.usage();
        taken.all -= self.bytes;
        if let Some(own) = taken.each.get_mut(&self.holder) {
            *own -= self.bytes;
            if *own == 0 {
                taken.each.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_leaves_room_for_another() {
        let budget = Budget::new(100, 60);
        let mut mine = budget.part("me");
        let mut also_mine = budget.part("me");
        let mut yours = budget.part("you");
        mine.grow(40).unwrap();
        assert_eq!((also_mine.grow(30), also_mine.grow(20)), (Err(Full::Holder), Ok(())));
        assert_eq!((yours.grow(50), yours.grow(40)), (Err(Full::All), Ok(())));
        assert_eq!(budget.part("new").grow(1), Err(Full::All));
        drop(mine);
        assert_eq!(budget.taken(), 60);
        drop((also_mine, yours));
        assert_eq!((budget.taken(), budget.usage().each.len()), (0, 0), "a holder without bytes is removed");
        assert_eq!(budget.part("me").grow(usize::MAX), Err(Full::Holder));
    }
}
