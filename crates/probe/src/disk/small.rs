//! Small files: made, renamed, removed. Each worker has a directory of its own, as the lock of a common one would be the limit.

use std::io::Write;
use std::time::Duration;

use model::v1::probe::disk::{IoMode, Test};

use super::data::{RandomBlocks, Stamp};
use super::dir::Dir;
use super::order::PAGE;
use super::run::{DiskRun, PointSpec};
use super::test_directory::failed;
use super::workers::{self, WorkSummary, Worker};
use crate::Result;

/// The files of one worker: their directory, content and number.
struct WorkerFiles<'a> {
    dir: &'a Dir,
    stamp: Stamp,
    blocks: RandomBlocks,
    /// Files to make, or to remove.
    files: u64,
}

/// Measures all points: each file size with each number of workers.
pub(super) fn sweep(run: &mut DiskRun<'_>) -> Result<()> {
    let order = run.order;
    for &bytes in &order.small_bytes {
        for &workers in &order.workers {
            point(run, bytes, workers)?;
        }
    }
    Ok(())
}

/// A directory for each worker, by its number.
fn dirs(run: &mut DiskRun<'_>, workers: u32) -> Result<Vec<(u64, Dir)>> {
    let mut dirs = Vec::new();
    for _ in 0..workers {
        let number = run.next_number();
        let parent = run.test_dir.dir();
        let name = name(number);
        let made = parent.make_dir(&name).and_then(|()| parent.below(&name));
        dirs.push((number, made.map_err(|e| failed("make the directory", &parent.at(&name), e))?));
    }
    Ok(dirs)
}

fn name(number: u64) -> String {
    format!("small-{number}")
}

fn worker_files<'a>(run: &DiskRun<'_>, dirs: &'a [(u64, Dir)], bytes: u64) -> Vec<WorkerFiles<'a>> {
    let workers = dirs.len() as u32;
    let each = run.order.small_files / workers;
    let remainder = run.order.small_files % workers;
    let item = |(worker, (number, dir)): (u32, &'a (u64, Dir))| {
        let blocks = RandomBlocks::new(bytes.next_multiple_of(PAGE), workers, run.seed ^ number, worker.into());
        let files = u64::from(each + u32::from(worker < remainder));
        WorkerFiles { dir, stamp: Stamp::new(run.seed, *number), blocks, files }
    };
    (0..).zip(dirs).map(item).collect()
}

fn point(run: &mut DiskRun<'_>, bytes: u64, workers: u32) -> Result<()> {
    let dirs = dirs(run, workers)?;
    let items = worker_files(run, &dirs, bytes);
    let before = run.backing.counters();
    let made = make(run, items, bytes)?;
    let mode = IoMode::Buffered;
    let spec = PointSpec { test: Test::SmallFiles, mode, file_bytes: bytes, workers, block_bytes: bytes };
    let mut point = run.point(spec, before, &made);
    point.cached = run.backing.in_memory.clone();
    let seconds = remove_files(run, &dirs, &made)?.worked.as_secs_f64();
    point.removals_per_s = (seconds > 0.0).then(|| made.all.calls as f64 / seconds);
    let remove_dir = |(number, dir): &(u64, Dir)| {
        run.test_dir.dir().remove_dir(&name(*number)).map_err(|e| failed("remove", dir.path(), e))
    };
    dirs.iter().try_for_each(remove_dir)?;
    run.report(point)
}

fn make(run: &DiskRun<'_>, items: Vec<WorkerFiles<'_>>, bytes: u64) -> Result<WorkSummary> {
    let is_renamed = run.order.rename;
    let pages = bytes.next_multiple_of(PAGE);
    let work = |worker: &mut Worker<'_>, item: &mut WorkerFiles<'_>| {
        while worker.calls() < item.files && worker.may_continue() {
            let number = worker.calls();
            let name = number.to_string();
            let first = if is_renamed { format!(".{number}.part") } else { name.clone() };
            let block = item.blocks.block(item.stamp, number * pages, bytes as usize);
            worker.call("make", &item.dir.at(&name), || {
                let mut file = item.dir.create(&first, false)?;
                file.write_all(block)?;
                drop(file);
                if is_renamed {
                    item.dir.rename(&first, &name)?;
                }
                Ok(bytes)
            })?;
        }
        Ok(())
    };
    workers::run(run.test_dir, run.stop, run.limit, items, work, |_| Ok(()))
}

/// Removes the files, without a time limit and even if the disk is full, as they must not remain.
fn remove_files(run: &DiskRun<'_>, dirs: &[(u64, Dir)], made: &WorkSummary) -> Result<WorkSummary> {
    let items: Vec<(&Dir, u64)> = dirs.iter().map(|(_, dir)| dir).zip(made.each.iter().map(|s| s.calls)).collect();
    let work = |worker: &mut Worker<'_>, (dir, files): &mut (&Dir, u64)| {
        while worker.calls() < *files && !worker.is_halted() {
            let name = worker.calls().to_string();
            worker.call("remove", &dir.at(&name), || dir.remove(&name).map(|()| 0))?;
        }
        Ok(())
    };
    workers::run(run.test_dir, run.stop, Duration::MAX, items, work, |_| Ok(()))
}
