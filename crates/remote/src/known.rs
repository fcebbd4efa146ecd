//! What a server has said of its files, remembered for a moment: a question for each file of a directory would cost a round
//! trip for each, where one for the directory answers them all.
//!
//! Does not know: how servers are asked ([`Told`] says what there is to ask).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::name::{Name, RelPath};
use model::{Kind, Meta, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use store::{Entries, Stat};

use crate::failed::Failed;

/// What is known of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// The last change, where the server tells it.
    pub mtime: Option<Timestamp>,
    /// What stands for its content.
    pub etag: Option<String>,
    pub executable: bool,
    /// When this was learned: what stands for the time of a change that the server does not tell.
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

    /// Of a file of which nothing else is known.
    pub fn file(size: u64) -> Facts {
        Facts { kind: Kind::File, size, mtime: None, etag: None, executable: false, learned: now() }
    }

    /// As every store tells them, of a path on a server. Nothing there has a number: the path and the tag stand for it.
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

    /// Whether nothing has happened to it in between, as far as time and tag tell.
    pub fn is_untouched(&self, later: &Facts) -> bool {
        let told = self.mtime.is_some() || self.etag.is_some();
        told && (self.size, self.mtime, &self.etag) == (later.size, later.mtime, &later.etag)
    }

    /// Whether both can be the same content: what only one of them tells decides nothing.
    pub fn agrees(&self, other: &Facts) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => strong(a) == strong(b),
            _ => true,
        };
        let as_late = self.mtime.zip(other.mtime).is_none_or(|(a, b)| a.seconds == b.seconds);
        self.size == other.size && as_late && same(&self.etag, &other.etag)
    }
}

/// A tag without its mark of weakness: a server that compresses calls the same content strong and weak by turns.
fn strong(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// How long a listing answers for its directory.
const LISTING_HOLDS: Duration = Duration::from_secs(5);
/// Questions about one directory's entries, without another between them, after which the directory is listed.
const QUESTIONS: u32 = 3;
/// Files that are remembered; when there are more, all are forgotten.
const FILES_MAX: usize = 200_000;

#[derive(Debug, Default)]
struct Memory {
    files: HashMap<RelPath, Facts>,
    /// The directory that was listed last, and when.
    listed: Option<(RelPath, Instant)>,
    /// The directory whose entries are asked for, and how often so far.
    asked: Option<(RelPath, u32)>,
}

/// What is remembered of one server.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Memory>);

/// What the memory says of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is so, as of a moment ago.
    There(Facts),
    /// It is not there, as of a moment ago.
    Missing,
    /// The server must be asked: for this alone.
    Ask,
    /// The server must be asked, for the whole directory at once.
    List,
}

impl Known {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock()
    }

    /// What can be said of a path now.
    pub fn answer(&self, path: &RelPath) -> Answer {
        let mut memory = self.memory();
        let parent = path.parent();
        if memory.listed.as_ref().is_some_and(|(dir, at)| *dir == parent && at.elapsed() < LISTING_HOLDS) {
            return memory.files.get(path).cloned().map_or(Answer::Missing, Answer::There);
        }
        let count = match &memory.asked {
            Some((dir, count)) if *dir == parent => count + 1,
            _ => 1,
        };
        memory.asked = Some((parent, count));
        if count > QUESTIONS { Answer::List } else { Answer::Ask }
    }

    /// What was last heard of a path, however long ago.
    pub fn last(&self, path: &RelPath) -> Option<Facts> {
        self.memory().files.get(path).cloned()
    }

    /// A path is as the server says, or as we made it.
    pub fn learn(&self, path: &RelPath, facts: Facts) {
        let mut memory = self.memory();
        if memory.files.len() >= FILES_MAX {
            memory.files.clear();
            memory.listed = None;
        }
        memory.files.insert(path.clone(), facts);
    }

    /// Something was made or moved there, and nobody knows what it is like.
    pub fn doubt(&self, path: &RelPath) {
        let mut memory = self.memory();
        memory.files.retain(|known, _| !known.starts_with(path));
        memory.listed = None;
    }

    /// A path is gone.
    pub fn forget(&self, path: &RelPath) {
        let mut memory = self.memory();
        memory.files.retain(|known, _| !known.starts_with(path));
        if memory.listed.as_ref().is_some_and(|(dir, _)| dir.starts_with(path)) {
            memory.listed = None;
        }
    }

    /// A directory has these entries and no others.
    pub fn listed(&self, dir: &RelPath, entries: &[(RelPath, Facts)]) {
        let mut memory = self.memory();
        if memory.files.len() + entries.len() > FILES_MAX {
            memory.files.clear();
        }
        memory.files.retain(|known, _| known.is_root() || known.parent() != *dir);
        memory.files.extend(entries.iter().cloned());
        memory.listed = Some((dir.clone(), Instant::now()));
    }
}

/// A name in a directory, and what is known of it, or why nothing is.
pub(crate) type Entry = (Name, Result<Facts, Failed>);

/// A server that tells of its files, and what it has told.
pub(crate) trait Told {
    /// What is remembered.
    fn known(&self) -> &Known;
    /// What tells it from other servers, in messages as well.
    fn host(&self) -> &str;
    /// Whether directories can be listed.
    fn lists(&self) -> bool;
    /// Asks what is at a path.
    fn ask_facts(&self, path: &RelPath) -> Result<Facts, Failed>;
    /// Asks for the entries of a directory.
    fn ask_entries(&self, path: &RelPath) -> Result<Vec<Entry>, Failed>;

    /// The facts of a path, from memory where that is fresh.
    fn facts(&self, path: &RelPath) -> Result<Facts, Failed> {
        if path.is_root() {
            return self.ask_facts(path);
        }
        let missing = || Failed::status(self.host(), 404, b"");
        match self.known().answer(path) {
            Answer::There(facts) => return Ok(facts),
            Answer::Missing => return Err(missing()),
            Answer::List if self.lists() => {
                // Who may not list may still ask.
                if let Ok(entries) = self.ask_entries(&path.parent()) {
                    self.learn(&path.parent(), &entries);
                    return self.known().last(path).ok_or_else(missing);
                }
            }
            Answer::List | Answer::Ask => {}
        }
        let facts = self.ask_facts(path);
        match &facts {
            Ok(facts) => self.known().learn(path, facts.clone()),
            Err(_) => self.known().forget(path),
        }
        facts
    }

    /// The facts of what is about to be read: those that were told last, or it is asked.
    fn facts_to_read(&self, path: &RelPath) -> Result<Facts, Failed> {
        self.known().last(path).map_or_else(|| self.facts(path), Ok)
    }

    /// What is there now, if anything is. That nobody can tell is no answer.
    fn there(&self, path: &RelPath) -> Result<Option<Facts>, Failed> {
        match self.ask_facts(path) {
            Ok(facts) => Ok(Some(facts)),
            Err(failed) if failed.is(&[404, 410]) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// A directory was listed.
    fn learn(&self, dir: &RelPath, entries: &[Entry]) {
        let known = entries.iter().filter_map(|(name, facts)| Some((dir.join(name), facts.as_ref().ok()?.clone())));
        self.known().listed(dir, &known.collect::<Vec<_>>());
    }

    /// The entries of a directory, as every store hands them out.
    fn handed_out(&self, dir: &RelPath, entries: Vec<Entry>) -> Entries {
        self.learn(dir, &entries);
        let (dir, host) = (dir.clone(), self.host().to_owned());
        Entries::new(entries.into_iter().map(move |(name, facts)| {
            let path = dir.join(&name);
            let stat = facts.map(|facts| facts.stat(&host, &path)).map_err(|failed| failed.doing("examine", &path));
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
    fn the_fourth_question_lists() {
        let known = Known::default();
        let answers: Vec<_> = ["d/a", "d/b", "d/c", "d/e"].map(|p| known.answer(&path(p))).into();
        assert_eq!(answers, [Answer::Ask, Answer::Ask, Answer::Ask, Answer::List]);
        known.listed(&path("d"), &[(path("d/a"), file(1))]);
        assert_eq!(known.answer(&path("d/a")), Answer::There(file(1)));
        assert_eq!(known.answer(&path("d/f")), Answer::Missing);
        assert_eq!(known.answer(&path("x/f")), Answer::Ask, "another directory");
        known.learn(&path("d/f"), file(7));
        assert_eq!(known.answer(&path("d/f")), Answer::There(file(7)), "what we made is there");
        known.forget(&path("d/f"));
        assert_eq!(known.answer(&path("d/f")), Answer::Missing);
        known.forget(&path("d"));
        assert_ne!(known.answer(&path("d/a")), Answer::There(file(1)));
    }

    #[test]
    fn a_new_listing_forgets_what_is_gone() {
        let known = Known::default();
        known.listed(&path("d"), &[(path("d/a"), file(1)), (path("d/b"), file(2))]);
        known.listed(&path("d"), &[(path("d/b"), file(3))]);
        assert_eq!((known.last(&path("d/a")), known.last(&path("d/b"))), (None, Some(file(3))));
    }

    #[test]
    fn what_is_not_told_decides_nothing() {
        let tagged = |tag: &str| Facts { etag: Some(tag.into()), ..file(1) };
        assert!(tagged("\"a\"").agrees(&tagged("W/\"a\"")) && tagged("\"a\"").agrees(&file(1)));
        assert!(!tagged("\"a\"").agrees(&tagged("\"b\"")) && !file(1).agrees(&file(2)));
        let at = |seconds, nanos| Facts { mtime: Some(Timestamp { seconds, nanos }), ..file(1) };
        assert!(at(5, 1).agrees(&at(5, 2)) && !at(5, 0).agrees(&at(6, 0)));
    }
}
