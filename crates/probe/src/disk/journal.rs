//! The cost of a journal: repeatedly a small write at the end of a file, and a flush.

use std::os::unix::fs::FileExt;

use model::v1::probe::disk::{IoMode, Test};

use super::data::{Material, Stamp};
use super::order::PAGE;
use super::run::{DiskRun, PointSpec};
use super::test_directory::failed;
use super::workers::{self, Worker};
use crate::Result;

/// Measures one worker that appends to one file.
pub(super) fn keep(run: &mut DiskRun<'_>) -> Result<()> {
    let most = u64::from(run.order.fsyncs);
    let number = run.number();
    let dir = run.place.dir();
    let name = format!("journal-{number}");
    let path = dir.at(&name);
    let stamp = Stamp::new(run.seed, number);
    let file = dir.create(&name, false).map_err(|e| failed("create", &path, e))?;
    let material = Material::new(PAGE, 1, run.seed, number);
    let work = |worker: &mut Worker<'_>, material: &mut Material| {
        while worker.calls() < most && worker.goes_on() {
            let at = worker.calls() * PAGE;
            let block = material.block(stamp, at, PAGE as usize);
            worker.call("write and flush", &path, || {
                file.write_all_at(block, at)?;
                file.sync_all()?;
                Ok(PAGE)
            })?;
        }
        Ok(())
    };
    let before = run.backing.counters();
    let summary = workers::run(run.place, run.stop, run.limit, vec![material], work, |_| Ok(()))?;
    let spec =
        PointSpec { test: Test::Fsync, mode: IoMode::Buffered, file_bytes: most * PAGE, workers: 1, block_bytes: PAGE };
    let mut point = run.point(spec, before, &summary);
    point.cached = run.backing.in_memory.clone();
    run.tell(point)?;
    dir.remove(&name).map_err(|e| failed("remove", &path, e))
}
