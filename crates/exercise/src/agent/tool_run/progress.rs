//! The progress of a run: what its threads share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal};

use super::super::checked_order::CheckedFile;
use super::super::limits::ERRORS_MAX;
use super::super::local_file;
use super::super::process::{OutputForm, signal};
use super::super::process_counters::IoBytes;
use super::super::words::{ToolRunDirection, ToolRunState};
use super::StopCause;
use super::outcome::Copied;

/// The progress of a run.
pub(super) struct ToolRunProgress {
    /// The files of processes that no client has taken yet.
    pub waiting: VecDeque<Vec<CheckedFile>>,
    /// The processes that run.
    pub running: Vec<RunningClient>,
    /// Threads that still take files.
    pub workers: u32,
    /// When the run is stopped.
    pub deadline: Instant,
    /// Why the run is being stopped, or was.
    pub stop: Option<StopCause>,
    /// Files that were copied.
    pub files_done: u64,
    /// Files that were tried and not copied.
    pub files_failed: u64,
    /// Bytes of the copied files.
    pub bytes_done: u64,
    /// The processor time of the processes that have ended, seconds.
    pub cpu_s: f64,
    /// TCP retransmissions of the tests that have ended.
    pub retransmits: Option<u64>,
    /// The first errors.
    pub errors: Vec<String>,
    /// When the run began (RFC 3339).
    pub started: String,
    /// When the run ended (RFC 3339).
    pub ended: Option<String>,
}

/// A process that runs.
pub(super) struct RunningClient {
    /// Its id, which is that of its group.
    pub process: Pid,
    /// The local files that grow.
    pub targets: Vec<PathBuf>,
    /// The size of its files, bytes; 0 where it is not known.
    pub bytes: u64,
    /// The bytes that the process reports itself.
    pub live: Arc<AtomicU64>,
}

impl ToolRunProgress {
    /// The progress of a run that has not begun.
    pub fn new(waiting: VecDeque<Vec<CheckedFile>>, deadline: Instant, started: String) -> ToolRunProgress {
        ToolRunProgress {
            waiting,
            running: Vec::new(),
            workers: 0,
            deadline,
            stop: None,
            files_done: 0,
            files_failed: 0,
            bytes_done: 0,
            cpu_s: 0.0,
            retransmits: None,
            errors: Vec::new(),
            started,
            ended: None,
        }
    }

    /// The state of the run, which has this number of files.
    pub fn state(&self, files: u64) -> ToolRunState {
        if self.ended.is_none() {
            ToolRunState::Running
        } else if self.files_done + self.files_failed < files {
            ToolRunState::Stopped
        } else if self.files_failed > 0 {
            ToolRunState::Failed
        } else {
            ToolRunState::Done
        }
    }

    /// Counts the files of a process that has ended. A process that was ended because the run is stopped has not failed.
    pub fn count(&mut self, files: u64, copied: Result<Copied, String>) {
        match copied {
            Ok(copied) => {
                self.files_done += files;
                self.bytes_done += copied.bytes;
                if let Some(retransmits) = copied.retransmits {
                    *self.retransmits.get_or_insert(0) += retransmits;
                }
            }
            Err(_) if self.stop.is_some() => {}
            Err(why) => {
                self.files_failed += files;
                self.add_error(why);
            }
        }
    }

    /// Keeps an error, if it is among the first.
    pub fn add_error(&mut self, why: String) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(why);
        }
    }

    /// Sends a signal to all processes and to what they have started.
    pub fn signal_all(&self, which: Signal) {
        self.running.iter().for_each(|client| signal(client.process, which));
    }
}

impl RunningClient {
    /// The bytes of its file that can be seen to have moved: the size of a local target, or what the process has written or read.
    /// Both may be a little more than the payload, so the size of the file bounds them.
    pub fn seen_bytes(&self, output: OutputForm, direction: ToolRunDirection) -> u64 {
        let io = IoBytes::of_tree(self.process);
        let seen = match (output, direction) {
            (OutputForm::Longhaul, _) => self.live.load(Ordering::Relaxed),
            // iperf3 has no files: it reads from its sockets, or writes to them.
            (OutputForm::Iperf3, ToolRunDirection::Get) => io.read,
            (OutputForm::Iperf3, ToolRunDirection::Put) => io.written,
            (_, ToolRunDirection::Get) => {
                self.targets.iter().map(|path| local_file::size(path)).sum::<u64>().max(io.written)
            }
            (_, ToolRunDirection::Put) => io.read,
        };
        if self.bytes == 0 { seen } else { seen.min(self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> ToolRunProgress {
        ToolRunProgress::new(VecDeque::new(), Instant::now(), "now".into())
    }

    fn copied(bytes: u64, retransmits: Option<u64>) -> Result<Copied, String> {
        Ok(Copied { bytes, retransmits })
    }

    #[test]
    fn files_bytes_and_retransmissions_add_up() {
        let mut run = progress();
        run.count(1, copied(5, None));
        assert_eq!(run.retransmits, None);
        run.count(1, copied(7, Some(2)));
        run.count(1, copied(0, Some(1)));
        run.count(1, Err("no".into()));
        assert_eq!((run.files_done, run.files_failed, run.bytes_done, run.retransmits), (3, 1, 12, Some(3)));
        (0..100).for_each(|_| run.count(1, Err("no".into())));
        assert_eq!((run.files_failed, run.errors.len()), (101, ERRORS_MAX));
    }

    #[test]
    fn a_run_has_one_of_four_states() {
        let mut run = progress();
        run.count(1, copied(1, None));
        assert_eq!(run.state(2), ToolRunState::Running);
        run.ended = Some("later".into());
        assert_eq!((run.state(1), run.state(2)), (ToolRunState::Done, ToolRunState::Stopped));
        run.count(1, Err("no".into()));
        assert_eq!(run.state(2), ToolRunState::Failed);
        // A process that was ended with its run is not an error.
        run.stop = Some(StopCause::Order);
        run.count(1, Err("killed".into()));
        assert_eq!((run.files_failed, run.errors.len(), run.state(3)), (1, 1, ToolRunState::Stopped));
    }
}
