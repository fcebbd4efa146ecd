//! Traces over networks that are made up.

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

fn icmp(shot: Option<usize>, from: IpAddr, icmp: [u8; 2], rtt: Duration) -> (Duration, ProbeEvent) {
    let said = crate::route::icmp::meaning(true, icmp[0], icmp[1]);
    (rtt, ProbeEvent::Icmp { shot, rtt: shot.map(|_| rtt), from, said, icmp, mtu: 0, ttl_reverse: Some(60) })
}

/// Each hop is 10 ms farther; the target, a node, is the hop `distance`.
fn answer(shot: usize, ttl: u8, distance: u8) -> (Duration, ProbeEvent) {
    let rtt = 10 * MS * u32::from(ttl.min(distance));
    if ttl < distance {
        icmp(Some(shot), router(ttl), [11, 0], rtt)
    } else {
        let hops = Some(distance);
        (rtt, ProbeEvent::Answer { shot, rtt, hops, hops_reverse: Some(4), ttl_reverse: Some(252), count: 0 })
    }
}

fn traced(plan: Plan, network: impl FnMut(usize, Shot) -> Vec<(Duration, ProbeEvent)>) -> (Path, Duration, usize) {
    let mut tracer = Tracer::new(plan, far());
    let (took, shots) = simulated::run(&mut tracer, &plan.pace(), network);
    (tracer.path(), took, shots)
}

fn addresses(path: &Path) -> Vec<Vec<String>> {
    path.hops.iter().map(|hop| hop.routers.iter().map(|router| router.address.clone()).collect()).collect()
}

#[test]
fn a_node_is_reached_hop_by_hop() {
    let (path, took, shots) = traced(plan(), |number, shot| vec![answer(number, shot.ttl, 5)]);
    let wanted = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.0.0.99"].map(|one| vec![one.to_owned()]);
    assert_eq!(addresses(&path), wanted);
    assert_eq!((path.end, path.distance, path.distance_reverse), (End::Reached, Some(5), Some(4)));
    for hop in &path.hops {
        assert_eq!((hop.sent, hop.answered), (3, 3), "{hop:?}");
        assert_eq!(hop.rtt_min_s, Some(f64::from(hop.ttl) / 100.0));
    }
    assert_eq!(path.hops[4].routers[0].said, RouterReply::Answered);
    assert!(shots <= 3 * 5 + 5 && took < 700 * MS, "{shots} {took:?}");
}

/// A host that is no node says so by ICMP.
#[test]
fn a_closed_port_ends_it() {
    let (path, ..) = traced(plan(), |number, shot| match shot.ttl {
        1 | 2 => vec![icmp(Some(number), router(shot.ttl), [11, 0], MS)],
        _ => vec![icmp(Some(number), far().ip(), [3, 3], MS)],
    });
    assert_eq!((path.end, path.distance, path.hops.len()), (End::Reached, Some(3), 3));
    assert_eq!(path.hops[2].routers[0].said, RouterReply::PortUnreachable);
}

#[test]
fn a_filter_is_named() {
    let (path, ..) = traced(plan(), |number, shot| match shot.ttl {
        1 => vec![icmp(Some(number), router(1), [11, 0], MS)],
        _ => vec![icmp(Some(number), router(2), [3, 13], MS)],
    });
    assert_eq!((path.end, path.distance, path.hops.len()), (End::Blocked, None, 2));
    let router = &path.hops[1].routers[0];
    assert_eq!((router.said, router.icmp), (RouterReply::AdminProhibited, Some([3, 13])));
}

/// One router's slip does not end what others let through.
#[test]
fn who_was_there_was_not_stopped() {
    let (path, ..) = traced(plan(), |number, shot| match (number, shot.ttl) {
        (7.., 2) => vec![icmp(Some(number), router(2), [3, 1], MS)],
        _ => vec![answer(number, shot.ttl, 4)],
    });
    assert_eq!((path.end, path.distance), (End::Reached, Some(4)));
    assert_eq!(path.hops[1].routers.len(), 2, "both of its words are kept");
}

#[test]
fn silence_ends_it_after_the_gap() {
    let (path, took, shots) = traced(plan(), |number, shot| match shot.ttl {
        1 | 3 => vec![icmp(Some(number), router(shot.ttl), [11, 0], MS)],
        _ => vec![],
    });
    assert_eq!((path.end, path.distance), (End::Silent, None));
    let wanted = [vec!["10.1.0.1".to_owned()], vec![], vec!["10.1.0.3".to_owned()]];
    assert_eq!(addresses(&path), wanted);
    assert_eq!(shots, 3 * 8, "five hops beyond the last that answered");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let (path, _, shots) = traced(plan(), |_, _| vec![]);
    assert_eq!((path.end, path.hops.len(), shots), (End::Silent, 0, 3 * 5));
}

#[test]
fn what_is_too_far_is_said_to_be() {
    let plan = Plan { ttl_max: 8, ..plan() };
    let (path, ..) = traced(plan, |number, shot| vec![answer(number, shot.ttl, 9)]);
    assert_eq!((path.end, path.distance, path.hops.len()), (End::TooFar, None, 8));
}

/// RFC 792 asks routers for 8 bytes of what they drop: ports, no number.
#[test]
fn routers_that_quote_too_little_are_asked_one_at_a_time() {
    let (path, ..) = traced(plan(), |number, shot| match answer(number, shot.ttl, 5) {
        (rtt, ProbeEvent::Icmp { from, .. }) if shot.ttl > 2 => vec![icmp(None, from, [11, 0], rtt)],
        known => vec![known],
    });
    let wanted = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.0.0.99"].map(|one| vec![one.to_owned()]);
    assert_eq!(addresses(&path), wanted, "none of them at a hop that is not its own");
    assert!(path.anonymous >= 6 && path.hops[3].answered >= 3, "{path:?}");
    assert_eq!(path.hops[3].rtt_min_s, Some(0.04));
}

/// Duplicates and answers that come after all hope count once.
#[test]
fn late_and_double_answers_count_once() {
    let plan = Plan { patience: 100 * MS, ..plan() };
    let (path, ..) = traced(plan, |number, shot| {
        let (rtt, heard) = answer(number, shot.ttl, 3);
        match shot.ttl {
            2 => vec![(rtt + 150 * MS, heard)],
            _ => vec![(rtt, heard.clone()), (rtt + MS, heard)],
        }
    });
    let answered: Vec<_> = path.hops.iter().map(|hop| (hop.sent, hop.answered)).collect();
    assert_eq!((answered[0], answered[2]), ((3, 3), (3, 3)));
    assert!(answered[1].1 >= 2 && answered[1].1 <= 3, "{answered:?}");
}

#[test]
fn what_comes_from_outside_is_bounded() {
    let plan = Plan { queries: 16, ..plan() };
    let mut number_of_router = 0;
    let (path, ..) = traced(plan, |number, shot| {
        number_of_router += 1;
        let [high, low] = u16::to_be_bytes(number_of_router);
        let stranger = icmp(Some(number + 1_000_000), router(1), [11, 0], MS);
        vec![stranger, icmp(Some(number), [10, 9, high, low].into(), [11, 0], MS * u32::from(shot.ttl))]
    });
    assert!(path.hops.iter().all(|hop| hop.routers.len() <= ROUTERS_MAX && hop.answered <= hop.sent));
    assert_eq!(path.end, End::TooFar);
}

proptest! {
    /// Whatever is lost: it ends, and no hop has a router that is not its own; with every probe of a round lost or not,
    /// the target is found where one of its answers came.
    #[test]
    fn loss_leaves_holes_and_no_lies(distance in 1u8..28, loss in 0.0..0.6, seed: u64) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut was_there = false;
        let (path, ..) = traced(plan(), |number, shot| {
            if chance.f64() < loss {
                return vec![];
            }
            was_there |= shot.ttl >= distance;
            vec![answer(number, shot.ttl, distance)]
        });
        prop_assert_eq!(path.end == End::Reached, was_there);
        prop_assert_eq!(path.distance, was_there.then_some(distance));
        for hop in &path.hops {
            let own = if hop.ttl < distance { router(hop.ttl) } else { far().ip() };
            prop_assert!(hop.routers.iter().all(|one| one.address == own.to_string()), "{:?}", hop);
            prop_assert!(hop.answered <= hop.sent);
        }
    }
}
