//! Routes through kernels that forward: chains, two parallel paths, links with small MTUs, routers that send no ICMP.

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use model::v1::probe::route::{ChangeOf, End, MtuBound, MtuReport, Path, Route, SuspectBy};
use probe::Stop;
use probe::route::{compare, mtu, sweep, trace};

use crate::network::{Host, TestNetwork};
use crate::{TOKEN, quick, while_answering};

const A: [u8; 4] = [10, 200, 1, 1];

/// a - r - s - b over nets 1, 2 and 3; the middle link has this MTU.
struct Chain {
    a: Host,
    r: Host,
    _s: Host,
    b: Host,
    _network: TestNetwork,
}

fn chain(test: &str, mtu: u32) -> Option<Chain> {
    let network = TestNetwork::new(test)?;
    let [a, r, s, b] = [(); 4].map(|()| network.host());
    a.join(&r, 1, 9_000);
    r.join(&s, 2, mtu);
    s.join(&b, 3, 9_000);
    a.ip(&["route add default via 10.200.1.2"]);
    r.route(3, "10.200.2.2");
    s.route(1, "10.200.2.1");
    b.ip(&["route add default via 10.200.3.1"]);
    Some(Chain { a, r, _s: s, b, _network: network })
}

fn trace_flow(near: &UdpSocket) -> Path {
    trace::trace(near, &TOKEN, &quick(), &Stop::default()).unwrap()
}

fn addresses(path: &Path) -> Vec<String> {
    let names = |hop: &model::v1::probe::route::Hop| {
        hop.routers.iter().map(|router| router.address.as_str()).collect::<Vec<_>>().join("|")
    };
    path.hops.iter().map(names).collect()
}

#[test]
fn routers_report_the_packets_that_they_drop() {
    let Some(net) = chain("routers_report_the_packets_that_they_drop", 1_400) else { return };
    let node = net.b.bind([10, 200, 3, 2], 0);
    while_answering(&node, |to| {
        let near = net.a.open(A, 0, to);
        let path = trace_flow(&near);
        assert_eq!(addresses(&path), ["10.200.1.2", "10.200.2.2", "10.200.3.2"]);
        assert_eq!((path.end, path.distance, path.distance_reverse), (End::Reached, Some(3), Some(3)));
        assert_eq!(path.hops[0].routers[0].ttl_reverse, Some(64));
        let found = mtu::mtu(&near, &TOKEN, &mtu::Plan::default(), &Stop::default()).unwrap();
        assert_eq!((found.mtu_bytes, found.bound), (1_400, MtuBound::Path), "{found:?}");
        assert!(found.icmp && found.confirmed && !found.black_hole);
        let said = MtuReport { by: "10.200.1.2".to_owned(), mtu_bytes: 1_400, confirmed: true };
        assert_eq!((found.said, found.interface_bytes), (vec![said], Some(9_000)));
        let _ = writeln!(std::io::stderr(), "trace {:.3} s, MTU {:.3} s", path.seconds, found.seconds);
        // The host has stored the router's MTU; probes ignore the stored value.
        assert_eq!(sys::errqueue::path_mtu(&near).unwrap(), 1_400);
    });
}

/// A router whose ICMP is filtered by mistake, as is common.
#[test]
fn a_router_that_sends_no_icmp_is_a_gap_and_an_mtu_black_hole() {
    let Some(net) = chain("a_router_that_sends_no_icmp_is_a_gap_and_an_mtu_black_hole", 1_400) else { return };
    let node = net.b.bind([10, 200, 3, 2], 0);
    while_answering(&node, |to| {
        let near = net.a.open(A, 0, to);
        let before = trace_flow(&near);
        // Drops the router's own packets to that net, and not those that it forwards.
        net.r.ip(&["rule add to 10.200.1.0/24 iif lo blackhole"]);
        let path = trace_flow(&near);
        assert_eq!(addresses(&path), ["", "10.200.2.2", "10.200.3.2"]);
        assert_eq!((path.end, path.distance), (End::Reached, Some(3)));
        let found = mtu::mtu(&near, &TOKEN, &mtu::Plan::default(), &Stop::default()).unwrap();
        assert_eq!((found.mtu_bytes, found.bound), (1_400, MtuBound::Path), "{found:?}");
        assert!(!found.icmp && found.confirmed && found.black_hole && found.said.is_empty());
        let [before, after] = [before, path].map(|path| Route { path, ..Route::default() });
        let mut changes = compare(&before, &after);
        // Forwarding takes longer on a busy machine.
        changes.retain(|change| change.what != ChangeOf::Rtt);
        assert_eq!(changes, [], "a silent router is not a change of the route");
    });
}

#[test]
fn a_router_that_prohibits_the_path_ends_the_trace() {
    let Some(net) = chain("a_router_that_prohibits_the_path_ends_the_trace", 9_000) else { return };
    net.r.ip(&["route replace prohibit 10.200.3.0/24"]);
    let near = net.a.open(A, 0, "10.200.3.2:33434".parse().unwrap());
    let path = trace_flow(&near);
    assert_eq!((path.end, path.hops.len()), (End::Blocked, 1), "{path:?}");
    let router = &path.hops[0].routers[0];
    assert_eq!((router.icmp, router.address.as_str()), (Some([3, 13]), "10.200.1.2"));
}

/// a - r - (m or n) - s - b: nets 1; 2 and 3; 4 and 5; 6.
#[test]
fn two_paths_are_found_and_the_lossy_one_is_named() {
    let Some(network) = TestNetwork::new("two_paths_are_found_and_the_lossy_one_is_named") else { return };
    let [a, r, m, n, s, b] = [(); 6].map(|()| network.host());
    let joins = [(&a, &r), (&r, &m), (&r, &n), (&m, &s), (&n, &s), (&s, &b)];
    for (number, (one, other)) in (1..).zip(joins) {
        one.join(other, number, 1_500);
    }
    a.ip(&["route add default via 10.200.1.2"]);
    r.ip(&["route add 10.200.6.0/24 nexthop via 10.200.2.2 nexthop via 10.200.3.2"]);
    m.ip(&["route add 10.200.6.0/24 via 10.200.4.2", "route add 10.200.1.0/24 via 10.200.2.1"]);
    n.ip(&["route add 10.200.6.0/24 via 10.200.5.2", "route add 10.200.1.0/24 via 10.200.3.1"]);
    s.ip(&["route add 10.200.1.0/24 via 10.200.4.1"]);
    b.ip(&["route add default via 10.200.6.1"]);
    let node = b.bind([10, 200, 6, 2], 0);
    while_answering(&node, |to| {
        let flows: Vec<UdpSocket> = (0..16).map(|number| a.open(A, 40_000 + number, to)).collect();
        let probes = 60;
        let interval = Duration::from_micros(250);
        let plan = sweep::Plan { trace: trace::Plan { queries: 2, ..quick() }, probes, interval };
        let found = sweep::sweep(&flows, &TOKEN, &plan, &Stop::default()).unwrap();
        assert_eq!((found.end, found.judged, found.paths.len()), (End::Reached, true, 2), "{found:?}");
        let mut middle: Vec<_> = found.paths.iter().map(|path| path.hops[1].concat()).collect();
        middle.sort_unstable();
        assert_eq!(middle, ["10.200.2.2", "10.200.3.2"]);
        assert!(found.flows.iter().all(|flow| flow.sent == 60 && flow.answered == 60), "{found:?}");
        assert!(!found.suspects.iter().any(|suspect| suspect.by == SuspectBy::Loss));
        // A flow keeps its path: a trace of one flow finds one path.
        let again = trace_flow(&flows[3]);
        let its = found.flows.iter().find(|flow| flow.port == 40_003).unwrap();
        assert!(found.paths[its.path].hops[1].contains(&addresses(&again)[1]));

        // s drops the packets that come through n.
        s.ip(&["rule add iif v5 blackhole"]);
        let bad = sweep::sweep(&flows, &TOKEN, &plan, &Stop::default()).unwrap();
        let [suspect] = &bad.suspects[..] else { panic!("{:?}", bad.suspects) };
        assert_eq!(
            (suspect.by, suspect.hop, suspect.address.as_deref()),
            (SuspectBy::Loss, Some(2), Some("10.200.3.2"))
        );
        let over_n = found.paths.iter().find(|path| path.hops[1] == ["10.200.3.2"]).unwrap();
        assert_eq!(suspect.ports, over_n.ports);
        assert_eq!((suspect.lost, suspect.others_lost), (suspect.sent, 0));
        let _ = writeln!(std::io::stderr(), "sweep of 16 flows: {:.2} s; {}", found.seconds, suspect.text);
    });
}
