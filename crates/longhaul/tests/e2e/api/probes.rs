//! Tests that clients order from a node: `/api/v1/probes`.

use std::process::Command;

use model::id::Uuid;
use model::v1::node::{
    LatencyProbe, LimitsProbe, PathProbe, Probe, ProbeKey, ProbeOrder, ProbeStage, ProbeTest, TcpProbe, UdpProbe,
};
use model::v1::probe::tcp::Directions;
use nodeapi::{Api, PageQuery};
use serde_json::Value;

use super::{Pair, any_file_contains, api, api_at, full_key, pair, plain, problem};
use crate::https;
use crate::node::{LONGHAUL, Node};
use crate::scripted_node::ScriptedNode;
use crate::wait::{LONG, until, until_some};
use crate::web::raw::ask;

fn key(text: &str) -> Option<ProbeKey> {
    Some(ProbeKey { key: Some(text.to_owned()) })
}

impl Pair {
    fn probe(&self, test: ProbeTest) -> ProbeOrder {
        let target = format!("lh://{}", self.there.address());
        ProbeOrder { test, credentials: key(&self.key), ..ProbeOrder::new(Uuid::now_v7(), target) }
    }
}

fn tcp(seconds: f64) -> ProbeTest {
    ProbeTest::Tcp(TcpProbe { seconds: Some(seconds), ..TcpProbe::default() })
}

#[track_caller]
fn ended(api: &Api, id: Uuid) -> Probe {
    until_some("the test has ended", LONG, || api.probe(id).ok().filter(|probe| probe.state.is_last()))
}

#[track_caller]
fn report(api: &Api, order: &ProbeOrder) -> Value {
    let (probe, is_new) = api.create_probe(order).unwrap();
    assert!(is_new && probe.id == order.id && !probe.state.is_last(), "{probe:?}");
    let probe = ended(api, order.id);
    assert_eq!((probe.state, &probe.error), (ProbeStage::Done, &None), "{probe:?}");
    probe.report.unwrap()
}

#[track_caller]
fn failed(api: &Api, order: &ProbeOrder) -> (String, String) {
    api.create_probe(order).unwrap();
    let probe = ended(api, order.id);
    assert_eq!((probe.state, probe.report), (ProbeStage::Failed, None));
    (probe.fault.unwrap(), probe.error.unwrap())
}

#[test]
fn a_node_tests_the_path_to_another_node() {
    let pair = pair();
    let both = TcpProbe { seconds: Some(0.5), direction: Directions::Both, streams: 2, ..TcpProbe::default() };
    let order = pair.probe(ProbeTest::Tcp(both));
    let found = report(&pair.api, &order);
    let rates: Vec<u64> =
        found["directions"].as_array().unwrap().iter().map(|w| w["rate_bit_s"].as_u64().unwrap()).collect();
    assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 1_000_000), "{rates:?}");
    assert!(found["near"]["totals"][0]["kernel"]["rtt_s"].as_f64().unwrap() > 0.0);
    // It is the same line that the command prints.
    let output = Command::new(LONGHAUL)
        .args(["probe", "--json", "tcp", &order.target, "-t", "500ms", "-P", "2", "--both"])
        .args(["--state".as_ref(), pair.here.data("own").as_os_str()])
        .env("LONGHAUL_KEY", &pair.key)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let line: Value = serde_json::from_str(output.lines().last().unwrap_or_else(|| panic!("{output:?}"))).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&line));
    for field in ["v", "event", "test", "target", "order"] {
        assert_eq!(found[field], line[field], "{field}");
    }
    let latency = LatencyProbe { rate_packets_s: 100.0, count: Some(20), ..LatencyProbe::default() };
    let found = report(&pair.api, &pair.probe(ProbeTest::Latency(latency)));
    assert_eq!((&found["test"], found["packets"]["sent"].as_u64()), (&"latency".into(), Some(20)), "{found}");
    assert!(found["round_trip"]["median_s"].as_f64().unwrap() > 0.0 && found["hosts"]["far"].is_object());
    for direction in [Directions::Forward, Directions::Reverse] {
        let udp = UdpProbe { direction, count: Some(50), rate_bit_s: Some(10_000_000), ..UdpProbe::default() };
        let found = report(&pair.api, &pair.probe(ProbeTest::Udp(udp)));
        assert_eq!((&found["test"], found["sent"]["datagrams"].as_u64()), (&"udp".into(), Some(50)), "{found}");
        assert_eq!(found["received"]["datagrams"].as_u64(), Some(50));
    }
    let found = report(&pair.api, &pair.probe(ProbeTest::Path(PathProbe::default())));
    assert!(found["forward"].is_object() && found["reverse"].is_object(), "{found}");
    let found = report(&pair.api, &pair.probe(ProbeTest::Limits(LimitsProbe {})));
    assert_eq!(found["seconds"].as_f64(), Some(3_600.0), "{found}");
    let listed = pair.api.list_probes(PageQuery::default()).unwrap();
    assert_eq!((listed.probes.len(), listed.next), (6, None));
    assert!(listed.probes[0].id == order.id && listed.probes.iter().all(|probe| probe.report.is_none()));
    let page = pair.api.list_probes(PageQuery { limit: Some(2), after: Some(order.id), state: None }).unwrap();
    assert_eq!((page.probes[0].id, page.next), (listed.probes[1].id, Some(listed.probes[2].id)));
    let queued = PageQuery { state: Some(ProbeStage::Queued), ..PageQuery::default() };
    assert!(pair.api.list_probes(queued).unwrap().probes.is_empty());
}

#[test]
fn a_test_ordered_twice_runs_once() {
    let pair = pair();
    let order = pair.probe(tcp(0.2));
    report(&pair.api, &order);
    let first = pair.api.probe(order.id).unwrap();
    // With another key it is the same order.
    let again = ProbeOrder { credentials: key(&full_key(&pair.there)), ..order.clone() };
    assert_eq!(pair.api.create_probe(&again).unwrap(), (first.clone(), false));
    let other = ProbeOrder { test: tcp(0.3), ..order.clone() };
    let no = problem(pair.api.create_probe(&other));
    assert_eq!((no.status, no.fault.as_str()), (409, "config"), "{no:?}");
    // Another client cannot see it, whatever it requests.
    let others = api(&pair.here, &full_key(&pair.here));
    assert_eq!(problem(others.create_probe(&order)).reason, no.reason);
    assert!(others.list_probes(PageQuery::default()).unwrap().probes.is_empty());
    let after = PageQuery { after: Some(order.id), ..PageQuery::default() };
    for status in [
        problem(others.probe(order.id)).status,
        problem(others.cancel_probe(order.id)).status,
        problem(others.list_probes(after)).status,
        problem(pair.api.probe(Uuid::now_v7())).status,
    ] {
        assert_eq!(status, 404);
    }
    let anonymous = api_at(&format!("http://127.0.0.1:{}/", pair.here.port), None);
    assert_eq!(problem(anonymous.create_probe(&order)).status, 401);
    assert_eq!(problem(anonymous.probe(order.id)).status, 401);
    assert_eq!(pair.api.list_probes(PageQuery::default()).unwrap().probes.len(), 1);
}

#[test]
fn one_test_runs_at_a_time_and_any_can_be_cancelled() {
    let pair = pair();
    let (first, second, third) = (pair.probe(tcp(300.0)), pair.probe(tcp(300.0)), pair.probe(tcp(0.2)));
    for order in [&first, &second, &third] {
        pair.api.create_probe(order).unwrap();
    }
    let state = |order: &ProbeOrder| pair.api.probe(order.id).unwrap().state;
    until("the first runs", LONG, || state(&first) == ProbeStage::Running);
    assert_eq!((state(&second), state(&third)), (ProbeStage::Queued, ProbeStage::Queued));
    assert_eq!(pair.api.cancel_probe(second.id).unwrap().state, ProbeStage::Cancelled);
    let probe = pair.api.cancel_probe(first.id).unwrap();
    assert!(matches!(probe.state, ProbeStage::Running | ProbeStage::Cancelled), "{probe:?}");
    assert_eq!(ended(&pair.api, first.id).state, ProbeStage::Cancelled);
    let third = ended(&pair.api, third.id);
    assert_eq!(third.state, ProbeStage::Done, "{third:?}");
    assert_eq!(pair.api.cancel_probe(third.id).unwrap(), third, "it stays as it ended");
    assert_eq!(state(&second), ProbeStage::Cancelled);
    // A probe that stands still is not waited for, or the next would never start.
    let stuck = pair.probe(tcp(300.0));
    pair.api.create_probe(&stuck).unwrap();
    until("it runs", LONG, || state(&stuck) == ProbeStage::Running);
    pair.there.freeze();
    pair.api.cancel_probe(stuck.id).unwrap();
    let probe =
        until_some("it has ended", LONG / 3, || pair.api.probe(stuck.id).ok().filter(|probe| probe.state.is_last()));
    pair.there.thaw();
    assert_eq!(probe.state, ProbeStage::Cancelled, "{probe:?}");
}

#[test]
fn the_queue_of_tests_is_bounded() {
    let pair = pair();
    let most = pair.api.capabilities().unwrap().limits.probes_unended_max;
    assert!((1..100).contains(&most));
    let orders: Vec<ProbeOrder> = (0..most).map(|_| pair.probe(tcp(300.0))).collect();
    for order in &orders {
        pair.api.create_probe(order).unwrap();
    }
    let one_more = pair.probe(tcp(0.2));
    assert_eq!(problem(pair.api.create_probe(&one_more)).status, 503);
    assert_eq!(problem(pair.api.probe(one_more.id)).status, 404);
    // The same order again adds nothing, and another client is still admitted.
    assert!(!pair.api.create_probe(&orders[3]).unwrap().1);
    let others = api(&pair.here, &full_key(&pair.here));
    others.create_probe(&one_more).unwrap();
    // And its probe is next, before all others of the first client.
    pair.api.cancel_probe(orders[0].id).unwrap();
    assert_eq!(ended(&others, one_more.id).state, ProbeStage::Done);
}

#[test]
fn a_test_that_cannot_run_reports_why() {
    let mut pair = pair();
    let order = |test| pair.probe(test);
    // The right node, with an unknown key.
    let wrong = full_key(&pair.there);
    let list = String::from_utf8(pair.there.grant_command(&["list"]).stdout).unwrap();
    let ids: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    ids.iter().for_each(|id| drop(pair.there.grant_command(&["revoke", id])));
    let (fault, why) = failed(&pair.api, &ProbeOrder { credentials: key(&wrong), ..order(tcp(0.2)) });
    assert!(fault == "auth" && why.contains("key") && !why.contains(&wrong), "{fault} {why}");
    // A key to another node.
    let other = full_key(&Node::closed());
    let (fault, why) = failed(&pair.api, &ProbeOrder { credentials: key(&other), ..order(tcp(0.2)) });
    assert!(fault != "local" && !why.contains(&other), "{fault} {why}");
    let nowhere = ProbeOrder { target: "lh://nowhere.invalid".into(), ..order(tcp(0.2)) };
    assert!(failed(&pair.api, &nowhere).1.contains("nowhere.invalid"));
    let down = order(tcp(0.2));
    pair.there.kill();
    let (fault, why) = failed(&pair.api, &down);
    assert!(fault == "path" && why.contains(&pair.there.address()), "{fault} {why}");
}

#[test]
fn a_node_that_answers_without_end_is_disconnected() {
    let (pair, endless_node) = (pair(), ScriptedNode::new());
    let order = ProbeOrder {
        test: ProbeTest::Limits(LimitsProbe {}),
        credentials: key(&endless_node.key().expose_text()),
        ..ProbeOrder::new(Uuid::now_v7(), endless_node.at(""))
    };
    let (fault, why) = std::thread::scope(|scope| {
        scope.spawn(|| endless_node.answer_without_end());
        failed(&pair.api, &order)
    });
    assert!(fault == "peer" && why.contains("sends more than"), "{fault} {why}");
    report(&pair.api, &pair.probe(ProbeTest::Limits(LimitsProbe {})));
}

#[test]
fn probes_obey_the_limits_of_transfers() {
    // It listens on all addresses, so it connects to nothing on its loopback for its clients.
    let here = plain().on_all_addresses().start();
    let api = api(&here, &full_key(&here));
    let there = Node::open();
    let order =
        |target: String| ProbeOrder { credentials: key(&full_key(&there)), ..ProbeOrder::new(Uuid::now_v7(), target) };
    for target in [format!("lh://{}", there.address()), "lh://169.254.169.254".into(), "lh://[::1]".into()] {
        let (_, why) = failed(&api, &order(target.clone()));
        assert!(why.contains("copies nothing to or from"), "{target}: {why}");
    }
    // The policy's bound on streams holds for tests.
    let many = TcpProbe { streams: 17, ..TcpProbe::default() };
    let many = ProbeOrder { test: ProbeTest::Tcp(many), ..order("lh://far.example.org".into()) };
    assert_eq!(problem(api.create_probe(&many)).status, 403);
}

#[test]
fn invalid_orders_of_tests_are_refused() {
    let pair = pair();
    let bearer = format!("Bearer {}", full_key(&pair.here));
    let post = |body: &str| {
        let fields = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let answer = ask(&pair.here, "POST", "/api/v1/probes", &fields, body.as_bytes());
        (answer.status, answer.text())
    };
    let assert_refused = |status: u16, words: &str, (got, text): (u16, String)| {
        assert!(got == status && text.contains(words), "{words:?} is not in {got} {text:?}");
    };
    let id = Uuid::now_v7();
    let order = |rest: &str| format!("{{\"id\":\"{id}\",\"target\":\"lh://h\"{rest}}}");
    assert_refused(400, "not JSON", post("{"));
    assert_refused(400, "missing field", post("{}"));
    assert_refused(400, "wrong type", post(&order("").replace(&id.to_string(), "7")));
    assert_refused(400, "unknown field `tests`", post(&order(",\"tests\":{}")));
    assert_refused(400, "unknown field `stream`", post(&order(",\"test\":{\"tcp\":{\"stream\":1}}")));
    assert_refused(400, "wrong type", post(&order(",\"test\":{\"disk\":{}}")));
    assert_refused(400, "say which node", post(&order("")));
    assert_refused(400, "is a node", post(&order("").replace("lh://h", "https://h/x")));
    assert_refused(400, "without a path", post(&order("").replace("lh://h", "lh://h/data/x")));
    assert_refused(400, "must not name a user", post(&order("").replace("lh://h", "lh://me:5ecret@h")));
    let credentials = format!(",\"credentials\":{{\"key\":\"{}\"}}", pair.key);
    let test = |test: &str| order(&format!("{credentials},\"test\":{test}"));
    assert_refused(400, "600 s at most", post(&test("{\"tcp\":{\"seconds\":601}}")));
    assert_refused(400, "streams", post(&test("{\"tcp\":{\"streams\":0}}")));
    assert_refused(400, "choose one", post(&test("{\"udp\":{\"spacing_s\":1,\"burst\":2}}")));
    let secret = &pair.key[pair.key.len() - 24..];
    let (status, text) = post(&order(&format!(",\"credentials\":\"{}\"", pair.key)));
    assert!(status == 400 && !text.contains(secret), "{text}");
    let get = |target: &str| ask(&pair.here, "GET", target, &[("Authorization", &bearer)], &[]).status;
    for (target, status) in [
        ("/api/v1/probes", 200),
        ("/api/v1/probes/me", 400),
        ("/api/v1/probes?state=paused", 400),
        ("/api/v1/probes?limit=0", 400),
        ("/api/v1/probes?sort=up", 400),
    ] {
        assert_eq!(get(target), status, "{target}");
    }
    assert_eq!(ask(&pair.here, "PATCH", "/api/v1/probes", &[("Authorization", &bearer)], b"x").status, 405);
    assert!(pair.api.list_probes(PageQuery::default()).unwrap().probes.is_empty());
}

#[test]
fn a_test_leaves_no_key_and_is_forgotten_after_a_restart() {
    let mut pair = pair();
    let order = pair.probe(tcp(300.0));
    let mut answers = format!("{:?}", pair.api.create_probe(&order).unwrap());
    until("it runs", LONG, || pair.api.probe(order.id).unwrap().state == ProbeStage::Running);
    answers += &format!("{:?}{:?}", pair.api.probe(order.id), pair.api.list_probes(PageQuery::default()));
    let secret = &pair.key[pair.key.len() - 24..];
    assert!(!answers.contains(secret) && !any_file_contains(&pair.here.state(), secret), "{answers}");
    https::assert_not_written(&pair.here, std::slice::from_ref(&pair.key));
    // After a restart in the middle of it the node knows nothing of it.
    pair.here.restart();
    let unknown = until_some("it answers again", LONG, || match pair.api.probe(order.id) {
        Err(nodeapi::Error::Refused { problem, .. }) => Some(problem.status),
        _ => None,
    });
    assert_eq!(unknown, 404);
    assert!(pair.api.create_probe(&order).unwrap().1, "the id is free again");
}
