//! A short-lived cache of the facts of a server's files. Asking for each file of a directory would cost a round trip each; one
//! listing of the directory gives the facts of all.
//!
//! Does not know: how servers are asked. [`Namespace`] has the queries.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::name::{Name, RelPath};
use model::{Kind, Meta, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use store::{Entries, Stat};

use crate::request_error::RequestError;

/// The known facts of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// The time of the last change, where the server reports it.
    pub mtime: Option<Timestamp>,
    /// The server's tag for the content.
    pub etag: Option<String>,
    pub executable: bool,
    /// When these facts were learned. Stands for `mtime` where the server reports none.
    pub learned: Timestamp,
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: 0 }
}

impl Facts {
    pub fn dir() -> Facts {
        Facts { kind: Kind::Dir, ..Facts::file(0) }
    }

    /// A file of which only the size is known.
    pub fn file(size: u64) -> Facts {
        Facts { kind: Kind::File, size, mtime: None, etag: None, executable: false, learned: now() }
    }

    /// The facts as a [`Stat`]. Files on a server have no inode numbers: hashes of the server, the path and the tag stand for them.
    pub fn stat(&self, server: &str, path: &RelPath) -> Stat {
        let mode = if self.kind == Kind::Dir || self.executable { 0o755 } else { 0o644 };
        let meta = Meta { kind: self.kind, mode, size: self.size, mtime: self.mtime.unwrap_or(self.learned) };
        let number = |of: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            of(&mut hasher);
            hasher.finish()
        };
        let identity = (number(&|h| server.hash(h)), number(&|h| (path.as_bytes(), &self.etag).hash(h)));
        Stat { meta, identity, names: 1, allocated: self.size, changed: None }
    }

    /// Whether the file is unchanged, by its size, time and tag. `false` where the server reports neither time nor tag.
    pub fn is_untouched(&self, later: &Facts) -> bool {
        let is_reported = self.mtime.is_some() || self.etag.is_some();
        is_reported && (self.size, self.mtime, &self.etag) == (later.size, later.mtime, &later.etag)
    }

    /// Whether both can describe the same content. A fact that only one of them has is not compared.
    pub fn agrees(&self, other: &Facts) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => strong(a) == strong(b),
            _ => true,
        };
        let same_time = self.mtime.zip(other.mtime).is_none_or(|(a, b)| a.seconds == b.seconds);
        self.size == other.size && same_time && same(&self.etag, &other.etag)
    }
}

/// A tag without its mark of weakness: servers that compress give the same content a strong tag in one response and a weak one in another.
fn strong(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// How long a listing stays valid.
const LISTING_VALID: Duration = Duration::from_secs(5);
/// Successive queries of entries of one directory, after which the directory is listed.
const QUERIES_BEFORE_LISTING: u32 = 3;
/// The most files in a cache; beyond that it is cleared.
const FILES_MAX: usize = 200_000;

#[derive(Debug, Default)]
struct CachedFacts {
    files: HashMap<RelPath, Facts>,
    /// The directory that was listed last, and when.
    listed: Option<(RelPath, Instant)>,
    /// The directory whose entries are queried, and how often so far.
    queried: Option<(RelPath, u32)>,
}

/// The cached facts of one server.
#[derive(Debug, Default)]
pub(crate) struct FactsCache(Mutex<CachedFacts>);

/// What the cache holds for a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The path has these facts.
    Found(Facts),
    /// The path does not exist.
    Missing,
    /// The server must be asked for this path.
    Ask,
    /// The server must be asked for the whole directory.
    List,
}

impl FactsCache {
    fn cached(&self) -> MutexGuard<'_, CachedFacts> {
        self.0.lock()
    }

    /// Looks a path up, and counts the query towards listing its directory.
    pub fn look_up(&self, path: &RelPath) -> Lookup {
        let mut cached = self.cached();
        let parent = path.parent();
        if cached.listed.as_ref().is_some_and(|(dir, at)| *dir == parent && at.elapsed() < LISTING_VALID) {
            return cached.files.get(path).cloned().map_or(Lookup::Missing, Lookup::Found);
        }
        let count = match &cached.queried {
            Some((dir, count)) if *dir == parent => count + 1,
            _ => 1,
        };
        cached.queried = Some((parent, count));
        if count > QUERIES_BEFORE_LISTING { Lookup::List } else { Lookup::Ask }
    }

    /// The last known facts of a path, however old.
    pub fn last(&self, path: &RelPath) -> Option<Facts> {
        self.cached().files.get(path).cloned()
    }

    /// Stores the facts of a path, as the server reports them or as this store made it.
    pub fn store(&self, path: &RelPath, facts: Facts) {
        let mut cached = self.cached();
        if cached.files.len() >= FILES_MAX {
            cached.files.clear();
            cached.listed = None;
        }
        cached.files.insert(path.clone(), facts);
    }

    /// Forgets a path at which an entry with unknown facts was made or moved.
    pub fn invalidate(&self, path: &RelPath) {
        let mut cached = self.cached();
        cached.files.retain(|known, _| !known.starts_with(path));
        cached.listed = None;
    }

    /// Forgets a path that no longer exists.
    pub fn forget(&self, path: &RelPath) {
        let mut cached = self.cached();
        cached.files.retain(|known, _| !known.starts_with(path));
        if cached.listed.as_ref().is_some_and(|(dir, _)| dir.starts_with(path)) {
            cached.listed = None;
        }
    }

    /// Stores a complete listing of a directory.
    pub fn store_listing(&self, dir: &RelPath, entries: &[(RelPath, Facts)]) {
        let mut cached = self.cached();
        if cached.files.len() + entries.len() > FILES_MAX {
            cached.files.clear();
        }
        cached.files.retain(|known, _| known.is_root() || known.parent() != *dir);
        cached.files.extend(entries.iter().cloned());
        cached.listed = Some((dir.clone(), Instant::now()));
    }
}

/// A name in a directory, with its facts or the reason why they are unknown.
pub(crate) type Entry = (Name, Result<Facts, RequestError>);

/// The files of a server: queries of them, answered from the cache where that is fresh.
pub(crate) trait Namespace {
    /// The cache.
    fn cache(&self) -> &FactsCache;
    /// The server's name, in messages too.
    fn host(&self) -> &str;
    /// Whether directories can be listed.
    fn lists(&self) -> bool;
    /// Asks the server for the facts of a path.
    fn ask_facts(&self, path: &RelPath) -> Result<Facts, RequestError>;
    /// Asks the server for the entries of a directory.
    fn ask_entries(&self, path: &RelPath) -> Result<Vec<Entry>, RequestError>;

    /// The facts of a path, from the cache where that is fresh.
    fn facts(&self, path: &RelPath) -> Result<Facts, RequestError> {
        if path.is_root() {
            return self.ask_facts(path);
        }
        let missing = || RequestError::refusal(self.host(), 404, b"");
        match self.cache().look_up(path) {
            Lookup::Found(facts) => return Ok(facts),
            Lookup::Missing => return Err(missing()),
            Lookup::List if self.lists() => {
                // A client that may not list the directory may still query one path.
                if let Ok(entries) = self.ask_entries(&path.parent()) {
                    self.store_entries(&path.parent(), &entries);
                    return self.cache().last(path).ok_or_else(missing);
                }
            }
            Lookup::List | Lookup::Ask => {}
        }
        let facts = self.ask_facts(path);
        match &facts {
            Ok(facts) => self.cache().store(path, facts.clone()),
            Err(_) => self.cache().forget(path),
        }
        facts
    }

    /// The facts of a file that is about to be read: the last known ones, however old, or those that the server reports.
    fn facts_to_read(&self, path: &RelPath) -> Result<Facts, RequestError> {
        self.cache().last(path).map_or_else(|| self.facts(path), Ok)
    }

    /// The present facts of a path; `None` where it does not exist. After an error it is unknown whether it exists.
    fn find(&self, path: &RelPath) -> Result<Option<Facts>, RequestError> {
        match self.ask_facts(path) {
            Ok(facts) => Ok(Some(facts)),
            Err(failed) if failed.is(&[404, 410]) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Stores a listing in the cache.
    fn store_entries(&self, dir: &RelPath, entries: &[Entry]) {
        let known = entries.iter().filter_map(|(name, facts)| Some((dir.join(name), facts.as_ref().ok()?.clone())));
        self.cache().store_listing(dir, &known.collect::<Vec<_>>());
    }

    /// The entries of a directory in the form of [`store::Store::list`]; enters them into the cache.
    fn to_entries(&self, dir: &RelPath, entries: Vec<Entry>) -> Entries {
        self.store_entries(dir, &entries);
        let (dir, host) = (dir.clone(), self.host().to_owned());
        Entries::new(entries.into_iter().map(move |(name, facts)| {
            let path = dir.join(&name);
            let stat =
                facts.map(|facts| facts.stat(&host, &path)).map_err(|failed| failed.into_store_error("examine", &path));
            Ok((name, stat))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn file(size: u64) -> Facts {
        Facts { learned: Timestamp::default(), ..Facts::file(size) }
    }

    #[test]
    fn the_fourth_query_of_a_directory_lists_it() {
        let known = FactsCache::default();
        let answers: Vec<_> = ["d/a", "d/b", "d/c", "d/e"].map(|p| known.look_up(&path(p))).into();
        assert_eq!(answers, [Lookup::Ask, Lookup::Ask, Lookup::Ask, Lookup::List]);
        known.store_listing(&path("d"), &[(path("d/a"), file(1))]);
        assert_eq!(known.look_up(&path("d/a")), Lookup::Found(file(1)));
        assert_eq!(known.look_up(&path("d/f")), Lookup::Missing);
        assert_eq!(known.look_up(&path("x/f")), Lookup::Ask, "another directory");
        known.store(&path("d/f"), file(7));
        assert_eq!(known.look_up(&path("d/f")), Lookup::Found(file(7)), "an entry that this store made is known");
        known.forget(&path("d/f"));
        assert_eq!(known.look_up(&path("d/f")), Lookup::Missing);
        known.forget(&path("d"));
        assert_ne!(known.look_up(&path("d/a")), Lookup::Found(file(1)));
    }

    #[test]
    fn a_new_listing_forgets_what_is_gone() {
        let known = FactsCache::default();
        known.store_listing(&path("d"), &[(path("d/a"), file(1)), (path("d/b"), file(2))]);
        known.store_listing(&path("d"), &[(path("d/b"), file(3))]);
        assert_eq!((known.last(&path("d/a")), known.last(&path("d/b"))), (None, Some(file(3))));
    }

    #[test]
    fn facts_that_one_side_lacks_are_not_compared() {
        let tagged = |tag: &str| Facts { etag: Some(tag.into()), ..file(1) };
        assert!(tagged("\"a\"").agrees(&tagged("W/\"a\"")) && tagged("\"a\"").agrees(&file(1)));
        assert!(!tagged("\"a\"").agrees(&tagged("\"b\"")) && !file(1).agrees(&file(2)));
        let at = |seconds, nanos| Facts { mtime: Some(Timestamp { seconds, nanos }), ..file(1) };
        assert!(at(5, 1).agrees(&at(5, 2)) && !at(5, 0).agrees(&at(6, 0)));
    }
}
