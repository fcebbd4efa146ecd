//! Properties for all settings and packets.

use proptest::prelude::*;

use super::*;
use crate::scenario::{Loss, Policer};

fn losses() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..=1.0).prop_map(Loss::Random),
        (1..100u64).prop_map(Loss::Every),
        (0.0..=1.0, 0.0..=1.0).prop_map(|(begins, ends)| Loss::Burst(begins, ends)),
        prop::collection::btree_set(1..500u64, 0..50).prop_map(|list| Loss::List(list.into_iter().collect())),
    ]
}

fn queues() -> impl Strategy<Value = Queue> {
    prop_oneof![
        (1..1_000_000u64).prop_map(bytes),
        (1..100u64).prop_map(|ms| Queue::Time(Duration::from_millis(ms))),
        Just(Queue::Bdp),
    ]
}

fn rates() -> impl Strategy<Value = Option<BitRate>> {
    prop_oneof![Just(None), (10_000..100_000_000_000u64).prop_map(|rate| Some(BitRate(rate)))]
}

/// Zero in half of the cases.
fn chances() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..=1.0]
}

fn link_settings() -> impl Strategy<Value = LinkSettings> {
    let bottleneck = (rates(), queues(), rates(), prop::option::of((10_000..1_000_000_000u64, 1..1_000_000u64)));
    let wire = (losses(), chances(), chances(), chances(), chances());
    let time = (0..50_000u64, prop_oneof![Just(0), 0..60_000u64], 0..5_000u64);
    let rest = (prop::option::of(68..2_000u16), prop::bool::weighted(0.05));
    (bottleneck, wire, time, rest).prop_map(|(bottleneck, wire, time, (mtu_black_hole, down))| {
        let (rate, queue, cross_traffic, policer) = bottleneck;
        let (loss, reorder, duplicate, corrupt, corrupt_silent) = wire;
        let policer = policer.map(|(rate, burst)| Policer { rate: BitRate(rate), burst: Bytes(burst) });
        let [delay, jitter, reorder_by] = [time.0, time.1, time.2].map(Duration::from_micros);
        // A test with a day of cross traffic would take as long.
        let cross_traffic = cross_traffic.map(|others| BitRate(others.0.min(1_000_000_000)));
        LinkSettings {
            delay,
            jitter,
            rate,
            queue,
            policer,
            loss,
            reorder,
            reorder_by,
            duplicate,
            corrupt,
            corrupt_silent,
            cross_traffic,
            mtu_black_hole,
            down,
            // A link does not know its routes.
            withdrawn: false,
        }
    })
}

/// Pauses in microseconds, segments of a packet, and their size.
fn packets() -> impl Strategy<Value = Vec<(u64, u16, u16)>> {
    prop::collection::vec((0..3_000u64, 1..43u16, 29..1_500u16), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn segments_are_conserved(settings in link_settings(), packets in packets(), seed: u64) {
        let mut link = Link::new(settings, RTT, seed);
        let (mut now, mut out, mut out_bytes, mut damaged) = (0, 0, 0, 0);
        for (pause, segments, size) in packets {
            now += pause * US;
            let shape = super_packet(segments, size);
            let runs = send(&mut link, now, &shape);
            for run in &runs {
                prop_assert!(!run.segments.is_empty() && run.segments.end <= segments);
                prop_assert!(run.damage.is_none() || run.segments.len() == 1);
                out += run.segments.len() as u64;
                out_bytes += u64::from(shape.bytes(run.segments.clone()));
                damaged += u64::from(run.damage.is_some());
            }
            prop_assert!(runs.windows(2).all(|pair| pair[0].segments.start <= pair[1].segments.start));
        }
        let counts = link.counts();
        prop_assert!(is_conserved(&counts), "{:?}", counts);
        prop_assert_eq!((counts.out_segments, counts.out_bytes), (out, out_bytes));
        prop_assert_eq!(counts.corrupted + counts.corrupted_silently, damaged);
    }

    #[test]
    fn segments_arrive_in_order_and_within_their_bounds(settings in link_settings(), packets in packets(), seed: u64) {
        let [delay, jitter, reorder_by] = [settings.delay, settings.jitter, settings.reorder_by].map(|time| time.as_nanos() as u64);
        let queue = settings.queue_bytes(RTT);
        let rate = settings.rate;
        let reorders = settings.reorder > 0.0;
        let mut link = Link::new(settings, RTT, seed);
        let (mut now, mut last) = (0, 0);
        for (pause, segments, size) in packets {
            now += pause * US;
            for run in send(&mut link, now, &super_packet(segments, size)) {
                prop_assert!(run.due >= now + delay.saturating_sub(jitter));
                // One packet that is being sent may be longer than the queue.
                let waits = rate.map_or(0, |rate| super::super::time_ps(queue.max(1_500), rate.0) / 1_000);
                let late = if reorders { reorder_by } else { 0 };
                prop_assert!(run.due <= now + waits + delay + jitter + late);
                prop_assert!(run.due >= last || reorders);
                last = run.due;
            }
        }
    }

    #[test]
    fn the_queue_never_exceeds_its_length(settings in link_settings(), packets in packets(), seed: u64) {
        let queue = settings.queue_bytes(RTT);
        let mut link = Link::new(settings, RTT, seed);
        let mut now = 0;
        for (pause, segments, size) in packets {
            now += pause * US;
            send(&mut link, now, &super_packet(segments, size));
            prop_assert!(link.backlog(now) <= queue.max(1_500));
            prop_assert!(link.counts().queue_peak <= queue.max(1_500));
        }
    }
}
