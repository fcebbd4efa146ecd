//! Crews that sleep, fail, panic, and one whose disk somebody else fills.

use std::io::Write;

use rustix::mount::{MountFlags, mount};
use sys::namespace::Namespaces;

use super::super::order::Needed;
use super::super::place::Ground;
use super::*;

/// A directory for a test's own.
fn ground() -> (tempfile::TempDir, Ground) {
    let above = tempfile::tempdir().unwrap();
    let ground = Ground::open(above.path()).unwrap();
    (above, ground)
}

fn place(ground: &Ground) -> Place<'_> {
    Place::make(ground, Needed { bytes: 4096, files: 1 }).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn calls_are_counted_and_timed() {
    let (_above, ground) = ground();
    let place = place(&ground);
    let work = |hand: &mut Hand<'_>, calls: &mut u64| {
        while hand.calls() < *calls && hand.goes_on() {
            hand.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(2));
                Ok(10)
            })?;
        }
        Ok(())
    };
    let (from, first) = (Instant::now(), Mutex::new(Duration::ZERO));
    let flush = |calls: &u64| {
        std::thread::sleep(Duration::from_millis(30));
        if *calls == 5 {
            *first.lock() = from.elapsed();
        }
        Ok(())
    };
    let shift = run(&place, &Stop::default(), LONG, vec![5, 70], work, flush).unwrap();
    assert_eq!(shift.all, Share { bytes: 750, calls: 75 });
    assert_eq!(shift.each, [Share { bytes: 50, calls: 5 }, Share { bytes: 700, calls: 70 }]);
    assert!(shift.worked >= Duration::from_millis(140), "{shift:?}");
    assert!(shift.took >= shift.worked + Duration::from_millis(30), "{shift:?}");
    let Latency { mean_s, p50_s, p95_s, p99_s, max_s } = shift.latency;
    assert!(0.00198 <= mean_s && 0.00198 <= p50_s && p50_s <= p95_s && p95_s <= p99_s && p99_s <= max_s);
    assert!(shift.cut_short.is_none() && shift.cpu < shift.took);
    let first = *first.lock();
    assert!(shift.samples.iter().all(|(when, _)| *when <= first), "the first had ended after {first:?}: {shift:?}");
}

#[test]
fn time_ends_it() {
    let (_above, ground) = ground();
    let place = place(&ground);
    let work = |hand: &mut Hand<'_>, _: &mut ()| {
        while hand.goes_on() {
            hand.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(5));
                Ok(1)
            })?;
        }
        Ok(())
    };
    let shift = run(&place, &Stop::default(), Duration::from_millis(450), vec![(), ()], work, |_| Ok(())).unwrap();
    assert!(shift.cut_short.as_ref().unwrap().contains("0.45 s"));
    assert!(!shift.samples.is_empty(), "{shift:?}");
    assert!(shift.samples.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    assert!(shift.worked >= Duration::from_millis(450));
}

#[test]
fn one_that_fails_ends_all() {
    let (_above, ground) = ground();
    let place = place(&ground);
    let work = |hand: &mut Hand<'_>, number: &mut u32| {
        while hand.goes_on() {
            let fails = *number == 1 && hand.calls() == 3;
            hand.call("write", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(1));
                if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(1) }
            })?;
        }
        Ok(())
    };
    let begun = Instant::now();
    let outcome = run(&place, &Stop::default(), LONG, vec![0, 1, 2], work, |_| Ok(()));
    assert!(matches!(outcome, Err(Error::File { doing: "write", .. })), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_stop_ends_all_without_a_flush() {
    let (_above, ground) = ground();
    let place = place(&ground);
    let stop = Stop::default();
    let work = |hand: &mut Hand<'_>, _: &mut ()| {
        while hand.goes_on() {
            hand.call("sleep on", Path::new("it"), || {
                std::thread::sleep(Duration::from_millis(1));
                Ok(1)
            })?;
            if hand.calls() == 20 {
                stop.stop();
            }
        }
        Ok(())
    };
    let flush = |_: &()| panic!("flushed");
    let outcome = run(&place, &stop, LONG, vec![()], work, flush);
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
}

#[test]
fn a_panic_goes_on_and_hangs_nobody() {
    let (_above, ground) = ground();
    let place = place(&ground);
    let work = |_: &mut Hand<'_>, number: &mut u32| if *number == 1 { panic!("a defect") } else { Ok(()) };
    let outcome = std::panic::catch_unwind(|| run(&place, &Stop::default(), LONG, vec![0, 1], work, |_| Ok(())));
    assert!(outcome.is_err());
}

/// A thread with 64 MiB of memory as its own file system, which nobody else sees.
#[test]
fn a_disk_that_others_fill_ends_it() {
    let test = || {
        let above = tempfile::tempdir().unwrap();
        let made = Namespaces::make().and_then(|namespaces| {
            mount("probe", above.path(), "tmpfs", MountFlags::empty(), Some(c"size=64m"))?;
            Ok(namespaces)
        });
        let _namespaces = match made {
            Ok(namespaces) => namespaces,
            Err(error) => {
                let _ = writeln!(io::stderr(), "SKIPPED a_disk_that_others_fill_ends_it: no mount here: {error}");
                return;
            }
        };
        let ground = Ground::open(above.path()).unwrap();
        let place = place(&ground);
        let others = above.path().join("others");
        let work = |hand: &mut Hand<'_>, _: &mut ()| {
            while hand.goes_on() {
                hand.call("sleep on", Path::new("it"), || {
                    std::thread::sleep(Duration::from_millis(5));
                    Ok(1)
                })?;
                if hand.calls() == 10 {
                    std::fs::write(&others, vec![1; 62 << 20]).unwrap();
                }
            }
            Ok(())
        };
        let shift = run(&place, &Stop::default(), LONG, vec![()], work, |_| Ok(())).unwrap();
        assert!(shift.cut_short.unwrap().contains("less than 5 %"));
        assert!(shift.took < Duration::from_secs(30));
        place.remove().unwrap();
        drop(ground);
        rustix::mount::unmount(above.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    };
    std::thread::scope(|scope| scope.spawn(test).join()).unwrap();
}
