//! Disk tests: rates against file size and workers, the end of caches, flushes, small files.
//!
//! ```text
//! order ── check ──> test directory (and its room) ──> run ──> points, knees ──> report ──> answer, for clients of a node
//!                       │ always removed at the end  ├ sequential   write, flush, drop, read
//!                       │                            ├ journal      4 KiB and a flush
//!                       │                            ├ small        make, rename, remove
//!                       │                            └ sustained    a long write, and its rate over time
//! ```
//!
//! All tests run workers (`workers`): threads that begin together and time every call. `data` makes the bytes that they write,
//! `fit` evaluates series of rates, `device` describes the file system and the device below it. Files are made through
//! descriptors (`dir`), as other users may rename entries of a directory that they can write.
//!
//! This module knows only the file system of the directory. It does not know caches below the kernel (a controller's, a
//! hypervisor's), which show only as rates that no disk has.

mod answer;
mod data;
mod device;
mod dir;
mod fit;
mod journal;
mod order;
mod run;
mod sequential;
mod small;
mod sustained;
mod test_directory;
mod workers;

use std::path::Path;
use std::time::Instant;

use model::v1::probe::disk::{Order, Point, Report, Test};

use crate::host::HostUsage;
use crate::{Result, Stop};
use device::BackingDevice;
use run::{DiskFindings, DiskRun};
use test_directory::TestDirectory;

pub use answer::answer;
pub use order::{check, longest};
pub use test_directory::OpenDirectory;

/// Measures the disk of a directory. `note` is called in this thread with each finished point. All files are made in one
/// new directory below it, which is removed before this returns, also after an error.
///
/// # Errors
/// [`Error::Order`](crate::Error::Order): the order is out of bounds. [`Error::File`](crate::Error::File): the directory does
/// not exist, may not be written, or has no room for the order with 5 % of the file system left free; or a file could not be
/// written, read or removed. [`Error::Interrupted`](crate::Error::Interrupted): stopped; the points so far went to `note`.
pub fn measure(directory: &Path, order: &Order, stop: &Stop, note: &mut dyn FnMut(&Point)) -> Result<Report> {
    order::check(order)?;
    measure_on(&OpenDirectory::open(directory)?, order, stop, note)
}

/// Measures the disk of an open directory; otherwise as [`measure`].
///
/// # Errors
/// As [`measure`].
pub fn measure_on(
    directory: &OpenDirectory,
    order: &Order,
    stop: &Stop,
    note: &mut dyn FnMut(&Point),
) -> Result<Report> {
    let begun = Instant::now();
    let watch = HostUsage::begin();
    order::check(order)?;
    let test_dir = TestDirectory::make(directory, order::needed(order))?;
    let left_behind = test_dir.left_behind();
    let seed = order.seed.unwrap_or_else(|| fastrand::u64(..));
    let room =
        test_dir.room().map_err(|e| test_directory::failed("read the free space of", test_dir.dir().path(), e))?;
    let backing = BackingDevice::of(test_dir.dir().handle(), room);
    let outcome = all(DiskRun::new(order, &test_dir, &backing, stop, note, seed));
    let removed = test_dir.remove();
    let found = outcome?;
    removed?;
    Ok(Report {
        directory: directory.path().display().to_string(),
        order: Order { seed: Some(seed), ..order.clone() },
        device: backing.device,
        points: found.points,
        knees: found.knees,
        left_out: found.left_out,
        left_behind,
        seconds: begun.elapsed().as_secs_f64(),
        host: watch.read(),
    })
}

/// Runs all tests of the order. The long write is the last, as it leaves the caches full.
fn all(mut run: DiskRun<'_>) -> Result<DiskFindings> {
    let ordered = run.order;
    run.check_stop()?;
    let needs_modes = order::is_sequential(ordered) || order::wants(ordered, Test::Sustained);
    let modes = if needs_modes { run.modes()? } else { Vec::new() };
    if order::is_sequential(ordered) {
        for mode in &modes {
            sequential::sweep(&mut run, *mode)?;
        }
    }
    if order::wants(ordered, Test::Fsync) {
        journal::append(&mut run)?;
    }
    if order::wants(ordered, Test::SmallFiles) {
        small::sweep(&mut run)?;
    }
    if order::wants(ordered, Test::Sustained) {
        for mode in &modes {
            sustained::write(&mut run, *mode)?;
        }
    }
    Ok(run.findings())
}
