//! The sender against this crate's reflector and against others, over loopback, with a relay between them that loses, copies, swaps and
//! delays packets.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod interop;
mod peers;
mod relay;
mod twamp_rs;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use model::v1::probe::latency::{Hops, Latency};
use probe::stamp::packet::{Answer, BASE, Question};
use probe::stamp::{Clock, Extent, HostClock, Order, Trust, run};
use probe::{Error, Stop};

use relay::PacketFate::{Lost, Overtaken, Twice};
use relay::{RelayPlan, Running, TestClock, connected, loopback, reflector, relay, set_later};

fn order(packets: u64, rate_packets_s: f64) -> Order {
    Order {
        rate_packets_s,
        extent: Extent::Packets(packets),
        timeout: Duration::from_millis(1_500),
        ..Order::default()
    }
}

fn test(to: SocketAddr, order: &Order, clock: &dyn Clock) -> Latency {
    run(&connected(to), order, &Stop::default(), clock).unwrap()
}

#[test]
fn a_path_without_faults_loses_nothing() {
    let far = reflector(Trust::Symmetric, HostClock);
    let found = test(far.address, &Order { dscp: 46, ..order(200, 1_000.0) }, &HostClock);
    let packets = &found.packets;
    assert_eq!((packets.sent, packets.received, packets.lost, packets.duplicates), (200, 200, 0, 0), "{found:?}");
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.reordered), (Some(0), Some(0), 0));
    let round_trip = found.round_trip.unwrap();
    assert!(round_trip.min_s > 0.0 && round_trip.median_s < 0.05, "{round_trip:?}");
    assert_eq!(found.histogram.iter().map(|b| b.count).sum::<u64>(), 200);
    assert_eq!(found.variation_forward.unwrap().pairs, 199);
    assert_eq!(found.hops_forward, Some(Hops { least: 0, most: 0 }));
    assert_eq!(found.hops_reverse, Some(Hops { least: 0, most: 0 }));
    assert_eq!((found.times.as_str(), found.clock_step), ("kernel", None));
    assert!(found.seconds > 0.19 && found.far_clock.is_some());
    assert_eq!(far.end().answered, 200);
}

#[test]
fn ipv6_and_longer_packets_work() {
    let Ok(socket) = UdpSocket::bind("[::1]:0") else {
        return skipped("ipv6_and_longer_packets_work", "no IPv6 here");
    };
    let far = Running::start(socket, |socket, stop| {
        let mut own = probe::stamp::Reflector::default();
        probe::stamp::serve(&socket, &stop, &HostClock, &mut own, &|_| Trust::Symmetric).unwrap()
    });
    for bytes in [44, 45, 48, 1_200] {
        let found = test(far.address, &Order { packet_bytes: bytes, ..order(20, 1_000.0) }, &HostClock);
        assert_eq!((found.packets.received, found.packet_bytes as usize), (20, bytes));
        assert_eq!((found.hops_forward, found.hops_reverse.map(|h| h.most)), (Some(Hops::default()), Some(0)));
    }
}

#[test]
fn losses_copies_and_swaps_are_counted_in_their_direction() {
    let far = reflector(Trust::Symmetric, HostClock);
    let forward = RelayPlan::of(&[
        (0, Lost),
        (5, Lost),
        (6, Lost),
        (100, Lost),
        (299, Lost),
        (20, Twice),
        (200, Twice),
        (50, Overtaken),
        (150, Overtaken),
        (250, Overtaken),
    ]);
    let reverse = RelayPlan::of(&[
        (10, Lost),
        (77, Lost),
        (298, Lost),
        (30, Twice),
        (31, Twice),
        (32, Twice),
        (60, Overtaken),
        (160, Overtaken),
    ]);
    let path = relay(far.address, forward, reverse);
    let found = test(path.address, &order(300, 1_000.0), &HostClock);
    let packets = &found.packets;
    assert_eq!((packets.sent, packets.received, packets.lost), (300, 292, 8), "{packets:?}");
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(5), Some(3), 0));
    assert_eq!((packets.duplicates, packets.duplicates_forward, packets.duplicates_reverse), (5, Some(2), Some(3)));
    assert_eq!((packets.reordered, packets.reordered_forward, packets.reordered_reverse), (5, Some(3), Some(2)));
    assert_eq!((packets.stateful, packets.late, packets.ignored), (Some(true), 0, 0));
}

/// A stateless reflector, which copies the number, as RFC 8762 allows. After each answer it calls `after`.
fn stateless_reflector(after: fn(&UdpSocket, SocketAddr, &Answer)) -> Running<()> {
    Running::start(loopback(), move |socket, stop| {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut buffer = [0; 2048];
        while !stop.is_stopped() {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            let question = Question::read(&buffer[..length]).unwrap();
            let at = probe::stamp::packet::Timestamp::of(HostClock.read().real_ns);
            let answer = Answer {
                sequence: question.sequence,
                at,
                error: question.error,
                ssid: question.ssid,
                received: at,
                question_sequence: question.sequence,
                question_sent: question.at,
                question_error: question.error,
                ttl: 0,
            };
            socket.send_to(&answer.write(), from).unwrap();
            after(&socket, from, &answer);
        }
    })
}

#[test]
fn with_a_stateless_reflector_directions_are_unknown() {
    let far = stateless_reflector(|_, _, _| {});
    let path = relay(far.address, RelayPlan::of(&[(3, Lost)]), RelayPlan::of(&[(8, Lost)]));
    let found = test(path.address, &order(50, 1_000.0), &HostClock);
    let packets = &found.packets;
    assert_eq!((packets.lost, packets.lost_forward, packets.lost_unplaced), (2, None, 2), "{packets:?}");
    assert_eq!(packets.stateful, Some(false));
    assert!(packets.direction_unknown.as_ref().unwrap().contains("does not count"));
    assert_eq!((found.hops_forward, found.round_trip.is_some()), (None, true), "a TTL of 0 means unknown");
}

#[test]
fn answers_to_other_questions_are_ignored() {
    let far = stateless_reflector(|socket, from, answer| {
        let wrong = [
            Answer { ssid: answer.ssid.wrapping_add(1).max(1), ..*answer },
            Answer { question_sequence: answer.question_sequence + 5_000, ..*answer },
            Answer { question_sent: probe::stamp::packet::Timestamp(answer.question_sent.0 ^ 1), ..*answer },
        ];
        for answer in wrong {
            socket.send_to(&answer.write(), from).unwrap();
        }
        socket.send_to(&answer.write()[..40], from).unwrap();
        // And a copy of the right one.
        socket.send_to(&answer.write(), from).unwrap();
    });
    let found = test(far.address, &order(40, 1_000.0), &HostClock);
    let packets = &found.packets;
    assert_eq!((packets.received, packets.lost), (40, 0), "{packets:?}");
    // The packet that asks whether the reflector counts gets the wrong answers as well, and does not wait for all of them.
    assert!((4 * 40..=4 * 41).contains(&packets.ignored), "{packets:?}");
    assert_eq!((packets.duplicates, packets.stateful), (40, Some(false)));
}

#[test]
fn short_packets_are_answered_to_trusted_senders_only() {
    let short = Order { packet_bytes: 14, ..order(20, 1_000.0) };
    let far = reflector(Trust::Verified, HostClock);
    let found = test(far.address, &short, &HostClock);
    assert_eq!((found.packets.received, found.packets.ignored, found.packet_bytes), (20, 0, 14));
    let careful = reflector(Trust::Symmetric, HostClock);
    let found = test(careful.address, &Order { timeout: Duration::from_millis(100), ..short }, &HostClock);
    assert_eq!((found.packets.received, found.packets.lost_unplaced), (0, 20));
    assert_eq!(found.packets.direction_unknown.as_deref(), Some("no answer came back in time"));
    assert_eq!((found.round_trip, found.one_way_refused), (None, None));
    let served = careful.end();
    assert_eq!((served.answered, served.refused), (0, 20), "nothing is sent to a stranger");
}

#[test]
fn a_peer_that_vanishes_ends_the_test_in_time() {
    let far = reflector(Trust::Symmetric, HostClock);
    let lost: Vec<(u32, relay::PacketFate)> = (30..200).map(|n| (n, Lost)).collect();
    let path = relay(far.address, RelayPlan::of(&lost), RelayPlan::default());
    let begun = Instant::now();
    let order = Order { timeout: Duration::from_millis(400), ..order(60, 200.0) };
    let found = test(path.address, &order, &HostClock);
    // 0.3 s of packets, 0.4 s for the last one, and three closing packets of at most 0.4 s.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let packets = &found.packets;
    assert_eq!((packets.received, packets.lost, packets.lost_unplaced), (30, 30, 30), "{packets:?}");
}

#[test]
fn a_port_without_a_listener_is_a_connect_error() {
    let nobody = loopback().local_addr().unwrap();
    let error = run(&connected(nobody), &order(5, 100.0), &Stop::default(), &HostClock).unwrap_err();
    let Error::Connect { to, source } = error else { panic!("{error:?}") };
    assert_eq!((to, source.kind()), (nobody.to_string(), std::io::ErrorKind::ConnectionRefused));
}

#[test]
fn a_stopped_test_returns_its_results() {
    static ANSWERED: AtomicU32 = AtomicU32::new(0);
    let far = stateless_reflector(|_, _, _| {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
    });
    let stop = Stop::default();
    let later = stop.clone();
    let begun = Instant::now();
    let stopper = std::thread::spawn(move || {
        while ANSWERED.load(Ordering::Relaxed) < 10 && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        later.stop();
    });
    let long = Order { extent: Extent::Time(Duration::from_secs(600)), ..order(1, 100.0) };
    let found = run(&connected(far.address), &long, &stop, &HostClock).unwrap();
    stopper.join().unwrap();
    assert!(found.interrupted && begun.elapsed() < Duration::from_secs(60));
    assert!(found.packets.received > 5 && found.packets.lost == 0, "{:?}", found.packets);
}

#[test]
fn late_answers_count_as_lost_and_late() {
    let far = reflector(Trust::Symmetric, HostClock);
    let path = relay(far.address, RelayPlan::default(), RelayPlan::delayed(200));
    // The first packets' time is over before the answers come, while later ones are still being sent.
    let order = Order { timeout: Duration::from_millis(100), ..order(100, 200.0) };
    let found = test(path.address, &order, &HostClock);
    assert_eq!((found.packets.received, found.packets.lost), (0, 100));
    assert!(found.packets.late >= 20, "{:?}", found.packets);
}

#[test]
fn one_way_delays_are_given_if_both_clocks_are_good() {
    let clock = TestClock::good();
    let far = reflector(Trust::Symmetric, TestClock { shift_ns: clock.shift_ns, ..TestClock::good() });
    let path = relay(far.address, RelayPlan::delayed(20), RelayPlan::delayed(5));
    let found = test(path.address, &order(100, 500.0), &clock);
    assert_eq!(found.one_way_refused, None, "{found:?}");
    let forward = found.forward.unwrap();
    let reverse = found.reverse.unwrap();
    assert!(forward.min_s >= 0.02 && forward.min_s < 0.04, "{forward:?}");
    assert!(reverse.min_s >= 0.005 && reverse.min_s < 0.02, "{reverse:?}");
    let round_trip = found.round_trip.unwrap();
    let sum_s = forward.mean_s + reverse.mean_s;
    assert!((sum_s - round_trip.mean_s).abs() < 1e-6, "{forward:?} {reverse:?} {round_trip:?}");
    assert!(found.clock.synchronised && found.far_clock.unwrap().synchronised);
}

#[test]
fn one_way_delays_are_refused_if_a_clock_is_not_good_enough() {
    let unsynchronised = || TestClock { synchronised: false, ..TestClock::good() };
    let coarse = || TestClock { error: Duration::from_millis(2), ..TestClock::good() };
    let cases: [(TestClock, TestClock, &str); 3] = [
        (unsynchronised(), TestClock::good(), "of this host is not synchronised"),
        (TestClock::good(), unsynchronised(), "of the far end is not synchronised"),
        (coarse(), coarse(), "more than a tenth"),
    ];
    for (near, far, why) in cases {
        let far = reflector(Trust::Symmetric, far);
        let path = relay(far.address, RelayPlan::delayed(5), RelayPlan::delayed(5));
        let found = test(path.address, &order(20, 500.0), &near);
        let refused = found.one_way_refused.unwrap();
        assert!(refused.contains(why), "{refused}");
        assert_eq!((found.forward, found.reverse), (None, None));
        assert!(
            found.variation_forward.is_some() && found.variation_reverse.is_some(),
            "variation does not need synchronised clocks"
        );
    }
}

/// Sets a clock by 40 ms in the middle of a test over 10 ms, and checks the result.
fn test_with_step(near: TestClock, far: TestClock, set: &'static std::sync::atomic::AtomicI64) -> Latency {
    let far = reflector(Trust::Symmetric, far);
    let path = relay(far.address, RelayPlan::delayed(5), RelayPlan::delayed(5));
    let setter = set_later(set, Duration::from_millis(250), Duration::from_millis(40));
    let found = test(path.address, &order(100, 200.0), &near);
    setter.join().unwrap();
    let step = found.clock_step.clone().unwrap();
    assert!((step.step_s - 0.04).abs() < 0.005, "{step:?}");
    assert!(found.one_way_refused.as_ref().unwrap().contains("was set by"), "{:?}", found.one_way_refused);
    assert_eq!((found.forward, found.reverse, found.packets.lost), (None, None, 0));
    let round_trip = found.round_trip.unwrap();
    assert!(round_trip.min_s > 0.0095 && round_trip.median_s < 0.1, "{round_trip:?}");
    found
}

#[test]
fn a_near_clock_that_is_set_ends_one_way_delays() {
    let clock = TestClock::good();
    let set = clock.shift_ns;
    assert_eq!(test_with_step(clock, TestClock::good(), set).clock_step.unwrap().end, "near");
}

#[test]
fn a_far_clock_that_is_set_ends_one_way_delays() {
    let clock = TestClock::good();
    let set = clock.shift_ns;
    assert_eq!(test_with_step(TestClock::good(), clock, set).clock_step.unwrap().end, "far");
}

#[test]
fn a_result_is_the_same_after_json() {
    let far = reflector(Trust::Symmetric, HostClock);
    let path = relay(far.address, RelayPlan::of(&[(3, Lost)]), RelayPlan::default());
    let found = test(path.address, &order(30, 1_000.0), &HostClock);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Latency>(&text).unwrap(), found);
    assert!(text.starts_with("{\"peer\":\"127.0.0.1:"), "{text}");
}

#[test]
fn answers_are_as_long_as_questions() {
    let far = reflector(Trust::Symmetric, HostClock);
    let socket = connected(far.address);
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 2048];
    for length in [BASE, BASE + 1, 100, 1_400] {
        socket.send(&vec![0; length]).unwrap();
        assert_eq!(socket.recv(&mut buffer).unwrap(), length);
    }
}

/// Reports a skipped test on stderr, past the harness, which hides the output of tests that pass.
pub fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
