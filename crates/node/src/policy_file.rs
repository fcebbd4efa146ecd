//! The file of this node's policy, which is read when the node starts, and again when the file has changed.
//!
//! A changed file that is not valid leaves the former policy in force: an operator's mistake neither grants nor withdraws rights.
//!
//! What this module does not know: what the policy means (`auth`), and which principal it is applied to.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use auth::Policy;
use parking_lot::Mutex;

/// How often the file is checked. With the time below, a withdrawn right is gone within 100 ms.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// A file that was changed so recently may be incomplete.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// The name in the state directory.
const NAME: &str = "access.toml";

/// Why the policy cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}, which says who may do what: {why}; correct the file, or start the node without it")]
pub struct PolicyFileError {
    /// The file.
    pub path: String,
    /// The place in the file, the error, and what to write instead.
    pub why: String,
}

/// The part of a file's metadata that shows a change: time of change (seconds, nanoseconds), size, inode.
type Stamp = (i64, i64, u64, u64);

/// The file of the policy, and the policy that was loaded from it.
pub(crate) struct PolicyFile {
    path: Option<PathBuf>,
    loaded: Mutex<LoadedPolicy>,
}

/// The policy in force, and the state of its file.
struct LoadedPolicy {
    policy: Arc<Policy>,
    /// The file's stamp at the last check; none if there was no file. An error is kept by its kind, so that it is logged once.
    seen: Result<Option<Stamp>, io::ErrorKind>,
    checked_at: Instant,
}

fn stamp(path: &Path) -> Result<Option<Stamp>, io::ErrorKind> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some((metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.kind()),
    }
}

fn is_settled(stamp: Option<Stamp>) -> bool {
    let Some((seconds, nanos, ..)) = stamp else { return true };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs() as u32);
    // A time in the future comes from another machine's clock, not from a fresh change.
    SystemTime::now().duration_since(changed).map_or(true, |age| age >= SETTLED_AFTER)
}

/// Reads the file. Paths in it are relative to its directory.
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
    /// No file: only keys give rights.
    pub fn none() -> PolicyFile {
        let loaded = LoadedPolicy { policy: Arc::default(), seen: Ok(None), checked_at: Instant::now() };
        PolicyFile { path: None, loaded: Mutex::new(loaded) }
    }

    /// The named file, which must exist, else `access.toml` of the state directory, which need not exist yet.
    ///
    /// # Errors
    /// The file cannot be read or does not parse.
    pub fn open(named: Option<&Path>, state: &Path) -> Result<PolicyFile, PolicyFileError> {
        let path = named.map_or_else(|| state.join(NAME), Path::to_owned);
        let seen = stamp(&path);
        let policy = if named.is_none() && seen == Ok(None) { Policy::default() } else { read(&path)? };
        let loaded = LoadedPolicy { policy: Arc::new(policy), seen, checked_at: Instant::now() };
        Ok(PolicyFile { path: Some(path), loaded: Mutex::new(loaded) })
    }

    /// Logs the exports that the policy names and this node does not have: a rule for a misspelt export has no effect.
    pub fn compare<'a>(&self, exports: impl Iterator<Item = &'a str>) {
        let Some(path) = &self.path else { return };
        let have: Vec<&str> = exports.collect();
        for export in self.policy().exports_named().into_iter().filter(|name| !have.contains(name)) {
            tracing::warn!(file = %path.display(), export, "the policy names an export that this node does not serve");
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        let mut loaded = self.loaded.lock();
        if let Some(path) = &self.path
            && loaded.checked_at.elapsed() >= CHECK_EVERY
        {
            loaded.checked_at = Instant::now();
            loaded.check(path);
        }
        Arc::clone(&loaded.policy)
    }
}

impl LoadedPolicy {
    /// Loads the file if it has changed.
    fn check(&mut self, path: &Path) {
        let seen = stamp(path);
        if seen == self.seen || seen.is_ok_and(|stamp| !is_settled(stamp)) {
            return;
        }
        self.seen = seen;
        let file = path.display();
        if seen == Ok(None) {
            tracing::error!(%file, "the policy's file is gone; its rules stay in force until the node starts again; to withdraw them, empty the file");
            return;
        }
        match read(path) {
            Ok(policy) => {
                let (rules, issuers) = (policy.rules.len(), policy.issuers.len());
                tracing::info!(%file, rules, issuers, "the policy has changed");
                self.policy = Arc::new(policy);
            }
            Err(error) => {
                tracing::error!(%file, error = error.why, "the changed policy cannot be read; the former one stays in force");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_again(file: &PolicyFile) -> Arc<Policy> {
        std::thread::sleep(SETTLED_AFTER);
        file.loaded.lock().checked_at -= CHECK_EVERY;
        file.policy()
    }

    #[test]
    fn a_valid_change_is_applied_and_an_invalid_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let file = PolicyFile::open(None, dir.path()).unwrap();
        assert_eq!(*file.policy(), Policy::default());
        fs::write(&path, "audiences = [\"https://a\"]\n[[issuer]]\nname = \"i\"\niss = \"https://i\"\njwks = \"k\"\n")
            .unwrap();
        file.loaded.lock().checked_at = Instant::now();
        assert!(file.policy().audiences.is_empty(), "the file is not checked at every call");
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
    fn a_node_does_not_start_with_an_invalid_policy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        assert!(PolicyFile::open(Some(&path), dir.path()).is_err(), "a named one must be there");
        fs::write(&path, "\n[[allow]]\nanyone = true\nexport = \"d\"\nrights = []\n").unwrap();
        let error = PolicyFile::open(Some(&path), dir.path()).err().unwrap().to_string();
        assert!(error.contains("p.toml") && error.contains("line 2") && error.contains("rights"), "{error}");
    }
}
