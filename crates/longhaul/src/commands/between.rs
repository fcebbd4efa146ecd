//! From one of other people's servers to another: they are asked to copy between themselves, so that the bytes need not come
//! here and go out again.
//!
//! Does not know: how a copy that needs more than that is made (filters, limits, deletions, digests of our choice); such a one
//! goes through here, as every other copy does.

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
use remote::dav::third::{Between, NotCopied};
use store::{Stat, Store};
use wire::frame::Totals;
use wire::sender::Miss;

use super::cp::job::Job;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Display;
use crate::remote_stores;

/// Files that are copied at a time.
const AT_ONCE: usize = 4;

/// A file to be copied.
struct Task {
    from: RelPath,
    to: RelPath,
    size: u64,
}

/// What has come of it so far.
#[derive(Default)]
struct Done {
    totals: Totals,
    misses: Vec<Miss>,
    /// Files that this job put in place, in whichever round.
    arrived: HashSet<RelPath>,
    /// They do not copy between each other: why.
    cannot: Option<String>,
    /// What every other file would meet as well: it ends the round.
    broken: Option<store::Error>,
}

struct Servers<'a> {
    job: &'a Job<'a>,
    options: Options,
    from: &'a Dav,
    to: &'a Dav,
    tasks: Vec<Task>,
    done: Mutex<Done>,
    /// Bytes and files that earlier rounds brought.
    earlier: (u64, u64),
    /// Bytes of files on their way, beside those that have arrived.
    moving: AtomicU64,
}

/// Has the servers copy between themselves; none where they do not, or what is asked for is more than they could do.
pub fn run(job: &Job<'_>) -> Result<Option<v1::Receipt>, Failure> {
    let [source] = job.sources() else { return Ok(None) };
    let places = remote_stores::place(source, job.settings)?.zip(remote_stores::place(job.target(), job.settings)?);
    let Some((RemoteStore { dav: Some(from), path: source, .. }, RemoteStore { dav: Some(to), path: target, .. })) =
        places
    else {
        return Ok(None);
    };
    if !job.is_simple() {
        return Ok(None);
    }
    let started = Instant::now();
    let options = job.options();
    let done = Mutex::default();
    let (tasks, earlier, moving) = (Vec::new(), (0, 0), AtomicU64::new(0));
    let mut servers = Servers { job, options, from: &from, to: &to, tasks, done, earlier, moving };
    // First contact: nobody is helped by waiting for a mistyped name.
    let stat = from.stat(&source)?;
    if (stat.meta.kind == Kind::Dir || servers.options.recursive) && !from.capabilities().lists {
        return Err(Failure::usage(unlisted(&source.to_string()).reason));
    }
    if stat.meta.kind == Kind::Dir && !servers.options.recursive {
        return Err(Failure::usage(format!("{source} is a directory; copy it with -r")));
    }
    let into = servers.options.into || stat.meta.kind != Kind::Dir && to.is_dir(&target);
    let target = match source.name().filter(|_| into) {
        Some(name) => target.join(&name),
        None => target,
    };
    let error = servers.copy(&source, &target, &stat);
    let Done { totals, misses, cannot, .. } = servers.done.into_inner();
    if let Some(why) = &cannot {
        // What they did copy is there, and is skipped.
        Printer::note(&format!("the servers do not copy between themselves ({why}); the bytes go through here"));
        return Ok(None);
    }
    let totals_bytes = totals.bytes;
    let leg = v1::Carried { from: job.source_names().join(", "), to: job.target_name(), payload: "unseen".into() };
    let report = Report { totals, misses, error, arrived_after: Some(started.elapsed()), ..Report::default() };
    let part = v1::Limit {
        part: "unknown".into(),
        evidence: "the servers copied between themselves".into(),
        remedy: String::new(),
    };
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
            limited_by: part,
            ends: Vec::new(),
            versions: v1::Versions::default(),
            dry_run: false,
            sent_bytes: totals_bytes,
            arrived_bytes: totals_bytes,
            keeps: false,
        },
    )))
}

impl Servers<'_> {
    /// Round after round where the path breaks, for as long as a job has patience. How it failed as a whole, if it did.
    fn copy(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) -> Option<engine::Error> {
        let mut patience = Patience::new(self.job.cp.retry_for);
        loop {
            self.begin_round();
            self.plan(from, to, stat);
            if !self.is_over() {
                self.copy_all(&mut patience);
            }
            if self.is_cancelled() {
                return Some(engine::Error::Interrupted);
            }
            let error = engine::Error::from(self.done().broken.take()?);
            let again = error.fault() == Fault::Path;
            let Some(pause) = patience.pause().filter(|_| again) else { return Some(error) };
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

    /// What earlier rounds brought counts; what they found or missed is found or missed anew.
    fn begin_round(&mut self) {
        self.tasks.clear();
        let mut done = self.done();
        let Totals { files, bytes, .. } = done.totals;
        done.totals = Totals { files, bytes, ..Totals::default() };
        done.misses.clear();
        drop(done);
        self.earlier = (bytes, files);
    }

    /// Makes directories, and lists the files that are to be copied. What cannot be is noted, and the rest goes on.
    fn plan(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) {
        if self.is_over() {
            return;
        }
        let planned = match stat.meta.kind {
            Kind::Dir => self.plan_dir(from, to),
            _ => self.plan_file(from, to, stat),
        };
        if let Err(error) = planned {
            self.failed(from, error);
        }
    }

    fn plan_file(&mut self, from: &RelPath, to: &RelPath, stat: &Stat) -> store::Result<()> {
        if self.done().arrived.contains(from) {
            return Ok(());
        }
        if self.is_there(to, stat)? {
            let totals = &mut self.done().totals;
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
        self.done().totals.directories += 1;
        for entry in entries {
            let (name, stat) = entry?;
            let from = from.join(&name);
            match stat {
                Ok(stat) => self.plan(&from, &to.join(&name), &stat),
                Err(error) => self.failed(&from, error),
            }
        }
        Ok(())
    }

    /// Whether this round has come to its end before all was done.
    fn is_over(&self) -> bool {
        let done = self.done();
        done.broken.is_some() || done.cannot.is_some() || self.is_cancelled()
    }

    fn failed(&self, path: &RelPath, error: store::Error) {
        let mut done = self.done();
        if error.is_fatal() {
            done.broken.get_or_insert(error);
            return;
        }
        done.totals.failed += 1;
        if done.misses.len() < wire::sender::MISSES_NAMED_MAX {
            let mut refusal = Refusal::from_error(&error);
            if error.is_not_found() {
                refusal.fault = Fault::Missing;
            }
            done.misses.push(Miss { path: path.clone(), refusal });
        }
    }

    /// Whether what is there counts as the same, as for every other copy to a store that keeps no times.
    fn is_there(&self, to: &RelPath, wanted: &Stat) -> store::Result<bool> {
        let there = match self.to.stat(to) {
            Ok(stat) if stat.meta.kind != Kind::Dir => stat.meta,
            Err(error) if !error.is_not_found() => return Err(error),
            _ => return Ok(false),
        };
        let same_size = there.size == wanted.meta.size;
        let same = match self.options.sync {
            spec::Sync::None | spec::Sync::Digest => false,
            spec::Sync::Exists => true,
            spec::Sync::Size => same_size,
            spec::Sync::Mtime => same_size && there.mtime.seconds >= wanted.meta.mtime.seconds,
        };
        match same || !self.options.no_overwrite {
            true => Ok(same),
            false => Err(store::Error::Exists(to.to_string())),
        }
    }

    fn done(&self) -> parking_lot::MutexGuard<'_, Done> {
        self.done.lock()
    }

    /// Copies, several at a time.
    fn copy_all(&self, patience: &mut Patience) {
        let next = AtomicUsize::new(0);
        let mut display = Display::new(self.job.printer, false);
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..AT_ONCE.min(self.tasks.len())).map(|_| scope.spawn(|| self.work(&next))).collect();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(50));
                let progress = self.progress();
                patience.saw(&progress);
                display.update(&progress, "", None);
            }
        });
        patience.saw(&self.progress());
        display.finish(self.done().totals.bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.job.cancel().load(Ordering::Acquire)
    }

    fn progress(&self) -> Progress {
        let Totals { files, bytes, skipped, skipped_bytes, .. } = self.done().totals;
        Progress {
            bytes_offered: self.tasks.iter().map(|task| task.size).sum::<u64>() + skipped_bytes + self.earlier.0,
            files_offered: self.tasks.len() as u64 + skipped + self.earlier.1,
            bytes_arrived: bytes + skipped_bytes + self.moving.load(Ordering::Relaxed),
            files_settled: files + skipped,
            bytes_in_place: skipped_bytes,
            bytes_of_holes: 0,
            files_in_place: skipped,
            scanned: true,
        }
    }

    fn work(&self, next: &AtomicUsize) {
        while let Some(task) = self.tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if self.is_over() {
                return;
            }
            let last = AtomicU64::new(0);
            let progress = |bytes: u64| {
                let before = last.swap(bytes, Ordering::Relaxed);
                self.moving.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
                !self.is_cancelled()
            };
            let between = Between {
                from: (self.from, &task.from),
                to: (self.to, &task.to),
                replace: !self.options.no_overwrite,
                expected: Expected::default(),
                scitag: None,
                progress: &progress,
            };
            let copied = between.run();
            self.moving.fetch_sub(last.load(Ordering::Relaxed), Ordering::Relaxed);
            match copied {
                Ok(bytes) => {
                    let mut done = self.done();
                    done.totals.files += 1;
                    done.totals.bytes += bytes;
                    done.arrived.insert(task.from.clone());
                }
                Err(NotCopied::Cancelled) => return,
                Err(NotCopied::Cannot(why)) => drop(self.done().cannot.get_or_insert(why)),
                Err(NotCopied::Failed(error)) => self.failed(&task.from, error),
            }
        }
    }
}
