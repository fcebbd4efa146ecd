//! Asks before every change of a store whether the place is locked.

use std::sync::Arc;

use model::name::RelPath;
use store::{Change, Guard, Store};

use super::{Locks, Submitted};

/// The locks, as somebody who changes something meets them.
#[derive(Debug)]
struct Held {
    locks: Arc<Locks>,
    export: String,
    shown: Submitted,
}

impl Guard for Held {
    fn agree(&self, path: &RelPath, change: Change, is_there: &dyn Fn() -> bool) -> store::Result<()> {
        self.locks.check(&self.export, path, change, is_there, &self.shown)
    }

    fn is_gone(&self, path: &RelPath) {
        self.locks.forget(&self.export, path);
    }
}

/// The store of an export that keeps to the locks: whoever uses it shows this much.
pub(crate) fn guarded(locks: &Arc<Locks>, store: Arc<dyn Store>, export: &str, shown: &Submitted) -> Arc<dyn Store> {
    let (locks, shown) = (Arc::clone(locks), shown.clone());
    store::guarded(store, RelPath::root(), Arc::new(Held { locks, export: export.to_owned(), shown }))
}
