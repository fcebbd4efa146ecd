//! A descriptor that another thread can make readable, to wake a thread that waits in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes one waiting thread; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    descriptor: OwnedFd,
    /// A wake is pending already: then further wakes need no system call.
    is_pending: AtomicBool,
}

impl Waker {
    /// A new descriptor, not ready.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker(Arc::new(WakerState { descriptor, is_pending: AtomicBool::new(false) })))
    }

    /// Makes the descriptor readable. Several calls before the next [`Waker::clear`] count as one.
    pub fn wake(&self) {
        if !self.0.is_pending.swap(true, Ordering::AcqRel) {
            // The only failure is a counter at its maximum, which is readable already.
            let _ = rustix::io::write(&self.0.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Clears all wakes so far. The waiting thread must check its condition after this call, not before.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0.descriptor, &mut [0u8; 8]);
        self.0.is_pending.store(false, Ordering::Release);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn ready(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn many_wakes_are_one() {
        let waker = Waker::new().unwrap();
        assert!(!ready(&waker));
        waker.clone().wake();
        waker.wake();
        assert!(ready(&waker));
        waker.clear();
        assert!(!ready(&waker));
    }
}
