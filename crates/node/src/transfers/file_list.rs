//! Files that an order names one by one: their common directory, their paths below it, and the outcome of each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use engine::filelist::FileList;
use model::fault::Fault;
use model::v1::node::{FileResult, FileResults};
use model::{Expected, Refusal, RelPath};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use wire::SettledFile;
use wire::frame::Outcome;

fn wrong(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

/// The deepest common directory of these places, as a place, and the path of each below it. Places are in the form of orders:
/// `/EXPORT/PATH`, `lh://HOST/EXPORT/PATH`, `https://HOST/PATH`.
///
/// # Errors
/// A place is not a file's, or the places have no common export or server.
pub(super) fn common_directory<'a>(places: impl Iterator<Item = &'a str>) -> Result<(String, Vec<RelPath>), Refusal> {
    let places: Vec<&str> = places.collect();
    if let Some(place) = places.iter().find(|place| place.contains(['?', '#'])) {
        let shown = web::target::redacted(place);
        return Err(wrong(format!("{shown}: the addresses of files that are named one by one have no query")));
    }
    let directories: Vec<&str> = places.iter().map(|place| place.rfind('/').map_or("", |at| &place[..at])).collect();
    let first = directories.first().copied().unwrap_or_default();
    let common = directories.iter().fold(first, |common, directory| shared(common, directory));
    // What is left must still name an export or a server.
    let least = match (common.split_once("://"), first.contains("://")) {
        (Some((_, rest)), _) => rest.split_once('/').map_or("", |(_, path)| path),
        (None, true) => "",
        (None, false) => common,
    };
    if least.trim_matches('/').is_empty() {
        return Err(wrong(
            "the files of one transfer are in one export of this node, and in one export or on one server at the other end",
        ));
    }
    let below = |place: &&str| {
        let rest: Vec<u8> = percent_decode_str(place[common.len()..].trim_start_matches('/')).collect();
        let path = if rest.ends_with(b"/") { None } else { RelPath::parse(&rest).ok() };
        path.filter(|path| !path.is_root()).ok_or_else(|| wrong(format!("{place} names no file")))
    };
    let below = places.iter().map(below).collect::<Result<Vec<_>, _>>()?;
    Ok((common.to_owned(), below))
}

/// The longest common prefix of whole segments of two places.
fn shared<'a>(a: &'a str, b: &str) -> &'a str {
    let mut end = 0;
    for (at, _) in a.match_indices('/').chain([(a.len(), "")]) {
        if b.len() >= at && a[..at] == b[..at] && (b.len() == at || b.as_bytes()[at] == b'/') {
            end = at;
        }
    }
    &a[..end]
}

/// The files of an order, by their paths.
#[derive(Debug)]
pub(crate) struct NamedFiles {
    /// The files as the engine takes them.
    pub list: FileList,
    /// The index of each source in the order, by its path below the common directory.
    index: HashMap<RelPath, u64>,
}

impl NamedFiles {
    /// The files with source, target and expected content, in the sequence of the order.
    ///
    /// # Errors
    /// A source is named twice, or the engine refuses the list.
    pub fn new(files: impl Iterator<Item = ((RelPath, RelPath), Expected)>) -> Result<NamedFiles, Refusal> {
        let mut list = FileList::default();
        let mut index: HashMap<RelPath, u64> = HashMap::new();
        for (((source, target), expected), at) in files.zip(0..) {
            if index.insert(source.clone(), at).is_some() {
                return Err(wrong(format!(
                    "{source} is named twice as a source: their outcomes could not be distinguished; order two transfers"
                )));
            }
            list.set_expected(target.clone(), expected);
            list.add(source, target)?;
        }
        Ok(NamedFiles { list: list.sorted()?, index })
    }

    /// The outcome of a source, as the API reports it for the file of the order.
    fn outcome(&self, path: &RelPath, bytes: u64, outcome: &Outcome) -> Option<FileResult> {
        // A session reports paths that begin with the name of the common directory.
        let below =
            path.as_bytes().iter().position(|byte| *byte == b'/').map_or(&[][..], |at| &path.as_bytes()[at + 1..]);
        let index = *self.index.get(&RelPath::parse(below).ok()?)?;
        Some(match outcome {
            Outcome::Failed(refusal) => FileResult {
                index,
                fault: Some(refusal.fault.word().to_owned()),
                error: Some(refusal.reason.clone()),
                ..FileResult::default()
            },
            Outcome::Done | Outcome::Skipped => FileResult { index, done: true, bytes, ..FileResult::default() },
        })
    }
}

/// The outcomes of the files of one transfer so far, in the order in which they ended. An attempt after a break may report files that
/// were reported before: the first outcome of a file that is done stays.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Mutex<Vec<FileResult>>);

impl Outcomes {
    /// Adds an outcome that a session reports.
    pub fn add(&self, files: &NamedFiles, settled: &SettledFile) {
        self.0.lock().extend(files.outcome(&settled.path, settled.size, &settled.outcome));
    }

    /// Adds the sources that failed without a report, because they could not be offered.
    pub fn add_missed<'a>(&self, files: &NamedFiles, missed: impl Iterator<Item = (&'a RelPath, &'a Refusal)>) {
        let mut all = self.0.lock();
        let reported: HashSet<u64> = all.iter().map(|file| file.index).collect();
        for (path, refusal) in missed {
            let outcome = Outcome::Failed(refusal.clone());
            all.extend(files.outcome(path, 0, &outcome).filter(|file| !reported.contains(&file.index)));
        }
    }

    /// Removes all outcomes.
    fn clear(&self) {
        self.0.lock().clear();
    }

    /// The outcomes without the first `after`, at most `limit`.
    pub fn page(&self, after: u64, limit: usize) -> FileResults {
        let all = self.0.lock();
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(all.len());
        let files: Vec<FileResult> = all[from..].iter().take(limit).cloned().collect();
        FileResults { next: (from + files.len()) as u64, files }
    }
}

/// Ended transfers whose files' outcomes are kept: at 10,000 files each some 50 MB.
const ENDED_OUTCOMES_MAX: usize = 32;

/// The outcomes of the files of the last ended transfers. Earlier transfers have only their receipts.
#[derive(Debug, Default)]
pub(crate) struct EndedOutcomes(Mutex<VecDeque<Arc<Outcomes>>>);

impl EndedOutcomes {
    /// Adds the outcomes of an ended transfer, and forgets the oldest beyond the bound.
    pub fn push(&self, outcomes: Arc<Outcomes>) {
        if outcomes.0.lock().is_empty() {
            return;
        }
        let mut kept = self.0.lock();
        kept.push_back(outcomes);
        if kept.len() > ENDED_OUTCOMES_MAX
            && let Some(oldest) = kept.pop_front()
        {
            oldest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(places: &[&str]) -> Result<(String, Vec<String>), String> {
        let (common, below) = common_directory(places.iter().copied()).map_err(|refusal| refusal.reason)?;
        Ok((common, below.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn the_outcomes_of_the_last_transfers_files_are_kept() {
        let ended = EndedOutcomes::default();
        let all: Vec<Arc<Outcomes>> = (0..=ENDED_OUTCOMES_MAX)
            .map(|_| {
                let outcomes = Arc::new(Outcomes::default());
                outcomes.0.lock().push(FileResult::default());
                ended.push(Arc::clone(&outcomes));
                outcomes
            })
            .collect();
        let kept: Vec<usize> = all.iter().map(|outcomes| outcomes.page(0, 10).files.len()).collect();
        assert_eq!((kept[0], kept[1..].iter().sum::<usize>()), (0, ENDED_OUTCOMES_MAX));
    }

    #[test]
    fn the_common_directory_of_all_files_is_found() {
        let below = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        assert_eq!(split(&["/d/a/1", "/d/a/2"]), Ok(("/d/a".into(), below(&["1", "2"]))));
        assert_eq!(split(&["/d/a/1", "/d/ab/2"]), Ok(("/d".into(), below(&["a/1", "ab/2"]))));
        assert_eq!(split(&["lh://h:1/d/x%20y/1"]), Ok(("lh://h:1/d/x%20y".into(), below(&["1"]))));
        assert_eq!(split(&["https://h/a/b/1", "https://h/a/2"]), Ok(("https://h/a".into(), below(&["b/1", "2"]))));
        for wrong in
            [&["/d/a/1", "/e/a/1"][..], &["lh://h/d/1", "lh://i/d/1"], &["/d/a/", "/d/b"], &["https://h/a?x=1"]]
        {
            assert!(split(wrong).is_err(), "{wrong:?}");
        }
    }
}
