//! Bytes of memory that are kept for others: so many in all, and so many for each of them.
//!
//! A bound on how many things somebody may leave is none on how large they are; this counts bytes, whatever they are of.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// A budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all_bytes: usize,
    each_bytes: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    each: HashMap<String, usize>,
}

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All holders together have as much as there is.
    #[error("this node keeps as much for others as it may already; try again later")]
    All,
    /// This holder has as much as one may have.
    #[error("this node keeps as much for one holder as it may already; try again when something of it has ended")]
    Holder,
}

impl Budget {
    /// So many bytes in all, and for each holder.
    pub fn new(all_bytes: usize, each_bytes: usize) -> Budget {
        Budget(Arc::new(Inner { all_bytes, each_bytes, taken: Mutex::default() }))
    }

    /// A part of it for a holder, empty yet.
    pub fn part(&self, holder: &str) -> Part {
        Part { budget: self.clone(), holder: holder.to_owned(), bytes: 0 }
    }

    /// Bytes that are taken, in all.
    pub fn taken(&self) -> usize {
        self.inner().all
    }

    fn inner(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock()
    }
}

/// What is kept for a holder: given back when dropped.
#[derive(Debug)]
pub struct Part {
    budget: Budget,
    holder: String,
    bytes: usize,
}

impl Part {
    /// More of it.
    ///
    /// # Errors
    /// [`Full`]; then it is what it was.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let (all_bytes, each_bytes) = (self.budget.0.all_bytes, self.budget.0.each_bytes);
        let mut taken = self.budget.inner();
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
        let mut taken = self.budget.inner();
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
        let (mut mine, mut also_mine, mut yours) = (budget.part("me"), budget.part("me"), budget.part("you"));
        mine.grow(40).unwrap();
        assert_eq!((also_mine.grow(30), also_mine.grow(20)), (Err(Full::Holder), Ok(())));
        assert_eq!((yours.grow(50), yours.grow(40)), (Err(Full::All), Ok(())));
        assert_eq!(budget.part("new").grow(1), Err(Full::All));
        drop(mine);
        assert_eq!(budget.taken(), 60);
        drop((also_mine, yours));
        assert_eq!((budget.taken(), budget.inner().each.len()), (0, 0), "nothing is remembered of who has nothing");
        assert_eq!(budget.part("me").grow(usize::MAX), Err(Full::Holder));
    }
}
