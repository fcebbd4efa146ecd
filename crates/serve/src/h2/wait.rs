//! Waiting on a thread for what comes from the runtime of another one.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

/// What is ready within a time; none after it.
pub(super) fn until<T>(within: Duration, mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let waker = WAKER.with(Waker::clone);
    let mut context = Context::from_waker(&waker);
    let deadline = Instant::now() + within;
    loop {
        if let Poll::Ready(there) = ask(&mut context) {
            return Some(there);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        // Woken for nothing at times: then it is asked once more.
        std::thread::park_timeout(left);
    }
}
