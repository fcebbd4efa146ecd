//! Workers that begin at the same moment and are timed by the call; a clock beside them that takes samples, sees the
//! disk fill up and hears the stop. Does not know what the workers do.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use model::v1::probe::disk::Latency;
use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::clock::{Processors, thread_cpu};

use super::place::{Place, failed};
use crate::{Error, Result, Stop};

/// Time between samples, and between looks at the stop.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);
/// A look at the free room after so many samples.
const ROOM_EVERY: u32 = 10;
/// The longest call that is told apart from longer ones, ns: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Why workers end early; the first reason stays.
const GO: u8 = 0;
const STOPPED: u8 = 1;
const FAILED: u8 = 2;
const FULL: u8 = 3;

/// What workers and clock share.
struct Board {
    halt: AtomicU8,
    /// Done by all.
    bytes: AtomicU64,
    roll: Mutex<Roll>,
    changed: Condvar,
}

#[derive(Default)]
struct Roll {
    ready: usize,
    /// When work began; and whether it shall not.
    began: Option<Instant>,
    is_off: bool,
    gone: usize,
}

impl Board {
    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock()
    }

    fn halt(&self, why: u8) {
        let _ = self.halt.compare_exchange(GO, why, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Waits for the beginning; none where there is none.
    fn begin(&self) -> Option<Instant> {
        let mut roll = self.roll();
        roll.ready += 1;
        self.changed.notify_all();
        while roll.began.is_none() && !roll.is_off {
            self.changed.wait(&mut roll);
        }
        roll.began
    }
}

/// Tells the clock that a worker has gone, even if it panicked.
struct Leave<'a>(&'a Board);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.roll().gone += 1;
        self.0.changed.notify_all();
    }
}

/// One worker's work, as it counts it.
pub(super) struct Hand<'a> {
    board: &'a Board,
    began: Instant,
    limit: Duration,
    /// At the end of the last call, since the beginning.
    now: Duration,
    bytes: u64,
    calls: u64,
    latency: Histogram<u64>,
    longest: Duration,
    out_of_time: bool,
}

impl Hand<'_> {
    /// Whether there is time for another call, and no reason to end.
    pub(super) fn goes_on(&mut self) -> bool {
        self.out_of_time |= self.now >= self.limit;
        !self.out_of_time && self.board.halt.load(Ordering::Acquire) == GO
    }

    /// Whether even what must be done in the end, such as a flush, is a waste of time.
    pub(super) fn is_halted(&self) -> bool {
        matches!(self.board.halt.load(Ordering::Acquire), STOPPED | FAILED)
    }

    /// Times a call, which tells how many bytes it wrote or read.
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
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS).clamp(1, LONGEST_NS));
        self.longest = self.longest.max(took);
        self.bytes += bytes;
        self.calls += 1;
        self.board.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }
}

/// What one worker did.
struct Done {
    bytes: u64,
    calls: u64,
    latency: Histogram<u64>,
    longest: Duration,
    /// When its last call ended, and its flush.
    worked: Duration,
    ended: Duration,
    cpu: Duration,
    out_of_time: bool,
}

/// What one worker did of it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub bytes: u64,
    pub calls: u64,
}

/// What all of them did.
#[derive(Debug)]
pub(super) struct Shift {
    pub all: Share,
    /// In the order of the items.
    pub each: Vec<Share>,
    /// To the end of the last flush.
    pub took: Duration,
    /// To the end of the last call.
    pub worked: Duration,
    pub latency: Latency,
    pub cpu: Duration,
    pub host_busy: Option<f64>,
    /// Why it is less than it might be.
    pub cut_short: Option<String>,
    /// What was done by when, while all were at work.
    pub samples: Vec<(Duration, u64)>,
}

/// Runs a worker for each item. `work` makes calls while its hand goes on; `flush` is timed apart and may be nothing.
///
/// # Errors
/// The first worker's; [`Error::Interrupted`].
pub(super) fn run<T: Send>(
    place: &Place<'_>,
    stop: &Stop,
    limit: Duration,
    items: Vec<T>,
    work: impl Fn(&mut Hand<'_>, &mut T) -> Result<()> + Sync,
    flush: impl Fn(&T) -> Result<()> + Sync,
) -> Result<Shift> {
    let board = Board {
        halt: AtomicU8::new(GO),
        bytes: AtomicU64::new(0),
        roll: Mutex::new(Roll::default()),
        changed: Condvar::new(),
    };
    let workers = items.len();
    let before = Processors::read();
    let (outcomes, samples) = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        let mut refused = None;
        for mut item in items {
            let (board, work, flush) = (&board, &work, &flush);
            let body = move || {
                let _leave = Leave(board);
                let outcome = one(board, limit, &mut item, work, flush);
                outcome.inspect_err(|_| board.halt(FAILED))
            };
            match std::thread::Builder::new().name("probe-disk".into()).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    refused = Some(Error::Host { doing: "start a thread for each worker", source });
                    break;
                }
            }
        }
        let samples = if refused.is_none() { clock(&board, workers, place, stop) } else { Vec::new() };
        if refused.is_some() {
            board.roll().is_off = true;
            board.changed.notify_all();
        }
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (refused.map_or(Ok(outcomes), Err), samples)
    });
    let mut done = Vec::with_capacity(workers);
    for outcome in outcomes? {
        // A panic is a defect of ours: it goes on, now that all threads have ended.
        done.extend(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    if board.halt.load(Ordering::Acquire) == STOPPED {
        return Err(Error::Interrupted);
    }
    let is_full = board.halt.load(Ordering::Acquire) == FULL;
    gather(done, samples, is_full, limit, Processors::read().busy_since(&before))
}

fn histogram() -> Result<Histogram<u64>> {
    let made = Histogram::new_with_bounds(1, LONGEST_NS, 2);
    made.map_err(|e| Error::Host { doing: "count how long calls take", source: io::Error::other(e) })
}

/// One worker from beginning to end; none where work did not begin.
fn one<T>(
    board: &Board,
    limit: Duration,
    item: &mut T,
    work: &(impl Fn(&mut Hand<'_>, &mut T) -> Result<()> + Sync),
    flush: &(impl Fn(&T) -> Result<()> + Sync),
) -> Result<Option<Done>> {
    let latency = histogram()?;
    let Some(began) = board.begin() else { return Ok(None) };
    let spent = thread_cpu();
    let (now, longest) = (Duration::ZERO, Duration::ZERO);
    let mut hand = Hand { board, began, limit, now, bytes: 0, calls: 0, latency, longest, out_of_time: false };
    work(&mut hand, item)?;
    if !hand.is_halted() {
        flush(item)?;
    }
    let (ended, cpu) = (began.elapsed(), thread_cpu().saturating_sub(spent));
    let Hand { bytes, calls, latency, longest, now, out_of_time, .. } = hand;
    Ok(Some(Done { bytes, calls, latency, longest, worked: now, ended, cpu, out_of_time }))
}

/// Begins the work when all are there, and watches it until all have gone.
fn clock(board: &Board, workers: usize, place: &Place<'_>, stop: &Stop) -> Vec<(Duration, u64)> {
    let mut roll = board.roll();
    // One that fails before it is ready has gone.
    while roll.ready < workers && roll.gone == 0 {
        board.changed.wait(&mut roll);
    }
    let began = Instant::now();
    roll.began = Some(began);
    board.changed.notify_all();
    let mut samples = Vec::new();
    let mut tick = 0;
    loop {
        tick += 1;
        let due = SAMPLE * tick;
        let rest = due.saturating_sub(began.elapsed());
        board.changed.wait_while_for(&mut roll, |roll| roll.gone < workers, rest);
        if roll.gone >= workers {
            return samples;
        }
        if stop.is_stopped() {
            board.halt(STOPPED);
        }
        samples.push((began.elapsed(), board.bytes.load(Ordering::Relaxed)));
        if tick % ROOM_EVERY == 0 {
            // Asked without the lock: a file server may take its time.
            drop(roll);
            if place.room().is_ok_and(|room| room.free_bytes < room.kept()) {
                board.halt(FULL);
            }
            roll = board.roll();
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn gather(
    done: Vec<Done>,
    mut samples: Vec<(Duration, u64)>,
    is_full: bool,
    limit: Duration,
    host_busy: Option<f64>,
) -> Result<Shift> {
    let mut all = histogram()?;
    for one in &done {
        let added = all.add(&one.latency);
        added.map_err(|e| Error::Host { doing: "count how long calls take", source: io::Error::other(e) })?;
    }
    let longest = done.iter().map(|one| one.longest).max().unwrap_or_default().as_secs_f64();
    // A class of the histogram is up to 1 % wide: not longer than the longest.
    let at = |quantile| seconds(all.value_at_quantile(quantile)).min(longest);
    let mean_s = (all.mean() / 1e9).min(longest);
    let latency = Latency { mean_s, p50_s: at(0.5), p95_s: at(0.95), p99_s: at(0.99), max_s: longest };
    let cut_short = if is_full {
        Some("ended when less than 5 % of the file system was free: somebody else fills it".into())
    } else if done.iter().any(|one| one.out_of_time) {
        Some(format!("ended by its time limit of {} s", limit.as_secs_f64()))
    } else {
        None
    };
    // Once one has ended, the rest is no longer what all of them do.
    let first_end = done.iter().map(|one| one.worked).min().unwrap_or_default();
    samples.retain(|(when, _)| *when <= first_end);
    Ok(Shift {
        all: Share { bytes: done.iter().map(|one| one.bytes).sum(), calls: done.iter().map(|one| one.calls).sum() },
        each: done.iter().map(|one| Share { bytes: one.bytes, calls: one.calls }).collect(),
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
