//! Whether the node stops, told to whatever works for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the node stops. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// The node stops from now on.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it does.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
