//! Checks the locks before every change of a store.

use std::sync::Arc;

use model::name::RelPath;
use store::{Change, Guard, Store};

use super::{Locks, SubmittedLocks};

/// The check of an export's locks for a request that submits some of them.
#[derive(Debug)]
struct LockCheck {
    locks: Arc<Locks>,
    export: String,
    submitted: SubmittedLocks,
}

impl Guard for LockCheck {
    fn agree(&self, path: &RelPath, change: Change, exists: &dyn Fn() -> bool) -> store::Result<()> {
        self.locks.check(&self.export, path, change, exists, &self.submitted)
    }

    fn removed(&self, path: &RelPath) {
        self.locks.remove_below(&self.export, path);
    }
}

/// The store of an export that enforces the locks, for a request that submits `submitted`.
pub(crate) fn guarded(
    locks: &Arc<Locks>,
    store: Arc<dyn Store>,
    export: &str,
    submitted: &SubmittedLocks,
) -> Arc<dyn Store> {
    let check = LockCheck { locks: Arc::clone(locks), export: export.to_owned(), submitted: submitted.clone() };
    store::guarded(store, RelPath::root(), Arc::new(check))
}
