//! What a journal pays: a little at the end of a file, and a flush, again and again.

use std::os::unix::fs::FileExt;

use model::v1::probe::disk::{IoMode, Test};

use super::crew::{self, Hand};
use super::data::{Material, Stamp};
use super::order::PAGE;
use super::place::failed;
use super::run::{Run, What};
use crate::Result;

/// One worker, one file that grows.
pub(super) fn keep(run: &mut Run<'_>) -> Result<()> {
    let most = u64::from(run.order.fsyncs);
    let number = run.number();
    let dir = run.place.dir();
    let name = format!("journal-{number}");
    let path = dir.at(&name);
    let stamp = Stamp::new(run.seed, number);
    let file = dir.create(&name, false).map_err(|e| failed("create", &path, e))?;
    let material = Material::new(PAGE, 1, run.seed, number);
    let work = |hand: &mut Hand<'_>, material: &mut Material| {
        while hand.calls() < most && hand.goes_on() {
            let at = hand.calls() * PAGE;
            let block = material.block(stamp, at, PAGE as usize);
            hand.call("write and flush", &path, || {
                file.write_all_at(block, at)?;
                file.sync_all()?;
                Ok(PAGE)
            })?;
        }
        Ok(())
    };
    let before = run.below.counters();
    let shift = crew::run(run.place, run.stop, run.limit, vec![material], work, |_| Ok(()))?;
    let what =
        What { test: Test::Fsync, mode: IoMode::Buffered, file_bytes: most * PAGE, workers: 1, block_bytes: PAGE };
    let mut point = run.point(what, before, &shift);
    point.cached = run.below.in_memory.clone();
    run.tell(point)?;
    dir.remove(&name).map_err(|e| failed("remove", &path, e))
}
