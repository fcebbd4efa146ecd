//! What a disk gives: rates against size and workers, caches that end, flushes, small files.
//!
//! ```text
//! order ── check ──> place (a directory, room) ──> run ──> points, knees ──> report ──> answer, for guests of a node
//!                       │ removed however it ends    ├ sequential   write, flush, forget, read
//!                       │                            ├ journal      4 KiB and a flush
//!                       │                            ├ small        make, name, remove
//!                       │                            └ sustained    a long write and its course
//! ```
//!
//! All tests are crews (`crew`): threads that begin together and time every call. What they write is `data`; what a row
//! of numbers says is `fit`; what is below the directory is `device`. Files are made through descriptors (`dir`), as others
//! may rename what is below a directory that they can write.
//!
//! Not known here: other file systems than the one that a directory is in; caches below the kernel (a controller's, a
//! hypervisor's), which show in a result only as rates that no disk has.

mod answer;
mod crew;
mod data;
mod device;
mod dir;
mod fit;
mod journal;
mod order;
mod place;
mod run;
mod sequential;
mod small;
mod sustained;

use std::path::Path;
use std::time::Instant;

use model::v1::probe::disk::{Order, Point, Report, Test};

use crate::host::Watch;
use crate::{Result, Stop};
use device::Below;
use place::Place;
use run::{Found, Run};

pub use answer::answer;
pub use order::{check, longest};
pub use place::Ground;

/// Measures the disk of a directory. `note` is called when a point is done, in this thread. Everything is made in one new
/// directory below it, and is gone when this returns, whatever it returns.
///
/// # Errors
/// [`Error::Order`](crate::Error::Order): the order is out of bounds. [`Error::File`](crate::Error::File): no such
/// directory, not to be written, no room for what the order needs and 5 % of the file system, or a file that could not
/// be written, read or removed. [`Error::Interrupted`](crate::Error::Interrupted): stopped; what was noted is all there is.
pub fn measure(directory: &Path, order: &Order, stop: &Stop, note: &mut dyn FnMut(&Point)) -> Result<Report> {
    order::check(order)?;
    measure_on(&Ground::open(directory)?, order, stop, note)
}

/// Measures the disk of a directory that is open; otherwise as [`measure`].
///
/// # Errors
/// As there.
pub fn measure_on(ground: &Ground, order: &Order, stop: &Stop, note: &mut dyn FnMut(&Point)) -> Result<Report> {
    let (begun, watch) = (Instant::now(), Watch::begin());
    order::check(order)?;
    let place = Place::make(ground, order::needed(order))?;
    let left_behind = place.left_behind();
    let seed = order.seed.unwrap_or_else(|| fastrand::u64(..));
    let room = place.room().map_err(|e| place::failed("ask for the room in", place.dir().path(), e))?;
    let below = Below::of(place.dir().handle(), room);
    let outcome = all(Run::new(order, &place, &below, stop, note, seed));
    let removed = place.remove();
    let found = outcome?;
    removed?;
    Ok(Report {
        directory: ground.path().display().to_string(),
        order: Order { seed: Some(seed), ..order.clone() },
        device: below.device,
        points: found.points,
        knees: found.knees,
        left_out: found.left_out,
        left_behind,
        seconds: begun.elapsed().as_secs_f64(),
        host: watch.read(),
    })
}

/// All tests of the order. The long write is the last: it leaves caches full that others would find empty.
fn all(mut run: Run<'_>) -> Result<Found> {
    let ordered = run.order;
    run.goes_on()?;
    let by_way = order::is_sequential(ordered) || order::wants(ordered, Test::Sustained);
    let modes = if by_way { run.modes()? } else { Vec::new() };
    if order::is_sequential(ordered) {
        for mode in &modes {
            sequential::sweep(&mut run, *mode)?;
        }
    }
    if order::wants(ordered, Test::Fsync) {
        journal::keep(&mut run)?;
    }
    if order::wants(ordered, Test::SmallFiles) {
        small::sweep(&mut run)?;
    }
    if order::wants(ordered, Test::Sustained) {
        for mode in &modes {
            sustained::write(&mut run, *mode)?;
        }
    }
    Ok(run.found())
}
