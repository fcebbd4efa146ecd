//! Removes journals that no attempt has resumed for a time, and the oldest where there are too many.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::RelPath;
use store::Store;
use store::posix::{Links, Posix};

use super::{Head, is_at_path, read_head};

/// The number of journals that are kept, and the bytes of all of them: beyond that the oldest that no attempt writes are removed, and
/// their files are sent again in full.
const JOURNALS_MAX: usize = 65_536;
const JOURNALS_BYTES_MAX: u64 = 1 << 30;

/// How long an unfinished file and its journal are kept.
pub const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Removes journals that are older than this and not in use, with their unfinished files. Returns their number.
pub fn sweep(state: &Path, older_than: Duration) -> usize {
    sweep_beyond(state, older_than, JOURNALS_MAX, JOURNALS_BYTES_MAX)
}

fn sweep_beyond(state: &Path, older_than: Duration, most: usize, most_bytes: u64) -> usize {
    let Ok(entries) = fs::read_dir(state.join("journals")) else { return 0 };
    let facts = |path: PathBuf| {
        let meta = fs::metadata(&path).ok()?;
        Some((meta.modified().unwrap_or_else(|_| SystemTime::now()), meta.len(), path))
    };
    let mut all: Vec<_> = entries.flatten().filter_map(|entry| facts(entry.path())).collect();
    all.sort();
    let mut count = all.len();
    let mut bytes = all.iter().map(|(_, len, _)| len).sum::<u64>();
    let mut swept = 0;
    for (changed, len, path) in all {
        let is_old = changed.elapsed().is_ok_and(|age| age > older_than);
        if (is_old || count > most || bytes > most_bytes) && sweep_one(&path).is_some() {
            count -= 1;
            bytes = bytes.saturating_sub(len);
            swept += 1;
        }
    }
    swept
}

fn sweep_one(path: &Path) -> Option<()> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    if !is_at_path(&file, path) {
        // An attempt has begun the journal anew meanwhile.
        return None;
    }
    let head = read_head(&mut BufReader::new(&file));
    if let Some(Head { root, path: below, .. }) = head
        && let (Ok(below), Some(tag)) = (RelPath::parse(&below), path.file_name().and_then(|name| name.to_str()))
        && let Ok(store) = Posix::open(Path::new(&OsString::from_vec(root)), Links::Inside)
    {
        let _ = store.forget(&below, tag);
    }
    fs::remove_file(path).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Journals;
    use super::super::tests::{SUBJECT, rel, row};
    use super::*;

    #[test]
    fn an_old_journal_and_its_unfinished_file_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let data = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), data.path());
        let (journal, _) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        let name = String::from_utf8(store::posix::temporary_name(journal.tag())).unwrap();
        fs::write(data.path().join(&name), "half").unwrap();
        assert_eq!(sweep(state.path(), Duration::ZERO), 0, "it is in use");
        drop(journal);
        assert_eq!(sweep(state.path(), KEPT_FOR), 0, "it is young");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(sweep(state.path(), Duration::ZERO), 1);
        assert!(!data.path().join(&name).exists() && !journals.knows(&rel("f")));
    }

    #[test]
    fn the_number_and_bytes_of_journals_are_bounded() {
        let state = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), Path::new("/nowhere"));
        let begin = |name: &str, age_s: u64| {
            let (mut journal, _) = journals.take(&rel(name), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
            journal.write(&[row(0, 10)]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age_s);
            let at = state.path().join("journals").join(journals.tag(&rel(name)));
            File::options().write(true).open(at).unwrap().set_modified(time).unwrap();
            journal
        };
        let used = begin("used", 50);
        ["oldest", "older", "young"].iter().zip([40, 30, 20]).for_each(|(name, age)| drop(begin(name, age)));
        assert_eq!(sweep_beyond(state.path(), KEPT_FOR, 4, u64::MAX), 0);
        assert_eq!(sweep_beyond(state.path(), KEPT_FOR, 3, u64::MAX), 1, "the oldest that is not in use");
        assert!(journals.knows(&rel("used")) && !journals.knows(&rel("oldest")));
        assert_eq!(sweep_beyond(state.path(), KEPT_FOR, 3, 1), 2, "by bytes: all but the one in use");
        drop(used);
    }

    #[test]
    fn a_clock_that_is_set_removes_no_journal_in_use() {
        let state = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), Path::new("/data"));
        let (mut journal, _) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        journal.write(&[row(0, 10)]).unwrap();
        let dated = |time: SystemTime| {
            let at = state.path().join("journals").join(journals.tag(&rel("f")));
            File::options().write(true).open(at).unwrap().set_modified(time).unwrap();
        };
        let year = Duration::from_secs(365 * 24 * 3600);
        dated(SystemTime::now() - 20 * year);
        assert_eq!(sweep(state.path(), KEPT_FOR), 0, "a job uses it, however old it is");
        drop(journal);
        // Written before the clock was put back.
        dated(SystemTime::now() + year);
        assert_eq!(sweep(state.path(), Duration::ZERO), 0);
        let (journal, there) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert_eq!(there.len(), 1, "the file can be resumed");
        drop(journal);
        dated(SystemTime::UNIX_EPOCH);
        assert_eq!(sweep(state.path(), KEPT_FOR), 1);
        assert!(!journals.knows(&rel("f")));
    }
}
