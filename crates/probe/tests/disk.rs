//! The disk test on real file systems: the one of the temporary directory, with a small budget, and private ones in memory
//! that are full, read-only, or filled by another program during the test.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::Blame;
use model::v1::probe::DiskLine;
use model::v1::probe::disk::{IoMode, Order, Point, Report, Test};
use probe::disk::{OpenDirectory, answer, measure, measure_on};
use probe::{Error, Stop};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sys::namespace::Namespaces;

const MIB: u64 = 1 << 20;

/// An order that writes some 60 MiB.
fn small_order() -> Order {
    Order {
        file_bytes: vec![MIB, 3 * MIB + 4096],
        workers: vec![1, 2],
        block_bytes: MIB,
        // More than any point takes on a working disk.
        seconds: 600.0,
        sustained_seconds: 60.0,
        budget_bytes: 8 * MIB,
        fsyncs: 20,
        small_bytes: vec![4096, 10_000],
        small_files: 41,
        ..Order::default()
    }
}

fn nothing(_: &Point) {}

fn names(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Runs a test in a thread whose `directory` is a file system in memory of `mib` MiB, which no other thread sees.
fn in_memory(name: &str, mib: u64, flags: MountFlags, test: impl Fn(&Path) + Sync) {
    let above = tempfile::tempdir().unwrap();
    let body = || {
        let options = std::ffi::CString::new(format!("size={mib}m")).unwrap();
        let made = Namespaces::make().and_then(|namespaces| {
            mount("probe", above.path(), "tmpfs", flags, Some(options.as_c_str()))?;
            Ok(namespaces)
        });
        match made {
            Ok(_namespaces) => {
                test(above.path());
                unmount(above.path(), UnmountFlags::DETACH).unwrap();
            }
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED {name}: nothing can be mounted here: {error}");
            }
        }
    };
    if let Err(panic) = std::thread::scope(|scope| scope.spawn(body).join()) {
        std::panic::resume_unwind(panic);
    }
}

fn assert_sane(point: &Point) {
    let what = format!("{point:?}");
    let latency = point.latency;
    assert!(0.0 < latency.p50_s && latency.p50_s <= latency.p95_s && latency.p95_s <= latency.p99_s, "{what}");
    assert!(latency.p99_s <= latency.max_s && latency.max_s <= point.seconds, "{what}");
    assert!(0.0 < latency.mean_s && latency.mean_s <= latency.max_s, "{what}");
    assert!(point.seconds > 0.0 && (0.0..point.seconds).contains(&point.flush_s), "{what}");
    let rate = point.bytes as f64 * 8.0 / point.seconds;
    assert!((point.rate_bit_s as f64 - rate).abs() <= 1.0, "{what}");
    assert!(point.rate_before_flush_bit_s >= point.rate_bit_s, "{what}");
    let is_flushed = matches!(point.test, Test::Write | Test::Sustained);
    assert_eq!(point.flush_s > 0.0, is_flushed, "{what}");
    assert!(point.cpu_s > 0.0 && point.cpu_s <= f64::from(point.workers) * (point.seconds + 0.1), "{what}");
    assert_eq!(point.cut_short, None, "{what}");
    assert_eq!(point.removals_per_s.is_some(), point.test == Test::SmallFiles, "{what}");
    assert_eq!(point.course.is_some(), point.test == Test::Sustained, "{what}");
}

/// Asserts the counts of each point, which do not depend on the disk.
fn assert_as_ordered(report: &Report, modes: &[IoMode]) {
    let order = &report.order;
    let mut expected = Vec::new();
    for mode in modes {
        for bytes in &order.file_bytes {
            for workers in &order.workers {
                let all = bytes * u64::from(*workers);
                let calls = bytes.div_ceil(order.block_bytes) * u64::from(*workers);
                expected.push((Test::Write, *mode, *bytes, *workers, all, calls));
                expected.push((Test::Read, *mode, *bytes, *workers, all, calls));
            }
        }
    }
    let flushes = u64::from(order.fsyncs);
    expected.push((Test::Fsync, IoMode::Buffered, flushes * 4096, 1, flushes * 4096, flushes));
    for bytes in &order.small_bytes {
        for workers in &order.workers {
            let files = u64::from(order.small_files);
            expected.push((Test::SmallFiles, IoMode::Buffered, *bytes, *workers, files * bytes, files));
        }
    }
    let one = |p: &Point| (p.test, p.mode, p.file_bytes, p.workers, p.bytes, p.calls);
    let (sustained, rest): (Vec<&Point>, Vec<&Point>) = report.points.iter().partition(|p| p.test == Test::Sustained);
    assert_eq!(rest.into_iter().map(one).collect::<Vec<_>>(), expected);
    assert_eq!(sustained.iter().map(|p| p.mode).collect::<Vec<_>>(), modes);
    assert!(sustained.iter().all(|p| p.bytes == order.budget_bytes && order.workers.contains(&p.workers)));
}

#[test]
fn every_ordered_point_is_measured_and_no_file_remains() {
    let above = tempfile::tempdir().unwrap();
    let mut noted = Vec::new();
    let note = &mut |point: &Point| {
        // During the test all files are in one directory.
        assert_eq!(names(above.path()).len(), 1);
        assert!(names(above.path())[0].starts_with(".longhaul-probe-"));
        noted.push(point.clone());
    };
    let report = measure(above.path(), &small_order(), &Stop::default(), note).unwrap();
    assert_eq!(names(above.path()), Vec::<String>::new());
    assert_eq!(report.points, noted);
    let modes: &[IoMode] =
        if report.left_out.is_empty() { &[IoMode::Direct, IoMode::Buffered] } else { &[IoMode::Buffered] };
    assert_as_ordered(&report, modes);
    report.points.iter().for_each(assert_sane);
    // A sweep for each test, mode and length; the long write has none.
    assert_eq!(report.knees.len(), 2 * 2 * modes.len() + 2);
    assert!(report.knees.iter().all(|knee| knee.rate_bit_s as f64 >= 0.95 * knee.best_rate_bit_s as f64));
    assert!(report.order.seed.is_some());
    assert!(report.device.free_bytes > 0 && report.device.total_bytes > report.device.free_bytes);
    // The JSON is read back unchanged.
    let text = serde_json::to_string(&report).unwrap();
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!((&back.order, &back.device, &back.left_out), (&report.order, &report.device, &report.left_out));
    let one = |p: &Point| (p.test, p.mode, p.file_bytes, p.workers, p.bytes, p.rate_bit_s, p.cached.clone(), p.device);
    assert!(back.points.iter().map(one).eq(report.points.iter().map(one)));
}

/// The kernel's counters of the device show at least the bytes that bypassed the page cache.
#[test]
fn the_device_counts_all_bytes_of_direct_access() {
    let above = tempfile::tempdir().unwrap();
    let order = Order { tests: vec![Test::Write, Test::Read], file_bytes: vec![4 * MIB], ..small_order() };
    let report = measure(above.path(), &order, &Stop::default(), &mut nothing).unwrap();
    if !report.left_out.is_empty() || report.points.iter().any(|point| point.device.is_none()) {
        let why = "the temporary directory is on no single disk with direct access";
        return writeln!(std::io::stderr(), "SKIPPED the_device_counts_all_bytes_of_direct_access: {why}").unwrap();
    }
    assert_eq!(report.points.len(), 8);
    for point in &report.points {
        let traffic = point.device.unwrap();
        match point.test {
            Test::Write => assert!(traffic.written_bytes >= point.bytes, "{point:?}"),
            _ => assert!(traffic.read_bytes >= point.bytes && point.cached.is_none(), "{point:?}"),
        }
    }
}

/// Files that are only read must be written first, which is not a point.
#[test]
fn a_test_of_reading_has_only_points_of_reading() {
    let above = tempfile::tempdir().unwrap();
    let order = Order { tests: vec![Test::Read], modes: vec![IoMode::Buffered], ..small_order() };
    let report = measure(above.path(), &order, &Stop::default(), &mut nothing).unwrap();
    let bytes: Vec<_> = report.points.iter().map(|p| (p.test, p.workers, p.bytes)).collect();
    let long = 3 * MIB + 4096;
    let expected = [(1, MIB), (2, 2 * MIB), (1, long), (2, 2 * long)].map(|(n, all)| (Test::Read, n, all));
    assert_eq!(bytes, expected);
    report.points.iter().for_each(assert_sane);
    assert_eq!(names(above.path()), Vec::<String>::new());
}

/// Another thread stops each of the long tests.
#[test]
fn a_stop_during_a_point_leaves_no_file() {
    for test in [Test::Fsync, Test::SmallFiles, Test::Sustained, Test::Write] {
        let above = tempfile::tempdir().unwrap();
        let order = Order {
            tests: vec![test],
            // Each of these takes far longer than the time until the stop.
            file_bytes: vec![512 * MIB],
            block_bytes: 4096,
            workers: vec![2],
            fsyncs: 250_000,
            small_bytes: vec![4096],
            small_files: 250_000,
            seconds: 60.0,
            sustained_seconds: 60.0,
            budget_bytes: 1 << 30,
            ..Order::default()
        };
        let stop = Stop::default();
        let begun = Instant::now();
        let is_seen = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Some files must exist before the stop.
                let ours = || names(above.path()).first().map(|name| names(&above.path().join(name)).len());
                while begun.elapsed() < Duration::from_secs(30) && !is_seen.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                    is_seen.store(ours().unwrap_or_default() > 0, Ordering::Release);
                }
                std::thread::sleep(Duration::from_millis(50));
                stop.stop();
            });
            measure(above.path(), &order, &stop, &mut nothing)
        });
        assert!(matches!(outcome, Err(Error::Interrupted)), "{test:?}: {outcome:?}");
        assert!(is_seen.load(Ordering::Acquire), "{test:?} had begun");
        assert_eq!(names(above.path()), Vec::<String>::new(), "{test:?}");
        assert!(begun.elapsed() < Duration::from_secs(45), "{test:?} took {:?}", begun.elapsed());
    }
}

#[test]
fn a_stop_between_points_ends_the_test() {
    let above = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let mut points = 0;
    let note = &mut |_: &Point| {
        points += 1;
        stop.stop();
    };
    let outcome = measure(above.path(), &small_order(), &stop, note);
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
    assert_eq!((points, names(above.path())), (1, Vec::new()));
    let outcome = measure(above.path(), &small_order(), &stop, &mut nothing);
    assert!(matches!(outcome, Err(Error::Interrupted)), "stopped before it began: {outcome:?}");
}

/// Another program moves the directory away once it is open, later the test's own directory in it, and puts links in their
/// places: no file is made at the other end of a link.
#[test]
fn a_link_in_the_place_of_the_directory_is_not_followed() {
    let above = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let ordered = above.path().join("ordered");
    std::fs::create_dir(&ordered).unwrap();
    let directory = OpenDirectory::open(&ordered).unwrap();
    let swap = |path: &Path, to: &str| {
        std::fs::rename(path, above.path().join(to)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), path).unwrap();
    };
    swap(&ordered, "moved-directory");
    let moved_directory = above.path().join("moved-directory");
    let mut points = 0;
    let note = &mut |_: &Point| {
        assert_eq!(names(elsewhere.path()), Vec::<String>::new());
        if points == 0 {
            swap(&moved_directory.join(&names(&moved_directory)[0]), "moved");
        }
        points += 1;
    };
    let outcome = measure_on(&directory, &small_order(), &Stop::default(), note);
    let Err(Error::File { doing, source, .. }) = &outcome else { panic!("{outcome:?}") };
    assert!(*doing == "remove" && source.to_string().starts_with("another program moved it away"), "{outcome:?}");
    assert!(points > 10, "{points} points");
    assert_eq!(names(elsewhere.path()), Vec::<String>::new());
    assert_eq!(names(&above.path().join("moved")), Vec::<String>::new());
}

/// An order of few points that takes far longer than a test: by flushes on a disk, by small files in memory.
fn endless() -> Order {
    let tests = vec![Test::Fsync, Test::SmallFiles];
    let small_bytes = vec![4096; 16];
    let fsyncs = 250_000;
    let small_files = 250_000;
    Order { tests, fsyncs, small_bytes, small_files, seconds: 600.0, budget_bytes: 1 << 30, ..Order::default() }
}

/// During a point, the client goes away or the node stops.
#[test]
fn a_far_test_ends_with_its_client_and_its_node() {
    for listens in [false, true] {
        let above = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let stop = Stop::default();
        let mut lines = 0;
        let mut report_line = |_: &DiskLine| {
            lines += 1;
            if listens && lines == 2 {
                stop.stop();
            }
            listens || lines < 2
        };
        let outcome = answer(&OpenDirectory::open(above.path()).unwrap(), &endless(), &stop, &mut report_line);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
        assert!(lines >= 2 && begun.elapsed() < Duration::from_secs(45), "{lines} lines, {:?}", begun.elapsed());
        assert_eq!(names(above.path()), Vec::<String>::new());
    }
}

#[test]
fn a_far_test_sends_a_line_for_each_point() {
    let above = tempfile::tempdir().unwrap();
    let mut points = Vec::new();
    let mut tell = |line: &DiskLine| {
        if let DiskLine::Point(point) = line {
            points.push((**point).clone());
        }
        true
    };
    let order = Order { tests: vec![Test::Write, Test::Fsync], ..small_order() };
    let report = answer(&OpenDirectory::open(above.path()).unwrap(), &order, &Stop::default(), &mut tell).unwrap();
    assert!(!points.is_empty() && report.points == points);
    assert_eq!(names(above.path()), Vec::<String>::new());
}

/// All points of a file system in memory are marked as such, and the time limit is kept.
#[test]
fn points_of_a_file_system_in_memory_are_marked() {
    in_memory("points_of_a_file_system_in_memory_are_marked", 64, MountFlags::empty(), |directory| {
        let report = measure(directory, &small_order(), &Stop::default(), &mut nothing).unwrap();
        assert_eq!(report.device.file_system, "tmpfs");
        assert_eq!(report.device.mounted_at, directory.display().to_string());
        assert!(report.device.mount_options.contains("size=65536k"), "{:?}", report.device);
        assert!(
            report.points.iter().all(|point| point.cached.as_ref().unwrap().contains("tmpfs keeps files in memory"))
        );
        let order = Order { tests: vec![Test::Fsync], fsyncs: 2_000, seconds: 0.001, ..small_order() };
        let report = measure(directory, &order, &Stop::default(), &mut nothing).unwrap();
        let point = &report.points[0];
        assert!(point.calls < 2_000 && point.cut_short.as_ref().unwrap().contains("0.001 s"), "{point:?}");
        assert_eq!(names(directory), Vec::<String>::new());
    });
}

#[test]
fn an_order_without_enough_room_is_refused() {
    in_memory("an_order_without_enough_room_is_refused", 16, MountFlags::empty(), |directory| {
        let order = Order { budget_bytes: 16 * MIB, ..small_order() };
        let Err(error) = measure(directory, &order, &Stop::default(), &mut nothing) else { panic!("taken") };
        let Error::File { source, path, .. } = &error else { panic!("{error:?}") };
        assert_eq!((error.fault(), path.as_str()), (model::Fault::Storage, directory.to_str().unwrap()));
        let why = source.to_string();
        assert!(why.starts_with("16.0 MiB are needed and 819 KiB stay free, but only 16.0 MiB are free"), "{why}");
        assert_eq!(names(directory), Vec::<String>::new());
        // A sixteenth less is below the line.
        measure(directory, &Order { budget_bytes: 15 * MIB, ..small_order() }, &Stop::default(), &mut nothing).unwrap();
    });
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    in_memory("a_directory_that_may_not_be_written_is_named", 64, MountFlags::RDONLY, |directory| {
        let Err(error) = measure(directory, &small_order(), &Stop::default(), &mut nothing) else { panic!("taken") };
        let Error::File { doing, path, source } = &error else { panic!("{error:?}") };
        assert_eq!((*doing, path.as_str()), ("make a directory below", directory.to_str().unwrap()));
        assert!(source.to_string().ends_with("name a directory that this user may write"), "{source}");
    });
}

/// Another program fills the disk after the first point: the next point fails with the reason, and leaves no file.
#[test]
fn an_error_during_a_point_leaves_no_file() {
    in_memory("an_error_during_a_point_leaves_no_file", 64, MountFlags::empty(), |directory| {
        let others = directory.join("others");
        let mut points = 0;
        let note = &mut |_: &Point| {
            points += 1;
            // As much as goes in.
            let _ = std::fs::write(&others, vec![7; 64 << 20]);
        };
        let order = Order { tests: vec![Test::Write], ..small_order() };
        let Err(error) = measure(directory, &order, &Stop::default(), note) else { panic!("written") };
        let Error::File { doing, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*doing, source.kind()), ("write", std::io::ErrorKind::StorageFull));
        assert!(source.to_string().ends_with("make room, or lower the budget"), "{source}");
        assert_eq!((points, names(directory)), (1, vec!["others".to_string()]));
    });
}

#[test]
fn an_order_out_of_bounds_is_refused_before_any_file_is_made() {
    let above = tempfile::tempdir().unwrap();
    let order = Order { workers: vec![0], ..small_order() };
    let outcome = measure(above.path(), &order, &Stop::default(), &mut nothing);
    assert!(matches!(&outcome, Err(Error::Order(why)) if why.starts_with("workers is 0")), "{outcome:?}");
    // A field that an order leaves out has its default value.
    assert_eq!(serde_json::from_str::<Order>("{}").unwrap(), Order::default());
    let some: Order =
        serde_json::from_str(r#"{"tests": ["small_files"], "modes": ["direct"], "workers": [3]}"#).unwrap();
    assert_eq!((&some.tests[..], &some.workers[..]), (&[Test::SmallFiles][..], &[3][..]));
}
