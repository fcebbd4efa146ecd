//! Routes through the lab: hops at known distances, MTUs, black holes, members that lose packets.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use lab::{Lab, fixture};
use model::v1::probe::route::{ChangeOf, End, MtuBound, Route, RouterReply, SuspectBy};
use probe::route::{asymmetries, compare, mtu, open, sweep, trace};
use probe::{Error, Stop};

use crate::{TOKEN, quick, while_answering};

fn address(lab: &Lab, site: &str, v6: bool) -> IpAddr {
    let scenario = lab.scenario();
    let interface = &scenario.sites[scenario.site(site).unwrap()].interfaces[0];
    if v6 { interface.v6.unwrap().0.into() } else { interface.v4.unwrap().0.into() }
}

/// A socket at a site, connected to `to` if given.
fn socket(lab: &Lab, site: &str, v6: bool, to: Option<SocketAddr>) -> UdpSocket {
    let from = SocketAddr::new(address(lab, site, v6), 0);
    let make = || match to {
        Some(to) => open(from, to).unwrap(),
        None => UdpSocket::bind(from).unwrap(),
    };
    lab.site(site).unwrap().within(make).unwrap()
}

/// Whether the lab kept its times; if not, reports why on stderr.
fn is_judged(test: &str, lab: &Lab) -> bool {
    let Some(why) = lab.limited(&lab.reading().unwrap()) else { return true };
    let _ = writeln!(std::io::stderr(), "NOT JUDGED: {test}: {why}");
    false
}

fn trace_to(lab: &Lab, v6: bool, to: SocketAddr) -> Route {
    trace_by(&quick(), lab, v6, to)
}

fn trace_by(plan: &trace::Plan, lab: &Lab, v6: bool, to: SocketAddr) -> Route {
    let near = socket(lab, "a", v6, Some(to));
    let path = trace::trace(&near, &TOKEN, plan, &Stop::default()).unwrap();
    Route { path, ..Route::default() }
}

#[test]
fn hops_of_a_node_are_found_with_their_distances() {
    let test = "hops_of_a_node_are_found_with_their_distances";
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"40ms\"\nhops = 3";
    let Some(lab) = fixture::up(test, text) else { return };
    for v6 in [false, true] {
        let node = socket(&lab, "b", v6, None);
        let path = while_answering(&node, |to| trace_to(&lab, v6, to)).path;
        assert_eq!((path.end, path.distance, path.distance_reverse), (End::Reached, Some(4), Some(4)), "{path:?}");
        for (hop, number) in path.hops.iter().zip(1..) {
            let [router] = &hop.routers[..] else { panic!("{hop:?}") };
            let (wanted, said) = match (number, v6) {
                (4, _) => (address(&lab, "b", v6), RouterReply::Answered),
                (_, false) => ([10, 78, 1, number].into(), RouterReply::TimeExceeded),
                (_, true) => (format!("fd4c:6f6e:6701:1::{number}").parse().unwrap(), RouterReply::TimeExceeded),
            };
            assert_eq!((&router.address, router.said), (&wanted.to_string(), said));
            assert_eq!((hop.ttl, hop.sent, hop.answered), (number, 3, 3));
            let rtt = hop.rtt_min_s.unwrap();
            let due = f64::from(number) / 100.0;
            let early = 2.0 * lab::EARLY_MAX.as_secs_f64();
            assert!(rtt >= due - early, "hop {number} at {rtt} s, faster than the path");
            if is_judged(test, &lab) {
                // The node is a program, which answers when it has a processor.
                let late = if number == 4 { 0.03 } else { 0.003 };
                assert!(rtt < due + late, "hop {number} at {rtt} s");
            }
        }
    }
}

#[test]
fn a_host_without_a_node_ends_a_trace() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"10ms\"\nhops = 2";
    let Some(lab) = fixture::up("a_host_without_a_node_ends_a_trace", text) else { return };
    for v6 in [false, true] {
        let nobody = SocketAddr::new(address(&lab, "b", v6), 33_434);
        // The kernel limits the rate of its answers for a port without a listener.
        let path = trace_by(&trace::Plan::default(), &lab, v6, nobody).path;
        assert_eq!((path.end, path.distance, path.distance_reverse), (End::Reached, Some(3), None), "{path:?}");
        assert_eq!(path.hops[2].routers[0].said, RouterReply::PortUnreachable);
        // Its answers do not tell which sizes arrive.
        let near = socket(&lab, "a", v6, Some(nobody));
        let plan = mtu::Plan { patience: Duration::from_millis(300), ..mtu::Plan::default() };
        let error = mtu::mtu(&near, &TOKEN, &plan, &Stop::default()).unwrap_err();
        assert!(matches!(error, Error::Silent { .. }), "{error:?}");
    }
}

#[test]
fn a_dead_path_is_silent() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"10ms\"\nhops = 2\ndown = true";
    let Some(lab) = fixture::up("a_dead_path_is_silent", text) else { return };
    let to = SocketAddr::new(address(&lab, "b", false), 33_434);
    let plan = trace::Plan { patience: Duration::from_millis(300), ..quick() };
    let path = trace_by(&plan, &lab, false, to).path;
    assert_eq!((path.end, path.hops.len()), (End::Silent, 0));
    // The first router reports that there is no route.
    let without_route = SocketAddr::new([10, 99, 99, 99].into(), 33_434);
    let path = trace_to(&lab, false, without_route).path;
    assert_eq!((path.end, path.hops.len()), (End::Blocked, 1));
    assert_eq!(path.hops[0].routers[0].said, RouterReply::NetworkUnreachable);
}

#[test]
fn mtus_are_found_in_each_direction() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"10ms\"\nmtu = 4470\nba = { mtu_black_hole = 1437 }";
    let Some(lab) = fixture::up("mtus_are_found_in_each_direction", text) else { return };
    for v6 in [false, true] {
        let found = [("a", "b"), ("b", "a")].map(|(near, far)| {
            let node = socket(&lab, far, v6, None);
            while_answering(&node, |to| {
                let near = socket(&lab, near, v6, Some(to));
                mtu::mtu(&near, &TOKEN, &mtu::Plan::default(), &Stop::default()).unwrap()
            })
        });
        let [forward, reverse] = &found;
        assert_eq!((forward.mtu_bytes, forward.bound), (4_470, MtuBound::Path), "{forward:?}");
        assert!(forward.icmp && forward.confirmed && !forward.black_hole);
        assert_eq!(forward.interface_bytes, Some(9_000));
        assert_eq!((reverse.mtu_bytes, reverse.bound), (1_437, MtuBound::Path), "{reverse:?}");
        assert!(!reverse.icmp && reverse.confirmed && reverse.black_hole);
        // The router reports packets above 4,470 bytes; smaller ones vanish all the same.
        assert!(reverse.said.iter().all(|said| said.mtu_bytes == 4_470 && !said.confirmed));
        let route = |mtu: &model::v1::probe::route::Mtu| Route { mtu: Some(mtu.clone()), ..Route::default() };
        let found = asymmetries(&route(forward), &route(reverse));
        assert_eq!(found.len(), 1);
        let wanted =
            "packets up to 4470 bytes fit forward; reverse: 1437, and larger ones vanish without an ICMP message";
        assert_eq!(found[0].text, wanted);
        let seconds = forward.seconds.max(reverse.seconds);
        let _ = writeln!(std::io::stderr(), "MTU over 10 ms: {seconds:.2} s at most");
    }
}

#[test]
fn an_mtu_is_found_over_a_long_and_lossy_path() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"303ms\"\nmtu = 1420\nloss = \"5%\"";
    let Some(lab) = fixture::up("an_mtu_is_found_over_a_long_and_lossy_path", text) else { return };
    let node = socket(&lab, "b", false, None);
    let found = while_answering(&node, |to| {
        let near = socket(&lab, "a", false, Some(to));
        mtu::mtu(&near, &TOKEN, &mtu::Plan::default(), &Stop::default()).unwrap()
    });
    assert_eq!((found.mtu_bytes, found.icmp, found.confirmed), (1_420, true, true), "{found:?}");
    let _ = writeln!(std::io::stderr(), "MTU over 303 ms with 5 % loss: {:.2} s", found.seconds);
}

#[test]
fn a_lossy_member_and_a_longer_one_are_found() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"20ms\"\nhops = 1\necmp = 4\n[path.a-b.member.2]\nab = { loss = \
                \"20%\" }\n[path.a-b.member.3]\nrtt = \"30ms\"";
    // With so many flows, one sweep in a million misses one of four members.
    const FLOWS: usize = 48;
    let test = "a_lossy_member_and_a_longer_one_are_found";
    let Some(lab) = fixture::up(test, text) else { return };
    let node = socket(&lab, "b", false, None);
    let found = while_answering(&node, |to| {
        let flows: Vec<_> = (0..FLOWS).map(|_| socket(&lab, "a", false, Some(to))).collect();
        let probes = 150;
        let interval = Duration::from_micros(250);
        let plan = sweep::Plan { trace: trace::Plan { queries: 2, ..quick() }, probes, interval };
        sweep::sweep(&flows, &TOKEN, &plan, &Stop::default()).unwrap()
    });
    assert!(found.judged && found.end == End::Reached, "{found:?}");
    assert_eq!((found.flows.len(), found.paths.len()), (FLOWS, 1), "the lab's members look alike");
    assert!(found.flows.iter().all(|flow| flow.sent == 150));
    // 20 % of 150 are 30 with a deviation of 5; the others lose only packets that the lab dropped.
    let lossy: Vec<u16> = found.flows.iter().filter(|flow| flow.answered < 140).map(|flow| flow.port).collect();
    let is_by = |by: SuspectBy| move |suspect: &&model::v1::probe::route::Suspect| suspect.by == by;
    let mut blamed: Vec<u16> =
        found.suspects.iter().filter(is_by(SuspectBy::Loss)).flat_map(|suspect| suspect.ports.clone()).collect();
    blamed.sort_unstable();
    assert!(!lossy.is_empty() && lossy.len() < FLOWS, "{lossy:?}");
    assert_eq!(blamed, lossy, "{:?}", found.suspects);
    let lost: u32 = found.flows.iter().filter(|flow| lossy.contains(&flow.port)).map(|flow| 150 - flow.answered).sum();
    let taken = lab.reading().unwrap().links.iter().map(|link| link.counts.lost).sum::<u64>();
    assert!(u64::from(lost) <= taken, "{lost} {taken}");
    if !is_judged(test, &lab) {
        return;
    }
    // The reverse path is chosen independently: the longer member may be in one direction (25 ms) or in both (30 ms).
    let is_longer = |rtt: f64| rtt > 0.0225;
    let longer: Vec<u16> =
        found.flows.iter().filter(|flow| flow.rtt_min_s.is_some_and(is_longer)).map(|flow| flow.port).collect();
    let blamed: Vec<_> = found.suspects.iter().filter(is_by(SuspectBy::Delay)).map(|one| one.ports.clone()).collect();
    assert_eq!(blamed, [longer], "{:?}", found.flows);
}

#[test]
fn a_longer_path_is_a_change() {
    // The routers are at one and two thirds of the path; the step counts from the first hop that has half of it.
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"20ms\"\nhops = 2";
    let Some(lab) = fixture::up("a_longer_path_is_a_change", text) else { return };
    let node = socket(&lab, "b", false, None);
    while_answering(&node, |to| {
        let before = trace_to(&lab, false, to);
        let same = trace_to(&lab, false, to);
        lab.set("a-b", &[("rtt", "90ms")]).unwrap();
        let after = trace_to(&lab, false, to);
        let mut changes = compare(&before, &same);
        // The node answers when it has a processor.
        changes.retain(|change| change.what != ChangeOf::Rtt);
        assert_eq!(changes, []);
        let changes = compare(&before, &after);
        let [change] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.what, change.ttl), (ChangeOf::Rtt, Some(2)));
        assert!(change.text.contains("longer from hop 2 on (10.78.1.2)"), "{change}");
    });
}

/// Up to 30 hops without an answer, over the longest path: the time is bounded, and a stop ends the trace at once.
#[test]
fn a_trace_can_be_stopped_and_ends_in_time() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"303ms\"\nhops = 10";
    let Some(lab) = fixture::up("a_trace_can_be_stopped_and_ends_in_time", text) else { return };
    let node = socket(&lab, "b", false, None);
    let to = node.local_addr().unwrap();
    let near = socket(&lab, "a", false, Some(to));
    let plan = trace::Plan { lasts: Duration::from_millis(700), ..trace::Plan::default() };
    let path = trace::trace(&near, &TOKEN, &plan, &Stop::default()).unwrap();
    assert_eq!(path.end, End::OutOfTime);
    assert!(!path.hops.is_empty() && path.seconds < 7.0, "{path:?}");
    let stop = Stop::default();
    stop.stop();
    let path = trace::trace(&near, &TOKEN, &trace::Plan::default(), &stop).unwrap();
    assert_eq!((path.end, path.hops.len()), (End::Interrupted, 0));
    let path = while_answering(&node, |to| trace_to(&lab, false, to)).path;
    assert_eq!((path.end, path.distance), (End::Reached, Some(11)));
    let _ = writeln!(std::io::stderr(), "trace of 11 hops over 303 ms: {:.2} s", path.seconds);
}
