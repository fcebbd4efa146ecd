//! Tests that a node repeats: `/api/v1/schedules` and `/api/v1/measurements`.

use model::id::Uuid;
use model::v1::node::{
    Found, Measurement, PathProbe, ProbeKey, ProbeTest, Repeat, Schedule, ScheduledTest, StreamTest, TcpProbe,
};
use model::v1::probe::tcp::Directions;
use nodeapi::Api;

use super::{Pair, api, full_key, pair_of, plain};
use crate::node::Setup;
use crate::wait::{LONG, until_some};

/// A node that answers STAMP on loopback.
fn answering() -> Setup {
    plain().arg("--responders").arg("stamp,twamp,iperf3")
}

fn pair() -> Pair {
    let there = answering().start();
    let (here, key) = (plain().start(), full_key(&there));
    let own = full_key(&here);
    Pair { api: api(&here, &own), here, there, key }
}

fn stream(target: String) -> Schedule {
    let test = StreamTest { rate_packets_s: 50.0, report_s: 1.0, timeout_s: 0.5, ..StreamTest::default() };
    Schedule { id: Uuid::now_v7(), target, test: ScheduledTest::Stream(test), node: None, credentials: None }
}

fn repeat(target: String, test: ProbeTest, key: Option<&str>) -> Schedule {
    let repeat = Repeat { test, every_s: 10.0, offset_s: 0.0, slip_s: 9.0, waits_for_transfers: false };
    let credentials = key.map(|key| ProbeKey { key: Some(key.to_owned()) });
    Schedule { id: Uuid::now_v7(), target, test: ScheduledTest::Repeat(repeat), node: None, credentials }
}

/// The first measurement after `after` for which `is_it` holds.
#[track_caller]
fn measured(api: &Api, after: &mut u64, is_it: impl Fn(&Measurement) -> bool) -> Measurement {
    until_some("it is measured", LONG, || {
        let page = api.measurements(*after, 100, 5).ok()?;
        let found = page.measurements.into_iter().find(|one| is_it(one));
        *after = found.as_ref().map_or(page.next, |one| one.number);
        found
    })
}

#[test]
fn a_stream_survives_restarts_and_reports_silence() {
    let mut pair = pair();
    let schedule = stream(format!("lh://{}", pair.there.address()));
    assert!(pair.api.create_schedule(&schedule).unwrap().1);
    assert!(!pair.api.create_schedule(&schedule).unwrap().1, "the same schedule again is the same one");
    let mut after = 0;
    // The first interval is shorter than a second: it ends with the next whole second.
    let whole = |one: &Measurement| {
        let is_complete = matches!(&one.found, Found::Stream(report) if report.sent >= 40 && report.lost() == 0);
        is_complete && (one.seconds - 1.0).abs() < 0.2
    };
    let first = measured(&pair.api, &mut after, whole);
    let Found::Stream(report) = &first.found else { panic!() };
    assert_eq!(first.schedule, schedule.id, "{first:?}");
    assert!(report.round_trip.unwrap().median_us < 100_000 && report.ports == 8, "{report:?}");
    pair.here.restart();
    measured(&pair.api, &mut after, |one| whole(one) && one.at_s > first.at_s + 1.0);
    pair.there.freeze();
    measured(&pair.api, &mut after, |one| one.found == Found::Silent);
    pair.there.thaw();
    measured(&pair.api, &mut after, |one| one.found == Found::Answers);
    let status = pair.api.schedules().unwrap().schedules;
    assert_eq!((status.len(), status[0].schedule.id), (1, schedule.id));
    pair.api.remove_schedule(schedule.id).unwrap();
    assert!(pair.api.schedules().unwrap().schedules.is_empty());
    pair.here.restart();
    assert!(pair.api.schedules().unwrap().schedules.is_empty(), "what was removed stays so");
}

#[test]
fn a_schedule_measures_every_kind_of_responder() {
    let there = answering().arg("--twamp-listen").arg("127.0.0.1:0").start();
    let twamp = until_some("the node logs where TWAMP-Control is answered", LONG, || {
        let log = there.log();
        let line = log.lines().find(|line| line.contains("TWAMP-Control is answered"))?;
        Some(line.split_once("at=")?.1.split_whitespace().next()?.trim_matches('"').to_owned())
    });
    let here = plain().start();
    let api = api(&here, &full_key(&here));
    let targets = [format!("stamp://{}", there.address()), format!("twamp://{twamp}"), "ping://127.0.0.1".to_owned()];
    let schedules = targets.map(stream);
    for schedule in &schedules {
        api.create_schedule(schedule).unwrap();
    }
    for schedule in &schedules {
        let of_it = |one: &Measurement| one.schedule == schedule.id;
        let answered = |one: &Measurement| matches!(&one.found, Found::Stream(report) if report.received >= 20);
        let is_pinged = schedule.target.starts_with("ping");
        if is_pinged && !may_ping() {
            let error = || api.schedules().unwrap().schedules.into_iter().find(|s| s.schedule.id == schedule.id)?.error;
            let reason = until_some("the reason is reported", LONG, error);
            assert!(reason.contains("ping_group_range"), "{reason}");
            continue;
        }
        let found = measured(&api, &mut 0, |one| of_it(one) && answered(one));
        let Found::Stream(report) = found.found else { panic!() };
        assert_eq!((report.lost(), report.forward.is_some()), (0, !is_pinged), "{report:?}");
    }
    let iperf3 = format!("iperf3://{}", there.address());
    let tcp = ProbeTest::Tcp(TcpProbe { seconds: Some(1.0), ..TcpProbe::default() });
    let run = repeat(iperf3, tcp, None);
    let path = repeat("ping://127.0.0.1".into(), ProbeTest::Path(PathProbe::default()), None);
    for schedule in [&run, &path] {
        api.create_schedule(schedule).unwrap();
        let found = measured(&api, &mut 0, |one| one.schedule == schedule.id);
        assert!(matches!(found.found, Found::Report(_)), "{found:?}");
    }
}

#[test]
fn a_schedule_runs_a_test_with_a_pscheduler() {
    let (there, silent) = (plain().arg("--responders").arg("pscheduler").start(), plain().start());
    let here = plain().start();
    let api = api(&here, &full_key(&here));
    for direction in [Directions::Forward, Directions::Reverse] {
        let tcp = ProbeTest::Tcp(TcpProbe { seconds: Some(1.0), direction, ..TcpProbe::default() });
        let run = repeat(format!("pscheduler://{}", there.address()), tcp, None);
        api.create_schedule(&run).unwrap();
        let found = measured(&api, &mut 0, |one| one.schedule == run.id);
        let Found::Report(report) = &found.found else { panic!("{found:?}") };
        let found = &report["directions"][0];
        assert!(found["direction"] == direction.word() && found["rate_bit_s"].as_f64() > Some(1e6), "{report}");
        api.remove_schedule(run.id).unwrap();
    }
    let tcp = ProbeTest::Tcp(TcpProbe { seconds: Some(1.0), ..TcpProbe::default() });
    let unanswered = repeat(format!("pscheduler://{}", silent.address()), tcp, None);
    api.create_schedule(&unanswered).unwrap();
    let found = measured(&api, &mut 0, |one| one.schedule == unanswered.id).found;
    assert!(matches!(&found, Found::Failed { why, .. } if why.contains("pScheduler")), "{found:?}");
}

/// Whether the kernel lets this user ping without privilege.
fn may_ping() -> bool {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)).is_ok()
}

#[test]
fn heavy_tests_that_two_nodes_schedule_never_overlap() {
    let pair = pair();
    let other = plain().start();
    let other_api = api(&other, &full_key(&other));
    let tcp = || ProbeTest::Tcp(TcpProbe { seconds: Some(2.0), ..TcpProbe::default() });
    let target = format!("lh://{}", pair.there.address());
    let (one, two) = (repeat(target.clone(), tcp(), Some(&pair.key)), repeat(target, tcp(), Some(&pair.key)));
    pair.api.create_schedule(&one).unwrap();
    other_api.create_schedule(&two).unwrap();
    // Both begin at the same multiples of ten seconds: one of them waits.
    let span = |api: &Api| {
        let found = measured(api, &mut 0, |_| true);
        let Found::Report(report) = &found.found else { panic!("{found:?}") };
        assert!(report["directions"][0]["rate_bit_s"].as_u64().unwrap() > 1_000_000, "{report}");
        // A run that waited states when it was ordered, and how long it took in all: the test itself is at its end.
        (found.at_s + found.seconds - 2.0, found.at_s + found.seconds)
    };
    let (first, second) = (span(&pair.api), span(&other_api));
    assert!(first.1 <= second.0 + 0.3 || second.1 <= first.0 + 0.3, "{first:?} {second:?}");
}

#[test]
fn invalid_schedules_are_refused_with_a_reason() {
    let pair = pair_of(plain().start());
    let refused = |schedule: &Schedule| match pair.api.create_schedule(schedule) {
        Err(error) => error.to_string(),
        Ok(accepted) => panic!("{accepted:?}"),
    };
    assert!(refused(&stream("http://far".into())).contains("SCHEME://HOST"));
    let fast = StreamTest { rate_packets_s: 1e6, ..StreamTest::default() };
    let fast = Schedule { test: ScheduledTest::Stream(fast), ..stream("stamp://127.0.0.1".into()) };
    assert!(refused(&fast).contains("100 packets/s"));
    let target = format!("lh://{}", pair.there.address());
    let keyless = repeat(target.clone(), ProbeTest::default(), None);
    assert!(refused(&keyless).contains("which node"));
    let known = stream("stamp://127.0.0.1".into());
    pair.api.create_schedule(&known).unwrap();
    assert!(refused(&Schedule { id: known.id, ..stream("stamp://127.0.0.2".into()) }).contains("another schedule"));
    let other = api(&pair.here, &full_key(&pair.here));
    assert!(other.remove_schedule(known.id).is_err() && other.schedules().unwrap().schedules.is_empty());
    assert!(other.measurements(0, 10, 0).unwrap().measurements.is_empty(), "a client sees only its own measurements");
    let written: Vec<_> = std::fs::read_dir(pair.here.state().join("schedules")).unwrap().flatten().collect();
    assert_eq!(written.len(), 1);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(written[0].metadata().unwrap().permissions().mode() & 0o077, 0, "it may hold a key");
    assert!(pair.api.health().is_ok());
}
