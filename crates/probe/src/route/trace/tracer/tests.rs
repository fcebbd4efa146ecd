//! Traces over simulated networks.

use proptest::prelude::*;

use super::*;
use crate::route::simulated;

const MS: Duration = Duration::from_millis(1);

fn plan() -> Plan {
    Plan { lasts: Duration::from_secs(600), ..Plan::default() }
}

fn far() -> SocketAddr {
    "10.0.0.99:33434".parse().unwrap()
}

/// The router at a hop.
fn router(ttl: u8) -> IpAddr {
    [10, 1, 0, ttl].into()
}

fn icmp(probe: Option<usize>, from: IpAddr, icmp: [u8; 2], rtt: Duration) -> (Duration, ProbeEvent) {
    let reply = crate::route::icmp::meaning(true, icmp[0], icmp[1]);
    (rtt, ProbeEvent::Icmp { probe, rtt: probe.map(|_| rtt), from, reply, icmp, mtu: 0, ttl_reverse: Some(60) })
}

/// The answer of a network in which each hop is 10 ms farther than the last, and the target, a node, is hop `distance`.
fn answer(probe: usize, ttl: u8, distance: u8) -> (Duration, ProbeEvent) {
    let rtt = 10 * MS * u32::from(ttl.min(distance));
    if ttl < distance {
        icmp(Some(probe), router(ttl), [11, 0], rtt)
    } else {
        let hops = Some(distance);
        (rtt, ProbeEvent::Answer { probe, rtt, hops, hops_reverse: Some(4), ttl_reverse: Some(252), count: 0 })
    }
}

fn traced(plan: Plan, network: impl FnMut(usize, ProbeSpec) -> Vec<(Duration, ProbeEvent)>) -> (Path, Duration, usize) {
    let mut tracer = Tracer::new(plan, far());
    let (took, probes) = simulated::run(&mut tracer, &plan.pace(), network);
    (tracer.path(), took, probes)
}

fn addresses(path: &Path) -> Vec<Vec<String>> {
    path.hops.iter().map(|hop| hop.routers.iter().map(|router| router.address.clone()).collect()).collect()
}

#[test]
fn a_node_is_reached_hop_by_hop() {
    let (path, took, probes) = traced(plan(), |number, spec| vec![answer(number, spec.ttl, 5)]);
    let wanted = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.0.0.99"].map(|one| vec![one.to_owned()]);
    assert_eq!(addresses(&path), wanted);
    assert_eq!((path.end, path.distance, path.distance_reverse), (End::Reached, Some(5), Some(4)));
    for hop in &path.hops {
        assert_eq!((hop.sent, hop.answered), (3, 3), "{hop:?}");
        assert_eq!(hop.rtt_min_s, Some(f64::from(hop.ttl) / 100.0));
    }
    assert_eq!(path.hops[4].routers[0].said, RouterReply::Answered);
    assert!(probes <= 3 * 5 + 5 && took < 700 * MS, "{probes} {took:?}");
}

/// A host that is not a node reports a closed port.
#[test]
fn a_closed_port_ends_the_trace() {
    let (path, ..) = traced(plan(), |number, spec| match spec.ttl {
        1 | 2 => vec![icmp(Some(number), router(spec.ttl), [11, 0], MS)],
        _ => vec![icmp(Some(number), far().ip(), [3, 3], MS)],
    });
    assert_eq!((path.end, path.distance, path.hops.len()), (End::Reached, Some(3), 3));
    assert_eq!(path.hops[2].routers[0].said, RouterReply::PortUnreachable);
}

#[test]
fn a_filtering_router_ends_the_trace() {
    let (path, ..) = traced(plan(), |number, spec| match spec.ttl {
        1 => vec![icmp(Some(number), router(1), [11, 0], MS)],
        _ => vec![icmp(Some(number), router(2), [3, 13], MS)],
    });
    assert_eq!((path.end, path.distance, path.hops.len()), (End::Blocked, None, 2));
    let router = &path.hops[1].routers[0];
    assert_eq!((router.said, router.icmp), (RouterReply::AdminProhibited, Some([3, 13])));
}

/// One wrong report of a router does not end a route that reached the target.
#[test]
fn a_target_that_was_reached_is_not_blocked() {
    let (path, ..) = traced(plan(), |number, spec| match (number, spec.ttl) {
        (7.., 2) => vec![icmp(Some(number), router(2), [3, 1], MS)],
        _ => vec![answer(number, spec.ttl, 4)],
    });
    assert_eq!((path.end, path.distance), (End::Reached, Some(4)));
    assert_eq!(path.hops[1].routers.len(), 2, "both of its answers are recorded");
}

#[test]
fn silent_hops_end_the_trace_after_the_gap() {
    let (path, took, probes) = traced(plan(), |number, spec| match spec.ttl {
        1 | 3 => vec![icmp(Some(number), router(spec.ttl), [11, 0], MS)],
        _ => vec![],
    });
    assert_eq!((path.end, path.distance), (End::Silent, None));
    let wanted = [vec!["10.1.0.1".to_owned()], vec![], vec!["10.1.0.3".to_owned()]];
    assert_eq!(addresses(&path), wanted);
    assert_eq!(probes, 3 * 8, "five hops beyond the last that answered");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let (path, _, probes) = traced(plan(), |_, _| vec![]);
    assert_eq!((path.end, path.hops.len(), probes), (End::Silent, 0, 3 * 5));
}

#[test]
fn a_target_beyond_the_highest_ttl_is_too_far() {
    let plan = Plan { ttl_max: 8, ..plan() };
    let (path, ..) = traced(plan, |number, spec| vec![answer(number, spec.ttl, 9)]);
    assert_eq!((path.end, path.distance, path.hops.len()), (End::TooFar, None, 8));
}

/// RFC 792 requires routers to quote only 8 bytes of the dropped payload: ports, no number.
#[test]
fn routers_that_quote_too_little_are_probed_one_at_a_time() {
    let (path, ..) = traced(plan(), |number, spec| match answer(number, spec.ttl, 5) {
        (rtt, ProbeEvent::Icmp { from, .. }) if spec.ttl > 2 => vec![icmp(None, from, [11, 0], rtt)],
        known => vec![known],
    });
    let wanted = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.0.0.99"].map(|one| vec![one.to_owned()]);
    assert_eq!(addresses(&path), wanted, "each router is at its own hop");
    assert!(path.anonymous >= 6 && path.hops[3].answered >= 3, "{path:?}");
    assert_eq!(path.hops[3].rtt_min_s, Some(0.04));
}

/// Duplicates, and answers to probes that were given up, count once.
#[test]
fn late_and_duplicate_answers_count_once() {
    let plan = Plan { patience: 100 * MS, ..plan() };
    let (path, ..) = traced(plan, |number, spec| {
        let (rtt, event) = answer(number, spec.ttl, 3);
        match spec.ttl {
            2 => vec![(rtt + 150 * MS, event)],
            _ => vec![(rtt, event.clone()), (rtt + MS, event)],
        }
    });
    let answered: Vec<_> = path.hops.iter().map(|hop| (hop.sent, hop.answered)).collect();
    assert_eq!((answered[0], answered[2]), ((3, 3), (3, 3)));
    assert!(answered[1].1 >= 2 && answered[1].1 <= 3, "{answered:?}");
}

#[test]
fn the_routers_of_a_hop_are_bounded() {
    let plan = Plan { queries: 16, ..plan() };
    let mut number_of_router = 0;
    let (path, ..) = traced(plan, |number, spec| {
        number_of_router += 1;
        let [high, low] = u16::to_be_bytes(number_of_router);
        let stranger = icmp(Some(number + 1_000_000), router(1), [11, 0], MS);
        vec![stranger, icmp(Some(number), [10, 9, high, low].into(), [11, 0], MS * u32::from(spec.ttl))]
    });
    assert!(path.hops.iter().all(|hop| hop.routers.len() <= ROUTERS_MAX && hop.answered <= hop.sent));
    assert_eq!(path.end, End::TooFar);
}

proptest! {
    /// With any losses the trace ends, each hop has only its own router, and the target is found if one of its answers arrives.
    #[test]
    fn loss_makes_hops_silent_and_never_wrong(distance in 1u8..28, loss in 0.0..0.6, seed: u64) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut is_reached = false;
        let (path, ..) = traced(plan(), |number, spec| {
            if chance.f64() < loss {
                return vec![];
            }
            is_reached |= spec.ttl >= distance;
            vec![answer(number, spec.ttl, distance)]
        });
        prop_assert_eq!(path.end == End::Reached, is_reached);
        prop_assert_eq!(path.distance, is_reached.then_some(distance));
        for hop in &path.hops {
            let own = if hop.ttl < distance { router(hop.ttl) } else { far().ip() };
            prop_assert!(hop.routers.iter().all(|one| one.address == own.to_string()), "{:?}", hop);
            prop_assert!(hop.answered <= hop.sent);
        }
    }
}
