//! One run of disk tests: the state that its tests share, the finished points, and their knees.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use model::v1::probe::disk::{IoMode, Knee, LeftOut, Order, Point, Test};
use model::{BitRate, Bytes};
use sys::files::{ALIGNMENT, Aligned};

use super::device::{BackingDevice, Counters};
use super::fit;
use super::test_directory::{TestDirectory, failed};
use super::workers::WorkSummary;
use crate::{Error, Result, Stop};

/// A run of disk tests.
pub(super) struct DiskRun<'a> {
    pub order: &'a Order,
    pub test_dir: &'a TestDirectory<'a>,
    pub backing: &'a BackingDevice,
    pub stop: &'a Stop,
    pub seed: u64,
    /// Longest time of one point.
    pub limit: Duration,
    note: &'a mut dyn FnMut(&Point),
    /// The last number that was used for a name.
    last_number: u64,
    points: Vec<Point>,
    left_out: Vec<LeftOut>,
}

/// The parameters of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointSpec {
    pub test: Test,
    pub mode: IoMode,
    pub file_bytes: u64,
    pub workers: u32,
    pub block_bytes: u64,
}

/// The results of a run.
pub(super) struct DiskFindings {
    pub points: Vec<Point>,
    pub knees: Vec<Knee>,
    pub left_out: Vec<LeftOut>,
}

impl<'a> DiskRun<'a> {
    pub(super) fn new(
        order: &'a Order,
        test_dir: &'a TestDirectory<'a>,
        backing: &'a BackingDevice,
        stop: &'a Stop,
        note: &'a mut dyn FnMut(&Point),
        seed: u64,
    ) -> DiskRun<'a> {
        let limit = Duration::from_secs_f64(order.seconds);
        let points = Vec::new();
        let left_out = Vec::new();
        DiskRun { order, test_dir, backing, stop, seed, limit, note, last_number: 0, points, left_out }
    }

    /// The modes of the order that this file system supports.
    pub(super) fn modes(&mut self) -> Result<Vec<IoMode>> {
        let mut modes = Vec::new();
        for mode in &self.order.modes {
            if !modes.contains(mode) {
                modes.push(*mode);
            }
        }
        if modes.contains(&IoMode::Direct)
            && let Some(error) = self.refuses_direct()?
        {
            modes.retain(|mode| *mode != IoMode::Direct);
            let why = "the file system permits no direct access in units of 4 KiB; buffered access can be measured";
            if modes.is_empty() {
                let source = io::Error::new(error.kind(), format!("{error}: {why}"));
                return Err(failed("bypass the page cache in", self.test_dir.dir().path(), source));
            }
            self.left_out.push(LeftOut { what: "direct".into(), why: why.into() });
        }
        Ok(modes)
    }

    /// Tries direct access, as nothing else shows whether it is supported: some file systems refuse to open the file, some the first
    /// write.
    fn refuses_direct(&mut self) -> Result<Option<io::Error>> {
        let name = format!("trial-{}", self.next_number());
        let dir = self.test_dir.dir();
        let path = dir.at(&name);
        let page = Aligned::zeroed(ALIGNMENT);
        let tried = dir.create(&name, true).and_then(|file| file.write_all_at(&page, 0));
        let removed = dir.remove(&name);
        match tried {
            Ok(()) => removed.map(|()| None).map_err(|e| failed("remove", &path, e)),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
                Ok(Some(error))
            }
            Err(error) => Err(failed("write", &path, error)),
        }
    }

    /// The next number for a name.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns [`Error::Interrupted`] if the run was stopped.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.stop.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Reports a finished point.
    pub(super) fn report(&mut self, point: Point) -> Result<()> {
        (self.note)(&point);
        self.points.push(point);
        self.check_stop()
    }

    /// The results.
    pub(super) fn findings(self) -> DiskFindings {
        DiskFindings { knees: knees(&self.points), points: self.points, left_out: self.left_out }
    }

    /// The fewest workers that reach the highest writing rate: those at the knee if it was measured, else the most of the order.
    pub(super) fn enough_writers(&self, mode: IoMode) -> u32 {
        let knees = knees(&self.points);
        let of_writes = knees.iter().filter(|knee| (knee.test, knee.mode) == (Test::Write, mode));
        let knee = of_writes.max_by_key(|knee| knee.file_bytes).map(|knee| knee.workers);
        knee.or(self.order.workers.iter().copied().max()).unwrap_or(1)
    }

    /// Makes a point from the result of its workers.
    pub(super) fn point(&self, spec: PointSpec, before: Option<Counters>, summary: &WorkSummary) -> Point {
        let worked = summary.worked.as_secs_f64();
        // The other tests have no flush after the last call.
        let is_flushed = matches!(spec.test, Test::Write | Test::Sustained);
        let seconds = if is_flushed { summary.took.as_secs_f64() } else { worked };
        let bytes = summary.all.bytes;
        let (own_read, own_written) = if spec.test == Test::Read { (bytes, 0) } else { (0, bytes) };
        let device = before.zip(self.backing.counters()).map(|(before, now)| now.since(before, own_read, own_written));
        Point {
            test: spec.test,
            mode: spec.mode,
            file_bytes: spec.file_bytes,
            workers: spec.workers,
            block_bytes: spec.block_bytes,
            bytes,
            calls: summary.all.calls,
            seconds,
            flush_s: seconds - worked,
            rate_bit_s: BitRate::mean(Bytes(bytes), seconds).0,
            rate_before_flush_bit_s: BitRate::mean(Bytes(bytes), worked).0,
            calls_per_s: if worked > 0.0 { summary.all.calls as f64 / worked } else { 0.0 },
            removals_per_s: None,
            latency: summary.latency,
            cpu_s: summary.cpu.as_secs_f64(),
            host_busy: summary.host_busy,
            device,
            cached: None,
            cut_short: summary.cut_short.clone(),
            course: None,
        }
    }
}

/// The knees of all sweeps over workers.
fn knees(points: &[Point]) -> Vec<Knee> {
    let mut sweeps: Vec<(Test, IoMode, u64)> = Vec::new();
    for point in points.iter().filter(|p| matches!(p.test, Test::Write | Test::Read | Test::SmallFiles)) {
        let sweep = (point.test, point.mode, point.file_bytes);
        if !sweeps.contains(&sweep) {
            sweeps.push(sweep);
        }
    }
    let knee = |(test, mode, file_bytes): (Test, IoMode, u64)| {
        let is_of = |p: &&Point| (p.test, p.mode, p.file_bytes) == (test, mode, file_bytes);
        let sweep: Vec<&Point> = points.iter().filter(is_of).collect();
        let rates: Vec<(u32, f64)> = sweep.iter().map(|p| (p.workers, p.rate_bit_s as f64)).collect();
        let knee = fit::knee(&rates)?;
        let at = sweep[knee.at];
        let best = sweep[knee.best];
        Some(Knee {
            test,
            mode,
            file_bytes,
            workers: at.workers,
            rate_bit_s: at.rate_bit_s,
            best_workers: best.workers,
            best_rate_bit_s: best.rate_bit_s,
            is_open: knee.is_open,
        })
    };
    sweeps.into_iter().filter_map(knee).collect()
}
