//! The time at which the last complete copy of the same sources to the same target began. A file that has changed since (by its ctime) is
//! not skipped by length and modification time alone: a program can set those back, but not the ctime.
//!
//! The clock of a file system lags by some milliseconds, less than the time until the first file is read. A file system on another host
//! whose clock lags by more is not detected.
//!
//! The time is stored at the host that runs the copy, in a small file for each copy. Nothing is stored for a source that a node sends.
//!
//! What this module does not know: files.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{Timestamp, hex};

/// The number of copies whose time is stored. Files of older copies are compared by length and time.
const COPIES_MAX: usize = 1_000;

/// The last copy of these sources to this target.
#[derive(Clone, Debug)]
pub struct LastCopy {
    path: PathBuf,
    began: SystemTime,
}

impl LastCopy {
    /// The record of a copy that begins now; `what` identifies its sources, its target, and all settings that select files.
    pub fn of(state: &Path, what: &[String]) -> LastCopy {
        let whole = what.iter().fold(String::new(), |all, one| format!("{all}{}:{one}", one.len()));
        let name = hex::encode(&aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, whole.as_bytes()).as_ref()[..16]);
        LastCopy { path: state.join("copies").join(name), began: SystemTime::now() }
    }

    /// The last copy may have missed changes from this time on; none where there was no such copy.
    pub fn unseen_from(&self) -> Option<Timestamp> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (seconds, nanos) = text.trim_end().split_once(' ')?;
        Some(Timestamp { seconds: seconds.parse().ok()?, nanos: nanos.parse().ok()? })
    }

    /// Stores the time at which this copy began. Called when the copy is complete.
    ///
    /// # Errors
    /// The state directory cannot be written to: the next copy compares by length and time.
    pub fn keep(&self) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let temporary = self.path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        writeln!(file, "{} {}", began.as_secs(), began.subsec_nanos())?;
        fs::rename(&temporary, &self.path)?;
        forget_oldest(dir);
        Ok(())
    }
}

fn forget_oldest(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path()))).collect();
    all.sort();
    all.iter().take(all.len().saturating_sub(COPIES_MAX)).for_each(|(_, path)| drop(fs::remove_file(path)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_last_complete_copy_is_stored() {
        let state = tempfile::tempdir().unwrap();
        let of = |what: &[&str]| LastCopy::of(state.path(), &what.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        let first = of(&["a", "b"]);
        assert_eq!(first.unseen_from(), None);
        first.keep().unwrap();
        let from = of(&["a", "b"]).unseen_from().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((now - 10..=now).contains(&from.seconds), "{from:?} at {now}");
        assert_eq!((of(&["ab", ""]).unseen_from(), of(&["a"]).unseen_from()), (None, None));
        (0..COPIES_MAX + 5).for_each(|number| of(&[&number.to_string()]).keep().unwrap());
        assert_eq!(fs::read_dir(state.path().join("copies")).unwrap().count(), COPIES_MAX);
    }
}
