//! What a diagnosis says of findings, and how many are made.

use model::v1::probe::route::{Hop, Mtu, Path, Router, RouterReply, Sweep, SweepFlow, SweepPath};
use model::v1::watch::Health;

use super::*;

const AT: i64 = 1_790_000_000_000;

fn suspect(lost_forward: u32) -> Suspect {
    Suspect {
        by: SuspectBy::Loss,
        ports: vec![40_001],
        sent: 200,
        lost: 60,
        lost_forward,
        others_sent: 200,
        others_lost: 0,
        chance: Some(1e-9),
        longer_s: None,
        hop: None,
        address: None,
        text: "port 40001 loses 30 %".into(),
    }
}

fn route(suspects: Vec<Suspect>, black_hole: bool) -> Route {
    let flow = |port, answered| SweepFlow { port, sent: 200, answered, ..SweepFlow::default() };
    let hop = |address: &str| Hop {
        routers: vec![Router {
            address: address.into(),
            said: RouterReply::TimeExceeded,
            icmp: None,
            answers: 1,
            ttl_reverse: None,
        }],
        ..Hop::default()
    };
    Route {
        path: Path { hops: vec![hop("192.0.2.1"), Hop::default(), hop("192.0.2.3")], ..Path::default() },
        mtu: Some(Mtu { mtu_bytes: 1_400, black_hole, ..Mtu::default() }),
        sweep: Some(Sweep {
            flows: vec![flow(40_001, 140), flow(40_002, 200)],
            paths: vec![SweepPath::default(), SweepPath::default()],
            suspects,
            judged: true,
            ..Sweep::default()
        }),
    }
}

fn finding(kind: AlarmKind, direction: Option<Direction>, cause: CauseKind) -> Finding {
    Finding { kind, direction, severity: Health::Warning, evidence: "numbers".into(), cause }
}

fn explained(routes: &Routes, mut finding: Finding) -> Finding {
    Diagnosis::of(routes, AT).explain(&mut finding);
    finding
}

#[test]
fn the_evidence_names_ports_sizes_and_routers_of_its_direction() {
    let routes = Routes {
        forward: route(vec![suspect(60)], false),
        reverse: Some(route(Vec::new(), true)),
        ..Routes::default()
    };
    let loss = explained(&routes, finding(AlarmKind::Loss, Some(Direction::Forward), CauseKind::RandomLoss));
    for part in [
        "numbers; tests ordered at 2026-09-21T",
        "forward: 60 of 400 probes from 2 source ports",
        "port 40001 loses 30 %",
        "up to 1400 bytes pass,",
        "routers 192.0.2.1 * 192.0.2.3",
    ] {
        assert!(loss.evidence.contains(part), "{part}: {}", loss.evidence);
    }
    assert!(!loss.evidence.contains("reverse"), "{}", loss.evidence);
    assert_eq!(loss.cause, CauseKind::LossyMember);
    let rate = explained(&routes, finding(AlarmKind::Throughput, Some(Direction::Reverse), CauseKind::Unknown));
    assert!(rate.evidence.contains("reverse: ") && rate.evidence.contains("larger ones vanish"), "{}", rate.evidence);
    assert_eq!(rate.cause, CauseKind::MtuHole);
    let both = explained(&routes, finding(AlarmKind::Loss, None, CauseKind::RandomLoss));
    assert!(both.evidence.contains("forward: ") && both.evidence.contains("reverse: "), "{}", both.evidence);
}

#[test]
fn a_cause_that_is_known_and_a_loss_of_the_answers_stay_what_they_are() {
    let back = Routes { forward: route(vec![suspect(20)], true), ..Routes::default() };
    let forward = Some(Direction::Forward);
    assert_eq!(explained(&back, finding(AlarmKind::Loss, forward, CauseKind::RandomLoss)).cause, CauseKind::RandomLoss);
    let there = Routes { forward: route(vec![suspect(60)], true), ..Routes::default() };
    assert_eq!(
        explained(&there, finding(AlarmKind::Loss, forward, CauseKind::Congestion)).cause,
        CauseKind::Congestion
    );
    let queue = finding(AlarmKind::Queue, forward, CauseKind::Congestion);
    assert_eq!(explained(&there, queue.clone()), queue, "no tests were ordered for it");
    let reverse = finding(AlarmKind::Loss, Some(Direction::Reverse), CauseKind::RandomLoss);
    assert_eq!(explained(&there, reverse.clone()), reverse, "the other end did not test");
    let mut failed = finding(AlarmKind::Loss, forward, CauseKind::RandomLoss);
    Diagnosis::failed("no route".into(), AT).explain(&mut failed);
    assert!(failed.evidence.ends_with("failed: no route"), "{}", failed.evidence);
}

#[test]
fn orders_are_limited_by_path_and_by_hour() {
    let mut budget = DiagnosisBudget::default();
    let mut admit = |to: &str, minute: i64| budget.admit(("a", to), 2, AT + minute * 60_000);
    assert!(admit("b", 0) && !admit("b", 59), "once an hour for a path");
    assert!(admit("c", 30) && !admit("d", 40), "two in an hour");
    assert!(admit("d", 61), "the first order is more than an hour old");
    assert!(!admit("b", 70) && admit("b", 91));
}

#[test]
fn a_diagnosis_lasts_as_long_as_its_alarm_but_no_more_than_a_day() {
    let diagnosis = Diagnosis::failed(String::new(), AT);
    let loss = [finding(AlarmKind::Loss, None, CauseKind::RandomLoss)];
    let of_use = |findings: &[Finding], hours: i64| diagnosis.is_of_use(findings, AT + hours * HOUR_MS);
    assert!(of_use(&[], 0) && !of_use(&[], 1) && of_use(&loss, 23) && !of_use(&loss, 24));
}
