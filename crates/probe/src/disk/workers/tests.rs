//! Workers that sleep, fail, panic, and workers whose disk another program fills.

use std::io::Write;

use rustix::mount::{MountFlags, mount};
use sys::namespace::Namespaces;

use super::super::order::SpaceNeeded;
use super::super::test_directory::OpenDirectory;
use super::*;

/// A temporary directory, and the same directory opened for a test.
fn open_directory() -> (tempfile::TempDir, OpenDirectory) {
    let above = tempfile::tempdir().unwrap();
    let directory = OpenDirectory::open(above.path()).unwrap();
    (above, directory)
}

fn test_dir(directory: &OpenDirectory) -> TestDirectory<'_> {
    TestDirectory::make(directory, SpaceNeeded { bytes: 4096, files: 1 }).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn calls_are_counted_and_timed() {
    let (_above, directory) = open_directory();
    let test_dir = test_dir(&directory);
    let work = |worker: &mut Worker<'_>, calls: &mut u64| {
        while worker.calls() < *calls && worker.may_continue() {
            worker.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(2));
                Ok(10)
            })?;
        }
        Ok(())
    };
    let from = Instant::now();
    let first = Mutex::new(Duration::ZERO);
    let flush = |calls: &u64| {
        std::thread::sleep(Duration::from_millis(30));
        if *calls == 5 {
            *first.lock() = from.elapsed();
        }
        Ok(())
    };
    let summary = run(&test_dir, &Stop::default(), LONG, vec![5, 70], work, flush).unwrap();
    assert_eq!(summary.all, WorkCount { bytes: 750, calls: 75 });
    assert_eq!(summary.each, [WorkCount { bytes: 50, calls: 5 }, WorkCount { bytes: 700, calls: 70 }]);
    assert!(summary.worked >= Duration::from_millis(140), "{summary:?}");
    assert!(summary.took >= summary.worked + Duration::from_millis(30), "{summary:?}");
    let Latency { mean_s, p50_s, p95_s, p99_s, max_s } = summary.latency;
    assert!(0.00198 <= mean_s && 0.00198 <= p50_s && p50_s <= p95_s && p95_s <= p99_s && p99_s <= max_s);
    assert!(summary.cut_short.is_none() && summary.cpu < summary.took);
    let first = *first.lock();
    assert!(summary.samples.iter().all(|(when, _)| *when <= first), "the first had ended after {first:?}: {summary:?}");
}

#[test]
fn the_time_limit_ends_the_workers() {
    let (_above, directory) = open_directory();
    let test_dir = test_dir(&directory);
    let work = |worker: &mut Worker<'_>, _: &mut ()| {
        while worker.may_continue() {
            worker.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(5));
                Ok(1)
            })?;
        }
        Ok(())
    };
    let summary = run(&test_dir, &Stop::default(), Duration::from_millis(450), vec![(), ()], work, |_| Ok(())).unwrap();
    assert!(summary.cut_short.as_ref().unwrap().contains("0.45 s"));
    assert!(!summary.samples.is_empty(), "{summary:?}");
    assert!(summary.samples.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    assert!(summary.worked >= Duration::from_millis(450));
}

#[test]
fn a_worker_that_fails_ends_all() {
    let (_above, directory) = open_directory();
    let test_dir = test_dir(&directory);
    let work = |worker: &mut Worker<'_>, number: &mut u32| {
        while worker.may_continue() {
            let fails = *number == 1 && worker.calls() == 3;
            worker.call("write", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(1));
                if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(1) }
            })?;
        }
        Ok(())
    };
    let begun = Instant::now();
    let outcome = run(&test_dir, &Stop::default(), LONG, vec![0, 1, 2], work, |_| Ok(()));
    assert!(matches!(outcome, Err(Error::File { doing: "write", .. })), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_stop_ends_all_without_a_flush() {
    let (_above, directory) = open_directory();
    let test_dir = test_dir(&directory);
    let stop = Stop::default();
    let work = |worker: &mut Worker<'_>, _: &mut ()| {
        while worker.may_continue() {
            worker.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(1));
                Ok(1)
            })?;
            if worker.calls() == 20 {
                stop.stop();
            }
        }
        Ok(())
    };
    let flush = |_: &()| panic!("flushed");
    let outcome = run(&test_dir, &stop, LONG, vec![()], work, flush);
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
}

#[test]
fn a_panic_is_passed_on_and_ends_all_workers() {
    let (_above, directory) = open_directory();
    let test_dir = test_dir(&directory);
    let work = |_: &mut Worker<'_>, number: &mut u32| if *number == 1 { panic!("a defect") } else { Ok(()) };
    let outcome = std::panic::catch_unwind(|| run(&test_dir, &Stop::default(), LONG, vec![0, 1], work, |_| Ok(())));
    assert!(outcome.is_err());
}

/// Runs in a thread with a private file system of 64 MiB in memory.
#[test]
fn a_disk_that_another_program_fills_ends_the_workers() {
    let test = || {
        let above = tempfile::tempdir().unwrap();
        let made = Namespaces::make().and_then(|namespaces| {
            mount("probe", above.path(), "tmpfs", MountFlags::empty(), Some(c"size=64m"))?;
            Ok(namespaces)
        });
        let _namespaces = match made {
            Ok(namespaces) => namespaces,
            Err(error) => {
                let _ = writeln!(
                    io::stderr(),
                    "SKIPPED a_disk_that_another_program_fills_ends_the_workers: no mount here: {error}"
                );
                return;
            }
        };
        let directory = OpenDirectory::open(above.path()).unwrap();
        let test_dir = test_dir(&directory);
        let others = above.path().join("others");
        let work = |worker: &mut Worker<'_>, _: &mut ()| {
            while worker.may_continue() {
                worker.call("sleep on", Path::new("it"), || {
                    std::thread::sleep(Duration::from_millis(5));
                    Ok(1)
                })?;
                if worker.calls() == 10 {
                    std::fs::write(&others, vec![1; 62 << 20]).unwrap();
                }
            }
            Ok(())
        };
        let summary = run(&test_dir, &Stop::default(), LONG, vec![()], work, |_| Ok(())).unwrap();
        assert!(summary.cut_short.unwrap().contains("less than 5 %"));
        assert!(summary.took < Duration::from_secs(30));
        test_dir.remove().unwrap();
        drop(directory);
        rustix::mount::unmount(above.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    };
    std::thread::scope(|scope| scope.spawn(test).join()).unwrap();
}
