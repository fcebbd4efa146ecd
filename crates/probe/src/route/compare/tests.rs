//! Changes between invented routes.

use model::v1::probe::route::{Path, Router, RouterReply};
use proptest::prelude::*;

use super::*;

/// A route by its hops: "a=1.5 b ? c|d=9": addresses, and least round trips in milliseconds.
fn route(text: &str) -> Route {
    let router = |address: &str| Router {
        address: address.to_owned(),
        said: RouterReply::TimeExceeded,
        icmp: Some([11, 0]),
        answers: 1,
        ttl_reverse: None,
    };
    let hop = |(word, ttl): (&str, u8)| {
        let (addresses, rtt) = word.split_once('=').map_or((word, None), |(word, rtt)| (word, Some(rtt)));
        Hop {
            ttl,
            routers: addresses.split('|').filter(|address| *address != "?").map(router).collect(),
            rtt_min_s: rtt.map(|rtt| rtt.parse::<f64>().unwrap() / 1e3),
            ..Hop::default()
        }
    };
    let hops: Vec<Hop> = text.split_whitespace().zip(1..).map(hop).collect();
    let distance = u8::try_from(hops.len()).ok();
    Route { path: Path { hops, distance, end: End::Reached, ..Path::default() }, ..Route::default() }
}

fn texts(before: &str, after: &str) -> Vec<String> {
    compare(&route(before), &route(after)).iter().map(Change::to_string).collect()
}

#[test]
fn equal_routes_have_no_change() {
    assert_eq!(texts("a=1 b=5 c=9", "a=1.2 b=5.4 c=9.4"), [""; 0]);
    assert_eq!(texts("a b ? d", "a ? c d"), [""; 0], "a silent hop contradicts none");
    assert_eq!(texts("a b|c d", "a c d"), [""; 0], "one of several");
    assert_eq!(texts("", ""), [""; 0]);
}

#[test]
fn changed_hops_are_named() {
    assert_eq!(texts("a b c d", "a x c d"), ["hop 2 replaced: b before, x now"]);
    assert_eq!(texts("a b c d", "a x y z d"), ["hops 2 to 3 replaced: b, c before, x, y, z now"]);
    assert_eq!(texts("a b d", "a b c d"), ["hop 3 new: c"]);
    assert_eq!(texts("a b c d", "a d"), ["hops 2 to 3 gone: b, c"]);
    let found = compare(&route("a b c d"), &route("a x c y d"));
    let found: Vec<_> = found.iter().map(|one| (one.what, one.ttl, one.before.as_str(), one.after.as_str())).collect();
    assert_eq!(found, [(ChangeOf::Replaced, Some(2), "b", "x"), (ChangeOf::Inserted, Some(4), "", "y")]);
}

#[test]
fn a_step_of_the_round_trip_has_a_hop() {
    let found = texts("a=1 b=5 c=9 d=20", "a=1 b=5.1 c=39 d=50.2");
    assert_eq!(found, ["round trips are 30.2 ms longer from hop 3 on (c)"]);
    assert_eq!(
        texts("a=1 b=5 c=39 d=50", "a=1 b=5.1 c=39 d=20"),
        ["round trips are 30.0 ms shorter from hop 4 on (d)"]
    );
    assert_eq!(texts("a=1 b=5 c=9 d=20", "a=1 b=80 c=9 d=20"), [""; 0], "one busy router");
    assert_eq!(texts("a=1 b=5 d=20", "a=1 b=5 d=20.9"), [""; 0]);
    assert_eq!(texts("a=1 b=5 d=200", "a=1 b=5 d=209"), [""; 0]);
    // The router was busy in one trace: its answers differ as much among themselves.
    let (before, mut after) = (route("a=1 b=5"), route("a=1 b=9"));
    assert_eq!(compare(&before, &after).len(), 1);
    after.path.hops[1].rtt_median_s = Some(0.012);
    assert_eq!(compare(&before, &after), []);
    after.path.hops[1].rtt_median_s = Some(0.0105);
    assert_eq!(compare(&before, &after).len(), 1);
}

#[test]
fn ends_and_mtus_are_named() {
    let (mut before, mut after) = (route("a b c"), route("a b"));
    after.path.end = End::Silent;
    before.mtu = Some(Mtu { mtu_bytes: 9_000, ..Mtu::default() });
    after.mtu = Some(Mtu { mtu_bytes: 1_500, black_hole: true, ..Mtu::default() });
    let found: Vec<_> = compare(&before, &after).into_iter().map(|one| (one.what, one.text)).collect();
    let wanted = [
        (ChangeOf::Removed, "hop 3 gone: c"),
        (ChangeOf::End, "the trace ended at the target; now it ends where no hop answers any more"),
        (
            ChangeOf::Mtu,
            "packets up to 9000 bytes fit before; now: 1500, and larger ones vanish without an ICMP message",
        ),
    ];
    assert_eq!(found, wanted.map(|(what, text)| (what, text.to_owned())));
    after.path.end = End::Interrupted;
    assert!(
        !compare(&before, &after).iter().any(|one| one.what == ChangeOf::End),
        "an interruption is no change of the path"
    );
}

#[test]
fn directions_are_compared() {
    let (mut forward, mut reverse) = (route("a b=8 c=20"), route("c x y a=26"));
    forward.mtu = Some(Mtu { mtu_bytes: 9_000, ..Mtu::default() });
    reverse.mtu = Some(Mtu { mtu_bytes: 1_500, ..Mtu::default() });
    let found: Vec<_> =
        asymmetries(&forward, &reverse).into_iter().map(|one| (one.what, one.before, one.after)).collect();
    let wanted =
        [(ChangeOf::Distance, "3", "4"), (ChangeOf::Rtt, "0.020000", "0.026000"), (ChangeOf::Mtu, "9000", "1500")];
    assert_eq!(found, wanted.map(|(what, one, other)| (what, one.to_owned(), other.to_owned())));
    assert_eq!(asymmetries(&route("a b c=20"), &route("x y z=20.5")), []);
    let mut alone = route("a b c=20");
    alone.path.distance_reverse = Some(5);
    let silent = Route::default();
    assert_eq!(asymmetries(&alone, &silent)[0].text, "the forward path has 3 hops, the reverse path 5");
}

proptest! {
    /// Each hop of both routes is in one pair, in order, and equal routes have no change.
    #[test]
    fn every_hop_is_in_one_pair(old in "([?abcd]( [?abcd]){0,8})?", new in "([?abcd]( [?abcd]){0,8})?") {
        let (old, new) = (route(&old), route(&new));
        let pairs = align(&old.path.hops, &new.path.hops);
        let olds: Vec<_> = pairs.iter().filter_map(|pair| pair.earlier()).collect();
        let news: Vec<_> = pairs.iter().filter_map(|pair| pair.later()).collect();
        prop_assert_eq!(olds, (0..old.path.hops.len()).collect::<Vec<_>>());
        prop_assert_eq!(news, (0..new.path.hops.len()).collect::<Vec<_>>());
        prop_assert_eq!(compare(&old, &old), vec![]);
        let _ = compare(&old, &new);
    }
}
