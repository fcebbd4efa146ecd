//! Which alarms are diagnosed, and what is ordered, without a node; `tests/e2e/watch.rs` of the binary has nodes.

use std::cell::{Cell, RefCell};

use model::v1::watch::AlarmKind;

use super::*;
use crate::config::Config;

const NODES: &str = "[node.a]\naddress = \"a\"\n[node.b]\naddress = \"b\"\n[target.t]\nurl = \"stamp://t\"\n\
                     [[group]]\nthroughput = false\n";

fn plan(rest: &str) -> WatchPlan {
    WatchPlan::of(Config::parse(&format!("{rest}{NODES}")).unwrap()).unwrap()
}

fn alarm(kind: AlarmKind, to: &str) -> Alarm {
    let text = serde_json::json!({
        "id": 1, "from": "a", "to": to, "kind": kind, "severity": "warning", "since": "2026-11-27T10:00:00Z", "evidence": "", "cause": "unknown",
        "segment": "", "remedy": "",
    });
    serde_json::from_value(text).unwrap()
}

fn wanted(plan: &WatchPlan, kind: AlarmKind, to: &str) -> Option<ProbeOrder> {
    Diagnoser::default().wanted(plan, &alarm(kind, to), 0)
}

#[test]
fn loss_and_throughput_ask_for_a_sweep_that_the_schedule_does_not_contain() {
    let order = wanted(&plan(""), AlarmKind::Loss, "b").unwrap();
    let ProbeTest::Path(path) = &order.test else { panic!("{order:?}") };
    assert_eq!((order.target.as_str(), path.flows), ("lh://b", 32));
    assert!(path.mtu_bytes_max > 1_500 && path.ttl_max > 8, "it finds the MTU and the routers too");
    assert!(wanted(&plan(""), AlarmKind::Throughput, "b").is_some());
    assert!(wanted(&plan(""), AlarmKind::Queue, "b").is_none());
    assert!(wanted(&plan(""), AlarmKind::Loss, "t").is_none(), "only nodes answer a sweep");
    assert!(wanted(&plan(""), AlarmKind::Loss, "gone").is_none());
    assert!(wanted(&plan("diagnosis = false\n"), AlarmKind::Loss, "b").is_none());
    let swept = NODES.replace("throughput = false", "throughput = false\npath = { flows = 32 }");
    let swept = WatchPlan::of(Config::parse(&swept).unwrap()).unwrap();
    assert!(wanted(&swept, AlarmKind::Loss, "b").is_none(), "the schedule sweeps as many ports");
}

#[test]
fn a_flapping_alarm_orders_once() {
    let (plan, mut diagnoser) = (plan(""), Diagnoser::default());
    let mut order = |minute: i64| diagnoser.wanted(&plan, &alarm(AlarmKind::Loss, "b"), minute * 60_000).is_some();
    assert_eq!([0, 5, 59, 60].map(&mut order), [true, false, false, true]);
}

/// A node that answers with one state after the other.
struct FakeNode {
    states: RefCell<Vec<ProbeStage>>,
    cancelled: Cell<bool>,
}

impl FakeNode {
    fn new(states: &[ProbeStage]) -> FakeNode {
        FakeNode { states: RefCell::new(states.iter().rev().copied().collect()), cancelled: Cell::new(false) }
    }
}

impl ProbeApi for FakeNode {
    fn order(&self, order: &ProbeOrder) -> Result<Probe, String> {
        self.test(order.id)
    }

    fn test(&self, id: Uuid) -> Result<Probe, String> {
        let state = self.states.borrow_mut().pop().ok_or("the node is gone")?;
        let report = (state == ProbeStage::Done).then(|| serde_json::json!({}));
        let error = (state == ProbeStage::Failed).then(|| "no right".to_owned());
        Ok(Probe { id, state, report, error, ..Probe::default() })
    }

    fn cancel(&self, _: Uuid) {
        self.cancelled.set(true);
    }
}

#[test]
fn a_test_is_followed_to_its_end() {
    use ProbeStage::{Cancelled, Done, Failed, Queued, Running};
    let order = ProbeOrder::new(Uuid::now_v7(), "lh://b");
    let follow = |states: &[ProbeStage], stop: &StopSignal| {
        let node = FakeNode::new(states);
        (result_of(&node, &order, Duration::from_millis(1), stop).map(|probe| probe.id), node.cancelled.get())
    };
    let runs = StopSignal::default();
    assert_eq!(follow(&[Queued, Running, Done], &runs), (Ok(order.id), false));
    assert_eq!(follow(&[Running, Failed], &runs), (Err("no right".into()), false));
    assert_eq!(follow(&[Queued, Cancelled], &runs), (Err("it was cancelled".into()), false));
    assert_eq!(follow(&[Queued], &runs), (Err("the node is gone".into()), false));
    let ends = StopSignal::default();
    ends.set();
    assert_eq!(follow(&[Running], &ends), (Err("it did not end in time".into()), true));
}
