//! Files from their beginning to their end: written, flushed, forgotten by the page cache, read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use model::Bytes;
use model::v1::probe::disk::{IoMode, Test};
use sys::files::{self, Aligned};

use super::crew::{self, Hand, Shift};
use super::data::{Material, Stamp};
use super::order::wants;
use super::place::failed;
use super::run::{Run, What};
use crate::Result;

/// More than this of a file in the page cache, and its rate is not the disk's.
const RESIDENT_MAX: f64 = 0.01;
/// Less than this of the bytes from the device, and they came from somewhere else.
const FROM_DEVICE_MIN: f64 = 0.5;

/// A file that was written.
#[derive(Debug)]
pub(super) struct Laid {
    name: String,
    /// For words.
    path: PathBuf,
    stamp: Stamp,
    length: u64,
}

/// One that is being written.
struct Writer {
    file: File,
    path: PathBuf,
    stamp: Stamp,
    material: Material,
}

/// One that is being read.
struct Reader<'a> {
    file: File,
    laid: &'a Laid,
    memory: Aligned,
}

/// All points of both tests in one mode.
pub(super) fn sweep(run: &mut Run<'_>, mode: IoMode) -> Result<()> {
    let (order, limit) = (run.order, run.limit);
    for &file_bytes in &order.file_bytes {
        if !wants(order, Test::Write) {
            read_only(run, mode, file_bytes)?;
            continue;
        }
        for &workers in &order.workers {
            let what = What { test: Test::Write, mode, file_bytes, workers, block_bytes: order.block_bytes };
            let before = run.below.counters();
            let (shift, laid) = write(run, mode, workers, limit, |at| order.block_bytes.min(file_bytes - at))?;
            let mut point = run.point(what, before, &shift);
            point.cached = run.below.in_memory.clone();
            run.tell(point)?;
            if wants(order, Test::Read) {
                read(run, What { test: Test::Read, ..what }, &laid)?;
            }
            remove(run, laid)?;
        }
    }
    Ok(())
}

/// Files to read are written once, for the most workers; fewer read the first of them.
fn read_only(run: &mut Run<'_>, mode: IoMode, file_bytes: u64) -> Result<()> {
    let (order, limit) = (run.order, run.limit);
    let most = order.workers.iter().copied().max().unwrap_or(1);
    let (_, laid) = write(run, mode, most, limit, |at| order.block_bytes.min(file_bytes - at))?;
    for &workers in &order.workers {
        let what = What { test: Test::Read, mode, file_bytes, workers, block_bytes: order.block_bytes };
        read(run, what, &laid[..workers as usize])?;
    }
    remove(run, laid)
}

pub(super) fn remove(run: &Run<'_>, laid: Vec<Laid>) -> Result<()> {
    let dir = run.place.dir();
    laid.iter().try_for_each(|one| dir.remove(&one.name).map_err(|e| failed("remove", &one.path, e)))
}

/// Writes a new file for each worker and flushes it. `next` tells how many bytes to write at an offset; none ends the
/// file.
pub(super) fn write(
    run: &mut Run<'_>,
    mode: IoMode,
    workers: u32,
    limit: Duration,
    next: impl Fn(u64) -> u64 + Sync,
) -> Result<(Shift, Vec<Laid>)> {
    let block_bytes = run.order.block_bytes;
    let (mut writers, mut laid) = (Vec::new(), Vec::new());
    for worker in 0..workers {
        let number = run.number();
        let (dir, name) = (run.place.dir(), format!("file-{number}"));
        let path = dir.at(&name);
        let stamp = Stamp::new(run.seed, number);
        let file = dir.create(&name, mode == IoMode::Direct).map_err(|e| failed("create", &path, e))?;
        let material = Material::new(block_bytes, workers, run.seed ^ number, worker.into());
        laid.push(Laid { name, path: path.clone(), stamp, length: 0 });
        writers.push(Writer { file, path, stamp, material });
    }
    let work = |hand: &mut Hand<'_>, writer: &mut Writer| {
        let mut at = 0;
        loop {
            let length = next(at);
            // Asked in this order: a file that is done was not cut short.
            if length == 0 || !hand.goes_on() {
                return Ok(());
            }
            let block = writer.material.block(writer.stamp, at, length as usize);
            hand.call("write", &writer.path, || writer.file.write_all_at(block, at).map(|()| length))?;
            at += length;
        }
    };
    let flush = |writer: &Writer| writer.file.sync_all().map_err(|e| failed("flush", &writer.path, e));
    let shift = crew::run(run.place, run.stop, limit, writers, work, flush)?;
    laid.iter_mut().zip(&shift.each).for_each(|(one, share)| one.length = share.bytes);
    Ok((shift, laid))
}

/// Reads files that were written, one worker each.
fn read(run: &mut Run<'_>, what: What, laid: &[Laid]) -> Result<()> {
    let mut cached = run.below.in_memory.clone().or_else(|| run.below.other_cache.clone());
    let dir = run.place.dir();
    let kept = forget(run, laid)?;
    if what.mode == IoMode::Buffered && cached.is_none() {
        cached = kept;
    }
    let mut readers = Vec::new();
    for one in laid {
        let file = dir.read(&one.name, what.mode == IoMode::Direct).map_err(|e| failed("open", &one.path, e))?;
        readers.push(Reader { file, laid: one, memory: Aligned::zeroed(what.block_bytes as usize) });
    }
    let before = run.below.counters();
    let work = |hand: &mut Hand<'_>, reader: &mut Reader<'_>| {
        let Reader { file, laid, memory } = reader;
        let mut at = 0;
        while at < laid.length && hand.goes_on() {
            let length = what.block_bytes.min(laid.length - at);
            let block = &mut memory[..length as usize];
            hand.call("read", &laid.path, || file.read_exact_at(block, at).map(|()| length))?;
            if let Some(offset) = laid.stamp.wrong(block, at) {
                let why = format!(
                    "at byte {offset} it is not what was written a moment ago; look for the disk's errors in the \
                     kernel's log before anything is kept on it"
                );
                return Err(failed("trust", &laid.path, io::Error::new(io::ErrorKind::InvalidData, why)));
            }
            at += length;
        }
        Ok(())
    };
    let shift = crew::run(run.place, run.stop, run.limit, readers, work, |_| Ok(()))?;
    let mut point = run.point(what, before, &shift);
    if let Some(traffic) = point.device.filter(|t| (t.read_bytes as f64) < FROM_DEVICE_MIN * point.bytes as f64) {
        let (came, all) = (Bytes(traffic.read_bytes), Bytes(point.bytes));
        cached = cached.or_else(|| Some(format!("only {came} of {all} came from the device: a cache had the rest")));
    }
    point.cached = cached;
    if point.cut_short.is_none() && laid.iter().any(|one| one.length < what.file_bytes) {
        point.cut_short = Some("the files were cut short when they were written".into());
    }
    run.tell(point)
}

/// Has the page cache forget files; why they were not, where they were not.
fn forget(run: &Run<'_>, laid: &[Laid]) -> Result<Option<String>> {
    let mut most: f64 = 0.0;
    for one in laid {
        let file = run.place.dir().read(&one.name, false).map_err(|e| failed("open", &one.path, e))?;
        files::forget(&file).map_err(|e| failed("flush", &one.path, e))?;
        match files::resident(&file) {
            Ok(share) => most = most.max(share),
            Err(error) => return Ok(Some(format!("nobody tells how much of the files was in memory: {error}"))),
        }
    }
    let why = || format!("the page cache kept {:.0} % of a file that it was asked to forget", (most * 100.0).ceil());
    Ok((most > RESIDENT_MAX).then(why))
}
