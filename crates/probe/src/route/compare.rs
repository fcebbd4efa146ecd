//! Differences between two routes: of one direction at two times, or of both directions. Pure.

mod align;

use model::v1::probe::route::{Change, ChangeOf, End, Hop, Mtu, Route};

use align::{Pair, align};

/// A smaller difference of round trips is none: routers and hosts answer when they have time.
const STEP_S_MIN: f64 = 0.001;
const STEP_SHARE: f64 = 0.05;
/// A difference below this many times the distance from least to median round trip, of either trace, is the load of a router or
/// host.
const STEP_SPREADS: f64 = 2.0;

/// The changes from one trace of a direction to a later one. A silent hop is no change.
pub fn compare(before: &Route, after: &Route) -> Vec<Change> {
    let (old, new) = (&before.path.hops, &after.path.hops);
    let pairs = align(old, new);
    let mut changes = hops(old, new, &pairs);
    if before.path.end != after.path.end && is_about_the_path(before.path.end) && is_about_the_path(after.path.end) {
        let [was, is] = [before, after].map(|route| end(route.path.end));
        let text = format!("the trace ended {was}; now it ends {is}");
        changes.push(change(ChangeOf::End, None, was, is, text));
    }
    changes.extend(step(old, new, &pairs));
    changes.extend(mtu(before.mtu.as_ref(), after.mtu.as_ref(), ["before", "now"]));
    changes
}

/// The differences between the two directions of a path: hops, round trips, MTU. Addresses are not compared, as a router
/// answers with a different address in each direction.
pub fn asymmetries(forward: &Route, reverse: &Route) -> Vec<Change> {
    let mut found = Vec::new();
    let reached = |route: &Route| route.path.distance.filter(|_| route.path.end == End::Reached);
    let back = reached(reverse).or(forward.path.distance_reverse);
    if let (Some(there), Some(back)) = (reached(forward), back)
        && there != back
    {
        let text = format!("the forward path has {there} hops, the reverse path {back}");
        found.push(change(ChangeOf::Distance, None, there, back, text));
    }
    if let (Some(there), Some(back)) = (round_trip(forward), round_trip(reverse))
        && is_step(there, back)
    {
        let text = format!(
            "a round trip begun here takes {}, one begun there {}: the two flows do not take the same paths",
            milliseconds(there),
            milliseconds(back)
        );
        found.push(change(ChangeOf::Rtt, None, seconds(there), seconds(back), text));
    }
    found.extend(mtu(forward.mtu.as_ref(), reverse.mtu.as_ref(), ["forward", "reverse"]));
    found
}

fn change(what: ChangeOf, ttl: Option<u8>, before: impl ToString, after: impl ToString, text: String) -> Change {
    Change { what, ttl, before: before.to_string(), after: after.to_string(), text }
}

/// Whether the end of a trace is a property of the path, not of the tracing host.
fn is_about_the_path(end: End) -> bool {
    !matches!(end, End::OutOfTime | End::Interrupted)
}

fn end(end: End) -> &'static str {
    match end {
        End::Reached => "at the target",
        End::Blocked => "at a router that lets nothing through",
        End::Silent => "where nobody answers any more",
        End::TooFar => "at the highest TTL",
        End::OutOfTime => "for want of time",
        End::Interrupted => "when it was interrupted",
    }
}

/// Hops that were replaced, inserted or removed; neighbours in one change.
fn hops(old: &[Hop], new: &[Hop], pairs: &[Pair]) -> Vec<Change> {
    let is_same = |pair: &Pair| matches!(pair, Pair::Same(..));
    let mut changes = Vec::new();
    for run in pairs.chunk_by(|a, b| !is_same(a) && !is_same(b)).filter(|run| !run.iter().any(is_same)) {
        let gone: Vec<&Hop> = run.iter().filter_map(|pair| pair.earlier()).map(|place| &old[place]).collect();
        let come: Vec<&Hop> = run.iter().filter_map(|pair| pair.later()).map(|place| &new[place]).collect();
        let [was, is] = [&gone, &come].map(|hops| hops.iter().map(|hop| names(hop)).collect::<Vec<_>>().join(", "));
        let first = |hops: &[&Hop]| hops.first().map(|hop| hop.ttl);
        let number = |hops: &[&Hop]| match hops {
            [one] => format!("hop {}", one.ttl),
            [first, .., last] => format!("hops {} to {}", first.ttl, last.ttl),
            [] => String::new(),
        };
        let (what, ttl, text) = match (gone.is_empty(), come.is_empty()) {
            (false, false) => {
                let text = format!("{} replaced: {was} before, {is} now", number(&gone));
                (ChangeOf::Replaced, first(&gone), text)
            }
            (false, true) => (ChangeOf::Removed, first(&gone), format!("{} gone: {was}", number(&gone))),
            (true, _) => (ChangeOf::Inserted, first(&come), format!("{} new: {is}", number(&come))),
        };
        changes.push(change(what, ttl, was, is, text));
    }
    changes
}

/// The addresses of a hop.
fn names(hop: &Hop) -> String {
    let mut all: Vec<&str> = hop.routers.iter().map(|router| router.address.as_str()).collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() { "?".to_owned() } else { all.join("|") }
}

/// From which hop on round trips are longer or shorter. One slow router is not meant: what its answers lose in time, those
/// of the hops behind it have not lost.
fn step(old: &[Hop], new: &[Hop], pairs: &[Pair]) -> Option<Change> {
    let timed = pairs.iter().filter_map(|pair| {
        let Pair::Same(old_at, new_at) = *pair else { return None };
        let (was, is) = (old[old_at].rtt_min_s?, new[new_at].rtt_min_s?);
        Some((old_at, was, is))
    });
    let timed: Vec<(usize, f64, f64)> = timed.collect();
    let &(_, was, is) = timed.last()?;
    if !is_step(was, is) || (is - was).abs() <= STEP_SPREADS * last_spread(old).max(last_spread(new)) {
        return None;
    }
    // Half of it must be there in all hops from here on.
    let holds = |(_, before, now): &&(usize, f64, f64)| (now - before) / (is - was) >= 0.5;
    let from = timed.iter().rev().take_while(holds).last()?;
    let hop = &old[from.0];
    let more = if is > was { "longer" } else { "shorter" };
    let by = milliseconds((is - was).abs());
    let text = format!("round trips are {by} {more} from hop {} on ({})", hop.ttl, names(hop));
    Some(change(ChangeOf::Rtt, Some(hop.ttl), seconds(was), seconds(is), text))
}

/// By how much the median round trip to the last hop that answers is above the least.
fn last_spread(hops: &[Hop]) -> f64 {
    let spread = |hop: &Hop| Some(hop.rtt_median_s? - hop.rtt_min_s?);
    hops.iter().rev().find_map(spread).unwrap_or(0.0)
}

fn is_step(was: f64, is: f64) -> bool {
    (is - was).abs() > STEP_S_MIN.max(STEP_SHARE * was.min(is))
}

fn seconds(time: f64) -> String {
    format!("{time:.6}")
}

fn milliseconds(time: f64) -> String {
    format!("{:.1} ms", time * 1e3)
}

/// The least round trip to the target.
fn round_trip(route: &Route) -> Option<f64> {
    let last = route.path.hops.last().filter(|_| route.path.end == End::Reached)?;
    last.rtt_min_s
}

fn mtu(one: Option<&Mtu>, other: Option<&Mtu>, when: [&str; 2]) -> Option<Change> {
    let (one, other) = (one?, other?);
    if one.mtu_bytes == other.mtu_bytes && one.black_hole == other.black_hole {
        return None;
    }
    let words = |mtu: &Mtu| {
        let hole = if mtu.black_hole { ", and larger ones vanish without a word" } else { "" };
        format!("{}{hole}", mtu.mtu_bytes)
    };
    let [first, then] = when;
    let text = format!("packets up to {} bytes fit {first}; {then}: {}", words(one), words(other));
    Some(change(ChangeOf::Mtu, None, one.mtu_bytes, other.mtu_bytes, text))
}

#[cfg(test)]
mod tests;
