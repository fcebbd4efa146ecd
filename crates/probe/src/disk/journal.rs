//! The cost of a journal: a small write at the end of a file and a flush, repeatedly.

use std::os::unix::fs::FileExt;

use model::v1::probe::disk::{IoMode, Test};

use super::data::{RandomBlocks, Stamp};
use super::order::PAGE;
use super::run::{DiskRun, PointSpec};
use super::test_directory::failed;
use super::workers::{self, Worker};
use crate::Result;

/// Measures one worker that appends to one file.
pub(super) fn append(run: &mut DiskRun<'_>) -> Result<()> {
    let most = u64::from(run.order.fsyncs);
    let number = run.next_number();
    let dir = run.test_dir.dir();
    let name = format!("journal-{number}");
    let path = dir.at(&name);
    let stamp = Stamp::new(run.seed, number);
    let file = dir.create(&name, false).map_err(|e| failed("create", &path, e))?;
    let blocks = RandomBlocks::new(PAGE, 1, run.seed, number);
    let work = |worker: &mut Worker<'_>, blocks: &mut RandomBlocks| {
        while worker.calls() < most && worker.may_continue() {
            let at = worker.calls() * PAGE;
            let block = blocks.block(stamp, at, PAGE as usize);
            worker.call("write and flush", &path, || {
                file.write_all_at(block, at)?;
                file.sync_all()?;
                Ok(PAGE)
            })?;
        }
        Ok(())
    };
    let before = run.backing.counters();
    let summary = workers::run(run.test_dir, run.stop, run.limit, vec![blocks], work, |_| Ok(()))?;
    let spec =
        PointSpec { test: Test::Fsync, mode: IoMode::Buffered, file_bytes: most * PAGE, workers: 1, block_bytes: PAGE };
    let mut point = run.point(spec, before, &summary);
    point.cached = run.backing.in_memory.clone();
    run.report(point)?;
    dir.remove(&name).map_err(|e| failed("remove", &path, e))
}
