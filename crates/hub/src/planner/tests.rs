//! Tests of rounds of the scheduler: shares, promises, limits, endpoints that are stopped or broken.

use super::*;
use crate::database::submissions::QueueKey;

const TOML: &str = r#"
    [site.a]
    [site.b]
    [site.c]
    [endpoint.a]
    site = "a"
    urls = ["lh://a"]
    [endpoint.b]
    site = "b"
    urls = ["lh://b"]
    [endpoint.c]
    site = "c"
    urls = ["lh://c"]
    limits = { in_transfers = 3 }
    [link.wan]
    capacity_bit_s = 800
    mark = 0.8
    [[route]]
    from = "a"
    to = "*"
    links = ["wan"]
    [community.astro]
    share = 3.0
"#;

fn topology() -> Topology {
    Topology::new(toml::from_str(TOML).unwrap()).unwrap()
}

fn queue(id: i64, target: &str, community: &str, queued: i64) -> Queue {
    let key = QueueKey {
        source: "a".into(),
        target: target.into(),
        community: community.into(),
        activity: "default".into(),
        owner: "ann".into(),
        priority: 3,
        deadline: 0,
        limited_job: 0,
    };
    Queue { id, key, queued, staging: 0, queued_bytes: 0, running: 0, running_bytes: 0, limit: None }
}

/// The inputs of a round besides the queues and the transfers.
#[derive(Default)]
struct Conditions {
    caps: HashMap<i64, f64>,
    promised: HashMap<i64, PromiseStatus>,
    broken: HashMap<String, String>,
    copies: HashMap<Pair, u32>,
}

fn decide(topology: &Topology, queues: &[Queue], running: &[PlannedTransfer], known: &Conditions) -> Plan {
    let usable: Vec<f64> = topology.resources.iter().map(|resource| resource.capacity * resource.mark).collect();
    let input = PlanInput {
        caps: &known.caps,
        promised: &known.promised,
        at: 1,
        topology,
        usable: &usable,
        queues,
        waited: &HashMap::new(),
        running,
        broken: &known.broken,
        copies: &known.copies,
    };
    plan(&input)
}

fn running(number: i64, queue: i64, target: &str) -> PlannedTransfer {
    PlannedTransfer { number, queue, source: "a".into(), target: target.into(), rate: 10.0, bytes: 100 }
}

#[test]
fn communities_share_a_link_below_its_mark() {
    let queues = [queue(1, "b", "astro", 1), queue(2, "c", "other", 0)];
    let queues = queues.map(|queue| Queue { running: 1, ..queue });
    let active = [running(7, 1, "b"), running(8, 1, "b"), running(9, 2, "c")];
    let plan = decide(&topology(), &queues, &active, &Conditions::default());
    // 800 bit/s at a mark of 0.8 are 80 bytes per second, 3 to 1; one more of the first queue begins.
    assert_eq!((plan.limits[&7], plan.limits[&8], plan.limits[&9]), (20.0, 20.0, 20.0));
    assert_eq!(plan.begin, [Begin { queue: 1, limit: 20.0 }]);
    let decision = &plan.snapshot.queues[&2];
    assert_eq!((decision.rate, decision.used, decision.constraint.kind), (20.0, 10.0, ConstraintKind::Link));
    assert_eq!(decision.held_by, ["astro/default of ann: 0.0 Mbit/s"]);
    let wan = plan.snapshot.resources.iter().find(|line| line.name == "link wan").unwrap();
    assert_eq!((wan.usable_bit_s, wan.allocated_bit_s, wan.used_bit_s), (640, 640, 240));
}

#[test]
fn the_limit_of_a_job_holds_for_all_its_paths_together() {
    let limited = |id, target| {
        let queue = queue(id, target, "astro", 0);
        Queue { running: 1, limit: Some(24.0), key: QueueKey { limited_job: 5, ..queue.key }, ..queue }
    };
    let queues = [limited(1, "b"), limited(2, "c"), Queue { running: 1, ..queue(3, "c", "other", 0) }];
    let active = [running(7, 1, "b"), running(8, 2, "c"), running(9, 3, "c")];
    let plan = decide(&topology(), &queues, &active, &Conditions::default());
    assert_eq!((plan.limits[&7], plan.limits[&8], plan.limits[&9]), (12.0, 12.0, 56.0));
    let constraint = &plan.snapshot.queues[&1].constraint;
    assert_eq!(
        (constraint.kind, constraint.text.as_str()),
        (ConstraintKind::Limit, "the job has a rate limit of 0.0 Mbit/s")
    );
    assert!(plan.snapshot.queues[&1].held_by.is_empty(), "no other queue shares it");
    assert_eq!(
        plan.snapshot.resources.len(),
        topology().resources.len(),
        "a limit is no resource of the collaboration"
    );
}

#[test]
fn a_rate_that_a_queue_cannot_use_goes_to_the_others() {
    let queues = [queue(1, "b", "astro", 0), queue(2, "c", "other", 0)].map(|queue| Queue { running: 1, ..queue });
    let active = [running(7, 1, "b"), running(9, 2, "c")];
    let known = Conditions { caps: HashMap::from([(1, 10.0)]), ..Conditions::default() };
    let plan = decide(&topology(), &queues, &active, &known);
    assert_eq!((plan.limits[&7], plan.limits[&9]), (10.0, 70.0));
}

#[test]
fn promised_rates_are_reserved_before_the_rest_is_shared() {
    let queues = [queue(1, "b", "astro", 0), queue(2, "c", "other", 0)].map(|queue| Queue { running: 1, ..queue });
    let active = [running(7, 1, "b"), running(9, 2, "c")];
    // Of 80 bytes per second the first queue would have 60; the second is promised 50, and was never seen to use them.
    let known = Conditions {
        caps: HashMap::from([(2, 5.0)]),
        promised: HashMap::from([(2, PromiseStatus { floor: 50.0, late_bytes: 0.0 })]),
        ..Conditions::default()
    };
    let plan = decide(&topology(), &queues, &active, &known);
    assert_eq!((plan.limits[&7], plan.limits[&9]), (30.0, 50.0));
}

#[test]
fn a_queue_with_a_promise_begins_first() {
    let queues = [queue(1, "c", "astro", 100), queue(2, "c", "other", 100)];
    let queues = queues.map(|mut queue| {
        queue.key.priority = if queue.id == 1 { 5 } else { 1 };
        queue
    });
    let due = PromiseStatus { floor: 1.0, late_bytes: 0.0 };
    let known = Conditions { promised: HashMap::from([(2, due)]), ..Conditions::default() };
    let plan = decide(&topology(), &queues, &[], &known);
    assert_eq!(plan.begin.first().map(|begin| begin.queue), Some(2));
}

#[test]
fn an_endpoint_never_has_more_transfers_than_it_may() {
    let queues = [queue(1, "c", "astro", 100), queue(2, "c", "other", 100), queue(3, "b", "other", 1)];
    let plan = decide(&topology(), &queues, &[running(7, 1, "c")], &Conditions::default());
    let of = |id| plan.begin.iter().filter(|begin| begin.queue == id).count();
    assert_eq!((of(1), of(2), of(3)), (1, 1, 1), "{:?}", plan.begin);
    assert_eq!(plan.snapshot.queues[&1].constraint.kind, ConstraintKind::Transfers);
}

#[test]
fn a_pair_of_servers_has_no_more_copies_than_its_bound() {
    let queues = [queue(1, "b", "astro", 100), queue(2, "b", "other", 100), queue(3, "c", "other", 9)];
    let known = Conditions { copies: HashMap::from([(("a".to_owned(), "b".to_owned()), 7)]), ..Conditions::default() };
    let plan = decide(&topology(), &queues, &[running(7, 1, "b")], &known);
    let of = |id| plan.begin.iter().filter(|begin| begin.queue == id).count();
    assert_eq!((of(1), of(2)), (3, 3), "seven of both queues together, with the one that runs");
    let waits = &plan.snapshot.queues[&1].constraint;
    assert!(waits.kind == ConstraintKind::Transfers && waits.text.contains("7 files at once"), "{waits:?}");
}

#[test]
fn a_stopped_or_broken_endpoint_begins_nothing_and_gives_the_reason() {
    let known = Conditions { broken: HashMap::from([("c".to_owned(), "noon".to_owned())]), ..Conditions::default() };
    let mut described: model::v1::hub::Collaboration = toml::from_str(TOML).unwrap();
    let reason = "maintenance".to_owned();
    described.sites.get_mut("b").unwrap().stopped = Some(model::v1::hub::Stopped { reason, ..Default::default() });
    let stopped = Topology::new(described).unwrap();
    let plan = decide(&stopped, &[queue(1, "b", "astro", 5), queue(2, "c", "astro", 5)], &[], &known);
    assert!(plan.begin.is_empty());
    let (first, second) = (&plan.snapshot.queues[&1].constraint, &plan.snapshot.queues[&2].constraint);
    assert_eq!((first.kind, first.text.as_str()), (ConstraintKind::Stopped, "site b is stopped: maintenance"));
    assert_eq!((second.kind, second.name.as_str()), (ConstraintKind::Broken, "c"));
}

#[test]
fn a_stop_pauses_transfers_and_a_drain_lets_them_end() {
    let queues = [queue(1, "b", "astro", 0), queue(2, "c", "other", 0)].map(|queue| Queue { running: 1, ..queue });
    let active = [running(7, 1, "b"), running(9, 2, "c")];
    let limits = |drain: bool| {
        let mut described: model::v1::hub::Collaboration = toml::from_str(TOML).unwrap();
        let stopped = model::v1::hub::Stopped { drain, ..Default::default() };
        described.sites.get_mut("b").unwrap().stopped = Some(stopped);
        let plan = decide(&Topology::new(described).unwrap(), &queues, &active, &Conditions::default());
        (plan.limits[&7], plan.limits[&9])
    };
    assert_eq!(limits(false), (0.0, 80.0), "its share goes to the others");
    assert_eq!(limits(true), (60.0, 20.0));
}

#[test]
fn without_a_bounding_resource_there_is_no_limit() {
    let queues = [Queue { key: QueueKey { source: "b".into(), ..queue(1, "c", "x", 1).key }, ..queue(1, "c", "x", 1) }];
    let plan = decide(&topology(), &queues, &[running(7, 1, "c")], &Conditions::default());
    assert_eq!(plan.limits[&7], f64::INFINITY);
    assert_eq!(plan.begin, [Begin { queue: 1, limit: f64::INFINITY }]);
}
