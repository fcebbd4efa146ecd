//! Something that may be replaced whole while others use it: who has taken it keeps what he took.

use std::sync::{Arc, PoisonError, RwLock};

/// What counts now.
#[derive(Debug)]
pub(crate) struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// This, until something else does.
    pub fn new(first: T) -> Current<T> {
        Current(RwLock::new(Arc::new(first)))
    }

    /// What counts now, to be kept for one piece of work and no longer.
    pub fn now(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on this counts. What counted before comes back; it may be in use for a while.
    pub fn replace(&self, next: T) -> Arc<T> {
        let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, Arc::new(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_as_it_was() {
        let current = Current::new(1);
        let taken = current.now();
        assert_eq!(*current.replace(2), 1);
        assert_eq!((*taken, *current.now()), (1, 2));
    }
}
