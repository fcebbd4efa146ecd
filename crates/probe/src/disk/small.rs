//! Small files: made, named, removed. Each worker in a directory of its own, as one directory would be its lock's rate.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use model::v1::probe::disk::{Test, Way};
use sys::files;

use super::crew::{self, Hand, Shift};
use super::data::{Material, Stamp};
use super::order::PAGE;
use super::place::failed;
use super::run::{Run, What};
use crate::Result;

/// A worker's directory, and what it writes there.
struct Nook {
    path: PathBuf,
    stamp: Stamp,
    material: Material,
    /// Files to make, or to remove.
    files: u64,
}

impl Nook {
    fn name(&self, number: u64) -> PathBuf {
        self.path.join(number.to_string())
    }
}

/// All points: lengths and numbers of workers.
pub(super) fn sweep(run: &mut Run<'_>) -> Result<()> {
    let order = run.order;
    for &bytes in &order.small_bytes {
        for &workers in &order.workers {
            point(run, bytes, workers)?;
        }
    }
    Ok(())
}

fn nooks(run: &mut Run<'_>, bytes: u64, workers: u32) -> Result<Vec<Nook>> {
    let (each, more) = (run.order.small_files / workers, run.order.small_files % workers);
    let mut nooks = Vec::new();
    for worker in 0..workers {
        let number = run.number();
        let path = run.place.name("small", number);
        std::fs::create_dir(&path).map_err(|e| failed("make the directory", &path, e))?;
        let material = Material::new(bytes.next_multiple_of(PAGE), workers, run.seed ^ number, worker.into());
        let files = u64::from(each + u32::from(worker < more));
        nooks.push(Nook { path, stamp: Stamp::new(run.seed, number), material, files });
    }
    Ok(nooks)
}

fn point(run: &mut Run<'_>, bytes: u64, workers: u32) -> Result<()> {
    let nooks = nooks(run, bytes, workers)?;
    let paths: Vec<PathBuf> = nooks.iter().map(|nook| nook.path.clone()).collect();
    let before = run.below.counters();
    let made = make(run, nooks, bytes)?;
    let what = What { test: Test::SmallFiles, way: Way::Buffered, file_bytes: bytes, workers, block_bytes: bytes };
    let mut point = run.point(what, before, &made);
    point.cached = run.below.in_memory.clone();
    let seconds = unmake(run, &paths, &made)?.worked.as_secs_f64();
    point.removals_per_s = (seconds > 0.0).then(|| made.all.calls as f64 / seconds);
    paths.iter().try_for_each(|path| std::fs::remove_dir(path).map_err(|e| failed("remove", path, e)))?;
    run.tell(point)
}

fn make(run: &Run<'_>, nooks: Vec<Nook>, bytes: u64) -> Result<Shift> {
    let is_renamed = run.order.rename;
    let pages = bytes.next_multiple_of(PAGE);
    let work = |hand: &mut Hand<'_>, nook: &mut Nook| {
        while hand.calls() < nook.files && hand.goes_on() {
            let number = hand.calls();
            let name = nook.name(number);
            let first = if is_renamed { nook.path.join(format!(".{number}.part")) } else { name.clone() };
            let block = nook.material.block(nook.stamp, number * pages, bytes as usize);
            hand.call("make", &name, || {
                let mut file = files::create(&first, false)?;
                file.write_all(block)?;
                drop(file);
                if is_renamed {
                    std::fs::rename(&first, &name)?;
                }
                Ok(bytes)
            })?;
        }
        Ok(())
    };
    crew::run(run.place, run.stop, run.limit, nooks, work, |_| Ok(()))
}

/// Removes what was made, however long that takes and whoever fills the disk: it must go anyway.
fn unmake(run: &Run<'_>, paths: &[PathBuf], made: &Shift) -> Result<Shift> {
    let items: Vec<(&PathBuf, u64)> = paths.iter().zip(made.each.iter().map(|share| share.calls)).collect();
    let work = |hand: &mut Hand<'_>, (path, files): &mut (&PathBuf, u64)| {
        while hand.calls() < *files && !hand.is_halted() {
            let name = path.join(hand.calls().to_string());
            hand.call("remove", &name, || std::fs::remove_file(&name).map(|()| 0))?;
        }
        Ok(())
    };
    crew::run(run.place, run.stop, Duration::MAX, items, work, |_| Ok(()))
}
