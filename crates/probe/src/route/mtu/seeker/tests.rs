//! Searches over paths that are made up: small ones, black holes, liars, loss.

use proptest::prelude::*;

use super::*;
use crate::route::drive::Pace;
use crate::route::simulated;

const MS: Duration = Duration::from_millis(1);

/// A path.
#[derive(Clone, Debug)]
struct SweepPath {
    interface: u32,
    mtu: u32,
    /// What the router in front of the small link says; none from a black hole.
    says: Option<u32>,
    /// Of probes, and of ICMP.
    loss: f64,
    rtt: Duration,
    seed: u64,
}

impl Default for SweepPath {
    fn default() -> SweepPath {
        SweepPath { interface: 9_000, mtu: 1_400, says: Some(1_400), loss: 0.0, rtt: 20 * MS, seed: 1 }
    }
}

fn plan() -> Plan {
    Plan { lasts: Duration::from_secs(3_600), ..Plan::default() }
}

fn pace() -> Pace {
    let plan = plan();
    Pace { interval: plan.interval, rate_bit_s: plan.rate_bit_s, lasts: plan.lasts }
}

fn sought(way: &SweepPath, far: &str) -> (Option<Mtu>, Duration, usize) {
    let mut seeker = Seeker::new(plan(), far.parse().unwrap());
    let mut chance = fastrand::Rng::with_seed(way.seed);
    let (took, shots) = simulated::run(&mut seeker, &pace(), |shot, Shot { bytes, .. }| {
        if bytes > way.interface {
            return vec![(Duration::ZERO, ProbeEvent::TooBigHere { shot, mtu: Some(way.interface) })];
        }
        let rtt = way.rtt.mul_f64(1.0 + 0.3 * chance.f64());
        if chance.f64() < way.loss {
            return vec![];
        }
        if bytes <= way.mtu {
            let (hops, hops_reverse) = (Some(3), Some(3));
            let heard = ProbeEvent::Answer { shot, rtt, hops, hops_reverse, ttl_reverse: Some(253), count: 0 };
            return vec![(rtt, heard)];
        }
        let Some(mtu) = way.says else { return vec![] };
        let from = [10, 0, 0, 1].into();
        let said = RouterReply::TooBig;
        vec![(
            rtt / 2,
            ProbeEvent::Icmp { shot: Some(shot), rtt: Some(rtt), from, said, icmp: [3, 4], mtu, ttl_reverse: None },
        )]
    });
    (seeker.found(), took, shots)
}

const FAR: &str = "10.0.0.9:33434";

#[test]
fn a_small_link_that_says_so() {
    let (found, took, shots) = sought(&SweepPath::default(), FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.icmp), (1_400, MtuBound::Path, true));
    assert!(found.confirmed && !found.black_hole);
    let said = MtuSaid { by: "10.0.0.1".to_owned(), mtu_bytes: 1_400, confirmed: true };
    assert_eq!((found.said, found.interface_bytes), (vec![said], Some(9_000)));
    assert!(took < 2_000 * MS && shots < 150, "{took:?} {shots}");
    let sizes: Vec<_> = found.tried.iter().map(|one| one.bytes).collect();
    assert!(sizes.is_sorted() && sizes.contains(&1_401), "{sizes:?}");
}

#[test]
fn a_black_hole_says_nothing() {
    let (found, took, _) = sought(&SweepPath { says: None, mtu: 1_437, ..SweepPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.icmp, found.black_hole, found.confirmed), (1_437, false, true, true));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Behind a router that speaks there is one that does not: what the first one says is no excuse for the second.
#[test]
fn a_black_hole_behind_an_honest_router() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |shot, Shot { bytes, .. }| match bytes {
        0..=1_300 => {
            vec![(rtt, ProbeEvent::Answer { shot, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })]
        }
        1_301..=1_400 => vec![],
        _ => {
            let from = [10, 0, 0, 1].into();
            let (said, icmp) = (RouterReply::TooBig, [3, 4]);
            vec![(
                rtt,
                ProbeEvent::Icmp { shot: Some(shot), rtt: Some(rtt), from, said, icmp, mtu: 1_400, ttl_reverse: None },
            )]
        }
    });
    let found = seeker.found().unwrap();
    assert_eq!((found.mtu_bytes, found.icmp, found.black_hole), (1_300, false, true));
    assert!(!found.said[0].confirmed);
}

/// Too small a word, forged or mistaken, is not believed; a router that names no size (before RFC 1191) is no black hole.
#[test]
fn words_are_not_believed() {
    for says in [576, 0, 8_999, u32::MAX] {
        let (found, ..) = sought(&SweepPath { says: Some(says), ..SweepPath::default() }, FAR);
        let found = found.unwrap();
        assert_eq!((found.mtu_bytes, found.icmp, found.black_hole), (1_400, true, false), "{says}");
        assert!(found.said.iter().all(|said| !said.confirmed));
    }
}

#[test]
fn the_interface_and_the_limit_are_told_from_the_path() {
    let (found, took, shots) = sought(&SweepPath { interface: 1_500, mtu: 9_000, ..SweepPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.interface_bytes), (1_500, MtuBound::Interface, Some(1_500)));
    assert!(found.confirmed && !found.black_hole && !found.icmp);
    assert!(took < 500 * MS && shots < 60, "{took:?} {shots}");
    let (found, ..) = sought(&SweepPath { interface: 65_535, mtu: 65_535, ..SweepPath::default() }, FAR);
    let found = found.unwrap();
    assert_eq!((found.mtu_bytes, found.bound, found.interface_bytes), (9_216, MtuBound::Limit, None));
}

#[test]
fn nobody_there_is_no_mtu() {
    let (found, took, shots) = sought(&SweepPath { loss: 1.0, ..SweepPath::default() }, FAR);
    assert_eq!((found, shots), (None, FIRST));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// 303 ms and back: rounds, not probes, are what takes time.
#[test]
fn it_does_not_take_long_over_a_long_path() {
    let (found, took, _) = sought(&SweepPath { rtt: 303 * MS, mtu: 4_471, says: None, ..SweepPath::default() }, FAR);
    assert_eq!(found.unwrap().mtu_bytes, 4_471);
    assert!(took < Duration::from_secs(12), "{took:?}");
}

/// A burst of loss in the middle makes sizes look too large; in the end it is seen that they are not.
#[test]
fn a_burst_of_loss_is_no_mtu() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |shot, _| match shot {
        17..=300 => vec![],
        _ => vec![(rtt, ProbeEvent::Answer { shot, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })],
    });
    let found = seeker.found().unwrap();
    assert_eq!((found.mtu_bytes, found.bound), (9_216, MtuBound::Limit));
}

/// A path that goes dark in the middle is not called a small one.
#[test]
fn what_cannot_be_confirmed_is_said_to_be_so() {
    let mut seeker = Seeker::new(plan(), FAR.parse().unwrap());
    let rtt = 10 * MS;
    simulated::run(&mut seeker, &pace(), |shot, _| match shot {
        0..20 => {
            vec![(rtt, ProbeEvent::Answer { shot, rtt, hops: None, hops_reverse: None, ttl_reverse: None, count: 0 })]
        }
        _ => vec![],
    });
    let found = seeker.found().unwrap();
    assert!(!found.confirmed && !found.black_hole, "{found:?}");
}

proptest! {
    /// Whatever the path, with or without ICMP, right or wrong, with up to a quarter of all probes lost: the truth.
    #[test]
    fn the_truth_is_found(
        interface in 1_280u32..=9_216,
        mtu in 1_280u32..=9_216,
        says in proptest::option::of(0u32..=9_216),
        is_honest: bool,
        loss in 0.0..0.25,
        rtt_ms in 1u32..400,
        is_v6: bool,
        seed: u64,
    ) {
        let says = if is_honest { says.map(|_| mtu) } else { says };
        let way = SweepPath { interface, mtu, says, loss, rtt: MS * rtt_ms, seed };
        let (found, ..) = sought(&way, if is_v6 { "[fd00::9]:33434" } else { FAR });
        let found = found.unwrap();
        prop_assert!(found.confirmed);
        prop_assert_eq!(found.mtu_bytes, mtu.min(interface));
        let bounded = if mtu < interface { MtuBound::Path } else if interface < 9_216 { MtuBound::Interface } else { MtuBound::Limit };
        prop_assert_eq!(found.bound, bounded);
        prop_assert_eq!(found.black_hole, mtu < interface && says.is_none());
        prop_assert_eq!(found.icmp, mtu < interface && says.is_some());
    }
}
