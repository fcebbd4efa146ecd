//! Copies that have ended: one file each in the state directory, with the last state of the job and its receipt.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::v1;

/// The most ended copies that are remembered.
const COPIES_MAX: usize = 50;
/// How long an ended copy is remembered.
const AGE_MAX: Duration = Duration::from_secs(7 * 86_400);

fn dir(state: &Path) -> PathBuf {
    state.join("ended")
}

/// Remembers a job that has ended. A failure to do so is ignored.
pub fn remember(state: &Path, job: &v1::Transfer) {
    let _ = write(&dir(state), job);
}

fn write(dir: &Path, job: &v1::Transfer) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join(format!("{}.json", job.id));
    let temporary = dir.join(format!("{}.new", job.id));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(job)?)?;
    fs::rename(&temporary, &path)?;
    let mut all = files(dir);
    // An id begins with the time it was made: sorted by name, the oldest come first.
    all.sort();
    all.iter().take(all.len().saturating_sub(COPIES_MAX)).for_each(|old| drop(fs::remove_file(old)));
    Ok(())
}

fn files(dir: &Path) -> Vec<PathBuf> {
    // A link is not followed: another user may have put it there.
    let is_dir = fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir());
    let entries = fs::read_dir(dir).ok().filter(|_| is_dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json")).collect()
}

/// The copies that ended at most [`AGE_MAX`] ago.
pub(super) fn list(state: &Path) -> Vec<v1::Transfer> {
    files(&dir(state)).iter().filter_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Option<v1::Transfer> {
    let age = fs::metadata(path).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    if age > AGE_MAX {
        let _ = fs::remove_file(path);
        return None;
    }
    let mut job: v1::Transfer = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    job.seconds += age.as_secs_f64();
    Some(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Uuid;

    fn id(number: usize) -> Uuid {
        Uuid::from_u128(number as u128)
    }

    fn job(number: usize) -> v1::Transfer {
        let text = format!(
            r#"{{"id":"{}","state":"done","role":"send","source":["a"],"target":"b","bytes":1,"bytes_total":1,
               "files":1,"files_total":1,"scanned":true,"rate_bit_s":0,"limit_bit_s":0,"streams":1,"seconds":2.5}}"#,
            id(number)
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_newest_copies_are_remembered_for_a_week() {
        let state = tempfile::tempdir().unwrap();
        assert!(list(state.path()).is_empty());
        (0..COPIES_MAX + 3).for_each(|number| remember(state.path(), &job(number)));
        let mut ids: Vec<Uuid> = list(state.path()).into_iter().map(|job| job.id).collect();
        ids.sort();
        assert_eq!((ids.len(), ids[0]), (COPIES_MAX, id(3)));
        let path = dir(state.path()).join(format!("{}.json", id(10)));
        let old = std::time::SystemTime::now() - AGE_MAX - Duration::from_secs(1);
        fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        fs::write(dir(state.path()).join(format!("{}.json", id(11))), "torn").unwrap();
        assert_eq!(list(state.path()).len(), COPIES_MAX - 2);
        assert!(!path.exists());
        let hour = std::time::SystemTime::now() - Duration::from_secs(3_600);
        let path = dir(state.path()).join(format!("{}.json", id(12)));
        fs::File::options().write(true).open(&path).unwrap().set_modified(hour).unwrap();
        let past = list(state.path()).into_iter().find(|job| job.id == id(12)).unwrap();
        assert!((3_602.0..3_700.0).contains(&past.seconds), "{}", past.seconds);
    }
}
