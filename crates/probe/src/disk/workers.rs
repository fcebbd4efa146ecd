//! Workers: threads that begin at the same moment and time each call. The calling thread takes samples meanwhile, watches the
//! free space, and checks the stop. This module does not know what the workers do.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use model::v1::probe::disk::Latency;
use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::clock::{Processors, thread_cpu};

use super::test_directory::{TestDirectory, failed};
use crate::{Error, Result, Stop};

/// Time between samples, and between checks of the stop.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);
/// Samples between checks of the free space.
const SPACE_CHECK_SAMPLES: u32 = 10;
/// A longer call counts as this, ns: an hour.
const CALL_NS_MAX: u64 = 3_600_000_000_000;

/// Why workers end early. Once set, the reason does not change.
const RUNNING: u8 = 0;
const STOPPED: u8 = 1;
const FAILED: u8 = 2;
const FULL: u8 = 3;

/// State shared by the workers and the sampling thread.
struct SharedState {
    halt: AtomicU8,
    /// Bytes written or read by all workers.
    bytes: AtomicU64,
    progress: Mutex<WorkerProgress>,
    changed: Condvar,
}

/// Workers that are ready, and that have ended.
#[derive(Default)]
struct WorkerProgress {
    ready: usize,
    /// When work began.
    began: Option<Instant>,
    /// Work will not begin.
    is_cancelled: bool,
    ended: usize,
}

impl SharedState {
    fn progress(&self) -> MutexGuard<'_, WorkerProgress> {
        self.progress.lock()
    }

    fn halt(&self, why: u8) {
        let _ = self.halt.compare_exchange(RUNNING, why, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Waits until work begins; none if it will not.
    fn begin(&self) -> Option<Instant> {
        let mut progress = self.progress();
        progress.ready += 1;
        self.changed.notify_all();
        while progress.began.is_none() && !progress.is_cancelled {
            self.changed.wait(&mut progress);
        }
        progress.began
    }
}

/// Counts a worker as ended when dropped, even after a panic.
struct ExitGuard<'a>(&'a SharedState);

impl Drop for ExitGuard<'_> {
    fn drop(&mut self) {
        self.0.progress().ended += 1;
        self.0.changed.notify_all();
    }
}

/// A worker as its work sees it: the work makes its calls through it, and they are timed and their bytes counted.
pub(super) struct Worker<'a> {
    shared: &'a SharedState,
    began: Instant,
    limit: Duration,
    /// End of the last call, since the beginning.
    now: Duration,
    bytes: u64,
    calls: u64,
    latency: Histogram<u64>,
    longest: Duration,
    out_of_time: bool,
}

impl Worker<'_> {
    /// Whether to make another call: there is time, and no reason to end.
    pub(super) fn may_continue(&mut self) -> bool {
        self.out_of_time |= self.now >= self.limit;
        !self.out_of_time && self.shared.halt.load(Ordering::Acquire) == RUNNING
    }

    /// Whether the work after the last call, such as a flush, is skipped as well.
    pub(super) fn is_halted(&self) -> bool {
        matches!(self.shared.halt.load(Ordering::Acquire), STOPPED | FAILED)
    }

    /// Times a call, which returns the bytes that it wrote or read.
    pub(super) fn call(
        &mut self,
        doing: &'static str,
        path: &Path,
        call: impl FnOnce() -> io::Result<u64>,
    ) -> Result<()> {
        let from = self.began.elapsed();
        let bytes = call().map_err(|e| failed(doing, path, e))?;
        self.now = self.began.elapsed();
        let took = self.now - from;
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(CALL_NS_MAX).clamp(1, CALL_NS_MAX));
        self.longest = self.longest.max(took);
        self.bytes += bytes;
        self.calls += 1;
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }
}

/// The result of one worker.
struct WorkerResult {
    bytes: u64,
    calls: u64,
    latency: Histogram<u64>,
    longest: Duration,
    /// End of the last call, since the beginning.
    worked: Duration,
    /// End of the flush, since the beginning.
    ended: Duration,
    cpu: Duration,
    out_of_time: bool,
}

/// Bytes and calls of one worker, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkCount {
    pub bytes: u64,
    pub calls: u64,
}

/// The result of all workers.
#[derive(Debug)]
pub(super) struct WorkSummary {
    pub all: WorkCount,
    /// In the order of the items.
    pub each: Vec<WorkCount>,
    /// To the end of the last flush.
    pub took: Duration,
    /// To the end of the last call.
    pub worked: Duration,
    pub latency: Latency,
    pub cpu: Duration,
    pub host_busy: Option<f64>,
    /// Why the work ended early, in words.
    pub cut_short: Option<String>,
    /// Time and bytes by then, while all workers were running.
    pub samples: Vec<(Duration, u64)>,
}

/// Runs a worker for each item. `work` makes calls while its worker goes on; `flush` is timed separately, and may do nothing.
///
/// # Errors
/// The first worker's error; [`Error::Interrupted`]: stopped; [`Error::Host`]: a thread cannot be started.
pub(super) fn run<T: Send>(
    test_dir: &TestDirectory<'_>,
    stop: &Stop,
    limit: Duration,
    items: Vec<T>,
    work: impl Fn(&mut Worker<'_>, &mut T) -> Result<()> + Sync,
    flush: impl Fn(&T) -> Result<()> + Sync,
) -> Result<WorkSummary> {
    let shared = SharedState {
        halt: AtomicU8::new(RUNNING),
        bytes: AtomicU64::new(0),
        progress: Mutex::new(WorkerProgress::default()),
        changed: Condvar::new(),
    };
    let workers = items.len();
    let before = Processors::read();
    let (outcomes, samples) = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        let mut refused = None;
        for mut item in items {
            let shared = &shared;
            let work = &work;
            let flush = &flush;
            let body = move || {
                let _exit = ExitGuard(shared);
                let outcome = run_worker(shared, limit, &mut item, work, flush);
                outcome.inspect_err(|_| shared.halt(FAILED))
            };
            match std::thread::Builder::new().name("probe-disk".into()).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    refused = Some(Error::Host { doing: "start a thread for each worker", source });
                    break;
                }
            }
        }
        let samples = if refused.is_none() { take_samples(&shared, workers, test_dir, stop) } else { Vec::new() };
        if refused.is_some() {
            shared.progress().is_cancelled = true;
            shared.changed.notify_all();
        }
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (refused.map_or(Ok(outcomes), Err), samples)
    });
    let mut done = Vec::with_capacity(workers);
    for outcome in outcomes? {
        // A panic is a defect of this program, and is passed on now that all threads have ended.
        done.extend(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    if shared.halt.load(Ordering::Acquire) == STOPPED {
        return Err(Error::Interrupted);
    }
    let is_full = shared.halt.load(Ordering::Acquire) == FULL;
    gather(done, samples, is_full, limit, Processors::read().busy_since(&before))
}

fn histogram() -> Result<Histogram<u64>> {
    let made = Histogram::new_with_bounds(1, CALL_NS_MAX, 2);
    made.map_err(|e| Error::Host { doing: "count how long calls take", source: io::Error::other(e) })
}

/// Runs one worker from beginning to end; none if work did not begin.
fn run_worker<T>(
    shared: &SharedState,
    limit: Duration,
    item: &mut T,
    work: &(impl Fn(&mut Worker<'_>, &mut T) -> Result<()> + Sync),
    flush: &(impl Fn(&T) -> Result<()> + Sync),
) -> Result<Option<WorkerResult>> {
    let latency = histogram()?;
    let Some(began) = shared.begin() else { return Ok(None) };
    let cpu_before = thread_cpu();
    let now = Duration::ZERO;
    let longest = Duration::ZERO;
    let mut worker = Worker { shared, began, limit, now, bytes: 0, calls: 0, latency, longest, out_of_time: false };
    work(&mut worker, item)?;
    if !worker.is_halted() {
        flush(item)?;
    }
    let ended = began.elapsed();
    let cpu = thread_cpu().saturating_sub(cpu_before);
    let Worker { bytes, calls, latency, longest, now, out_of_time, .. } = worker;
    Ok(Some(WorkerResult { bytes, calls, latency, longest, worked: now, ended, cpu, out_of_time }))
}

/// Begins the work when all workers are ready, and takes samples until all have ended.
fn take_samples(
    shared: &SharedState,
    workers: usize,
    test_dir: &TestDirectory<'_>,
    stop: &Stop,
) -> Vec<(Duration, u64)> {
    let mut progress = shared.progress();
    // A worker that fails before it is ready counts as ended.
    while progress.ready < workers && progress.ended == 0 {
        shared.changed.wait(&mut progress);
    }
    let began = Instant::now();
    progress.began = Some(began);
    shared.changed.notify_all();
    let mut samples = Vec::new();
    let mut tick = 0;
    loop {
        tick += 1;
        let due = SAMPLE * tick;
        let rest = due.saturating_sub(began.elapsed());
        shared.changed.wait_while_for(&mut progress, |progress| progress.ended < workers, rest);
        if progress.ended >= workers {
            return samples;
        }
        if stop.is_stopped() {
            shared.halt(STOPPED);
        }
        samples.push((began.elapsed(), shared.bytes.load(Ordering::Relaxed)));
        if tick % SPACE_CHECK_SAMPLES == 0 {
            // Without the lock, as a file server may answer slowly.
            drop(progress);
            if test_dir.room().is_ok_and(|room| room.free_bytes < room.kept()) {
                shared.halt(FULL);
            }
            progress = shared.progress();
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn gather(
    done: Vec<WorkerResult>,
    mut samples: Vec<(Duration, u64)>,
    is_full: bool,
    limit: Duration,
    host_busy: Option<f64>,
) -> Result<WorkSummary> {
    let mut all = histogram()?;
    for one in &done {
        let added = all.add(&one.latency);
        added.map_err(|e| Error::Host { doing: "count how long calls take", source: io::Error::other(e) })?;
    }
    let longest = done.iter().map(|one| one.longest).max().unwrap_or_default().as_secs_f64();
    // A bucket of the histogram is up to 1 % wide; no quantile is above the longest call.
    let at = |quantile| seconds(all.value_at_quantile(quantile)).min(longest);
    let mean_s = (all.mean() / 1e9).min(longest);
    let latency = Latency { mean_s, p50_s: at(0.5), p95_s: at(0.95), p99_s: at(0.99), max_s: longest };
    let cut_short = if is_full {
        Some("ended when less than 5 % of the file system was free: another program fills it".into())
    } else if done.iter().any(|one| one.out_of_time) {
        Some(format!("ended by its time limit of {} s", limit.as_secs_f64()))
    } else {
        None
    };
    // Samples after the end of the first worker do not include all workers.
    let first_end = done.iter().map(|one| one.worked).min().unwrap_or_default();
    samples.retain(|(when, _)| *when <= first_end);
    Ok(WorkSummary {
        all: WorkCount { bytes: done.iter().map(|one| one.bytes).sum(), calls: done.iter().map(|one| one.calls).sum() },
        each: done.iter().map(|one| WorkCount { bytes: one.bytes, calls: one.calls }).collect(),
        took: done.iter().map(|one| one.ended).max().unwrap_or_default(),
        worked: done.iter().map(|one| one.worked).max().unwrap_or_default(),
        latency,
        cpu: done.iter().map(|one| one.cpu).sum(),
        host_busy,
        cut_short,
        samples,
    })
}

#[cfg(test)]
mod tests;
