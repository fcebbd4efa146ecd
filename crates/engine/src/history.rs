//! The history of paths: what jobs have measured, for the next job, in a small file for each peer in the state directory.
//!
//! It is only a hint: the next job uses it for its first seconds, and measures again.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use pilot::PathHistory;

/// The directory below the state directory.
const DIRECTORY: &str = "paths";
/// How long the history of a path is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The number of paths that are kept.
const PATHS_MAX: usize = 4096;
/// How much the round-trip time may differ for it to be the same path still.
const SAME_RTT: f64 = 0.25;

/// The form on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    v: u32,
    capacity_bit_s: u64,
    streams: u32,
    min_rtt_s: f64,
    loss: f64,
}

/// The number of the next temporary file: two jobs may write about one path at once.
static TEMPORARY_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The directory of the history of paths.
#[derive(Clone, Debug)]
pub struct History {
    directory: PathBuf,
}

impl History {
    /// The history in a state directory.
    pub fn new(state: &Path) -> History {
        History { directory: state.join(DIRECTORY) }
    }

    fn file(&self, peer: IpAddr) -> PathBuf {
        // Some file systems do not allow colons in names.
        self.directory.join(format!("{}.json", peer.to_canonical().to_string().replace(':', "-")))
    }

    /// The history of the path to a peer, given its present round-trip time; none where it is another path now.
    pub fn recall(&self, peer: IpAddr, rtt: Duration) -> Option<PathHistory> {
        let file = self.file(peer);
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).unwrap_or_default();
        let stored: Stored = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        let is_valid = stored.min_rtt_s.is_finite() && (0.0..1.0).contains(&stored.loss);
        let rtt = rtt.as_secs_f64();
        let is_same_path = (rtt - stored.min_rtt_s).abs() < 0.001 + SAME_RTT * stored.min_rtt_s;
        (stored.v == 1 && age < KEPT && is_valid && is_same_path).then_some(PathHistory {
            capacity_bytes_s: stored.capacity_bit_s / 8,
            streams: stored.streams,
            min_rtt_s: stored.min_rtt_s,
            loss: stored.loss,
        })
    }

    /// Stores what a job has measured. A failure is ignored: the history is only a hint.
    pub fn keep(&self, peer: IpAddr, past: &PathHistory) {
        let stored = Stored {
            v: 1,
            capacity_bit_s: past.capacity_bytes_s.saturating_mul(8),
            streams: past.streams,
            min_rtt_s: past.min_rtt_s,
            loss: past.loss,
        };
        let file = self.file(peer);
        // Written to a temporary file and renamed, so that no reader sees a part of it.
        let number = TEMPORARY_NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = file.with_extension(format!("{}-{number}.part", std::process::id()));
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.directory)?;
            self.sweep(&file)?;
            std::fs::write(&temporary, serde_json::to_vec(&stored)?)?;
            std::fs::rename(&temporary, &file)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
    }

    /// Removes files older than [`KEPT`], and the oldest where the new one would exceed [`PATHS_MAX`].
    fn sweep(&self, new: &Path) -> std::io::Result<()> {
        if new.exists() {
            return Ok(());
        }
        let with_age = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut all: Vec<(SystemTime, PathBuf)> =
            std::fs::read_dir(&self.directory)?.flatten().filter_map(with_age).collect();
        all.sort();
        let surplus = all.len().saturating_sub(PATHS_MAX - 1);
        for (at, (modified, file)) in all.iter().enumerate() {
            if at < surplus || modified.elapsed().is_ok_and(|age| age >= KEPT) {
                let _ = std::fs::remove_file(file);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_again_and_another_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::new(dir.path());
        let (peer, other): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let past = PathHistory { capacity_bytes_s: 125_000_000, streams: 8, min_rtt_s: 0.303, loss: 4.6e-5 };
        history.keep(peer, &past);
        assert_eq!(history.recall(peer, Duration::from_millis(304)), Some(past));
        assert_eq!(history.recall(peer, Duration::from_millis(20)), None, "another round-trip time is another path");
        assert_eq!(history.recall(other, Duration::from_millis(303)), None);
        // An old file is removed when a new path is stored.
        let old = dir.path().join(DIRECTORY).join("198.51.100.1.json");
        let then = SystemTime::now() - KEPT * 2;
        std::fs::File::create(&old).unwrap().set_modified(then).unwrap();
        history.keep(other, &past);
        assert!(!old.exists() && history.file(peer).exists());
        std::fs::write(history.file(peer), b"{\"v\":1}").unwrap();
        assert_eq!(history.recall(peer, Duration::from_millis(303)), None, "half of a file");
    }
}
