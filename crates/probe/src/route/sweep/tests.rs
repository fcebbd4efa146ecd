//! Paths and suspects of invented flows.

use model::v1::probe::route::SuspectBy;
use proptest::prelude::*;

use super::*;

/// A flow with `hops` written as "a b ? c", and the numbers of its probes and of the lost ones.
fn flow(port: u16, hops: &str, sent: u32, lost: u32, rtt_ms: f64) -> FlowStats {
    let address = |word: &str| if word == "?" { vec![] } else { vec![word.to_owned()] };
    FlowStats {
        port,
        hops: hops.split_whitespace().map(address).collect(),
        is_reached: true,
        sent,
        answered: sent - lost,
        lost_forward: lost,
        rtt_min_s: Some(rtt_ms / 1e3),
        rtt_median_s: Some(rtt_ms / 1e3),
    }
}

fn ports(sweep: &Sweep) -> Vec<Vec<u16>> {
    sweep.paths.iter().map(|path| path.ports.clone()).collect()
}

#[test]
fn flows_are_grouped_by_hops() {
    let flows = [
        flow(1, "r a x", 10, 0, 9.0),
        flow(2, "r b x", 10, 0, 9.0),
        flow(3, "r a x", 10, 1, 8.0),
        flow(4, "? ? x", 10, 0, 9.0),
        flow(5, "r a c x", 10, 0, 9.0),
        flow(6, "? b x", 10, 0, 9.0),
        flow(7, "r a x", 10, 0, 9.0),
    ];
    let sweep = judge(&flows, true);
    let found = ports(&sweep);
    assert!(found.contains(&vec![2, 6]) && found.contains(&vec![5]), "{found:?}");
    assert!(
        found[0].starts_with(&[1, 3]),
        "the path with the most flows is first, and silent hops make no path of their own"
    );
    assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 7);
    let first = &sweep.paths[0];
    assert_eq!((first.sent, first.answered, first.rtt_min_s), (40, 39, Some(0.008)));
    assert_eq!(first.hops, [["r"], ["a"], ["x"]]);
    assert!(sweep.flows.iter().all(|one| sweep.paths[one.path].ports.contains(&one.port)));
}

#[test]
fn a_flow_that_ends_early_belongs_to_the_path_of_longer_ones() {
    let mut cut = flow(2, "r a", 10, 10, 9.0);
    cut.is_reached = false;
    let sweep = judge(&[flow(1, "r a x", 10, 0, 9.0), cut, flow(3, "r b x", 10, 0, 9.0)], true);
    assert_eq!(ports(&sweep), [vec![1, 2], vec![3]]);
}

#[test]
fn a_bad_member_is_named_with_its_hop() {
    let members = ["r a m x", "r b n x", "r c m x", "r d n x"];
    // The third loses 8 %, the others 1 %.
    let of = |number: u16| {
        let member = usize::from(number % 4);
        flow(number, members[member], 100, if member == 2 { 8 } else { 1 }, 9.0)
    };
    let sweep = judge(&(0..16).map(of).collect::<Vec<_>>(), true);
    assert_eq!(sweep.paths.len(), 4);
    let [suspect] = &sweep.suspects[..] else { panic!("{:?}", sweep.suspects) };
    assert_eq!((suspect.by, &suspect.ports), (SuspectBy::Loss, &vec![2, 6, 10, 14]));
    assert_eq!((suspect.hop, suspect.address.as_deref()), (Some(2), Some("c")));
    assert_eq!((suspect.sent, suspect.lost, suspect.others_sent, suspect.others_lost), (400, 32, 1_200, 12));
    assert!(suspect.chance.unwrap() < 1e-9);
    let wanted = "flows from ports 2, 6, 10, 14 lose 8.00 % (32 of 400, 32 of them forward), the others 1.00 % (12 of 1200); only they \
                  pass c (hop 2)";
    assert_eq!(suspect.text, wanted);
}

/// A bundle of links has no hops of its own.
#[test]
fn a_bad_member_without_a_hop_is_found_by_its_flows() {
    let of = |number: u16| flow(number, "r x", 200, if number % 8 == 5 { 20 } else { 0 }, 9.0);
    let sweep = judge(&(0..16).map(of).collect::<Vec<_>>(), true);
    assert_eq!(sweep.paths.len(), 1);
    let found: Vec<_> = sweep.suspects.iter().flat_map(|one| one.ports.clone()).collect();
    assert_eq!(found, [5, 13]);
    assert!(sweep.suspects[0].text.ends_with("look for a member of a bundle of links"));
}

/// The loss of each flow alone could be chance.
#[test]
fn a_member_that_loses_little_is_found_by_all_its_flows() {
    let of = |number: u16| flow(number, "r x", 200, if number % 4 == 1 { 3 } else { 0 }, 9.0);
    let sweep = judge(&(0..16).map(of).collect::<Vec<_>>(), true);
    let [suspect] = &sweep.suspects[..] else { panic!("{:?}", sweep.suspects) };
    assert_eq!((&suspect.ports, suspect.lost, suspect.others_lost), (&vec![1, 5, 9, 13], 12, 0));
}

#[test]
fn a_longer_path_is_named() {
    let of = |number: u16| match number % 2 {
        0 => flow(number, "r a x", 10, 0, 20.0),
        _ => flow(number, "r b x", 10, 0, 27.5),
    };
    let sweep = judge(&(0..8).map(of).collect::<Vec<_>>(), true);
    let [suspect] = &sweep.suspects[..] else { panic!("{:?}", sweep.suspects) };
    assert_eq!((suspect.by, &suspect.ports), (SuspectBy::Delay, &vec![1, 3, 5, 7]));
    assert_eq!((suspect.hop, suspect.address.as_deref()), (Some(2), Some("b")));
    assert!((suspect.longer_s.unwrap() - 0.0075).abs() < 1e-9);
}

#[test]
fn losses_of_a_host_that_is_no_node_are_not_judged() {
    let of = |number: u16| flow(number, "r x", 100, if number == 3 { 90 } else { 0 }, 9.0);
    let sweep = judge(&(0..8).map(of).collect::<Vec<_>>(), false);
    assert!(!sweep.judged && sweep.suspects.is_empty());
}

#[test]
fn a_single_flow_has_no_suspects() {
    assert!(judge(&[flow(1, "r x", 100, 50, 9.0)], true).suspects.is_empty());
    assert_eq!(judge(&[], true).paths, []);
}

/// Where all flows are alike, one sweep of a hundred may have a suspect.
#[test]
fn equal_flows_are_rarely_suspects() {
    let mut chance = fastrand::Rng::with_seed(7);
    let with_suspects = (0..400).filter(|_| {
        let lost = |chance: &mut fastrand::Rng| (0..100).filter(|_| chance.f64() < 0.03).count() as u32;
        let flows: Vec<_> = (0..16)
            .map(|number| {
                let hops = ["r a x", "r b x", "r c x", "r d x"][usize::from(number % 4)];
                flow(number, hops, 100, lost(&mut chance), 9.0)
            })
            .collect();
        !judge(&flows, true).suspects.is_empty()
    });
    // 4 are expected at most; 12 would be a chance of 1 in 1,000.
    assert!(with_suspects.count() < 12);
}

proptest! {
    /// Every flow has one path, whatever is known of it, and paths differ.
    #[test]
    fn every_flow_has_one_path(hops in proptest::collection::vec("[?abc]( [?abc]){0,4}", 0..20)) {
        let flows: Vec<_> = hops.iter().zip(0..).map(|(hops, port)| flow(port, hops, 1, 0, 1.0)).collect();
        let sweep = judge(&flows, true);
        prop_assert_eq!(sweep.flows.len(), flows.len());
        let mut all: Vec<u16> = ports(&sweep).concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..flows.len() as u16).collect::<Vec<_>>());
        for (one, known) in flows.iter().map(|known| (&sweep.flows[usize::from(known.port)], known)) {
            for (hop, seen) in known.hops.iter().zip(&sweep.paths[one.path].hops) {
                prop_assert!(hop.iter().all(|address| seen.contains(address)));
            }
        }
    }
}
