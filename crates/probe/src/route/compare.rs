//! Differences between two routes: of one direction at two times, or of both directions. Pure.

mod align;

use model::v1::probe::route::{Change, ChangeOf, End, Hop, Mtu, Route};

use align::{Pair, align};

/// A smaller difference of round trips is ignored: routers and hosts answer when they have time.
const STEP_S_MIN: f64 = 0.001;
const STEP_SHARE: f64 = 0.05;
/// A difference below this many times the distance from the least to the median round trip, of either trace, comes from the load of
/// a router or host.
const STEP_SPREADS: f64 = 2.0;

/// The changes from one trace of a direction to a later one. A silent hop is no change.
pub fn compare(before: &Route, after: &Route) -> Vec<Change> {
    let (old, new) = (&before.path.hops, &after.path.hops);
    let pairs = align(old, new);
    let mut changes = hops(old, new, &pairs);
    if before.path.end != after.path.end && is_about_the_path(before.path.end) && is_about_the_path(after.path.end) {
        let [old_end, new_end] = [before, after].map(|route| end(route.path.end));
        let text = format!("the trace ended {old_end}; now it ends {new_end}");
        changes.push(change(ChangeOf::End, None, old_end, new_end, text));
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
    let forward_hops = reached(forward);
    let reverse_hops = reached(reverse).or(forward.path.distance_reverse);
    if let (Some(forward), Some(reverse)) = (forward_hops, reverse_hops)
        && forward != reverse
    {
        let text = format!("the forward path has {forward} hops, the reverse path {reverse}");
        found.push(change(ChangeOf::Distance, None, forward, reverse, text));
    }
    if let (Some(from_near), Some(from_far)) = (round_trip(forward), round_trip(reverse))
        && is_step(from_near, from_far)
    {
        let text = format!(
            "a round trip from the near end takes {}, one from the far end {}: the two flows do not take the same paths",
            milliseconds(from_near),
            milliseconds(from_far)
        );
        found.push(change(ChangeOf::Rtt, None, seconds(from_near), seconds(from_far), text));
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
        End::Blocked => "at a router that forwards nothing",
        End::Silent => "where no hop answers any more",
        End::TooFar => "at the highest TTL",
        End::OutOfTime => "when the time was over",
        End::Interrupted => "when it was interrupted",
    }
}

/// Hops that were replaced, inserted or removed; neighbours in one change.
fn hops(old: &[Hop], new: &[Hop], pairs: &[Pair]) -> Vec<Change> {
    let is_same = |pair: &Pair| matches!(pair, Pair::Same(..));
    let mut changes = Vec::new();
    for run in pairs.chunk_by(|a, b| !is_same(a) && !is_same(b)).filter(|run| !run.iter().any(is_same)) {
        let removed: Vec<&Hop> = run.iter().filter_map(|pair| pair.earlier()).map(|index| &old[index]).collect();
        let added: Vec<&Hop> = run.iter().filter_map(|pair| pair.later()).map(|index| &new[index]).collect();
        let [old_names, new_names] =
            [&removed, &added].map(|hops| hops.iter().map(|hop| names(hop)).collect::<Vec<_>>().join(", "));
        let first = |hops: &[&Hop]| hops.first().map(|hop| hop.ttl);
        let number = |hops: &[&Hop]| match hops {
            [one] => format!("hop {}", one.ttl),
            [first, .., last] => format!("hops {} to {}", first.ttl, last.ttl),
            [] => String::new(),
        };
        let (what, ttl, text) = match (removed.is_empty(), added.is_empty()) {
            (false, false) => {
                let text = format!("{} replaced: {old_names} before, {new_names} now", number(&removed));
                (ChangeOf::Replaced, first(&removed), text)
            }
            (false, true) => (ChangeOf::Removed, first(&removed), format!("{} gone: {old_names}", number(&removed))),
            (true, _) => (ChangeOf::Inserted, first(&added), format!("{} new: {new_names}", number(&added))),
        };
        changes.push(change(what, ttl, old_names, new_names, text));
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

/// The hop from which on round trips are longer or shorter. A router that is merely slow to answer is no such hop: the answers of
/// the hops behind it are not delayed.
fn step(old: &[Hop], new: &[Hop], pairs: &[Pair]) -> Option<Change> {
    let timed = pairs.iter().filter_map(|pair| {
        let Pair::Same(old_at, new_at) = *pair else { return None };
        Some((old_at, old[old_at].rtt_min_s?, new[new_at].rtt_min_s?))
    });
    let timed: Vec<(usize, f64, f64)> = timed.collect();
    let &(_, old_rtt, new_rtt) = timed.last()?;
    let step = new_rtt - old_rtt;
    if !is_step(old_rtt, new_rtt) || step.abs() <= STEP_SPREADS * last_spread(old).max(last_spread(new)) {
        return None;
    }
    // All hops from this one on must show at least half of the step.
    let holds = |(_, before, now): &&(usize, f64, f64)| (now - before) / step >= 0.5;
    let from = timed.iter().rev().take_while(holds).last()?;
    let hop = &old[from.0];
    let more = if step > 0.0 { "longer" } else { "shorter" };
    let by = milliseconds(step.abs());
    let text = format!("round trips are {by} {more} from hop {} on ({})", hop.ttl, names(hop));
    Some(change(ChangeOf::Rtt, Some(hop.ttl), seconds(old_rtt), seconds(new_rtt), text))
}

/// The median round trip to the last hop that answers, less the least one.
fn last_spread(hops: &[Hop]) -> f64 {
    let spread = |hop: &Hop| Some(hop.rtt_median_s? - hop.rtt_min_s?);
    hops.iter().rev().find_map(spread).unwrap_or(0.0)
}

fn is_step(one: f64, other: f64) -> bool {
    (other - one).abs() > STEP_S_MIN.max(STEP_SHARE * one.min(other))
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
        let hole = if mtu.black_hole { ", and larger ones vanish without an ICMP message" } else { "" };
        format!("{}{hole}", mtu.mtu_bytes)
    };
    let [first, then] = when;
    let text = format!("packets up to {} bytes fit {first}; {then}: {}", words(one), words(other));
    Some(change(ChangeOf::Mtu, None, one.mtu_bytes, other.mtu_bytes, text))
}

#[cfg(test)]
mod tests;
