//! Permits to read files for their digests: a bounded number of readers, each file once, and none for a client that has hung up.
//!
//! - [`READERS_MAX`] readers at once: more would make a disk slower and no digest faster.
//! - [`WAITING_MAX`] threads wait, [`WAITING_FOR_ONE`] of them for one file: the threads are needed for other work as well.
//! - A thread waits for a file that is being read for as long as that takes, and for a free reader for at most [`WAIT_MAX`].

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

const READERS_MAX: usize = 16;
const WAITING_MAX: usize = 256;
const WAITING_FOR_ONE: usize = 64;
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often a waiting thread checks whether its client is still connected.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The readers and the waiting threads of all files.
pub(super) struct ReadPermits<K> {
    state: Mutex<State<K>>,
    done: Condvar,
}

struct State<K> {
    being_read: HashSet<K>,
    /// Waiting threads, by file.
    waiting: HashMap<K, usize>,
    waiting_in_all: usize,
}

/// A permit to read one file, released when dropped.
pub(super) struct ReadPermit<'a, K: Eq + Hash + Clone> {
    permits: &'a ReadPermits<K>,
    key: K,
}

/// Why no permit is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// Too many threads wait, or this one has waited for too long.
    Busy,
    /// The client has hung up.
    Gone,
}

impl<K: Eq + Hash + Clone> ReadPermits<K> {
    /// No readers and no waiting threads.
    pub fn new() -> ReadPermits<K> {
        let state = State { being_read: HashSet::new(), waiting: HashMap::new(), waiting_in_all: 0 };
        ReadPermits { state: Mutex::new(state), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }

    /// A permit to read a file. Another reader may have computed the digest meanwhile: the caller looks for it again.
    ///
    /// # Errors
    /// Too many threads wait, or the client has hung up.
    pub fn take(&self, key: &K, is_gone: &dyn Fn() -> bool) -> Result<ReadPermit<'_, K>, NoPermit> {
        let mut state = self.state();
        if state.being_read.len() >= READERS_MAX || state.being_read.contains(key) {
            let of_this = state.waiting.get(key).copied().unwrap_or(0);
            if state.waiting_in_all >= WAITING_MAX || of_this >= WAITING_FOR_ONE {
                return Err(NoPermit::Busy);
            }
            state.waiting_in_all += 1;
            *state.waiting.entry(key.clone()).or_default() += 1;
            let (again, waited) = self.wait(state, key, is_gone);
            state = again;
            state.waiting_in_all -= 1;
            if let Some(of_this) = state.waiting.get_mut(key) {
                *of_this -= 1;
                if *of_this == 0 {
                    state.waiting.remove(key);
                }
            }
            waited?;
        }
        state.being_read.insert(key.clone());
        drop(state);
        Ok(ReadPermit { permits: self, key: key.clone() })
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<K>>,
        key: &K,
        is_gone: &dyn Fn() -> bool,
    ) -> (MutexGuard<'a, State<K>>, Result<(), NoPermit>) {
        let mut since = Instant::now();
        loop {
            if state.being_read.contains(key) {
                since = Instant::now();
            } else if state.being_read.len() < READERS_MAX {
                return (state, Ok(()));
            } else if since.elapsed() >= WAIT_MAX {
                return (state, Err(NoPermit::Busy));
            }
            self.done.wait_for(&mut state, CHECK_EVERY);
            // `is_gone` makes a system call: not under the lock.
            if MutexGuard::unlocked(&mut state, is_gone) {
                return (state, Err(NoPermit::Gone));
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for ReadPermit<'_, K> {
    fn drop(&mut self) {
        self.permits.state().being_read.remove(&self.key);
        self.permits.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &(dyn Fn() -> bool + Sync) = &|| false;

    #[test]
    fn readers_are_bounded_and_a_client_that_hangs_up_stops_waiting() {
        let permits = ReadPermits::new();
        let mut all: Vec<_> = (0..READERS_MAX).map(|at| permits.take(&at, HERE).unwrap()).collect();
        let began = Instant::now();
        assert_eq!(permits.take(&99, &|| true).err(), Some(NoPermit::Gone));
        assert_eq!(permits.take(&0, &|| true).err(), Some(NoPermit::Gone), "of a file that is read as well");
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| permits.take(&99, HERE).is_ok());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!waits.is_finished());
            all.pop();
            assert!(waits.join().unwrap());
        });
        assert_eq!(permits.state().waiting_in_all, 0);
    }

    #[test]
    fn threads_that_wait_for_one_file_are_bounded() {
        let permits = ReadPermits::new();
        let first = permits.take(&1, HERE).unwrap();
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..WAITING_FOR_ONE).map(|_| scope.spawn(|| permits.take(&1, HERE).map(drop))).collect();
            let began = Instant::now();
            while permits.state().waiting.get(&1) != Some(&WAITING_FOR_ONE) {
                assert!(began.elapsed() < Duration::from_secs(60), "they do not come to wait");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(permits.take(&1, HERE).err(), Some(NoPermit::Busy));
            assert!(permits.take(&2, HERE).is_ok(), "another file is not affected");
            drop(first);
            for waits in waiting {
                assert_eq!(waits.join().unwrap(), Ok(()));
            }
        });
        assert!(permits.state().being_read.is_empty());
    }
}
