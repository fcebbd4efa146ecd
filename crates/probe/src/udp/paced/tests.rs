//! Pacing on a clock that the test advances.

use model::v1::probe::udp::{UdpOrder, UdpPace};

use super::super::datagram::Token;
use super::*;
use crate::Error;

/// A clock that advances a little at each reading, and by a sleep.
struct ManualClock {
    now: u64,
    read_ns: u64,
    naps: u64,
}

impl Clock for ManualClock {
    fn now(&mut self) -> u64 {
        self.now += self.read_ns;
        self.now
    }

    fn real(&mut self) -> u64 {
        1_000_000_000_000 + self.now
    }

    fn nap(&mut self, nanos: u64) {
        self.naps += 1;
        self.now += nanos;
    }
}

const FLOW: FlowId = FlowId { token: Token([7; 16]), run: 1 };

fn clock() -> ManualClock {
    ManualClock { now: 1_000, read_ns: 20, naps: 0 }
}

fn plan(pace: UdpPace, count: u64) -> Plan {
    Plan::of(&UdpOrder { bytes: 100, pace, count: Some(count), seconds: None }).unwrap()
}

fn spaced(us: u64, count: u64) -> Plan {
    plan(UdpPace::Spacing { spacing_s: us as f64 / 1e6 }, count)
}

/// Runs a plan; `stall` says how long the system call of each number takes. Returns the send times in the datagrams.
fn run(plan: &Plan, clock: &mut ManualClock, stall: impl Fn(u64) -> u64) -> (UdpSent, Vec<u64>) {
    let mut times = Vec::new();
    let mut took = 0;
    // `paced` borrows the clock while a datagram is sent, so the stall is added at the next reading of the clock.
    struct Stalling<'a>(&'a mut ManualClock, std::rc::Rc<std::cell::Cell<u64>>);
    impl Clock for Stalling<'_> {
        fn now(&mut self) -> u64 {
            self.0.now += self.1.take();
            self.0.now()
        }
        fn real(&mut self) -> u64 {
            self.0.real()
        }
        fn nap(&mut self, nanos: u64) {
            self.0.nap(nanos);
        }
    }
    let debt = std::rc::Rc::new(std::cell::Cell::new(0));
    let mut clock = Stalling(clock, debt.clone());
    let out = |datagram: &[u8]| {
        let head = Head::read(datagram).unwrap();
        assert_eq!((head.flow, head.kind, head.number, datagram.len()), (FLOW, Kind::Data, took, plan.bytes));
        times.push(head.sent_ns);
        debt.set(stall(took));
        took += 1;
        Ok(datagram.len())
    };
    let sent = paced(plan, FLOW, "peer", &mut clock, out, &Stop::default(), &RunProgress::default()).unwrap();
    (sent, times)
}

fn steps(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|two| two[1] - two[0]).collect()
}

#[test]
fn a_stall_never_becomes_a_burst() {
    let (sent, times) = run(&spaced(10, 1_000), &mut clock(), |n| if n == 500 { 3_000_000 } else { 0 });
    let steps = steps(&times);
    assert_eq!((sent.datagrams, steps.len()), (1_000, 999));
    assert!(steps.iter().all(|step| *step >= 10_000), "nothing is sooner than it was ordered");
    assert!((3_000_000..3_000_100).contains(&steps[500]), "{}", steps[500]);
    assert!(steps.iter().enumerate().all(|(n, step)| n == 500 || *step <= 10_040), "all others keep their time");
    let spacing = sent.spacing.unwrap();
    assert!((10e-6..10.05e-6).contains(&spacing.p50_s) && spacing.max_s > 2.9e-3, "{spacing:?}");
    assert_eq!(sent.spacing_target_s, Some(10e-6));
    let why = "the spacings were 13.0 µs on average, 1 % of them 10.0 µs or more, where 10.0 µs were asked for";
    assert_eq!(sent.host_limited.as_deref(), Some(why), "a stall of a third of the run");
}

#[test]
fn a_host_that_is_too_slow_is_reported() {
    let (sent, times) = run(&spaced(10, 100), &mut clock(), |n| if n % 20 == 0 { 50_000 } else { 0 });
    assert!(steps(&times).iter().all(|step| *step >= 10_000));
    assert!(sent.host_limited.is_some_and(|why| why.contains("10.0 µs were asked for")));
    let (sent, _) = run(&spaced(10, 100), &mut clock(), |_| 19_000);
    assert!(sent.host_limited.is_some_and(|why| why.contains("19.0 µs on average")), "late each time, never by far");
    let (sent, _) = run(&spaced(10, 100), &mut clock(), |_| 0);
    assert_eq!(sent.host_limited, None);
    let (sent, _) = run(&spaced(0, 100), &mut clock(), |_| 5_000);
    assert_eq!(sent.host_limited, None, "nothing was asked for");
}

#[test]
fn a_long_wait_sleeps_and_a_short_one_spins() {
    let (mut long, mut short) = (clock(), clock());
    let (sent, times) = run(&spaced(300_000, 5), &mut long, |_| 0);
    assert!(long.naps >= 4 * 6, "in slices, to notice a stop: {}", long.naps);
    assert!(steps(&times).iter().all(|step| (300_000_000..300_000_100).contains(step)));
    assert!((sent.seconds - 1.5).abs() < 1e-6, "with the last spacing: {}", sent.seconds);
    assert_eq!(sent.rate_bit_s, (500.0 * 8.0 / sent.seconds).round() as u64);
    run(&spaced(150, 5), &mut short, |_| 0);
    assert_eq!(short.naps, 0);
}

#[test]
fn bursts_have_gaps_between_them() {
    let bursts = UdpPace::Bursts { length: 4, spacing_s: 2e-6, gap_s: 1e-3 };
    let (sent, times) = run(&plan(bursts, 12), &mut clock(), |_| 0);
    for (n, step) in steps(&times).into_iter().enumerate() {
        let least = if n % 4 == 3 { 1_002_000 } else { 2_000 };
        assert!((least..least + 100).contains(&step), "{n}: {step}");
    }
    assert_eq!(sent.spacing.map(|spread| spread.count), Some(9));
    assert_eq!(sent.gap.map(|spread| spread.count), Some(2));
    assert!((sent.seconds - 2.024e-3).abs() < 2e-6, "{}", sent.seconds);
}

#[test]
fn a_run_ends_after_its_time() {
    let order = UdpOrder { bytes: 100, pace: UdpPace::Spacing { spacing_s: 1e-3 }, count: None, seconds: Some(0.01) };
    let (sent, _) = run(&Plan::of(&order).unwrap(), &mut clock(), |_| 0);
    assert_eq!(sent.datagrams, 10);
    let (sent, _) = run(&Plan::of(&order).unwrap(), &mut clock(), |n| if n == 3 { 20_000_000 } else { 0 });
    assert_eq!(sent.datagrams, 4, "a stall is not made up for");
    let order = UdpOrder { count: Some(3), ..order };
    assert_eq!(run(&Plan::of(&order).unwrap(), &mut clock(), |_| 0).0.datagrams, 3);
}

#[test]
fn a_datagram_that_the_kernel_refuses_is_counted_and_sent_again() {
    let errors = [11, 105, 111, 4];
    let mut tries = 0;
    let mut numbers = Vec::new();
    let out = |datagram: &[u8]| {
        tries += 1;
        match errors.get(tries - 1) {
            Some(error) => Err(io::Error::from_raw_os_error(*error)),
            None => {
                numbers.push(Head::read(datagram).unwrap().number);
                Ok(datagram.len())
            }
        }
    };
    let stop = Stop::default();
    let watch = RunProgress::default();
    let sent = paced(&spaced(1, 3), FLOW, "peer", &mut clock(), out, &stop, &watch).unwrap();
    assert_eq!((sent.would_block, sent.no_buffers, sent.refused, sent.datagrams), (1, 1, 1, 3));
    assert_eq!((numbers, watch.datagrams()), (vec![0, 1, 2], 3));
}

#[test]
fn a_lasting_error_fails_the_run() {
    let fails = |error| {
        let out = |_: &[u8]| Err(io::Error::from_raw_os_error(error));
        let mut clock = clock();
        let failed = paced(&spaced(1, 3), FLOW, "peer", &mut clock, out, &Stop::default(), &RunProgress::default());
        (failed.unwrap_err(), clock.now)
    };
    let (error, at) = fails(105);
    assert!(matches!(error, Error::Broken { .. }) && at > 10_000_000_000, "{error} at {at}");
    let (error, at) = fails(90);
    assert!(matches!(&error, Error::Order(what) if what.contains("100 bytes")) && at < 1_000_000, "{error} at {at}");
    let (error, at) = fails(101);
    assert!(matches!(error, Error::Broken { .. }) && at < 1_000_000, "{error} at {at}");
}

#[test]
fn a_stop_ends_a_long_wait() {
    let stop = Stop::default();
    let out = |datagram: &[u8]| {
        stop.stop();
        Ok(datagram.len())
    };
    let mut clock = clock();
    let sent = paced(&spaced(5_000_000, 3), FLOW, "peer", &mut clock, out, &stop, &RunProgress::default()).unwrap();
    assert_eq!((sent.datagrams, sent.interrupted), (1, true));
    assert!(clock.now < 1_000_000, "{}", clock.now);
}
