//! The policy of this node as its file says: read when the node starts, and again when the file has changed.
//!
//! A change that does not read leaves what counted before in force: an operator's slip neither opens nor shuts the door.
//! What this room does not know: what the policy means (`auth`), or who asks.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use auth::Policy;
use parking_lot::Mutex;

/// Between two looks at the file. With the time below, a right that is withdrawn is gone within 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A file that was changed so recently may be half written.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// The name in the state directory.
const NAME: &str = "access.toml";

/// Why the policy cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}, which says who may do what: {why}; put it right, or start the node without it")]
pub struct PolicyFileError {
    /// Which file.
    pub path: String,
    /// Where in it, what, and what to write instead.
    pub why: String,
}

/// By what a changed file is known: time of change in nanoseconds, size, inode.
type Stamp = (i64, i64, u64, u64);

/// The policy and its file.
pub(crate) struct PolicyFile {
    path: Option<PathBuf>,
    known: Mutex<Known>,
}

struct Known {
    policy: Arc<Policy>,
    /// What the last look saw; none for no file. An error is remembered by its kind, so that it is said once.
    seen: Result<Option<Stamp>, io::ErrorKind>,
    looked: Instant,
}

fn stamp(path: &Path) -> Result<Option<Stamp>, io::ErrorKind> {
    match fs::metadata(path) {
        Ok(facts) => Ok(Some((facts.mtime(), facts.mtime_nsec(), facts.size(), facts.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.kind()),
    }
}

fn is_settled(stamp: Option<Stamp>) -> bool {
    let Some((seconds, nanos, ..)) = stamp else { return true };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs() as u32);
    // A time to come is another machine's clock, not a fresh change.
    SystemTime::now().duration_since(changed).map_or(true, |age| age >= SETTLED_AFTER)
}

/// Reads the file. Paths in it are relative to where it lies.
fn read(path: &Path) -> Result<Policy, PolicyFileError> {
    let fail = |why: String| PolicyFileError { path: path.display().to_string(), why };
    let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let mut policy = Policy::parse(&text).map_err(|error| fail(error.to_string()))?;
    let dir = path.parent().unwrap_or(Path::new(""));
    for jwks in policy.issuers.iter_mut().filter_map(|issuer| issuer.jwks.as_mut()) {
        *jwks = dir.join(&*jwks).display().to_string();
    }
    Ok(policy)
}

impl PolicyFile {
    /// No file: nothing counts but keys.
    pub fn none() -> PolicyFile {
        let known = Known { policy: Arc::default(), seen: Ok(None), looked: Instant::now() };
        PolicyFile { path: None, known: Mutex::new(known) }
    }

    /// The named file, which must be there, else `access.toml` of the state directory, which may be or come to be there.
    pub fn open(named: Option<&Path>, state: &Path) -> Result<PolicyFile, PolicyFileError> {
        let path = named.map_or_else(|| state.join(NAME), Path::to_owned);
        let seen = stamp(&path);
        let policy = if named.is_none() && seen == Ok(None) { Policy::default() } else { read(&path)? };
        let known = Known { policy: Arc::new(policy), seen, looked: Instant::now() };
        Ok(PolicyFile { path: Some(path), known: Mutex::new(known) })
    }

    /// Says which exports the policy names that this node does not have: a rule for a misspelt one is no rule.
    pub fn compare<'a>(&self, exports: impl Iterator<Item = &'a str>) {
        let Some(path) = &self.path else { return };
        let (policy, have): (_, Vec<&str>) = (self.policy(), exports.collect());
        for export in policy.exports_named().into_iter().filter(|name| !have.contains(name)) {
            tracing::warn!(file = %path.display(), export, "the policy names an export that this node does not serve");
        }
    }

    /// What counts now.
    pub fn policy(&self) -> Arc<Policy> {
        let mut known = self.known.lock();
        if let Some(path) = &self.path
            && known.looked.elapsed() >= LOOK_EVERY
        {
            known.looked = Instant::now();
            known.look(path);
        }
        Arc::clone(&known.policy)
    }
}

impl Known {
    fn look(&mut self, path: &Path) {
        let seen = stamp(path);
        if seen == self.seen || seen.is_ok_and(|stamp| !is_settled(stamp)) {
            return;
        }
        self.seen = seen;
        let file = path.display();
        if seen == Ok(None) {
            tracing::error!(%file, "the policy's file is gone: what it said counts until the node starts anew; empty it instead");
            return;
        }
        match read(path) {
            Ok(policy) => {
                let (rules, issuers) = (policy.rules.len(), policy.issuers.len());
                tracing::info!(%file, rules, issuers, "the policy has changed");
                self.policy = Arc::new(policy);
            }
            Err(error) => {
                tracing::error!(%file, error = error.why, "the changed policy does not read: the one before it counts on");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_again(file: &PolicyFile) -> Arc<Policy> {
        std::thread::sleep(SETTLED_AFTER);
        file.known.lock().looked -= LOOK_EVERY;
        file.policy()
    }

    #[test]
    fn changes_count_and_slips_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let file = PolicyFile::open(None, dir.path()).unwrap();
        assert_eq!(*file.policy(), Policy::default());
        fs::write(&path, "audiences = [\"https://a\"]\n[[issuer]]\nname = \"i\"\niss = \"https://i\"\njwks = \"k\"\n")
            .unwrap();
        file.known.lock().looked = Instant::now();
        assert!(file.policy().audiences.is_empty(), "it is not looked at all the time");
        let changed = look_again(&file);
        assert_eq!(changed.audiences, ["https://a"]);
        assert_eq!(changed.issuers[0].jwks.as_deref(), dir.path().join("k").to_str());
        fs::write(&path, "audiences = 7").unwrap();
        assert_eq!(look_again(&file).audiences, ["https://a"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(look_again(&file).audiences, ["https://a"]);
        fs::write(&path, "").unwrap();
        assert!(look_again(&file).audiences.is_empty());
    }

    #[test]
    fn a_broken_file_keeps_the_node_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        assert!(PolicyFile::open(Some(&path), dir.path()).is_err(), "a named one must be there");
        fs::write(&path, "\n[[allow]]\nanyone = true\nexport = \"d\"\nrights = []\n").unwrap();
        let error = PolicyFile::open(Some(&path), dir.path()).err().unwrap().to_string();
        assert!(error.contains("p.toml") && error.contains("line 2") && error.contains("rights"), "{error}");
    }
}
