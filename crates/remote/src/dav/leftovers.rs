//! Temporary files of uploads that broke off. Listings leave them out. They are removed when a client writes to their directory and
//! they are old enough to count as abandoned.
//!
//! Their age is read from their names, because some servers give a file the modification time that the client requests.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::name::RelPath;
use parking_lot::Mutex;
use web::{Headers, Method};

use super::Dav;
use crate::facts_cache::Entry;
use crate::request_error::RequestError;

/// The age, and the time without a change, from which a temporary file counts as abandoned.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// Directories whose leftovers are remembered; more are not swept.
const DIRS_MAX: usize = 1000;

/// Abandoned temporary files that were listed, by directory.
#[derive(Debug, Default)]
pub(super) struct UnfinishedFiles(Mutex<BTreeMap<RelPath, Vec<RelPath>>>);

/// The time now, seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A temporary name for an upload that begins now. It differs from the names of a node's unfinished files: nodes refuse those from
/// clients.
pub(crate) fn temporary_name(tag: &str) -> Vec<u8> {
    format!(".longhaul-{:x}-{}.upload", now(), tag.replace(['/', '\0'], "_")).into_bytes()
}

/// Whether a name is that of an upload under way, or of one that broke off.
pub(crate) fn is_temporary_name(name: &[u8]) -> bool {
    without_affixes(name).is_some()
}

/// A temporary name without its prefix and suffix; `None` for other names.
fn without_affixes(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b".longhaul-")?.strip_suffix(b".upload")
}

/// When the upload of a temporary name began, seconds since 1970.
fn begun(name: &[u8]) -> Option<u64> {
    let (at, _) = std::str::from_utf8(without_affixes(name)?).ok()?.split_once('-')?;
    u64::from_str_radix(at, 16).ok()
}

/// Whether an upload began long ago and, as far as the server reports, its file has not changed since: a large upload may take days.
fn is_stale((name, facts): &Entry, now: u64) -> bool {
    let before = now.saturating_sub(STALE.as_secs());
    let changed = facts.as_ref().ok().and_then(|facts| facts.mtime);
    begun(name.as_bytes()).is_some_and(|at| at < before) && changed.is_none_or(|at| at.seconds < before as i64)
}

impl Dav {
    /// The entries of a directory without temporary files. Notes the abandoned ones among them.
    pub(super) fn without_leftovers(&self, dir: &RelPath, entries: Vec<Entry>) -> Vec<Entry> {
        let (left, entries): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(name, _)| without_affixes(name.as_bytes()).is_some());
        let now = now();
        let stale: Vec<_> = left.iter().filter(|entry| is_stale(entry, now)).map(|(name, _)| dir.join(name)).collect();
        let mut seen = self.0.leftovers.0.lock();
        seen.remove(dir);
        if !stale.is_empty() && seen.len() < DIRS_MAX {
            seen.insert(dir.clone(), stale);
        }
        entries
    }

    /// Whether a directory holds nothing but abandoned temporary files.
    pub(super) fn is_empty(&self, dir: &RelPath) -> Result<bool, RequestError> {
        let now = now();
        Ok(self.all_entries(dir)?.iter().all(|entry| is_stale(entry, now)))
    }

    /// Removes the abandoned temporary files of a directory, as far as the server permits.
    pub(super) fn sweep(&self, dir: &RelPath) {
        let stale = self.0.leftovers.0.lock().remove(dir);
        for path in stale.unwrap_or_default() {
            if let Ok(url) = self.url(&path, false) {
                let _ = self.0.server.ask(&Method::Delete, &url, &Headers::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts_cache::Facts;
    use model::{Name, Timestamp};

    #[test]
    fn a_temporary_file_is_stale_if_its_name_is_old_and_it_has_not_changed() {
        let day = STALE.as_secs();
        let now = 1_800_000_000;
        let entry = |name: &str, mtime: Option<u64>| -> Entry {
            let mtime = mtime.map(|at| Timestamp { seconds: at as i64, nanos: 0 });
            (Name::new(name.as_bytes()).unwrap(), Ok(Facts { mtime, ..Facts::file(7) }))
        };
        let named = |at: u64| format!(".longhaul-{at:x}-ab-cd.upload");
        assert!(is_stale(&entry(&named(now - day - 1), None), now));
        assert!(is_stale(&entry(&named(now - day - 1), Some(now - 2 * day)), now));
        assert!(!is_stale(&entry(&named(now - day - 1), Some(now - 60)), now), "bytes still come");
        assert!(!is_stale(&entry(&named(now - 60), Some(0)), now), "its time is the one that was asked for");
        for name in [".longhaul-x.upload", ".longhaul-1-x.part", "f", ".longhaul--x.upload"] {
            assert!(!is_stale(&entry(name, Some(0)), now), "{name}");
        }
        assert!(begun(&temporary_name("a/b-c")).is_some_and(|at| at.abs_diff(super::now()) < 60));
    }
}
