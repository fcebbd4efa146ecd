//! The flag by which another thread ends a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a test from another thread. Clones end the same test.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the test to end. Its threads end when they next check this flag.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }
}
