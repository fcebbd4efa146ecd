//! The state that an attempt that ended early keeps for the next one: unfinished files and their journals.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::client::unfinished;
use crate::wait::{LONG, until};

/// A row of a journal, after the four lines of its head.
const ROW_BYTES: usize = 32;

/// The journals below a state directory. A journal that is being rewritten exists twice for a moment, and is not counted twice.
pub fn journals(state: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(state.join("journals")).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| path.extension().is_none()).collect()
}

/// The bytes that the journals cover.
pub fn covered(state: &Path) -> u64 {
    journals(state).iter().map(|path| covered_by(&fs::read(path).unwrap_or_default())).sum()
}

/// The same for files that are still unfinished below a directory: the journal of a file that was just finished remains for a moment.
pub fn covered_unfinished(dir: &Path, state: &Path) -> u64 {
    let tag =
        |path: PathBuf| Some(path.file_name()?.to_str()?.strip_prefix(".longhaul-")?.strip_suffix(".part")?.to_owned());
    let tags = unfinished(dir).into_iter().filter_map(tag);
    tags.map(|tag| covered_by(&fs::read(state.join("journals").join(tag)).unwrap_or_default())).sum()
}

fn covered_by(journal: &[u8]) -> u64 {
    let mut rest = journal;
    for _ in 0..4 {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return 0 };
        rest = &rest[end + 1..];
    }
    rest.chunks_exact(ROW_BYTES).map(|row| u64::from_be_bytes(row[8..16].try_into().unwrap())).sum()
}

/// Whether no process has a journal open for writing any more.
pub fn has_no_writer(state: &Path) -> bool {
    journals(state).iter().all(|path| File::open(path).is_ok_and(|file| file.try_lock().is_ok()))
}

/// Waits until a job that ended early has closed everything, and asserts that each unfinished file has its journal and
/// each journal its unfinished file.
#[track_caller]
pub fn assert_kept(target: &Path, state: &Path) {
    let names = |paths: Vec<PathBuf>| -> Vec<String> {
        let mut names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap().into()).collect();
        names.sort();
        names
    };
    let mut seen = (Vec::new(), Vec::new());
    let kept = |journals: &[String]| journals.iter().map(|tag| format!(".longhaul-{tag}.part")).collect::<Vec<_>>();
    let what = "an unfinished file is kept with its journal or removed";
    until(what, LONG, || {
        seen = (names(unfinished(target)), names(journals(state)));
        has_no_writer(state) && seen.0 == kept(&seen.1)
    });
    assert!(!seen.1.is_empty(), "nothing was kept");
}

/// Asserts that nothing is kept: the job is done.
#[track_caller]
pub fn assert_nothing_kept(target: &Path, state: &Path) {
    until("nothing unfinished is left", LONG, || unfinished(target).is_empty() && journals(state).is_empty());
}

/// Bytes really written to an unfinished file: its length is what was reserved for it.
pub fn written(path: &Path) -> u64 {
    use rustix::fs::SeekFrom;
    let Ok(file) = File::open(path) else { return 0 };
    let (mut total, mut at) = (0, 0);
    while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, SeekFrom::Hole(data)).unwrap();
        total += at - data;
    }
    total
}
