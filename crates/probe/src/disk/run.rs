//! One run: what its tests share, the points that are done, the knees in them.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use model::v1::probe::disk::{IoMode, Knee, LeftOut, Order, Point, Test};
use model::{BitRate, Bytes};
use sys::files::{ALIGNMENT, Aligned};

use super::crew::Shift;
use super::device::{Below, Counters};
use super::fit;
use super::place::{Place, failed};
use crate::{Error, Result, Stop};

/// What all tests of a run need.
pub(super) struct Run<'a> {
    pub order: &'a Order,
    pub place: &'a Place<'a>,
    pub below: &'a Below,
    pub stop: &'a Stop,
    pub seed: u64,
    /// Of one point.
    pub limit: Duration,
    note: &'a mut dyn FnMut(&Point),
    /// Names given so far.
    names: u64,
    points: Vec<Point>,
    left_out: Vec<LeftOut>,
}

/// What a point is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    pub test: Test,
    pub mode: IoMode,
    pub file_bytes: u64,
    pub workers: u32,
    pub block_bytes: u64,
}

/// What a run found.
pub(super) struct Found {
    pub points: Vec<Point>,
    pub knees: Vec<Knee>,
    pub left_out: Vec<LeftOut>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        order: &'a Order,
        place: &'a Place<'a>,
        below: &'a Below,
        stop: &'a Stop,
        note: &'a mut dyn FnMut(&Point),
        seed: u64,
    ) -> Run<'a> {
        let limit = Duration::from_secs_f64(order.seconds);
        let (points, left_out) = (Vec::new(), Vec::new());
        Run { order, place, below, stop, seed, limit, note, names: 0, points, left_out }
    }

    /// The modes of the order that this file system has.
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
            let why = "the file system takes no direct access in units of 4 KiB; what is buffered can be measured";
            if modes.is_empty() {
                let source = io::Error::new(error.kind(), format!("{error}: {why}"));
                return Err(failed("bypass the page cache in", self.place.dir().path(), source));
            }
            self.left_out.push(LeftOut { what: "direct".into(), why: why.into() });
        }
        Ok(modes)
    }

    /// Tries it: the only way to know. Some refuse to open the file, some the first write.
    fn refuses_direct(&mut self) -> Result<Option<io::Error>> {
        let name = format!("trial-{}", self.number());
        let dir = self.place.dir();
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
    pub(super) fn number(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Goes on, unless it was stopped.
    pub(super) fn goes_on(&self) -> Result<()> {
        if self.stop.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// A point is done.
    pub(super) fn tell(&mut self, point: Point) -> Result<()> {
        (self.note)(&point);
        self.points.push(point);
        self.goes_on()
    }

    /// All that was found.
    pub(super) fn found(self) -> Found {
        Found { knees: knees(&self.points), points: self.points, left_out: self.left_out }
    }

    /// How many workers write as much as can be had: those at the knee, where it was sought; else all.
    pub(super) fn enough_writers(&self, mode: IoMode) -> u32 {
        let knees = knees(&self.points);
        let of_writes = knees.iter().filter(|knee| (knee.test, knee.mode) == (Test::Write, mode));
        let knee = of_writes.max_by_key(|knee| knee.file_bytes).map(|knee| knee.workers);
        knee.or(self.order.workers.iter().copied().max()).unwrap_or(1)
    }

    /// What a crew's work says of what was measured.
    pub(super) fn point(&self, what: What, before: Option<Counters>, shift: &Shift) -> Point {
        let worked = shift.worked.as_secs_f64();
        // After the last call of the other tests nothing is done but to stop the clock.
        let is_flushed = matches!(what.test, Test::Write | Test::Sustained);
        let seconds = if is_flushed { shift.took.as_secs_f64() } else { worked };
        let bytes = shift.all.bytes;
        let (our_read, our_written) = if what.test == Test::Read { (bytes, 0) } else { (0, bytes) };
        let device = before.zip(self.below.counters()).map(|(before, now)| now.since(before, our_read, our_written));
        Point {
            test: what.test,
            mode: what.mode,
            file_bytes: what.file_bytes,
            workers: what.workers,
            block_bytes: what.block_bytes,
            bytes,
            calls: shift.all.calls,
            seconds,
            flush_s: seconds - worked,
            rate_bit_s: BitRate::mean(Bytes(bytes), seconds).0,
            rate_before_flush_bit_s: BitRate::mean(Bytes(bytes), worked).0,
            calls_per_s: if worked > 0.0 { shift.all.calls as f64 / worked } else { 0.0 },
            removals_per_s: None,
            latency: shift.latency,
            cpu_s: shift.cpu.as_secs_f64(),
            host_busy: shift.host_busy,
            device,
            cached: None,
            cut_short: shift.cut_short.clone(),
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
        let bend = fit::knee(&rates)?;
        let (at, best) = (sweep[bend.at], sweep[bend.best]);
        Some(Knee {
            test,
            mode,
            file_bytes,
            workers: at.workers,
            rate_bit_s: at.rate_bit_s,
            best_workers: best.workers,
            best_rate_bit_s: best.rate_bit_s,
            is_open: bend.is_open,
        })
    };
    sweeps.into_iter().filter_map(knee).collect()
}
