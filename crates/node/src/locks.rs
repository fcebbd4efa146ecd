//! WebDAV locks (RFC 4918, sections 6 and 7), which keep others from changing files and directories for a time. Every protocol of
//! the node checks them before a change; the locks outlive the process.
//!
//! What this module does not know: how a client asks for a lock (`http::lock`), and the rights of principals (`auth`).

mod guard;
mod records;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use model::Timestamp;
use model::name::RelPath;
use parking_lot::{Mutex, MutexGuard};
use store::Change;
use web::dav::lock::Scope;

use crate::holder_bound::HolderBound;
use client::StateDir;

pub(crate) use guard::guarded;

/// The longest time of a lock without a refresh: the lock of a client that is gone ends within an hour.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
/// Locks at once: of all holders, and of one.
const LOCKS_MAX: HolderBound = HolderBound { each: 256, all: 4096 };
/// Bytes of a lock's owner, as the client gives it.
pub(crate) const OWNER_BYTES_MAX: usize = 1 << 10;

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub token: String,
    pub export: String,
    pub path: RelPath,
    pub scope: Scope,
    /// The lock covers the entries below as well.
    pub is_deep: bool,
    /// The owner that the client names, as XML.
    pub owner: String,
    /// The holder of the credential that took the lock.
    pub holder: String,
    /// Expiry, seconds since 1970.
    pub expires: i64,
}

impl Lock {
    /// The remaining time.
    pub fn left(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.expires - unix_seconds()).unwrap_or(0))
    }

    /// The error of a change that the lock prevents.
    fn refusal(&self, path: &RelPath) -> store::Error {
        let until = web::date::rfc3339(Timestamp { seconds: self.expires, nanos: 0 });
        store::Error::Locked { path: store::error::shown(path), who: owner_text(self), until }
    }
}

/// The owner of a lock, for people: the client's text without its markup, and the holder of the credential.
fn owner_text(lock: &Lock) -> String {
    let holder = if lock.holder.is_empty() { "an anonymous client" } else { &lock.holder };
    let mut is_markup = false;
    let text = lock.owner.chars().filter(|c| {
        is_markup |= *c == '<';
        let is_text = !is_markup && !c.is_control();
        is_markup &= *c != '>';
        is_text
    });
    let owner: String = text.take(80).collect();
    match owner.trim() {
        "" => holder.to_owned(),
        owner => format!("{owner} ({holder})"),
    }
}

/// The lock tokens that a request submits (RFC 4918, section 6.5), and the holder of its credential: only the holder of a lock can
/// use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubmittedLocks {
    pub holder: String,
    pub tokens: Vec<String>,
}

impl SubmittedLocks {
    /// No tokens.
    pub fn none() -> SubmittedLocks {
        SubmittedLocks::default()
    }

    fn has(&self, lock: &Lock) -> bool {
        self.holder == lock.holder && self.tokens.contains(&lock.token)
    }
}

/// Why a lock cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockRefused {
    /// Another lock covers the path.
    Conflict(Box<Lock>),
    /// There are too many locks.
    Full,
}

/// An export and the path in it.
type LockedPath = (String, Vec<u8>);

/// All locks of a node.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Mutex<HeldLocks>,
    /// Whether there may be locks: a node without locks does not search the table.
    any: AtomicBool,
    state: Option<StateDir>,
    /// The version that was written last: an older one is no longer written.
    written: Mutex<u64>,
}

/// The locks by path, and the version of this table.
#[derive(Debug, Default)]
struct HeldLocks {
    by_path: BTreeMap<LockedPath, Vec<Lock>>,
    version: u64,
    /// A lower bound of the first expiry, seconds since 1970.
    first_end: i64,
}

/// A version of the locks that is to be written.
struct Snapshot {
    version: u64,
    locks: Vec<Lock>,
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn place(export: &str, path: &RelPath) -> LockedPath {
    (export.to_owned(), path.as_bytes().to_vec())
}

impl Locks {
    /// The locks in the state directory that have not expired.
    pub fn of(state: Option<&StateDir>) -> Locks {
        let mut held = HeldLocks::default();
        for lock in state.map(records::read).unwrap_or_default() {
            held.by_path.entry(place(&lock.export, &lock.path)).or_default().push(lock);
        }
        let any = AtomicBool::new(!held.by_path.is_empty());
        Locks { held: Mutex::new(held), any, state: state.cloned(), written: Mutex::default() }
    }

    /// Whether there are no locks.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The locks, without those that have expired.
    fn held(&self) -> MutexGuard<'_, HeldLocks> {
        let mut held = self.held.lock();
        let now = unix_seconds();
        if held.first_end <= now {
            held.by_path.retain(|_, locks| {
                locks.retain(|lock| lock.expires > now);
                !locks.is_empty()
            });
            let ends = held.by_path.values().flatten().map(|lock| lock.expires).min();
            held.first_end = ends.unwrap_or(i64::MAX);
            self.any.store(!held.by_path.is_empty(), Ordering::Release);
        }
        held
    }

    /// Counts a change. Returns the version for the caller to write after it has released the mutex.
    fn changed(&self, held: &mut HeldLocks) -> Snapshot {
        held.version += 1;
        held.first_end = held.by_path.values().flatten().map(|lock| lock.expires).min().unwrap_or(i64::MAX);
        self.any.store(!held.by_path.is_empty(), Ordering::Release);
        Snapshot { version: held.version, locks: held.by_path.values().flatten().cloned().collect() }
    }

    fn keep(&self, snapshot: &Snapshot) {
        let Some(state) = &self.state else { return };
        let mut written = self.written.lock();
        if snapshot.version > *written {
            records::write(state, snapshot.locks.iter());
            *written = snapshot.version;
        }
    }

    /// The locks that cover a path: those on it, and deep ones above it.
    pub fn covering(&self, export: &str, path: &RelPath) -> Vec<Lock> {
        if self.is_empty() {
            return Vec::new();
        }
        covering(&self.held().by_path, export, path).into_iter().cloned().collect()
    }

    /// Takes a lock.
    ///
    /// # Errors
    /// Another lock covers the path, or there are too many.
    pub fn take(&self, lock: Lock) -> Result<(), LockRefused> {
        let mut held = self.held();
        let by_path = &held.by_path;
        let conflicts = |other: &&Lock| lock.scope == Scope::Exclusive || other.scope == Scope::Exclusive;
        let inside = if lock.is_deep { below(by_path, &lock.export, &lock.path) } else { Vec::new() };
        let conflict = covering(by_path, &lock.export, &lock.path).into_iter().chain(inside).find(conflicts);
        if let Some(other) = conflict {
            return Err(LockRefused::Conflict(Box::new(other.clone())));
        }
        let count = |of: &dyn Fn(&Lock) -> bool| by_path.values().flatten().filter(|lock| of(lock)).count();
        if count(&|_| true) >= LOCKS_MAX.all || count(&|other| other.holder == lock.holder) >= LOCKS_MAX.each {
            return Err(LockRefused::Full);
        }
        held.by_path.entry(place(&lock.export, &lock.path)).or_default().push(lock);
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        Ok(())
    }

    /// Prolongs a lock; none if the request submits no lock that covers this path.
    pub fn refresh(&self, export: &str, path: &RelPath, submitted: &SubmittedLocks, span: Duration) -> Option<Lock> {
        let mut held = self.held();
        let token = covering(&held.by_path, export, path).into_iter().find(|lock| submitted.has(lock))?.token.clone();
        let lock = held.by_path.values_mut().flatten().find(|lock| lock.token == token)?;
        lock.expires = unix_seconds().saturating_add(i64::try_from(span.as_secs()).unwrap_or(0));
        let lock = lock.clone();
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        Some(lock)
    }

    /// Releases a lock. Returns `false` if the request submits no lock that covers this path.
    pub fn release(&self, export: &str, path: &RelPath, submitted: &SubmittedLocks) -> bool {
        let mut held = self.held();
        let found = covering(&held.by_path, export, path).into_iter().find(|lock| submitted.has(lock)).cloned();
        let Some(lock) = found else { return false };
        if let Some(locks) = held.by_path.get_mut(&place(&lock.export, &lock.path)) {
            locks.retain(|one| one.token != lock.token);
        }
        held.by_path.retain(|_, locks| !locks.is_empty());
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        true
    }

    /// Checks that an entry may be removed with everything below it.
    ///
    /// # Errors
    /// The lock that the principal would have to hold.
    pub fn may_remove(&self, export: &str, path: &RelPath, submitted: &SubmittedLocks) -> Result<(), store::Error> {
        self.check(export, path, Change::Gone, &|| true, submitted)
    }

    /// Checks that the bytes or metadata of an existing entry may change.
    ///
    /// # Errors
    /// The lock that the principal would have to hold.
    pub fn may_change(&self, export: &str, path: &RelPath, submitted: &SubmittedLocks) -> Result<(), store::Error> {
        self.check(export, path, Change::Put, &|| true, submitted)
    }

    /// The same as [`Locks::may_remove`] for an entry alone, without the entries below it.
    ///
    /// # Errors
    /// The lock that the principal would have to hold.
    pub fn may_remove_entry(
        &self,
        export: &str,
        path: &RelPath,
        submitted: &SubmittedLocks,
    ) -> Result<(), store::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let held = self.held();
        let sets = [covering(&held.by_path, export, path), covering(&held.by_path, export, &path.parent())];
        check_submitted(&sets, path, submitted)
    }

    /// Checks that a request that submits these locks may make a change.
    ///
    /// # Errors
    /// The lock that the principal would have to hold.
    fn check(
        &self,
        export: &str,
        path: &RelPath,
        change: Change,
        is_there: &dyn Fn() -> bool,
        submitted: &SubmittedLocks,
    ) -> Result<(), store::Error> {
        if self.is_empty() {
            return Ok(());
        }
        // A name that is created or removed is a change of its directory (RFC 4918, section 7.4).
        let is_of_directory = !path.is_root() && (change == Change::Gone || !is_there());
        let held = self.held();
        let mut sets = vec![covering(&held.by_path, export, path)];
        if is_of_directory {
            sets.push(covering(&held.by_path, export, &path.parent()));
        }
        if change == Change::Gone {
            sets.extend(below(&held.by_path, export, path).into_iter().map(|lock| vec![lock]));
        }
        check_submitted(&sets, path, submitted)
    }

    /// Removes the locks on a removed entry and below it.
    pub fn remove_below(&self, export: &str, path: &RelPath) {
        if self.is_empty() {
            return;
        }
        let mut held = self.held();
        let before = held.by_path.len();
        held.by_path.retain(|(of, at), _| of != export || RelPath::parse(at).is_ok_and(|at| !at.starts_with(path)));
        if held.by_path.len() != before {
            let snapshot = self.changed(&mut held);
            drop(held);
            self.keep(&snapshot);
        }
    }
}

/// Checks that each set is empty or has a submitted lock: of several shared locks any one suffices (RFC 4918, section 6.1).
///
/// # Errors
/// A lock that would have to be submitted.
fn check_submitted(sets: &[Vec<&Lock>], path: &RelPath, submitted: &SubmittedLocks) -> Result<(), store::Error> {
    match sets.iter().find(|locks| !locks.is_empty() && !locks.iter().any(|lock| submitted.has(lock))) {
        Some(locks) => Err(locks[0].refusal(path)),
        None => Ok(()),
    }
}

fn covering<'a>(held: &'a BTreeMap<LockedPath, Vec<Lock>>, export: &str, path: &RelPath) -> Vec<&'a Lock> {
    let mut found: Vec<&Lock> = held.get(&place(export, path)).into_iter().flatten().collect();
    let mut above = path.clone();
    while !above.is_root() {
        above = above.parent();
        found.extend(held.get(&place(export, &above)).into_iter().flatten().filter(|lock| lock.is_deep));
    }
    found
}

/// The locks on entries below a path.
fn below<'a>(held: &'a BTreeMap<LockedPath, Vec<Lock>>, export: &str, path: &RelPath) -> Vec<&'a Lock> {
    let from = (Bound::Excluded(place(export, path)), Bound::Unbounded);
    let within = held.range(from).take_while(|((of, at), _)| of == export && at.starts_with(path.as_bytes()));
    within.flat_map(|(_, locks)| locks).filter(|lock| lock.path != *path && lock.path.starts_with(path)).collect()
}

#[cfg(test)]
mod tests;
