//! The flag that tells all threads of a node that it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the node stops. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// The node stops from now on.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the node stops.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
