//! Third-party copy between two remote servers: one server fetches from or sends to the other, so that the payload does not
//! pass through this host.
//!
//! Servers know no filters, limits, deletions or chosen digests. A copy that needs any of them goes through this host.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::remote_store::RemoteStore;
use engine::patience::Patience;
use engine::receipt::{self, Context};
use engine::scan::unlisted;
use engine::session::Report;
use model::Progress;
use model::fault::{Blame, Fault};
use model::id::JobId;
use model::name::RelPath;
use model::spec::{self, Options};
use model::{Expected, Kind, Refusal, v1};
use parking_lot::Mutex;
use remote::Dav;
use remote::dav::third::{CopyError, ServerCopy};
use store::{Stat, Store};
use wire::frame::Totals;
use wire::sender::Miss;

use super::cp::job::CopyJob;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Display;
use crate::remote_stores;

/// Files that are copied at a time.
const FILES_AT_ONCE: usize = 4;

/// A file to be copied.
struct Task {
    from: RelPath,
    to: RelPath,
    size: u64,
}

/// The results so far.
#[derive(Default)]
struct CopyResults {
    totals: Totals,
    misses: Vec<Miss>,
    /// Files that this job has copied, in any round.
    arrived: HashSet<RelPath>,
    /// Why the servers cannot copy between themselves.
    unsupported: Option<String>,
    /// An error that would fail every other file as well; it ends the round.
    fatal_error: Option<store::Error>,
}

/// A running third-party copy.
struct ThirdPartyCopy<'a> {
    job: &'a CopyJob<'a>,
    options: Options,
    from: &'a Dav,
    to: &'a Dav,
    tasks: Vec<Task>,
    results: Mutex<CopyResults>,
    /// Bytes that earlier rounds copied.
    earlier_bytes: u64,
    /// Files that earlier rounds copied.
    earlier_files: u64,
    /// Bytes of unfinished files.
    unfinished_bytes: AtomicU64,
}

/// Lets the servers copy between themselves. Returns none if they cannot, or if the job needs more than they can do.
///
/// # Errors
/// A locator is wrong, the source does not exist, or the source cannot be listed.
pub fn run(job: &CopyJob<'_>) -> Result<Option<v1::Receipt>, Failure> {
    let [source] = job.sources() else { return Ok(None) };
    let places = remote_stores::remote_store(source, job.settings)?
        .zip(remote_stores::remote_store(job.target(), job.settings)?);
    let Some((RemoteStore { dav: Some(from), path: source, .. }, RemoteStore { dav: Some(to), path: target, .. })) =
        places
    else {
        return Ok(None);
    };
    if !job.is_simple() {
        return Ok(None);
    }
    let started = Instant::now();
    let mut copy = ThirdPartyCopy {
        job,
        options: job.options(),
        from: &from,
        to: &to,
        tasks: Vec::new(),
        results: Mutex::default(),
        earlier_bytes: 0,
        earlier_files: 0,
        unfinished_bytes: AtomicU64::new(0),
    };
    // The first request is not retried: a mistyped name stays wrong.
    let stat = from.stat(&source)?;
    if (stat.meta.kind == Kind::Dir || copy.options.recursive) && !from.capabilities().lists {
        return Err(Failure::usage(unlisted(&source.to_string()).reason));
    }
    if stat.meta.kind == Kind::Dir && !copy.options.recursive {
        return Err(Failure::usage(format!("{source} is a directory; copy it with -r")));
    }
    let into = copy.options.into || stat.meta.kind != Kind::Dir && to.is_dir(&target);
    let target = match source.name().filter(|_| into) {
        Some(name) => target.join(&name),
        None => target,
    };
    let error = copy.run(&source, &target, &stat);
    let CopyResults { totals, misses, unsupported, .. } = copy.results.into_inner();
    if let Some(why) = &unsupported {
        // Files that the servers have copied already are skipped.
        Printer::note(&format!("the servers do not copy between themselves ({why}); the bytes go through this host"));
        return Ok(None);
    }
    let totals_bytes = totals.bytes;
    let leg = v1::Carried { from: job.source_names().join(", "), to: job.target_name(), payload: "unseen".into() };
    let report = Report { totals, misses, error, arrived_after: Some(started.elapsed()), ..Report::default() };
    Ok(Some(receipt::build(
        &report,
        Context {
            job: JobId::random().to_string(),
            carried: if totals_bytes > 0 { vec![leg] } else { Vec::new() },
            source: job.source_names(),
            target: job.target_name(),
            checksums: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
            connect_s: 0.0,
            limited_by: unknown_limit(),
            ends: Vec::new(),
            versions: v1::Versions::default(),
            dry_run: false,
            sent_bytes: totals_bytes,
            arrived_bytes: totals_bytes,
            keeps: false,
        },
    )))
}

/// What limited such a copy is unknown: this host does not see its payload.
fn unknown_limit() -> v1::Limit {
    v1::Limit {
        part: "unknown".into(),
        evidence: "the servers copied between themselves".into(),
        remedy: String::new(),
    }
}

impl ThirdPartyCopy<'_> {
    /// Copies in rounds: a round that ends because the path broke is retried for `--retry-for`. Returns the error that ended the
    /// copy, if one did.
    fn run(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) -> Option<engine::Error> {
        let mut patience = Patience::new(self.job.cp.retry_for);
        loop {
            self.begin_round();
            self.plan(from, to, stat);
            if !self.must_stop() {
                self.copy_all(&mut patience);
            }
            if self.is_cancelled() {
                return Some(engine::Error::Interrupted);
            }
            let error = engine::Error::from(self.results().fatal_error.take()?);
            let is_retry_useful = error.fault() == Fault::Path;
            let Some(pause) = patience.pause().filter(|_| is_retry_useful) else { return Some(error) };
            Printer::note(&format!(
                "{}; trying again in {:.0} s",
                model::fault::with_causes(&error),
                pause.as_secs_f64()
            ));
            if !Patience::wait(pause, self.job.cancel()) {
                return Some(engine::Error::Interrupted);
            }
        }
    }

    /// Keeps the counts of copied files and bytes. Skipped and failed entries are counted again in each round.
    fn begin_round(&mut self) {
        self.tasks.clear();
        let mut results = self.results();
        let Totals { files, bytes, .. } = results.totals;
        results.totals = Totals { files, bytes, ..Totals::default() };
        results.misses.clear();
        drop(results);
        self.earlier_bytes = bytes;
        self.earlier_files = files;
    }

    /// Makes directories, and lists the files to copy. An entry that fails is recorded, and the rest goes on.
    fn plan(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) {
        if self.must_stop() {
            return;
        }
        let planned = match stat.meta.kind {
            Kind::Dir => self.plan_dir(from, to),
            _ => self.plan_file(from, to, stat),
        };
        if let Err(error) = planned {
            self.record_failure(from, error);
        }
    }

    fn plan_file(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) -> store::Result<()> {
        if self.results().arrived.contains(from) {
            return Ok(());
        }
        if self.is_up_to_date(to, stat)? {
            let totals = &mut self.results().totals;
            totals.skipped += 1;
            totals.skipped_bytes += stat.meta.size;
        } else {
            self.tasks.push(Task { from: from.clone(), to: to.clone(), size: stat.meta.size });
        }
        Ok(())
    }

    fn plan_dir(&mut self, from: &RelPath, to: &RelPath) -> store::Result<()> {
        let entries = self.from.list(from)?;
        store::make_dirs(self.to, to)?;
        self.results().totals.directories += 1;
        for entry in entries {
            let (name, stat) = entry?;
            let from = from.join(&name);
            match stat {
                Ok(stat) => self.plan(&from, &to.join(&name), &stat),
                Err(error) => self.record_failure(&from, error),
            }
        }
        Ok(())
    }

    /// Whether this round must end early.
    fn must_stop(&self) -> bool {
        let results = self.results();
        results.fatal_error.is_some() || results.unsupported.is_some() || self.is_cancelled()
    }

    /// Records the error of an entry.
    fn record_failure(&self, path: &RelPath, error: store::Error) {
        let mut results = self.results();
        if error.is_fatal() {
            results.fatal_error.get_or_insert(error);
            return;
        }
        results.totals.failed += 1;
        if results.misses.len() < wire::sender::MISSES_NAMED_MAX {
            let mut refusal = Refusal::from_error(&error);
            if error.is_not_found() {
                refusal.fault = Fault::Missing;
            }
            results.misses.push(Miss { path: path.clone(), refusal });
        }
    }

    /// Whether the entry at the target counts as up to date, by the rule for stores without modification times.
    fn is_up_to_date(&self, to: &RelPath, wanted: &Stat) -> store::Result<bool> {
        let existing = match self.to.stat(to) {
            Ok(stat) if stat.meta.kind != Kind::Dir => stat.meta,
            Err(error) if !error.is_not_found() => return Err(error),
            _ => return Ok(false),
        };
        let same_size = existing.size == wanted.meta.size;
        let same = match self.options.sync {
            spec::Sync::None | spec::Sync::Digest => false,
            spec::Sync::Exists => true,
            spec::Sync::Size => same_size,
            spec::Sync::Mtime => same_size && existing.mtime.seconds >= wanted.meta.mtime.seconds,
        };
        if same || !self.options.no_overwrite { Ok(same) } else { Err(store::Error::Exists(to.to_string())) }
    }

    fn results(&self) -> parking_lot::MutexGuard<'_, CopyResults> {
        self.results.lock()
    }

    /// Copies, several at a time.
    fn copy_all(&self, patience: &mut Patience) {
        let next = AtomicUsize::new(0);
        let mut display = Display::new(self.job.printer, false);
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..FILES_AT_ONCE.min(self.tasks.len())).map(|_| scope.spawn(|| self.work(&next))).collect();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(50));
                let progress = self.progress();
                patience.record_progress(&progress);
                display.update(&progress, "", None);
            }
        });
        patience.record_progress(&self.progress());
        display.finish(self.results().totals.bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.job.cancel().load(Ordering::Acquire)
    }

    fn progress(&self) -> Progress {
        let Totals { files, bytes, skipped, skipped_bytes, .. } = self.results().totals;
        Progress {
            bytes_offered: self.tasks.iter().map(|task| task.size).sum::<u64>() + skipped_bytes + self.earlier_bytes,
            files_offered: self.tasks.len() as u64 + skipped + self.earlier_files,
            bytes_arrived: bytes + skipped_bytes + self.unfinished_bytes.load(Ordering::Relaxed),
            files_settled: files + skipped,
            bytes_in_place: skipped_bytes,
            bytes_of_holes: 0,
            files_in_place: skipped,
            scanned: true,
        }
    }

    /// Copies files until none is left, or the round must stop.
    fn work(&self, next: &AtomicUsize) {
        while let Some(task) = self.tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if self.must_stop() {
                return;
            }
            let last = AtomicU64::new(0);
            let progress = |bytes: u64| {
                let before = last.swap(bytes, Ordering::Relaxed);
                self.unfinished_bytes.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
                !self.is_cancelled()
            };
            let pair = ServerCopy {
                from: (self.from, &task.from),
                to: (self.to, &task.to),
                replace: !self.options.no_overwrite,
                expected: Expected::default(),
                scitag: None,
                progress: &progress,
            };
            let result = pair.run();
            self.unfinished_bytes.fetch_sub(last.load(Ordering::Relaxed), Ordering::Relaxed);
            match result {
                Ok(bytes) => {
                    let mut results = self.results();
                    results.totals.files += 1;
                    results.totals.bytes += bytes;
                    results.arrived.insert(task.from.clone());
                }
                Err(CopyError::Cancelled) => return,
                Err(CopyError::Cannot(why)) => drop(self.results().unsupported.get_or_insert(why)),
                Err(CopyError::Failed(error)) => self.record_failure(&task.from, error),
            }
        }
    }
}
