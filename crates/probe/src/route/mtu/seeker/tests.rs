//! Searches over simulated paths: small MTUs, black holes, wrong ICMP reports, loss.

use proptest::prelude::*;

use super::*;
use crate::route::drive::Pace;
use crate::route::simulated;

const MS: Duration = Duration::from_millis(1);

/// A simulated path.
#[derive(Clone, Debug)]
struct SimulatedPath {
    interface: u32,
    mtu: u32,
    /// The MTU that the router in front of the small link reports; none for a black hole.
    reports: Option<u32>,
    /// The share of probes, and of ICMP reports, that is lost.
    loss: f64,
    rtt: Duration,
    seed: u64,
}

impl Default for SimulatedPath {
    fn default() -> SimulatedPath {
        SimulatedPath { interface: 9_000, mtu: 1_400, reports: Some(1_400), loss: 0.0, rtt: 20 * MS, seed: 1 }
    }
}

fn plan() -> Plan {
    Plan { lasts: Duration::from_secs(3_600), ..Plan::default() }
}

fn pace() -> Pace {
    let plan = plan();
    Pace { interval: plan.interval, rate_bit_s: plan.rate_bit_s, lasts: plan.lasts }
}

/// Searches for the MTU of a path; returns the result, the time, and the number of probes.
fn search(path: &SimulatedPath, far: &str) -> (Option<Mtu>, Duration, usize) {
    let mut seeker = Seeker::new(plan(), far.parse().unwrap());
    let mut chance = fastrand::Rng::with_seed(path.seed);
    let (took, probes) = simulated::run(&mut seeker, &pace(), |probe, ProbeSpec { bytes, .. }| {
        if bytes > path.interface {
            return vec![(Duration::ZERO, ProbeEvent::TooBigHere { probe, mtu: Some(path.interface) })];
        }
        let rtt = path.rtt.mul_f64(1.0 + 0.3 * chance.f64());
        if chance.f64() < path.loss {
            return vec![];
        }
        if bytes <= path.mtu {
            let hops = Some(3);
            let hops_reverse = Some(3);
            let event = ProbeEvent::Answer { probe, rtt, hops, hops_reverse, ttl_reverse: Some(253), count: 0 };
            return vec![(rtt, event)];
        }
        let Some(mtu) = path.reports else { return vec![] };
        let from = [10, 0, 0, 1].into();
        let reply = RouterReply::TooBig;
        vec![(
            rtt / 2,
            ProbeEvent::Icmp { probe: Some(probe), rtt: Some(rtt), from, reply, icmp: [3, 4], mtu, ttl_reverse: None },
        )]
    });
    (seeker.found(), took, probes)
}

const FAR: &str = "10.0.0.9:33434";

#[test]
fn a_small_link_that_is_reported_is_found() {
    let (found, took, probes) = search(&SimulatedPath::default(), FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.icmp), (1_400, MtuBound::Path, true));
    assert!(found.confirmed && !found.black_hole);
    let said = MtuReport { by: "10.0.0.1".to_owned(), mtu_bytes: 1_400, confirmed: true };
    assert_eq!((found.said, found.interface_bytes), (vec![said], Some(9_000)));
    assert!(took < 2_000 * MS && probes < 150, "{took:?} {probes}");
    let sizes: Vec<_> = found.tried.iter().map(|one| one.bytes).collect();
    assert!(sizes.is_sorted() && sizes.contains(&1_401), "{sizes:?}");
}

#[test]
fn a_black_hole_is_found_without_reports() {
    let (found, took, _) = search(&SimulatedPath { reports: None, mtu: 1_437, ..SimulatedPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.icmp, found.black_hole, found.confirmed), (1_437, false, true, true));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Behind a router that reports its MTU there is one that does not: the report of the first does not hide the second.
#[test]
fn a_black_hole_behind_a_reporting_router_is_found() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |probe, ProbeSpec { bytes, .. }| match bytes {
        0..=1_300 => {
            vec![(rtt, ProbeEvent::Answer { probe, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })]
        }
        1_301..=1_400 => vec![],
        _ => {
            let from = [10, 0, 0, 1].into();
            let reply = RouterReply::TooBig;
            let icmp = [3, 4];
            vec![(
                rtt,
                ProbeEvent::Icmp {
                    probe: Some(probe),
                    rtt: Some(rtt),
                    from,
                    reply,
                    icmp,
                    mtu: 1_400,
                    ttl_reverse: None,
                },
            )]
        }
    });
    let found = seeker.found().unwrap();
    assert_eq!((found.mtu_bytes, found.icmp, found.black_hole), (1_300, false, true));
    assert!(!found.said[0].confirmed);
}

/// A wrong size in a report does not change the result; a router that reports no size (before RFC 1191) is no black hole.
#[test]
fn a_wrong_report_does_not_change_the_result() {
    for reported in [576, 0, 8_999, u32::MAX] {
        let (found, ..) = search(&SimulatedPath { reports: Some(reported), ..SimulatedPath::default() }, FAR);
        let found = found.unwrap();
        assert_eq!((found.mtu_bytes, found.icmp, found.black_hole), (1_400, true, false), "{reported}");
        assert!(found.said.iter().all(|said| !said.confirmed));
    }
}

#[test]
fn the_bounds_of_interface_and_plan_are_no_bounds_of_the_path() {
    let (found, took, probes) =
        search(&SimulatedPath { interface: 1_500, mtu: 9_000, ..SimulatedPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.interface_bytes), (1_500, MtuBound::Interface, Some(1_500)));
    assert!(found.confirmed && !found.black_hole && !found.icmp);
    assert!(took < 500 * MS && probes < 60, "{took:?} {probes}");
    let (found, ..) = search(&SimulatedPath { interface: 65_535, mtu: 65_535, ..SimulatedPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.interface_bytes), (9_216, MtuBound::Limit, None));
}

#[test]
fn a_silent_far_end_has_no_mtu() {
    let (found, took, probes) = search(&SimulatedPath { loss: 1.0, ..SimulatedPath::default() }, FAR);
    assert_eq!((found, probes), (None, FIRST));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Over 303 ms the time depends on the number of rounds, not on that of the probes.
#[test]
fn a_search_over_a_long_path_takes_seconds() {
    let (found, took, _) =
        search(&SimulatedPath { rtt: 303 * MS, mtu: 4_471, reports: None, ..SimulatedPath::default() }, FAR);
    assert_eq!(found.unwrap().mtu_bytes, 4_471);
    assert!(took < Duration::from_secs(12), "{took:?}");
}

/// A burst of loss in the middle makes sizes look too large; the last rounds show that they are not.
#[test]
fn a_burst_of_loss_is_no_mtu() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |probe, _| match probe {
        17..=300 => vec![],
        _ => {
            vec![(rtt, ProbeEvent::Answer { probe, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })]
        }
    });
    let found = seeker.found().unwrap();
    assert_eq!((found.mtu_bytes, found.bound), (9_216, MtuBound::Limit));
}

/// A path that fails in the middle of the search has no confirmed MTU.
#[test]
fn a_result_that_cannot_be_confirmed_is_unconfirmed() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |probe, _| match probe {
        0..20 => {
            vec![(rtt, ProbeEvent::Answer { probe, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })]
        }
        _ => vec![],
    });
    let found = seeker.found().unwrap();
    assert!(!found.confirmed && !found.black_hole, "{found:?}");
}

proptest! {
    /// The MTU is found on any path, with right, wrong or no ICMP reports, with up to a quarter of all probes lost.
    #[test]
    fn the_mtu_of_any_path_is_found(
        interface in 1_280u32..=9_216,
        mtu in 1_280u32..=9_216,
        reports in proptest::option::of(0u32..=9_216),
        is_honest: bool,
        loss in 0.0..0.25,
        rtt_ms in 1u32..400,
        is_v6: bool,
        seed: u64,
    ) {
        let reports = if is_honest { reports.map(|_| mtu) } else { reports };
        let path = SimulatedPath { interface, mtu, reports, loss, rtt: MS * rtt_ms, seed };
        let (found, ..) = search(&path, if is_v6 { "[fd00::9]:33434" } else { FAR });
        let found = found.unwrap();
        prop_assert!(found.confirmed);
        prop_assert_eq!(found.mtu_bytes, mtu.min(interface));
        let bounded = if mtu < interface { MtuBound::Path } else if interface < 9_216 { MtuBound::Interface } else { MtuBound::Limit };
        prop_assert_eq!(found.bound, bounded);
        prop_assert_eq!(found.black_hole, mtu < interface && reports.is_none());
        prop_assert_eq!(found.icmp, mtu < interface && reports.is_some());
    }
}
