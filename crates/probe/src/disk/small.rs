//! Small files: made, named, removed. Each worker in a directory of its own, as one directory would be its lock's rate.

use std::io::Write;
use std::time::Duration;

use model::v1::probe::disk::{IoMode, Test};

use super::crew::{self, Hand, Shift};
use super::data::{Material, Stamp};
use super::dir::Dir;
use super::order::PAGE;
use super::place::failed;
use super::run::{Run, What};
use crate::Result;

/// A worker's directory, and what it writes there.
struct Nook<'a> {
    dir: &'a Dir,
    stamp: Stamp,
    material: Material,
    /// Files to make, or to remove.
    files: u64,
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

/// A directory for each worker, by its number.
fn dirs(run: &mut Run<'_>, workers: u32) -> Result<Vec<(u64, Dir)>> {
    let mut dirs = Vec::new();
    for _ in 0..workers {
        let number = run.number();
        let (place, name) = (run.place.dir(), name(number));
        let made = place.make_dir(&name).and_then(|()| place.below(&name));
        dirs.push((number, made.map_err(|e| failed("make the directory", &place.at(&name), e))?));
    }
    Ok(dirs)
}

fn name(number: u64) -> String {
    format!("small-{number}")
}

fn nooks<'a>(run: &Run<'_>, dirs: &'a [(u64, Dir)], bytes: u64) -> Vec<Nook<'a>> {
    let workers = dirs.len() as u32;
    let (each, more) = (run.order.small_files / workers, run.order.small_files % workers);
    let nook = |(worker, (number, dir)): (u32, &'a (u64, Dir))| {
        let material = Material::new(bytes.next_multiple_of(PAGE), workers, run.seed ^ number, worker.into());
        let files = u64::from(each + u32::from(worker < more));
        Nook { dir, stamp: Stamp::new(run.seed, *number), material, files }
    };
    (0..).zip(dirs).map(nook).collect()
}

fn point(run: &mut Run<'_>, bytes: u64, workers: u32) -> Result<()> {
    let dirs = dirs(run, workers)?;
    let nooks = nooks(run, &dirs, bytes);
    let before = run.below.counters();
    let made = make(run, nooks, bytes)?;
    let what = What { test: Test::SmallFiles, mode: IoMode::Buffered, file_bytes: bytes, workers, block_bytes: bytes };
    let mut point = run.point(what, before, &made);
    point.cached = run.below.in_memory.clone();
    let seconds = unmake(run, &dirs, &made)?.worked.as_secs_f64();
    point.removals_per_s = (seconds > 0.0).then(|| made.all.calls as f64 / seconds);
    let gone = |(number, dir): &(u64, Dir)| {
        run.place.dir().remove_dir(&name(*number)).map_err(|e| failed("remove", dir.path(), e))
    };
    dirs.iter().try_for_each(gone)?;
    run.tell(point)
}

fn make(run: &Run<'_>, nooks: Vec<Nook<'_>>, bytes: u64) -> Result<Shift> {
    let is_renamed = run.order.rename;
    let pages = bytes.next_multiple_of(PAGE);
    let work = |hand: &mut Hand<'_>, nook: &mut Nook<'_>| {
        while hand.calls() < nook.files && hand.goes_on() {
            let number = hand.calls();
            let name = number.to_string();
            let first = if is_renamed { format!(".{number}.part") } else { name.clone() };
            let block = nook.material.block(nook.stamp, number * pages, bytes as usize);
            hand.call("make", &nook.dir.at(&name), || {
                let mut file = nook.dir.create(&first, false)?;
                file.write_all(block)?;
                drop(file);
                if is_renamed {
                    nook.dir.rename(&first, &name)?;
                }
                Ok(bytes)
            })?;
        }
        Ok(())
    };
    crew::run(run.place, run.stop, run.limit, nooks, work, |_| Ok(()))
}

/// Removes what was made, however long that takes and whoever fills the disk: it must go anyway.
fn unmake(run: &Run<'_>, dirs: &[(u64, Dir)], made: &Shift) -> Result<Shift> {
    let items: Vec<(&Dir, u64)> = dirs.iter().map(|(_, dir)| dir).zip(made.each.iter().map(|s| s.calls)).collect();
    let work = |hand: &mut Hand<'_>, (dir, files): &mut (&Dir, u64)| {
        while hand.calls() < *files && !hand.is_halted() {
            let name = hand.calls().to_string();
            hand.call("remove", &dir.at(&name), || dir.remove(&name).map(|()| 0))?;
        }
        Ok(())
    };
    crew::run(run.place, run.stop, Duration::MAX, items, work, |_| Ok(()))
}
