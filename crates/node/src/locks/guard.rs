//! Checks the locks before every change of a store.

use std::sync::Arc;

use model::name::RelPath;
use store::{Change, Guard, Store};

use super::{Locks, Submitted};

/// The check of an export's locks for a principal that shows some of them.
#[derive(Debug)]
struct LockCheck {
    locks: Arc<Locks>,
    export: String,
    shown: Submitted,
}

impl Guard for LockCheck {
    fn agree(&self, path: &RelPath, change: Change, is_there: &dyn Fn() -> bool) -> store::Result<()> {
        self.locks.check(&self.export, path, change, is_there, &self.shown)
    }

    fn is_gone(&self, path: &RelPath) {
        self.locks.forget(&self.export, path);
    }
}

/// The store of an export that enforces the locks, for a principal that shows `shown`.
pub(crate) fn guarded(locks: &Arc<Locks>, store: Arc<dyn Store>, export: &str, shown: &Submitted) -> Arc<dyn Store> {
    let (locks, shown) = (Arc::clone(locks), shown.clone());
    store::guarded(store, RelPath::root(), Arc::new(LockCheck { locks, export: export.to_owned(), shown }))
}
