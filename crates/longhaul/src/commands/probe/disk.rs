//! `longhaul probe disk`.

use std::ffi::OsStr;
use std::path::Path;

use model::locator::NodePlace;
use model::units::{BitRate, Bytes};
use model::v1::probe::Disk;
use model::v1::probe::disk::{IoMode, Knee, Order, Point, Report, Test};
use model::{Exit, Locator};
use probe::Stop;

use super::ProbeDocument;
use super::target::connect;
use crate::args::{ProbeDisk, ProbeDiskMode, ProbeDiskTest};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

fn order(disk: &ProbeDisk) -> Order {
    let mut order = Order::default();
    let test = |test: &ProbeDiskTest| match test {
        ProbeDiskTest::Write => Test::Write,
        ProbeDiskTest::Read => Test::Read,
        ProbeDiskTest::Fsync => Test::Fsync,
        ProbeDiskTest::SmallFiles => Test::SmallFiles,
        ProbeDiskTest::Sustained => Test::Sustained,
    };
    let mode = |mode: &ProbeDiskMode| match mode {
        ProbeDiskMode::Direct => IoMode::Direct,
        ProbeDiskMode::Buffered => IoMode::Buffered,
    };
    if !disk.tests.is_empty() {
        order.tests = disk.tests.iter().map(test).collect();
    }
    if !disk.ways.is_empty() {
        order.modes = disk.ways.iter().map(mode).collect();
    }
    if !disk.file_size.is_empty() {
        order.file_bytes = disk.file_size.iter().map(|size| size.0).collect();
    }
    if !disk.workers.is_empty() {
        order.workers.clone_from(&disk.workers);
    }
    order.block_bytes = disk.block.map_or(order.block_bytes, |block| block.0);
    order.seconds = disk.time.map_or(order.seconds, |time| time.as_secs_f64());
    order.sustained_seconds = disk.sustained.map_or(order.sustained_seconds, |time| time.as_secs_f64());
    order.budget_bytes = disk.budget.map_or(order.budget_bytes, |budget| budget.0);
    order
}

/// Runs the test, here or at a node.
///
/// # Errors
/// The other end cannot be reached or refuses the test, or an option is wrong.
pub fn run(disk: &ProbeDisk, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<Exit, Failure> {
    let order = order(disk);
    probe::disk::check(&order)?;
    let mut note = |point: &Point| {
        if printer.is_json() {
            printer.object(&ProbeDocument::of("point", "disk", &disk.target, point));
        } else {
            printer.line(&row(point));
        }
    };
    if !printer.is_json() {
        printer.line("test         mode      workers  file size       rate  before flush   99 % of calls  note");
    }
    let report = match settings.locator(OsStr::new(&disk.target))? {
        Locator::Node { at, place: NodePlace::Path { export, path }, .. } => {
            let place = if path.is_root() { export } else { format!("{export}/{path}") };
            connect(&at, settings)?.disk(Disk { place, order }, stop, &mut note)?
        }
        Locator::Node { .. } => return Err(Failure::usage("name an export of the node: lh://HOST/EXPORT")),
        _ => probe::disk::measure(Path::new(&disk.target), &order, stop, &mut note)?,
    };
    if printer.is_json() {
        printer.object(&ProbeDocument::of("result", "disk", &disk.target, &report));
    } else {
        print_report(&report, printer);
    }
    Ok(Exit::Done)
}

fn name(test: Test) -> &'static str {
    match test {
        Test::Write => "write",
        Test::Read => "read",
        Test::Fsync => "fsync",
        Test::SmallFiles => "small files",
        Test::Sustained => "sustained",
    }
}

fn mode(mode: IoMode) -> &'static str {
    match mode {
        IoMode::Direct => "direct",
        IoMode::Buffered => "buffered",
    }
}

fn row(point: &Point) -> String {
    let result = match point.test {
        Test::Fsync | Test::SmallFiles => format!("{:.0}/s", point.calls_per_s),
        _ => BitRate(point.rate_bit_s).to_string(),
    };
    let before_flush = match point.test {
        Test::Write | Test::Sustained => BitRate(point.rate_before_flush_bit_s).to_string(),
        _ => String::new(),
    };
    let notes = [&point.cached, &point.cut_short];
    let notes: Vec<&str> = notes.into_iter().flatten().map(String::as_str).collect();
    format!(
        "{:<12} {:<9} {:>7} {:>10} {result:>14} {before_flush:>13} {:>12.3} ms  {}",
        name(point.test),
        mode(point.mode),
        point.workers,
        Bytes(point.file_bytes).to_string(),
        point.latency.p99_s * 1e3,
        notes.join("; ")
    )
}

fn print_report(report: &Report, printer: &Printer) {
    for Knee { test, mode: io_mode, file_bytes, workers, rate_bit_s, is_open, .. } in &report.knees {
        let more = if *is_open { "; more workers than were tried might give more" } else { "" };
        let size = Bytes(*file_bytes);
        let rate = BitRate(*rate_bit_s);
        printer.line(&format!(
            "knee: {} {} of {size}: {workers} workers give {rate}{more}",
            name(*test),
            mode(*io_mode)
        ));
    }
    for point in &report.points {
        let Some(course) = &point.course else { continue };
        let line = match (&course.cliff, &course.unclear) {
            (Some(cliff), _) => format!(
                "sustained {}: {} until {} were written ({:.1} s), then {}: a cache was full",
                mode(point.mode),
                BitRate(course.burst_bit_s),
                Bytes(cliff.at_bytes),
                cliff.at_s,
                BitRate(course.sustained_bit_s)
            ),
            (None, Some(why)) => format!(
                "sustained {}: {}; the end of a cache could not be seen: {why}",
                mode(point.mode),
                BitRate(course.sustained_bit_s)
            ),
            (None, None) => {
                format!("sustained {}: {}, no cache ended", mode(point.mode), BitRate(course.sustained_bit_s))
            }
        };
        printer.line(&line);
    }
    let device = &report.device;
    let device_parts =
        [&device.name, &device.model, &device.scheduler].into_iter().flatten().cloned().collect::<Vec<_>>();
    printer.line(&format!(
        "{} on {} ({}), {} free of {}, mounted {}",
        device.file_system,
        device.source,
        device_parts.join(", "),
        Bytes(device.free_bytes),
        Bytes(device.total_bytes),
        device.mount_options
    ));
    for left in &report.left_out {
        printer.line(&format!("left out: {}: {}", left.what, left.why));
    }
    for directory in &report.left_behind {
        printer.line(&format!("note: {directory} is of an earlier test that was killed; it can be removed"));
    }
}
