//! The measurements of schedules, kept until their holder fetches them: numbered lines in `STATE/measurements`, and the newest in
//! memory.
//!
//! Files are only appended to; the oldest are removed when all files together exceed a bound. A power cut may lose the measurements
//! of the last second.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::v1::node::{Found, Measurement, Measurements};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::shutdown::Shutdown;

/// Bytes on disk: a day of 100 streams is some 60 MiB.
pub(crate) const BYTES_MAX: u64 = 256 << 20;
/// Bytes of one file.
const FILE_BYTES: u64 = 8 << 20;
/// Measurements in memory: those of a minute or two.
const RECENT_MAX: usize = 512;
/// Measurements in one answer.
pub(crate) const PAGE_MAX: usize = 5_000;
/// Requests that wait for the next measurement, each with a thread.
pub(crate) const WAITING_MAX: usize = 64;
/// The longest wait of a request, seconds.
pub(crate) const WAIT_S_MAX: f64 = 120.0;
/// How often a waiting thread checks whether the node stops.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// A line of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LogLine {
    holder: String,
    measurement: Measurement,
}

/// The log of measurements.
#[derive(Debug)]
pub(crate) struct MeasurementLog {
    dir: Option<PathBuf>,
    bytes_max: u64,
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// First number and length of each file, oldest first; the last one is open.
    files: Vec<(u64, u64)>,
    open: Option<File>,
    next: u64,
    recent: VecDeque<LogLine>,
    /// The number of the first measurement that is still kept.
    first: u64,
    waiting: usize,
}

impl MeasurementLog {
    /// The log in this directory; without a directory in memory only.
    pub fn open(dir: Option<PathBuf>) -> MeasurementLog {
        MeasurementLog::bounded(dir, BYTES_MAX)
    }

    fn bounded(dir: Option<PathBuf>, bytes_max: u64) -> MeasurementLog {
        let mut state = State { next: 1, first: 1, ..State::default() };
        if let Some(dir) = &dir {
            match stored_files(dir) {
                Ok(files) => state.adopt(dir, files),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(%error, dir = %dir.display(), "earlier measurements cannot be read"),
            }
        }
        MeasurementLog { dir, bytes_max, state: Mutex::new(state), added: Condvar::new() }
    }

    /// Appends a measurement of a holder.
    pub fn append(&self, holder: &str, schedule: Uuid, at_s: f64, seconds: f64, found: Found) {
        let mut state = self.state.lock();
        let number = state.next;
        let line =
            LogLine { holder: holder.to_owned(), measurement: Measurement { number, schedule, at_s, seconds, found } };
        state.next += 1;
        if let Some(dir) = &self.dir
            && let Err(error) = state.write(dir, &line, self.bytes_max)
        {
            // The measurement is still in memory, where most are fetched from.
            tracing::warn!(%error, dir = %dir.display(), "a measurement cannot be written to disk");
        }
        state.recent.push_back(line);
        if state.recent.len() > RECENT_MAX {
            state.recent.pop_front();
            if self.dir.is_none() {
                state.first = state.recent.front().map_or(number, |line| line.measurement.number);
            }
        }
        drop(state);
        self.added.notify_all();
    }

    /// The measurements of a holder with higher numbers than `after`, at most `limit`. If there are none yet, waits for at most
    /// `wait`. Returns none if too many requests wait.
    pub fn after(
        &self,
        holder: &str,
        after: u64,
        limit: usize,
        wait: Duration,
        shutdown: &Shutdown,
    ) -> Option<Measurements> {
        let until = Instant::now() + wait;
        let mut state = self.state.lock();
        // A higher number than any here: the state directory was created anew since the client's last request.
        let after = if after >= state.next { 0 } else { after };
        loop {
            let found = self.read(&state, holder, after, limit);
            let left = until.saturating_duration_since(Instant::now());
            if !found.measurements.is_empty() || left.is_zero() || shutdown.has_begun() {
                return Some(found);
            }
            if state.waiting >= WAITING_MAX {
                return None;
            }
            state.waiting += 1;
            self.added.wait_for(&mut state, left.min(CHECK_EVERY));
            state.waiting -= 1;
        }
    }

    fn read(&self, state: &State, holder: &str, after: u64, limit: usize) -> Measurements {
        let dropped = state.first.saturating_sub(after + 1);
        let mut page = Measurements { measurements: Vec::new(), next: after.max(state.first - 1), dropped };
        let oldest_recent = state.recent.front().map_or(state.next, |line| line.measurement.number);
        let mut take = |line: &LogLine| {
            let is_next = line.measurement.number > page.next;
            if is_next && page.measurements.len() < limit {
                page.next = line.measurement.number;
                if line.holder == holder {
                    page.measurements.push(line.measurement.clone());
                }
            }
            page.measurements.len() < limit
        };
        if after + 1 < oldest_recent
            && let Some(dir) = &self.dir
        {
            let begins = state.files.partition_point(|(first, _)| *first <= after + 1).saturating_sub(1);
            for (first, _) in &state.files[begins..] {
                if !each_line(&file(dir, *first), &mut take) {
                    return page;
                }
            }
        }
        let _ = state.recent.iter().all(take);
        page
    }
}

impl State {
    fn adopt(&mut self, dir: &Path, files: Vec<(u64, u64)>) {
        self.files = files;
        self.first = self.files.first().map_or(1, |(first, _)| *first);
        let Some((first, _)) = self.files.last().copied() else { return };
        self.next = first;
        let mut last = None;
        each_line(&file(dir, first), &mut |line| {
            last = Some(line.measurement.number);
            true
        });
        self.next = last.map_or(first, |last| last + 1);
        // A line that a power cut left incomplete would swallow the next one: new lines go into a new file.
        self.open = None;
    }

    fn write(&mut self, dir: &Path, line: &LogLine, bytes_max: u64) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let is_full = self.files.last().is_none_or(|(_, bytes)| *bytes >= FILE_BYTES.min(bytes_max / 4));
        if self.open.is_none() || is_full {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let number = line.measurement.number;
            let open = OpenOptions::new().create(true).append(true).mode(0o600).open(file(dir, number))?;
            self.open = Some(open);
            if self.files.last().is_none_or(|(first, _)| *first != number) {
                self.files.push((number, 0));
            }
        }
        if let Some(open) = &mut self.open {
            open.write_all(&text)?;
        }
        if let Some((_, bytes)) = self.files.last_mut() {
            *bytes += text.len() as u64;
        }
        while self.files.len() > 1 && self.files.iter().map(|(_, bytes)| bytes).sum::<u64>() > bytes_max {
            let (first, _) = self.files.remove(0);
            fs::remove_file(file(dir, first))?;
            self.first = self.files.first().map_or(self.next, |(first, _)| *first);
        }
        Ok(())
    }
}

/// The file whose first line has this number. Names sort as numbers do.
fn file(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.jsonl"))
}

/// The files in the directory: first number and length of each, in order.
fn stored_files(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let first = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|digits| digits.parse().ok());
        if let Some(first) = first {
            files.push((first, entry.metadata()?.len()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Passes each line to `take` until that returns `false`; returns whether it never did. An incomplete line, which a power cut may
/// leave, is skipped.
fn each_line(path: &Path, take: &mut dyn FnMut(&LogLine) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.filter_map(|text| serde_json::from_str(&text).ok()).all(|line| take(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn missed(why: &str) -> Found {
        Found::Missed { why: why.into() }
    }

    fn numbers(page: &Measurements) -> Vec<u64> {
        page.measurements.iter().map(|one| one.number).collect()
    }

    fn get(log: &MeasurementLog, holder: &str, after: u64, limit: usize) -> Measurements {
        log.after(holder, after, limit, NOW, &Shutdown::default()).unwrap()
    }

    #[test]
    fn a_holder_reads_on_where_it_was_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let log = MeasurementLog::open(Some(dir.path().join("m")));
        for at in 0..10 {
            log.append(if at % 2 == 0 { "a" } else { "b" }, Uuid::nil(), f64::from(at), 1.0, missed("busy"));
        }
        let page = get(&log, "a", 0, 3);
        assert_eq!((numbers(&page), page.next, page.dropped), (vec![1, 3, 5], 5, 0));
        assert_eq!(numbers(&get(&log, "a", 5, 3)), [7, 9]);
        drop(log);
        let log = MeasurementLog::open(Some(dir.path().join("m")));
        assert_eq!(numbers(&get(&log, "b", 4, 100)), [6, 8, 10]);
        log.append("b", Uuid::nil(), 0.0, 1.0, missed("x"));
        let page = get(&log, "b", 8, 100);
        assert_eq!((numbers(&page), page.next), (vec![10, 11], 11));
        assert_eq!(numbers(&get(&log, "b", 1_000, 100)), [2, 4, 6, 8, 10, 11], "of a node that was made anew");
    }

    #[test]
    fn an_incomplete_line_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let log = MeasurementLog::open(Some(dir.path().into()));
        log.append("a", Uuid::nil(), 0.0, 1.0, missed("first"));
        drop(log);
        let mut file = OpenOptions::new().append(true).open(file(dir.path(), 1)).unwrap();
        file.write_all(b"{\"holder\":\"a\",\"measu").unwrap();
        let log = MeasurementLog::open(Some(dir.path().into()));
        log.append("a", Uuid::nil(), 0.0, 1.0, missed("second"));
        drop(log);
        assert_eq!(numbers(&get(&MeasurementLog::open(Some(dir.path().into())), "a", 0, 10)), [1, 2]);
    }

    #[test]
    fn the_oldest_measurements_are_removed_and_counted_as_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let log = MeasurementLog::bounded(Some(dir.path().into()), 400_000);
        for _ in 0..4_000 {
            log.append("a", Uuid::nil(), 0.0, 1.0, missed("some words that make it longer than it needs to be"));
        }
        let bytes: u64 = stored_files(dir.path()).unwrap().iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes <= 400_000, "{bytes}");
        let page = get(&log, "a", 10, 5_000);
        assert!(page.dropped > 500 && page.dropped == page.measurements[0].number - 11, "{}", page.dropped);
        assert_eq!((page.next, page.measurements.last().unwrap().number), (4_000, 4_000));
    }

    #[test]
    fn without_a_directory_the_newest_measurements_are_kept() {
        let log = MeasurementLog::open(None);
        (0..600).for_each(|_| log.append("a", Uuid::nil(), 0.0, 1.0, missed("x")));
        let page = get(&log, "a", 0, 1_000);
        assert_eq!((page.measurements.len(), page.dropped), (RECENT_MAX, 600 - RECENT_MAX as u64));
    }

    #[test]
    fn a_waiting_request_gets_the_next_measurement() {
        let log = MeasurementLog::open(None);
        let wait = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| log.after("a", 0, 10, wait, &Shutdown::default()).unwrap());
            log.append("b", Uuid::nil(), 0.0, 1.0, missed("not for a"));
            log.append("a", Uuid::nil(), 0.0, 1.0, missed("for a"));
            let page = waiting.join().unwrap();
            assert_eq!((numbers(&page), page.next), (vec![2], 2));
        });
        let over = Shutdown::default();
        over.begin();
        assert!(log.after("c", 0, 10, Duration::from_secs(60), &over).unwrap().measurements.is_empty());
    }
}
