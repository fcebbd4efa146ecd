//! Who reads files for their digests, and who waits for that: so many at once, each file once, and nobody for a client that has
//! hung up.
//!
//! - [`READERS_MAX`] at once: more would make a disk slower and no digest faster.
//! - [`WAITING_MAX`] wait, [`WAITING_FOR_ONE`] of them for one file: each is a thread, and those are for other work as well.
//! - Whoever waits for a file that somebody reads already does so for as long as that takes; whoever waits for one of the
//!   readers to be done does so for at most [`WAIT_MAX`].

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

const READERS_MAX: usize = 16;
const WAITING_MAX: usize = 256;
const WAITING_FOR_ONE: usize = 64;
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often whoever waits looks whether the client is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The turns of all.
pub(super) struct Turns<K> {
    state: Mutex<State<K>>,
    done: Condvar,
}

struct State<K> {
    read: HashSet<K>,
    /// How many wait for each.
    waiting: HashMap<K, usize>,
    waiting_in_all: usize,
}

/// A turn, over when dropped.
pub(super) struct Turn<'a, K: Eq + Hash + Clone> {
    turns: &'a Turns<K>,
    key: K,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// Too many wait, or waited for too long.
    Busy,
    /// The client has hung up.
    Gone,
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// Nobody reads, nobody waits.
    pub fn new() -> Turns<K> {
        let state = State { read: HashSet::new(), waiting: HashMap::new(), waiting_in_all: 0 };
        Turns { state: Mutex::new(state), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }

    /// The turn to read this. Where somebody reads it already, their work may be all that is needed: look again.
    pub fn take(&self, key: &K, is_gone: &dyn Fn() -> bool) -> Result<Turn<'_, K>, NoTurn> {
        let mut state = self.state();
        if state.read.len() >= READERS_MAX || state.read.contains(key) {
            let of_this = state.waiting.get(key).copied().unwrap_or(0);
            if state.waiting_in_all >= WAITING_MAX || of_this >= WAITING_FOR_ONE {
                return Err(NoTurn::Busy);
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
        state.read.insert(key.clone());
        drop(state);
        Ok(Turn { turns: self, key: key.clone() })
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<K>>,
        key: &K,
        is_gone: &dyn Fn() -> bool,
    ) -> (MutexGuard<'a, State<K>>, Result<(), NoTurn>) {
        let mut since = Instant::now();
        loop {
            if state.read.contains(key) {
                since = Instant::now();
            } else if state.read.len() < READERS_MAX {
                return (state, Ok(()));
            } else if since.elapsed() >= WAIT_MAX {
                return (state, Err(NoTurn::Busy));
            }
            self.done.wait_for(&mut state, LOOK_EVERY);
            // Asks the system: not under the lock.
            if MutexGuard::unlocked(&mut state, is_gone) {
                return (state, Err(NoTurn::Gone));
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.turns.state().read.remove(&self.key);
        self.turns.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &(dyn Fn() -> bool + Sync) = &|| false;

    #[test]
    fn so_many_read_and_a_client_that_goes_waits_no_more() {
        let turns = Turns::new();
        let mut all: Vec<_> = (0..READERS_MAX).map(|at| turns.take(&at, HERE).unwrap()).collect();
        let began = Instant::now();
        assert_eq!(turns.take(&99, &|| true).err(), Some(NoTurn::Gone));
        assert_eq!(turns.take(&0, &|| true).err(), Some(NoTurn::Gone), "of a file that is read as well");
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take(&99, HERE).is_ok());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!waits.is_finished());
            all.pop();
            assert!(waits.join().unwrap());
        });
        assert_eq!(turns.state().waiting_in_all, 0);
    }

    #[test]
    fn so_many_wait_for_one() {
        let turns = Turns::new();
        let first = turns.take(&1, HERE).unwrap();
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..WAITING_FOR_ONE).map(|_| scope.spawn(|| turns.take(&1, HERE).map(drop))).collect();
            let began = Instant::now();
            while turns.state().waiting.get(&1) != Some(&WAITING_FOR_ONE) {
                assert!(began.elapsed() < Duration::from_secs(60), "they do not come to wait");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(turns.take(&1, HERE).err(), Some(NoTurn::Busy));
            assert!(turns.take(&2, HERE).is_ok(), "another file is no matter of theirs");
            drop(first);
            for waits in waiting {
                assert_eq!(waits.join().unwrap(), Ok(()));
            }
        });
        assert!(turns.state().read.is_empty());
    }
}
