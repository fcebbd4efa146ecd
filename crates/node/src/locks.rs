//! Locks of WebDAV (RFC 4918, sections 6 and 7): who has kept files and directories from being changed by others, until when. Every
//! protocol of the node asks here before it changes anything; the locks outlive the process.
//!
//! What this room does not know: how a lock is asked for (`http::lock`), or what may be changed at all (`auth`).

mod guard;
mod kept;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use model::Timestamp;
use model::name::RelPath;
use parking_lot::{Mutex, MutexGuard};
use store::Change;
use web::dav::lock::Scope;

use client::StateDir;

pub(crate) use guard::guarded;

/// The longest that a lock holds without being asked for again: a client that is gone lets go within the hour.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
/// Locks at once: in all, and of one holder.
const LOCKS_MAX: (usize, usize) = (4096, 256);
/// Bytes of what a client says of whom a lock is for.
pub(crate) const OWNER_BYTES_MAX: usize = 1 << 10;

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub token: String,
    pub export: String,
    pub path: RelPath,
    pub scope: Scope,
    /// It holds what lies below as well.
    pub is_deep: bool,
    /// Who the client says it is for, as XML.
    pub owner: String,
    /// Whose it is.
    pub holder: String,
    /// Seconds since 1970.
    pub expires: i64,
}

impl Lock {
    /// How long it still holds.
    pub fn left(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.expires - unix_seconds()).unwrap_or(0))
    }

    /// What somebody is told who meets it.
    fn refusal(&self, path: &RelPath) -> store::Error {
        let until = web::date::rfc3339(Timestamp { seconds: self.expires, nanos: 0 });
        store::Error::Locked { path: store::error::shown(path), who: shown(self), until }
    }
}

/// Who has it, for people: what the client said, without its markup, else whose credential it was.
fn shown(lock: &Lock) -> String {
    let holder = if lock.holder.is_empty() { "a guest" } else { &lock.holder };
    let mut is_markup = false;
    let text = lock.owner.chars().filter(|c| {
        is_markup |= *c == '<';
        let is_text = !is_markup && !c.is_control();
        is_markup &= *c != '>';
        is_text
    });
    let said: String = text.take(80).collect();
    match said.trim() {
        "" => holder.to_owned(),
        said => format!("{said} ({holder})"),
    }
}

/// The locks that somebody shows to know of, and who that is: only its holder can use a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Submitted {
    pub holder: String,
    pub tokens: Vec<String>,
}

impl Submitted {
    /// Nothing is shown.
    pub fn none() -> Submitted {
        Submitted::default()
    }

    fn has(&self, lock: &Lock) -> bool {
        self.holder == lock.holder && self.tokens.contains(&lock.token)
    }
}

/// Why there is no lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another one is in the way.
    Conflict(Box<Lock>),
    /// There are too many.
    Full,
}

/// An export and the path in it.
type Place = (String, Vec<u8>);

/// All locks of a node.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    /// Whether there may be any: most nodes have none, and do not look.
    any: AtomicBool,
    state: Option<StateDir>,
    /// Which version was written down last: whoever writes an older one comes too late.
    written: Mutex<u64>,
}

/// What is held, and how often that changed.
#[derive(Debug, Default)]
struct Held {
    places: BTreeMap<Place, Vec<Lock>>,
    version: u64,
    /// When the first of them ends, at the earliest.
    first_end: i64,
}

/// What is to be written down.
struct Snapshot {
    version: u64,
    locks: Vec<Lock>,
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn place(export: &str, path: &RelPath) -> Place {
    (export.to_owned(), path.as_bytes().to_vec())
}

impl Locks {
    /// Those that were there when the node ended, as far as they still hold.
    pub fn of(state: Option<&StateDir>) -> Locks {
        let mut held = Held::default();
        for lock in state.map(kept::read).unwrap_or_default() {
            held.places.entry(place(&lock.export, &lock.path)).or_default().push(lock);
        }
        let any = AtomicBool::new(!held.places.is_empty());
        Locks { held: Mutex::new(held), any, state: state.cloned(), written: Mutex::default() }
    }

    /// Whether nobody has locked anything.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The locks, without those whose time is over.
    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock();
        let now = unix_seconds();
        if held.first_end <= now {
            held.places.retain(|_, locks| {
                locks.retain(|lock| lock.expires > now);
                !locks.is_empty()
            });
            let ends = held.places.values().flatten().map(|lock| lock.expires).min();
            held.first_end = ends.unwrap_or(i64::MAX);
            self.any.store(!held.places.is_empty(), Ordering::Release);
        }
        held
    }

    /// Something has changed; what is to be written down, once nobody waits for the locks.
    fn changed(&self, held: &mut Held) -> Snapshot {
        held.version += 1;
        held.first_end = held.places.values().flatten().map(|lock| lock.expires).min().unwrap_or(i64::MAX);
        self.any.store(!held.places.is_empty(), Ordering::Release);
        Snapshot { version: held.version, locks: held.places.values().flatten().cloned().collect() }
    }

    fn keep(&self, snapshot: &Snapshot) {
        let Some(state) = &self.state else { return };
        let mut written = self.written.lock();
        if snapshot.version > *written {
            kept::write(state, snapshot.locks.iter());
            *written = snapshot.version;
        }
    }

    /// The locks that hold a place: its own, and deep ones above it.
    pub fn covering(&self, export: &str, path: &RelPath) -> Vec<Lock> {
        if self.is_empty() {
            return Vec::new();
        }
        covering(&self.held().places, export, path).into_iter().cloned().collect()
    }

    /// Takes a lock.
    ///
    /// # Errors
    /// Another one is in the way, or there are too many.
    pub fn take(&self, lock: Lock) -> Result<(), Refused> {
        let mut held = self.held();
        let places = &held.places;
        let is_in_the_way = |other: &&Lock| lock.scope == Scope::Exclusive || other.scope == Scope::Exclusive;
        let inside = if lock.is_deep { below(places, &lock.export, &lock.path) } else { Vec::new() };
        let conflict = covering(places, &lock.export, &lock.path).into_iter().chain(inside).find(is_in_the_way);
        if let Some(other) = conflict {
            return Err(Refused::Conflict(Box::new(other.clone())));
        }
        let count = |of: &dyn Fn(&Lock) -> bool| places.values().flatten().filter(|lock| of(lock)).count();
        if count(&|_| true) >= LOCKS_MAX.0 || count(&|other| other.holder == lock.holder) >= LOCKS_MAX.1 {
            return Err(Refused::Full);
        }
        held.places.entry(place(&lock.export, &lock.path)).or_default().push(lock);
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        Ok(())
    }

    /// Lets a lock hold for longer; none where whoever asks has none that holds this place.
    pub fn refresh(&self, export: &str, path: &RelPath, shown: &Submitted, span: Duration) -> Option<Lock> {
        let mut held = self.held();
        let token = covering(&held.places, export, path).into_iter().find(|lock| shown.has(lock))?.token.clone();
        let lock = held.places.values_mut().flatten().find(|lock| lock.token == token)?;
        lock.expires = unix_seconds().saturating_add(i64::try_from(span.as_secs()).unwrap_or(0));
        let lock = lock.clone();
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        Some(lock)
    }

    /// Gives a lock back; false where no lock of whoever asks with this token holds the place.
    pub fn release(&self, export: &str, path: &RelPath, shown: &Submitted) -> bool {
        let mut held = self.held();
        let found = covering(&held.places, export, path).into_iter().find(|lock| shown.has(lock)).cloned();
        let Some(lock) = found else { return false };
        if let Some(locks) = held.places.get_mut(&place(&lock.export, &lock.path)) {
            locks.retain(|one| one.token != lock.token);
        }
        held.places.retain(|_, locks| !locks.is_empty());
        let snapshot = self.changed(&mut held);
        drop(held);
        self.keep(&snapshot);
        true
    }

    /// Whether a place may go with all that is below it.
    ///
    /// # Errors
    /// The lock that whoever asks would have to hold.
    pub fn may_go(&self, export: &str, path: &RelPath, shown: &Submitted) -> Result<(), store::Error> {
        self.check(export, path, Change::Gone, &|| true, shown)
    }

    /// Whether what is there may get other bytes or facts.
    ///
    /// # Errors
    /// The lock that whoever asks would have to hold.
    pub fn may_change(&self, export: &str, path: &RelPath, shown: &Submitted) -> Result<(), store::Error> {
        self.check(export, path, Change::Put, &|| true, shown)
    }

    /// The same as `may_go` of a place alone, whatever becomes of what is below it.
    ///
    /// # Errors
    /// The lock that whoever asks would have to hold.
    pub fn may_go_empty(&self, export: &str, path: &RelPath, shown: &Submitted) -> Result<(), store::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let held = self.held();
        let sets = [covering(&held.places, export, path), covering(&held.places, export, &path.parent())];
        agree(&sets, path, shown)
    }

    /// Whether somebody who shows this much may make a change.
    ///
    /// # Errors
    /// The lock that they would have to hold.
    fn check(
        &self,
        export: &str,
        path: &RelPath,
        change: Change,
        is_there: &dyn Fn() -> bool,
        shown: &Submitted,
    ) -> Result<(), store::Error> {
        if self.is_empty() {
            return Ok(());
        }
        // A name that comes or goes is a change of its directory (RFC 4918, section 7.4).
        let is_of_directory = !path.is_root() && (change == Change::Gone || !is_there());
        let held = self.held();
        let mut sets = vec![covering(&held.places, export, path)];
        if is_of_directory {
            sets.push(covering(&held.places, export, &path.parent()));
        }
        if change == Change::Gone {
            sets.extend(below(&held.places, export, path).into_iter().map(|lock| vec![lock]));
        }
        agree(&sets, path, shown)
    }

    /// What is no longer there is not locked either.
    fn forget(&self, export: &str, path: &RelPath) {
        if self.is_empty() {
            return;
        }
        let mut held = self.held();
        let before = held.places.len();
        held.places.retain(|(of, at), _| of != export || RelPath::parse(at).is_ok_and(|at| !at.starts_with(path)));
        if held.places.len() != before {
            let snapshot = self.changed(&mut held);
            drop(held);
            self.keep(&snapshot);
        }
    }
}

/// Whether each of these places has no lock, or one that is shown: of several that share a place any one will do (RFC 4918, section
/// 6.1).
fn agree(sets: &[Vec<&Lock>], path: &RelPath, shown: &Submitted) -> Result<(), store::Error> {
    match sets.iter().find(|locks| !locks.is_empty() && !locks.iter().any(|lock| shown.has(lock))) {
        Some(locks) => Err(locks[0].refusal(path)),
        None => Ok(()),
    }
}

fn covering<'a>(held: &'a BTreeMap<Place, Vec<Lock>>, export: &str, path: &RelPath) -> Vec<&'a Lock> {
    let mut found: Vec<&Lock> = held.get(&place(export, path)).into_iter().flatten().collect();
    let mut above = path.clone();
    while !above.is_root() {
        above = above.parent();
        found.extend(held.get(&place(export, &above)).into_iter().flatten().filter(|lock| lock.is_deep));
    }
    found
}

/// The locks of what lies below a place.
fn below<'a>(held: &'a BTreeMap<Place, Vec<Lock>>, export: &str, path: &RelPath) -> Vec<&'a Lock> {
    let from = (Bound::Excluded(place(export, path)), Bound::Unbounded);
    let within = held.range(from).take_while(|((of, at), _)| of == export && at.starts_with(path.as_bytes()));
    within.flat_map(|(_, locks)| locks).filter(|lock| lock.path != *path && lock.path.starts_with(path)).collect()
}

#[cfg(test)]
mod tests;
