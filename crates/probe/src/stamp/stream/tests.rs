//! A stream against a reflector in virtual time: the stream reports the losses, duplicates and delays that the path made.

use std::collections::{BTreeMap, HashMap};

use model::v1::node::{StreamReport, StreamTest};
use proptest::prelude::*;

use super::*;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn at(ns: i64) -> Reading {
    Reading { mono_ns: ns, real_ns: ns + 1_000_000 * SECOND, apart_ns: 0 }
}

/// What the path does with one packet.
#[derive(Clone, Copy, Debug, Default)]
struct PacketFate {
    lost_forward: bool,
    lost_reverse: bool,
    copied: bool,
    forward_ns: i64,
    reverse_ns: i64,
}

/// A path and a reflector behind it, in virtual time.
struct SimulatedPath {
    stream: Stream,
    /// The reflector's next number, by port.
    counts: HashMap<u64, u32>,
    is_stateful: bool,
    /// The reflector's clock minus the near clock.
    far_offset_ns: i64,
    /// Answers in flight.
    answers: BTreeMap<(i64, u64), (u64, Reply)>,
    /// Questions in flight.
    questions: BTreeMap<(i64, u64), (Outgoing, PacketFate)>,
    order: u64,
    /// Packets that left.
    sent: u64,
    now_ns: i64,
    events: Vec<Event>,
}

impl SimulatedPath {
    fn new(test: StreamTest, is_stateful: bool) -> SimulatedPath {
        let settings = Settings::new(test, true).unwrap();
        SimulatedPath {
            stream: Stream::new(settings, &at(0), 7),
            counts: HashMap::new(),
            is_stateful,
            far_offset_ns: 0,
            answers: BTreeMap::new(),
            questions: BTreeMap::new(),
            order: 0,
            sent: 0,
            now_ns: 0,
            events: Vec::new(),
        }
    }

    /// Advances the time by `seconds`; `fate` returns the fate of each packet.
    fn run(&mut self, seconds: f64, mut fate: impl FnMut(u64) -> PacketFate) {
        let end_ns = self.now_ns + (seconds * 1e9) as i64;
        while self.now_ns < end_ns {
            let next = [self.stream.due_ns(), first(&self.questions), first(&self.answers), end_ns];
            self.now_ns = next.into_iter().min().unwrap().max(self.now_ns);
            while let Some(((_, _), (outgoing, fate))) = pop(&mut self.questions, self.now_ns) {
                self.reflect(&outgoing, &fate);
            }
            while let Some((_, (port, reply))) = pop(&mut self.answers, self.now_ns) {
                self.stream.handle(port, &reply, &at(self.now_ns), Some(Duration::from_micros(10)));
            }
            if let Some(outgoing) = self.stream.poll(&at(self.now_ns)) {
                let fate = fate(self.sent);
                self.sent += 1;
                self.order += 1;
                if !fate.lost_forward {
                    self.questions.insert((self.now_ns + fate.forward_ns, self.order), (outgoing, fate));
                }
            }
            while let Some(event) = self.stream.event() {
                self.events.push(event);
            }
        }
    }

    fn reflect(&mut self, outgoing: &Outgoing, fate: &PacketFate) {
        let count = self.counts.entry(outgoing.port).or_default();
        let number = if self.is_stateful { *count } else { outgoing.sequence };
        *count += 1;
        if fate.lost_reverse {
            return;
        }
        let received_ns = at(self.now_ns).real_ns + self.far_offset_ns;
        let error = Some(ErrorEstimate::of(true, Duration::from_micros(20)));
        let reply = Reply {
            question_sequence: outgoing.sequence,
            number: Some(number),
            far_ns: Some((received_ns, received_ns + MS)),
            error,
            ttl_forward: Some(250),
            ttl_reverse: Some(60),
        };
        for copy in 0..=u64::from(fate.copied) {
            self.order += 1;
            self.answers.insert((self.now_ns + MS + fate.reverse_ns + copy as i64, self.order), (outgoing.port, reply));
        }
    }

    fn reports(&self) -> Vec<&StreamReport> {
        self.events.iter().filter_map(report).collect()
    }

    fn sum(&self, of: fn(&StreamReport) -> u64) -> u64 {
        self.reports().into_iter().map(of).sum()
    }
}

fn report(event: &Event) -> Option<&StreamReport> {
    match event {
        Event::Report { report, .. } => Some(report.as_ref()),
        _ => None,
    }
}

fn first<T>(queue: &BTreeMap<(i64, u64), T>) -> i64 {
    queue.keys().next().map_or(i64::MAX, |(at, _)| *at)
}

fn pop<T>(queue: &mut BTreeMap<(i64, u64), T>, now_ns: i64) -> Option<((i64, u64), T)> {
    let entry = queue.first_entry()?;
    (entry.key().0 <= now_ns).then(|| entry.remove_entry())
}

fn clean() -> PacketFate {
    PacketFate { forward_ns: 20 * MS, reverse_ns: 30 * MS, ..PacketFate::default() }
}

#[test]
fn a_quiet_path_has_no_loss_and_its_delays_are_reported() {
    let mut path = SimulatedPath::new(StreamTest::default(), true);
    path.far_offset_ns = 5 * MS;
    path.run(310.0, |_| clean());
    let reports = path.reports();
    assert!(reports.len() >= 4, "{}", reports.len());
    for report in &reports {
        assert_eq!((report.lost(), report.duplicates, report.received), (0, 0, report.sent));
        let delays = report.round_trip.unwrap();
        assert_eq!((delays.min_us, delays.median_us, delays.p95_us), (50_000, 50_000, 50_000), "held for 1 ms");
        assert_eq!((report.forward.unwrap().min_us, report.reverse.unwrap().min_us), (25_000, 25_000), "by two clocks");
        assert_eq!((report.clock_error_us, report.hops_forward, report.hops_reverse), (Some(30), Some(5), Some(4)));
        assert!(!report.host_limited && report.clock_step_us.is_none());
    }
    // The virtual clock begins 40 s after a full minute.
    let starts: Vec<i64> = path
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Report { at_ns, .. } => Some(at_ns.rem_euclid(60 * SECOND)),
            _ => None,
        })
        .collect();
    assert!(starts[1..].iter().all(|start| *start < SECOND), "at multiples of a minute: {starts:?}");
    assert!((550..650).contains(&reports[1].sent), "{}", reports[1].sent);
}

#[test]
fn ports_are_replaced_one_after_the_other() {
    let mut path = SimulatedPath::new(StreamTest { ports: 4, ..StreamTest::default() }, true);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12 {
        path.run(60.0, |_| clean());
        seen.extend(path.stream.ports());
        assert!(path.stream.ports().count() <= 5);
    }
    assert!(seen.len() >= 14, "{seen:?}");
    assert_eq!(path.sum(StreamReport::lost), 0, "replacing a port loses nothing");
}

#[test]
fn loss_is_reported_by_port() {
    let mut path = SimulatedPath::new(StreamTest { ports: 2, ..StreamTest::default() }, true);
    path.stream.set_port_number(0, 1_000);
    path.stream.set_port_number(1, 1_001);
    path.run(20.0, |_| clean());
    let lossy = |order: u64| PacketFate { lost_forward: order.is_multiple_of(10), ..clean() };
    path.run(100.0, lossy);
    let report = path.reports()[1];
    assert!(report.lost_forward > 10 && report.lost_reverse == 0, "{report:?}");
    assert_eq!(u64::from(report.by_port.iter().map(|port| port.lost).sum::<u32>()), report.lost());
}

#[test]
fn replaced_ports_keep_their_counts_in_the_minutes_that_are_still_open() {
    let test = StreamTest { ports: 4, report_s: 1.0, rate_packets_s: 100.0, ..StreamTest::default() };
    let mut path = SimulatedPath::new(test, true);
    path.run(60.0, |order| PacketFate { lost_forward: order.is_multiple_of(50), ..clean() });
    let lossy: Vec<_> = path.reports().into_iter().filter(|report| report.lost() > 0).collect();
    assert!(lossy.len() > 30, "{} of {} reports", lossy.len(), path.reports().len());
    for report in lossy {
        let sent: u32 = report.by_port.iter().map(|port| port.sent).sum();
        let lost: u32 = report.by_port.iter().map(|port| port.lost).sum();
        assert_eq!((u64::from(sent), u64::from(lost)), (report.sent, report.lost()), "{report:?}");
    }
}

#[test]
fn a_reflector_that_copies_numbers_leaves_losses_without_direction() {
    let mut path = SimulatedPath::new(StreamTest::default(), false);
    path.run(200.0, |order| PacketFate { lost_reverse: order % 50 == 3, ..clean() });
    let lost = path.sum(StreamReport::lost);
    let unplaced = path.sum(|report| report.lost_unplaced);
    assert!(lost > 20 && lost == unplaced, "{lost} {unplaced}");
    for report in path.reports() {
        assert!(report.by_port.len() <= usize::from(report.ports), "a port has at most one row: {report:?}");
    }
}

#[test]
fn a_reflector_that_restarts_its_count_causes_no_false_loss() {
    let mut path = SimulatedPath::new(StreamTest::default(), true);
    path.run(130.0, |_| clean());
    path.counts.clear();
    path.run(120.0, |_| clean());
    assert_eq!((path.sum(StreamReport::lost), path.sum(|report| report.reordered_forward)), (0, 0));
}

#[test]
fn silence_and_its_end_are_reported_within_seconds() {
    let mut path = SimulatedPath::new(StreamTest::default(), true);
    path.run(30.0, |_| clean());
    path.run(100.0, |_| PacketFate { lost_forward: true, ..clean() });
    let silent = path.events.iter().find_map(|event| match event {
        Event::Silent { at_ns } => Some(*at_ns - 1_000_000 * SECOND),
        _ => None,
    });
    let after = silent.unwrap() - 30 * SECOND;
    assert!((4 * SECOND..7 * SECOND).contains(&after), "{after} ns");
    let before = path.sent;
    path.run(30.0, |_| PacketFate { lost_forward: true, ..clean() });
    assert!(path.sent - before <= 60, "a host that never answers is not flooded: {}", path.sent - before);
    path.run(70.0, |_| clean());
    assert_eq!(path.events.iter().filter(|event| matches!(event, Event::Answers { .. })).count(), 1);
    let lost = path.sum(StreamReport::lost);
    assert!(lost > 300, "{lost}");
}

#[test]
fn a_far_clock_that_is_set_does_not_change_round_trips() {
    let mut path = SimulatedPath::new(StreamTest { report_s: 10.0, ..StreamTest::default() }, true);
    path.run(20.0, |_| clean());
    // The far clock jumps: forward grows, reverse shrinks, round trips stay.
    path.far_offset_ns = 40 * MS;
    path.run(30.0, |_| clean());
    let last = path.reports().last().copied().unwrap();
    assert_eq!((last.forward.unwrap().min_us, last.reverse.unwrap().min_us), (60_000, -10_000));
    assert_eq!(last.round_trip.unwrap().median_us, 50_000);
}

#[test]
fn orders_out_of_bounds_are_refused() {
    let good = StreamTest::default();
    let bad = [
        StreamTest { rate_packets_s: f64::NAN, ..good },
        StreamTest { rate_packets_s: 101.0, ..good },
        StreamTest { packet_bytes: 43, ..good },
        StreamTest { dscp: 64, ..good },
        StreamTest { timeout_s: 31.0, ..good },
        StreamTest { report_s: 0.5, ..good },
        StreamTest { ports: 0, ..good },
        StreamTest { ports: 33, ..good },
    ];
    assert!(bad.iter().all(|test| Settings::new(*test, true).is_err()));
    assert_eq!(Settings::new(good, false).unwrap().test().ports, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Loss of either direction is placed exactly, whatever is lost and copied, as long as an answer follows.
    #[test]
    fn every_loss_has_its_direction(seed in any::<u64>(), forward in 0.0..0.3f64, reverse in 0.0..0.3f64, copies in 0.0..0.1f64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut path = SimulatedPath::new(StreamTest { report_s: 30.0, ports: 3, ..StreamTest::default() }, true);
        let mut lost_forward = 0;
        let mut lost_reverse = 0;
        let mut copied = 0;
        path.run(300.0, |_| {
            let is_lost_forward = random.f64() < forward;
            let is_lost_reverse = !is_lost_forward && random.f64() < reverse;
            let is_copied = !is_lost_forward && !is_lost_reverse && random.f64() < copies;
            lost_forward += u64::from(is_lost_forward);
            lost_reverse += u64::from(is_lost_reverse);
            copied += u64::from(is_copied);
            PacketFate { lost_forward: is_lost_forward, lost_reverse: is_lost_reverse, copied: is_copied, ..clean() }
        });
        // Losses of open minutes, and the last losses of replaced ports, have no direction.
        path.run(90.0, |_| clean());
        let unplaced = path.sum(|report| report.lost_unplaced);
        prop_assert_eq!(path.sum(StreamReport::lost), lost_forward + lost_reverse);
        prop_assert!(unplaced <= 30, "{} unplaced", unplaced);
        prop_assert!(path.sum(|report| report.lost_forward) <= lost_forward);
        prop_assert!(path.sum(|report| report.lost_reverse) <= lost_reverse);
        // A port that is replaced does not wait for duplicates of its last answer.
        let duplicates = path.sum(|report| report.duplicates);
        prop_assert!(duplicates <= copied && duplicates + 13 >= copied, "{} of {}", duplicates, copied);
        prop_assert_eq!(path.sum(|report| report.reordered_forward + report.reordered_reverse), 0);
    }

    /// Packets that overtake each other are neither lost nor copied.
    #[test]
    fn reordering_is_counted_by_direction(seed in any::<u64>(), forward in any::<bool>()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let test = StreamTest { ports: 1, rate_packets_s: 100.0, ..StreamTest::default() };
        let mut path = SimulatedPath::new(test, true);
        path.run(200.0, |_| {
            let late = if random.f64() < 0.05 { 40 * MS } else { 0 };
            let (late_forward, late_reverse) = if forward { (late, 0) } else { (0, late) };
            PacketFate { forward_ns: 20 * MS + late_forward, reverse_ns: 30 * MS + late_reverse, ..PacketFate::default() }
        });
        let in_forward = path.sum(|r| r.reordered_forward);
        let in_reverse = path.sum(|r| r.reordered_reverse);
        prop_assert_eq!(path.sum(StreamReport::lost), 0);
        let (expected, other) = if forward { (in_forward, in_reverse) } else { (in_reverse, in_forward) };
        prop_assert!(expected > 100 && other == 0, "{} {}", in_forward, in_reverse);
    }
}
