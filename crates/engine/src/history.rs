//! What jobs found out about paths, for the next one: a small file per peer in the state directory.
//!
//! A hint, never more: it is used for the first seconds, and measured again.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use pilot::PathHistory;

/// The directory below the state directory.
const DIRECTORY: &str = "paths";
/// A path is forgotten after so long.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Paths that are kept: more peers than that are strangers.
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

/// Two jobs may write about one path at once.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Where the history of paths is kept.
#[derive(Clone, Debug)]
pub struct History {
    directory: PathBuf,
}

impl History {
    /// In a state directory.
    pub fn new(state: &Path) -> History {
        History { directory: state.join(DIRECTORY) }
    }

    fn file(&self, peer: IpAddr) -> PathBuf {
        // Colons are fine in names, but not everywhere.
        self.directory.join(format!("{}.json", peer.to_canonical().to_string().replace(':', "-")))
    }

    /// What is known of the path to a peer whose round-trip time is this; nothing where it is another path by now.
    pub fn recall(&self, peer: IpAddr, rtt: Duration) -> Option<PathHistory> {
        let file = self.file(peer);
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).unwrap_or_default();
        let stored: Stored = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        let numbers = stored.min_rtt_s.is_finite() && (0.0..1.0).contains(&stored.loss);
        let rtt = rtt.as_secs_f64();
        let near = (rtt - stored.min_rtt_s).abs() < 0.001 + SAME_RTT * stored.min_rtt_s;
        (stored.v == 1 && age < KEPT && numbers && near).then_some(PathHistory {
            capacity_bytes_s: stored.capacity_bit_s / 8,
            streams: stored.streams,
            min_rtt_s: stored.min_rtt_s,
            loss: stored.loss,
        })
    }

    /// Keeps what a job found out. A hint that cannot be kept is no reason to fail anything.
    pub fn keep(&self, peer: IpAddr, past: &PathHistory) {
        let stored = Stored {
            v: 1,
            capacity_bit_s: past.capacity_bytes_s.saturating_mul(8),
            streams: past.streams,
            min_rtt_s: past.min_rtt_s,
            loss: past.loss,
        };
        let file = self.file(peer);
        // Written beside and renamed, so that nobody ever reads half of it.
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let beside = file.with_extension(format!("{}-{number}.part", std::process::id()));
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.directory)?;
            self.sweep(&file)?;
            std::fs::write(&beside, serde_json::to_vec(&stored)?)?;
            std::fs::rename(&beside, &file)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&beside);
        }
    }

    /// Removes what has been forgotten; where a new path would be one too many, the oldest as well.
    fn sweep(&self, new: &Path) -> std::io::Result<()> {
        if new.exists() {
            return Ok(());
        }
        let aged = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut all: Vec<(SystemTime, PathBuf)> =
            std::fs::read_dir(&self.directory)?.flatten().filter_map(aged).collect();
        all.sort();
        let many = all.len().saturating_sub(PATHS_MAX - 1);
        for (at, (modified, file)) in all.iter().enumerate() {
            if at < many || modified.elapsed().is_ok_and(|age| age >= KEPT) {
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
        assert_eq!(history.recall(peer, Duration::from_millis(20)), None, "it goes another way now");
        assert_eq!(history.recall(other, Duration::from_millis(303)), None);
        // A stranger's file from long ago goes with the next new path.
        let old = dir.path().join(DIRECTORY).join("198.51.100.1.json");
        let then = SystemTime::now() - KEPT * 2;
        std::fs::File::create(&old).unwrap().set_modified(then).unwrap();
        history.keep(other, &past);
        assert!(!old.exists() && history.file(peer).exists());
        std::fs::write(history.file(peer), b"{\"v\":1}").unwrap();
        assert_eq!(history.recall(peer, Duration::from_millis(303)), None, "half of a file");
    }
}
