//! The findings of a path after minutes and days of measurements.

use model::v1::node::{Delays as Span, PortLoss};

use super::*;
use crate::observation::{DirectionFacts, PathFacts};

const MINUTE: i64 = 60_000;

fn judge() -> PathJudge {
    let knowledge = PathKnowledge {
        link_bit_s: Some(10e9),
        hops: Vec::new(),
        every: [Some(60_000.0), Some(6.0 * 3.6e6), Some(600_000.0)],
    };
    PathJudge::new(knowledge, &JudgeConfig { learn: 4, ..JudgeConfig::default() }, 0)
}

fn report(lost_forward: u64, lost_reverse: u64) -> StreamReport {
    let span =
        |least: i64| Some(Span { min_us: least, median_us: least + 20, p95_us: least + 100, max_us: least + 300 });
    StreamReport {
        sent: 600,
        received: 600 - lost_forward - lost_reverse,
        lost_forward,
        lost_reverse,
        round_trip: span(150_000),
        forward: span(75_000),
        reverse: span(75_000),
        ports: 8,
        ..StreamReport::default()
    }
}

fn minutes(judge: &mut PathJudge, from: i64, count: i64, report: impl Fn(i64) -> StreamReport) {
    for minute in from..from + count {
        judge.observe(TestKind::Latency, &Observation::Stream(Box::new(report(minute))), minute * MINUTE, 60.0);
    }
}

fn test(direction: Direction, rate: f64) -> Throughput {
    Throughput {
        direction,
        rate_bit_s: rate,
        min_rtt_s: Some(0.15),
        rtt_s: Some(0.151),
        mss_bytes: 8_948.0,
        window_bytes: 400e6,
        streams: 1.0,
        congestion: "cubic".into(),
        limit: "the path".into(),
        ..Throughput::default()
    }
}

fn add_test(judge: &mut PathJudge, found: Throughput, at: i64) {
    judge.observe(TestKind::Throughput, &Observation::Throughput(Box::new(found)), at, 20.0);
}

fn kinds(findings: &[Finding]) -> Vec<(AlarmKind, Option<Direction>, CauseKind)> {
    let stale = |finding: &&Finding| finding.kind != AlarmKind::Stale;
    findings.iter().filter(stale).map(|finding| (finding.kind, finding.direction, finding.cause)).collect()
}

#[test]
fn loss_is_found_in_its_direction_only() {
    let mut judge = judge();
    minutes(&mut judge, 0, 120, |_| report(0, 0));
    assert!(kinds(&judge.findings(120 * MINUTE)).is_empty());
    minutes(&mut judge, 120, 360, |minute| report(0, u64::from(minute % 40 == 0)));
    let mut findings = judge.findings(480 * MINUTE);
    findings.retain(|finding| finding.kind != AlarmKind::Stale);
    assert_eq!(kinds(&findings), [(AlarmKind::Loss, Some(Direction::Reverse), CauseKind::RandomLoss)]);
    assert!(findings[0].evidence.contains("in reverse") && findings[0].evidence.contains("9 of"), "{findings:?}");
    let half = judge.half(TestKind::Latency, Direction::Reverse, &findings, 480 * MINUTE);
    assert!(half.health >= Health::Warning && half.text.contains("150.0 ms"), "{half:?}");
    assert_eq!(judge.half(TestKind::Latency, Direction::Forward, &findings, 480 * MINUTE).health, Health::Ok);
}

#[test]
fn loss_with_delay_is_congestion_and_of_few_ports_a_member() {
    let mut congested = judge();
    let queued = |minute: i64| {
        let mut report = report(u64::from(minute % 3 == 0) * 2, 0);
        if minute % 3 == 0 {
            report.round_trip = report.round_trip.map(|span| Span { max_us: span.min_us + 40_000, ..span });
        }
        report
    };
    minutes(&mut congested, 0, 60, queued);
    assert_eq!(
        kinds(&congested.findings(60 * MINUTE)),
        [(AlarmKind::Loss, Some(Direction::Forward), CauseKind::Congestion)]
    );
    let mut bundle = judge();
    let member = |minute: i64| {
        let port = |at: i64| PortLoss {
            port: 4_000 + (minute + at) as u16,
            sent: 75,
            lost: if (minute + at) % 4 == 0 { 2 } else { 0 },
            lost_reverse: 0,
        };
        StreamReport { by_port: (0..8).map(port).collect(), ..report(4, 0) }
    };
    minutes(&mut bundle, 0, 40, member);
    assert_eq!(
        kinds(&bundle.findings(40 * MINUTE)),
        [(AlarmKind::Loss, Some(Direction::Forward), CauseKind::LossyMember)]
    );
}

#[test]
fn an_outage_is_not_loss_and_an_old_result_is_unknown() {
    let mut judge = judge();
    minutes(&mut judge, 0, 30, |_| report(0, 0));
    judge.observe(TestKind::Latency, &Observation::Silent, 30 * MINUTE + 10_000, 0.0);
    minutes(&mut judge, 30, 3, |_| StreamReport { received: 0, lost_unplaced: 600, round_trip: None, ..report(0, 0) });
    let findings = judge.findings(33 * MINUTE);
    assert_eq!(kinds(&findings), [(AlarmKind::Silent, None, CauseKind::Outage)]);
    assert_eq!(judge.half(TestKind::Latency, Direction::Forward, &findings, 33 * MINUTE).health, Health::Critical);
    judge.observe(TestKind::Latency, &Observation::Answers, 33 * MINUTE + 5_000, 0.0);
    minutes(&mut judge, 33, 1, |_| report(60, 0));
    minutes(&mut judge, 34, 30, |_| report(0, 0));
    assert!(kinds(&judge.findings(64 * MINUTE)).is_empty());
    let findings = judge.findings(69 * MINUTE);
    let stale = findings.iter().find(|finding| finding.kind == AlarmKind::Stale).unwrap();
    assert!(stale.evidence.contains("latency") && stale.severity == Health::Unknown, "{stale:?}");
    assert_eq!(judge.half(TestKind::Latency, Direction::Forward, &findings, 69 * MINUTE).health, Health::Unknown);
}

#[test]
fn a_shift_of_throughput_has_its_cause() {
    let slow = |change: fn(&mut Throughput)| {
        let mut judge = judge();
        for at in 0..12 {
            add_test(&mut judge, test(Direction::Forward, 9e9), at * 3_600_000);
            add_test(&mut judge, test(Direction::Reverse, 9e9), at * 3_600_000);
        }
        assert!(kinds(&judge.findings(12 * 3_600_000)).is_empty());
        for at in 12..16 {
            let mut found = test(Direction::Forward, 4e9);
            change(&mut found);
            add_test(&mut judge, found, at * 3_600_000);
        }
        let findings = judge.findings(16 * 3_600_000);
        let [(kind, direction, cause)] = kinds(&findings)[..] else { panic!("{findings:?}") };
        assert_eq!((kind, direction), (AlarmKind::Throughput, Some(Direction::Forward)));
        cause
    };
    assert_eq!(slow(|found| found.window_limited = 0.9), CauseKind::SlowReceiver);
    assert_eq!(slow(|found| found.binding = "cpu_near".into()), CauseKind::SlowSender);
    assert_eq!(slow(|found| found.resent = 0.05), CauseKind::Policer);
    assert_eq!(slow(|found| found.resent = 0.008), CauseKind::ShallowQueue);
    assert_eq!(slow(|found| found.rtt_s = Some(0.2)), CauseKind::NarrowLink);
    assert_eq!(slow(|_| {}), CauseKind::Unknown);
}

#[test]
fn a_change_of_route_explains_a_change_of_delay() {
    let mut judge = judge();
    let route = |hop: &str| {
        Observation::Path(Box::new(PathFacts {
            forward: Some(DirectionFacts {
                hops: vec!["r1".into(), hop.into()],
                is_whole: true,
                mtu_bytes: Some(9_000),
                ..DirectionFacts::default()
            }),
            reverse: None,
        }))
    };
    minutes(&mut judge, 0, 30, |_| report(0, 0));
    (0..4).for_each(|at| judge.observe(TestKind::Path, &route("b"), at * 10 * MINUTE, 5.0));
    let longer = |_| {
        let mut report = report(0, 0);
        report.round_trip = Some(Span { min_us: 170_000, median_us: 170_020, p95_us: 170_100, max_us: 170_300 });
        report
    };
    minutes(&mut judge, 30, 6, longer);
    assert_eq!(kinds(&judge.findings(36 * MINUTE)), [(AlarmKind::Delay, None, CauseKind::RouteChange)]);
    judge.observe(TestKind::Path, &route("c"), 36 * MINUTE, 5.0);
    assert_eq!(
        kinds(&judge.findings(37 * MINUTE)),
        [(AlarmKind::Route, Some(Direction::Forward), CauseKind::RouteChange)]
    );
}
