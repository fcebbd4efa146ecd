//! The bottleneck and its surroundings: rate, queue, policer, cross traffic, black hole.

use super::*;
use crate::scenario::Policer;

/// Over 100,000 rows, at a rate at which a row takes no whole number of nanoseconds, nor of picoseconds.
#[test]
fn the_rate_is_exact_to_the_ppm() {
    for rate in [3_333_333, 1_000_000_007, 99_999_999_977, 100_000_000_000u64] {
        let mut link = link(|settings| (settings.rate, settings.queue) = (Some(BitRate(rate)), bytes(1 << 50)));
        let shape = super_packet(43, 1_499);
        let mut last = 0;
        for _ in 0..100_000 {
            last = send(&mut link, 0, &shape).last().unwrap().due;
        }
        let wanted = 100_000.0 * 43.0 * 1_499.0 * 8.0 / rate as f64 * 1e9;
        let error = (last as f64 - wanted).abs() / wanted;
        assert!(error < 1e-6, "{rate} bit/s: {last} ns, not {wanted}: {:.2} ppm", error * 1e6);
        assert_eq!(link.counts().out_segments, 4_300_000);
    }
}

#[test]
fn segments_that_do_not_fit_the_queue_are_dropped_from_the_tail() {
    let mut link = link(|settings| (settings.rate, settings.queue) = (BYTE_PER_US, bytes(6_100)));
    let shape = super_packet(10, 1_500);
    let kept = |runs: Vec<SegmentRun>| runs.into_iter().flat_map(|run| run.segments).collect::<Vec<_>>();
    assert_eq!(kept(send(&mut link, 0, &shape)), [0, 1, 2, 3]);
    assert_eq!((link.counts().queue_dropped, link.backlog(0), link.counts().queue_peak), (6, 6_000, 6_000));
    assert!(send(&mut link, 1_399 * US, &shape).is_empty(), "1,399 bytes have gone, and 100 were free");
    assert_eq!(kept(send(&mut link, 1_400 * US, &shape)), [0]);
    assert_eq!(kept(send(&mut link, 5_900 * US, &shape)), [0, 1, 2]);
    assert_eq!(link.counts().queue_dropped, 6 + 10 + 9 + 7);
    assert!(is_conserved(&link.counts()));
}

/// A byte counts until all of it has left, and a new packet waits no longer than the queue is long.
#[test]
fn a_byte_counts_in_the_queue_until_it_has_left() {
    let mut link = link(|settings| (settings.rate, settings.queue) = (BYTE_PER_US, bytes(3_000)));
    let shape = super_packet(1, 1_500);
    send(&mut link, 0, &shape);
    send(&mut link, 0, &shape);
    assert_eq!(
        (link.backlog(0), link.backlog(1), link.backlog(US), link.backlog(US + 1)),
        (3_000, 3_000, 2_999, 2_999)
    );
    assert_eq!(send(&mut link, 1_500 * US - 1, &shape), [], "the last byte of the first is leaving");
    assert_eq!(send(&mut link, 1_500 * US, &shape)[0].due, 4_500 * US);
    assert_eq!(link.counts().queue_peak, 3_000);
}

/// The last segment is shorter, but it is dropped first all the same.
#[test]
fn a_short_last_segment_is_the_tail() {
    let mut link = link(|settings| (settings.rate, settings.queue) = (BYTE_PER_US, bytes(3_400)));
    let packet = crate::packet::frames::Packet::udp("10.0.0.1", "10.0.0.2", 2 * 1_472 + 100);
    let shape = Shape::of(&packet.frame()).unwrap();
    assert_eq!(shape.bytes(0..3), 3_128);
    assert_eq!(send(&mut link, 0, &shape).len(), 3, "3,128 bytes fit 3,400");
    let mut runs = Vec::new();
    link.accept(2_850 * US, &shape, 0..3, &mut runs);
    assert_eq!(runs.last().unwrap().segments.end, 2, "278 wait, so that 3,000 more fit, but not 3,128");
}

#[test]
fn a_queue_in_time_or_in_round_trips_is_one_in_bytes() {
    let passed = |rate: u64, queue: Queue| {
        let mut link = link(|settings| (settings.rate, settings.queue) = (Some(BitRate(rate)), queue));
        (0..30).for_each(|_| drop(send(&mut link, 0, &super_packet(40, 1_500))));
        link.counts().out_segments
    };
    assert_eq!(passed(8_000_000, Queue::Time(Duration::from_millis(10))), 6, "10,000 bytes");
    assert_eq!(passed(80_000_000, Queue::Bdp), 666, "100 ms of 10 bytes per microsecond");
    assert_eq!(passed(8_000_000, Queue::Bdp), 174, "256 KiB at least");
    let settings = LinkSettings { rate: Some(BitRate(8_000_000_000)), ..LinkSettings::default() };
    let mut link = Link::new(settings, Duration::ZERO, 1);
    (0..50).for_each(|_| drop(send(&mut link, 0, &super_packet(40, 1_500))));
    assert_eq!(link.counts().out_segments, 1_333, "2 ms at least");
}

#[test]
fn an_idle_bottleneck_takes_one_segment_however_short_its_queue() {
    let mut link = link(|settings| (settings.rate, settings.queue) = (BYTE_PER_US, bytes(100)));
    let shape = super_packet(3, 1_500);
    let run = |due, segments| vec![SegmentRun { due, segments, damage: None }];
    assert_eq!(send(&mut link, 0, &shape), run(1_500 * US, 0..1));
    assert_eq!(send(&mut link, 1_499 * US, &shape), []);
    assert_eq!(send(&mut link, 1_500 * US, &shape), run(3_000 * US, 0..1));
    assert_eq!(link.counts().queue_dropped, 2 + 3 + 2);
}

/// A row leaves in runs of about half a millisecond: 12 ms would be 24, but a run has whole segments, so there are 20 of two segments. The
/// last ends when the whole row does.
#[test]
fn a_row_leaves_a_slow_bottleneck_in_pieces() {
    let mut link =
        link(|settings| (settings.rate, settings.delay) = (Some(BitRate(40_000_000)), Duration::from_millis(7)));
    let runs = send(&mut link, MS, &super_packet(40, 1_500));
    assert_eq!(runs.len(), 20, "two segments take 600 us, and one piece has whole segments");
    for (number, run) in runs.iter().enumerate() {
        let number = number as u16;
        assert_eq!(run.segments, number * 2..number * 2 + 2);
        assert_eq!(run.due, 8 * MS + 600 * US * u64::from(number + 1));
    }
    let mut quick = super::link(|settings| settings.rate = Some(BitRate(10_000_000_000)));
    let runs = send(&mut quick, 0, &super_packet(40, 1_500));
    assert_eq!(runs, [SegmentRun { due: 48 * US, segments: 0..40, damage: None }]);
}

#[test]
fn idle_time_is_counted_but_pauses_are_not() {
    let mut link = link(|settings| settings.rate = BYTE_PER_US);
    let shape = super_packet(1, 1_000);
    send(&mut link, 0, &shape);
    send(&mut link, 3 * MS, &shape);
    assert_eq!(link.counts().idle_ns, 2 * MS);
    send(&mut link, 4 * MS, &shape);
    send(&mut link, 4 * MS, &shape);
    assert_eq!(link.counts().idle_ns, 2 * MS);
    send(&mut link, S, &shape);
    assert_eq!(link.counts().idle_ns, 2 * MS);
}

#[test]
fn a_policer_lets_a_burst_through_and_then_its_rate() {
    let policer = Some(Policer { rate: BitRate(80_000_000), burst: Bytes(150_000) });
    let mut link = link(|settings| settings.policer = policer);
    let shape = super_packet(40, 1_500);
    (0..3).for_each(|_| drop(send(&mut link, 0, &shape)));
    assert_eq!((link.counts().out_segments, link.counts().policed), (100, 20), "the burst");
    // 60,000 bytes each 3 ms are twice the rate.
    let rounds = 4_000;
    for round in 1..=rounds {
        for run in send(&mut link, round * 3 * MS, &shape) {
            assert_eq!(run.due, round * 3 * MS, "a policer delays nothing");
        }
    }
    let allowed = 150_000 + rounds * 30_000;
    let out = link.counts().out_bytes;
    assert!((allowed - 1_500..=allowed).contains(&out), "{out} of {allowed}");
    send(&mut link, 3_600 * S, &shape);
    assert_eq!(link.counts().out_bytes, out + 60_000, "full again");
    assert!(is_conserved(&link.counts()));
}

/// At rates at which the time that a burst takes is no whole number of picoseconds.
#[test]
fn a_burst_of_one_packet_lets_one_packet_through() {
    for rate in [7_000_000, 8_000_000, 999_999_999, 30_000_000_000] {
        let mut link = link(|settings| settings.policer = Some(Policer { rate: BitRate(rate), burst: Bytes(1_500) }));
        let shape = super_packet(1, 1_500);
        for second in 0..100 {
            assert_eq!(send(&mut link, second * S, &shape).len(), 1, "{rate} bit/s, second {second}");
            assert_eq!(send(&mut link, second * S, &shape).len(), 0, "{rate} bit/s, second {second}");
        }
    }
}

#[test]
fn a_black_hole_passes_small_segments() {
    let mut link = link(|settings| settings.mtu_black_hole = Some(1_400));
    let packet = crate::packet::frames::Packet::udp("10.0.0.1", "10.0.0.2", 9 * 1_472 + 500);
    let shape = Shape::of(&packet.frame()).unwrap();
    let last = SegmentRun { due: 5, segments: 9..10, damage: None };
    assert_eq!(send(&mut link, 5, &shape), [last], "the short last segment");
    assert_eq!(link.counts().black_hole, 9);
    assert_eq!(send(&mut link, 6, &super_packet(10, 1_401)), []);
    assert_eq!(send(&mut link, 7, &super_packet(10, 1_400)).len(), 1);
    assert_eq!(link.counts().black_hole, 19);
    assert!(is_conserved(&link.counts()));
}

#[test]
fn nothing_passes_a_link_that_is_down() {
    let mut link = link(|settings| (settings.down, settings.duplicate, settings.rate) = (true, 1.0, BYTE_PER_US));
    assert_eq!(send(&mut link, 0, &super_packet(40, 1_500)), []);
    let counts = link.counts();
    assert_eq!((counts.down, counts.segments, counts.duplicated, link.backlog(0)), (40, 40, 0, 0));
}

/// A sender that always has data, but never so much that the queue is full.
#[test]
fn cross_traffic_takes_its_share() {
    let mut link = link(|settings| {
        (settings.rate, settings.cross_traffic) = (Some(BitRate(1_000_000_000)), Some(BitRate(400_000_000)));
        settings.queue = bytes(1_000_000);
    });
    let shape = super_packet(40, 1_500);
    for now in (0..4 * S).step_by(100_000) {
        while link.backlog(now) < 300_000 {
            send(&mut link, now, &shape);
        }
    }
    let counts = link.counts();
    let own = counts.out_bytes as f64 * 8.0 / 4.0;
    assert!((own / 600e6 - 1.0).abs() < 0.02, "{own} bit/s");
    let others = counts.cross_bytes as f64 * 8.0 / 4.0;
    assert!((others / 400e6 - 1.0).abs() < 0.02, "{others} bit/s of others");
    assert_eq!((counts.queue_dropped, counts.cross_dropped_bytes), (0, 0));
}

/// After a pause the cross traffic is made up for in one step, not packet by packet.
#[test]
fn cross_traffic_continues_during_a_pause() {
    let mut link = link(|settings| {
        (settings.rate, settings.cross_traffic) = (Some(BitRate(1_000_000_000)), Some(BitRate(400_000_000)));
        settings.queue = bytes(1_000_000);
    });
    let started = std::time::Instant::now();
    let due = send(&mut link, 100_000 * S, &super_packet(1, 1_500))[0].due;
    assert!(due < 100_000 * S + 10 * MS, "the queue is as it would be, not as full as a day makes it");
    let others = link.counts().cross_bytes as f64 * 8.0 / 100_000.0;
    assert!((others / 400e6 - 1.0).abs() < 0.001, "{others} bit/s");
    assert!(started.elapsed() < Duration::from_secs(10), "not packet by packet: {:?}", started.elapsed());
}
