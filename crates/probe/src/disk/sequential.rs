//! Files from their beginning to their end: written, flushed, dropped from the page cache, read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use model::Bytes;
use model::v1::probe::disk::{IoMode, Test};
use sys::files::{self, Aligned};

use super::data::{RandomBlocks, Stamp};
use super::order::wants;
use super::run::{DiskRun, PointSpec};
use super::test_directory::failed;
use super::workers::{self, WorkSummary, Worker};
use crate::Result;

/// If more than this share of a file is in the page cache, its rate is not the disk's.
const RESIDENT_MAX: f64 = 0.01;
/// If less than this share of the bytes was read from the device, a cache had the rest.
const FROM_DEVICE_MIN: f64 = 0.5;

/// A file that was written.
#[derive(Debug)]
pub(super) struct WrittenFile {
    name: String,
    /// For messages only.
    path: PathBuf,
    stamp: Stamp,
    length: u64,
}

/// A file that is being written.
struct Writer {
    file: File,
    path: PathBuf,
    stamp: Stamp,
    blocks: RandomBlocks,
}

/// A file that is being read.
struct Reader<'a> {
    file: File,
    written: &'a WrittenFile,
    memory: Aligned,
}

/// Measures all points of writing and reading in one mode.
pub(super) fn sweep(run: &mut DiskRun<'_>, mode: IoMode) -> Result<()> {
    let order = run.order;
    let limit = run.limit;
    for &file_bytes in &order.file_bytes {
        if !wants(order, Test::Write) {
            read_only(run, mode, file_bytes)?;
            continue;
        }
        for &workers in &order.workers {
            let spec = PointSpec { test: Test::Write, mode, file_bytes, workers, block_bytes: order.block_bytes };
            let before = run.backing.counters();
            let (summary, written) = write(run, mode, workers, limit, |at| order.block_bytes.min(file_bytes - at))?;
            let mut point = run.point(spec, before, &summary);
            point.cached = run.backing.in_memory.clone();
            run.report(point)?;
            if wants(order, Test::Read) {
                read(run, PointSpec { test: Test::Read, ..spec }, &written)?;
            }
            remove(run, written)?;
        }
    }
    Ok(())
}

/// Measures reading only. The files are written once, for the most workers; fewer workers read the first of them.
fn read_only(run: &mut DiskRun<'_>, mode: IoMode, file_bytes: u64) -> Result<()> {
    let order = run.order;
    let limit = run.limit;
    let most = order.workers.iter().copied().max().unwrap_or(1);
    let (_, written) = write(run, mode, most, limit, |at| order.block_bytes.min(file_bytes - at))?;
    for &workers in &order.workers {
        let spec = PointSpec { test: Test::Read, mode, file_bytes, workers, block_bytes: order.block_bytes };
        read(run, spec, &written[..workers as usize])?;
    }
    remove(run, written)
}

pub(super) fn remove(run: &DiskRun<'_>, written: Vec<WrittenFile>) -> Result<()> {
    let dir = run.test_dir.dir();
    written.iter().try_for_each(|one| dir.remove(&one.name).map_err(|e| failed("remove", &one.path, e)))
}

/// Writes a new file for each worker and flushes it. `next` returns how many bytes to write at an offset; 0 ends the file.
pub(super) fn write(
    run: &mut DiskRun<'_>,
    mode: IoMode,
    workers: u32,
    limit: Duration,
    next: impl Fn(u64) -> u64 + Sync,
) -> Result<(WorkSummary, Vec<WrittenFile>)> {
    let block_bytes = run.order.block_bytes;
    let mut writers = Vec::new();
    let mut written = Vec::new();
    for worker in 0..workers {
        let number = run.next_number();
        let dir = run.test_dir.dir();
        let name = format!("file-{number}");
        let path = dir.at(&name);
        let stamp = Stamp::new(run.seed, number);
        let file = dir.create(&name, mode == IoMode::Direct).map_err(|e| failed("create", &path, e))?;
        let blocks = RandomBlocks::new(block_bytes, workers, run.seed ^ number, worker.into());
        written.push(WrittenFile { name, path: path.clone(), stamp, length: 0 });
        writers.push(Writer { file, path, stamp, blocks });
    }
    let work = |worker: &mut Worker<'_>, writer: &mut Writer| {
        let mut at = 0;
        loop {
            let length = next(at);
            // The length is checked first, so that a complete file does not count as cut short.
            if length == 0 || !worker.may_continue() {
                return Ok(());
            }
            let block = writer.blocks.block(writer.stamp, at, length as usize);
            worker.call("write", &writer.path, || writer.file.write_all_at(block, at).map(|()| length))?;
            at += length;
        }
    };
    let flush = |writer: &Writer| writer.file.sync_all().map_err(|e| failed("flush", &writer.path, e));
    let summary = workers::run(run.test_dir, run.stop, limit, writers, work, flush)?;
    written.iter_mut().zip(&summary.each).for_each(|(one, share)| one.length = share.bytes);
    Ok((summary, written))
}

/// Reads written files, one worker each.
fn read(run: &mut DiskRun<'_>, spec: PointSpec, written: &[WrittenFile]) -> Result<()> {
    let mut cached = run.backing.in_memory.clone().or_else(|| run.backing.other_cache.clone());
    let dir = run.test_dir.dir();
    let still_cached = drop_from_cache(run, written)?;
    if spec.mode == IoMode::Buffered && cached.is_none() {
        cached = still_cached;
    }
    let mut readers = Vec::new();
    for one in written {
        let file = dir.read(&one.name, spec.mode == IoMode::Direct).map_err(|e| failed("open", &one.path, e))?;
        readers.push(Reader { file, written: one, memory: Aligned::zeroed(spec.block_bytes as usize) });
    }
    let before = run.backing.counters();
    let work = |worker: &mut Worker<'_>, reader: &mut Reader<'_>| {
        let Reader { file, written, memory } = reader;
        let mut at = 0;
        while at < written.length && worker.may_continue() {
            let length = spec.block_bytes.min(written.length - at);
            let block = &mut memory[..length as usize];
            worker.call("read", &written.path, || file.read_exact_at(block, at).map(|()| length))?;
            if let Some(offset) = written.stamp.first_wrong(block, at) {
                let why = format!(
                    "at byte {offset} it differs from the bytes that were written a moment ago; look for the disk's errors in the \
                     kernel's log before you store anything on it"
                );
                return Err(failed("trust", &written.path, io::Error::new(io::ErrorKind::InvalidData, why)));
            }
            at += length;
        }
        Ok(())
    };
    let summary = workers::run(run.test_dir, run.stop, run.limit, readers, work, |_| Ok(()))?;
    let mut point = run.point(spec, before, &summary);
    if let Some(traffic) = point.device.filter(|t| (t.read_bytes as f64) < FROM_DEVICE_MIN * point.bytes as f64) {
        let from_device = Bytes(traffic.read_bytes);
        let all = Bytes(point.bytes);
        cached =
            cached.or_else(|| Some(format!("only {from_device} of {all} came from the device: a cache had the rest")));
    }
    point.cached = cached;
    if point.cut_short.is_none() && written.iter().any(|one| one.length < spec.file_bytes) {
        point.cut_short = Some("the files were cut short when they were written".into());
    }
    run.report(point)
}

/// Drops files from the page cache; returns why they were not dropped, in words, if they were not.
fn drop_from_cache(run: &DiskRun<'_>, written: &[WrittenFile]) -> Result<Option<String>> {
    let mut most: f64 = 0.0;
    for one in written {
        let file = run.test_dir.dir().read(&one.name, false).map_err(|e| failed("open", &one.path, e))?;
        files::drop_from_cache(&file).map_err(|e| failed("flush", &one.path, e))?;
        match files::resident(&file) {
            Ok(share) => most = most.max(share),
            Err(error) => return Ok(Some(format!("it is unknown how much of the files was in memory: {error}"))),
        }
    }
    let why = || format!("the page cache kept {:.0} % of a file that it should have dropped", (most * 100.0).ceil());
    Ok((most > RESIDENT_MAX).then(why))
}
