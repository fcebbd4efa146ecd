//! Causes that datagrams show: loss, policers, short queues, disorder, copies, other people's traffic.

use model::units::{BitRate, Bytes};
use model::v1::probe::all::{Cause, Findings, Kind, Way};
use model::v1::probe::tcp::{Flow, Kernel};
use model::v1::probe::udp::{UdpPace, UdpPoint, UdpSpread, WIRE_BYTES};

use super::hosts::is_taken;
use super::{cause, known, ms, percent, there};

/// So many lost ones are no accident.
const LOST_MIN: u64 = 3;
/// Shares of datagrams that are worth a word.
const DISORDER: f64 = 1e-4;
/// Loss of a burst's datagrams from which on the queue is short.
const BURST_LOSS: f64 = 0.02;
/// A queue that holds less than this part of what is on its way (bandwidth times delay) is short.
const SHALLOW: f64 = 0.25;
/// Datagrams that take more than this part of what a path carries are a burden.
const BURDEN: f64 = 0.5;
/// From this share of what TCP sends again on it lives with loss.
const RESENT: f64 = 0.002;
/// A queue adds at least so much of the round trip before it runs over, or some milliseconds.
const QUEUED: f64 = 0.1;
const QUEUED_S: f64 = 0.012;
/// What TCP gets less than a bottleneck gives for its short queue to hurt.
const HURTS: f64 = 0.1;
/// A short queue lets through a good part of what it empties at. A policer has another rate.
const FAR_BELOW: f64 = 0.25;
/// So much of what a bottleneck gives is all of it.
const ALL: f64 = 0.9;
/// What TCP gets less than a path's capacity for others to be on it: hosts that stutter cost a fifth.
const TAKEN: f64 = 0.3;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (way, point) in found.datagrams.each() {
        let Some(point) = point else { continue };
        causes.extend(loss(found, way, point).filter(|_| !known(before, Kind::LossyMember, way)));
        causes.extend(disorder(way, point));
    }
    for way in [Way::There, Way::Back] {
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(squeezed(found, way, &all));
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(others(found, way, &all));
    }
    causes
}

/// Loss at a rate that is no burden.
fn loss(found: &Findings, way: Way, point: &UdpPoint) -> Option<Cause> {
    if point.lost_in_network < LOST_MIN || is_burden(found, way, point) {
        return None;
    }
    let share = point.lost_in_network_share;
    let runs = point.received.lost_runs_total.max(1);
    let mean = point.lost as f64 / runs as f64;
    let kind = if mean < 1.5 { "one by one" } else { "in runs" };
    let evidence = format!(
        "{} of {} datagrams at {} lost {} ({}), {kind}: it does not depend on load",
        point.lost_in_network,
        point.sent.datagrams,
        BitRate(point.sent.rate_bit_s),
        there(way),
        percent(share)
    );
    let remedy = "look for errors (CRC, light) on the links of that direction; until then a congestion control that bears loss: bbr";
    // 0.0046 % is enough to take cubic down to a hundredth over a long path.
    Some(cause(Kind::Loss, Some(way), (0.6 + share * 20.0).min(0.95), evidence, remedy))
}

/// Whether these datagrams were a burden for the path: then what was lost says nothing of less. TCP that lives with loss gets
/// little of a path, so what bursts come out at counts as well.
fn is_burden(found: &Findings, way: Way, point: &UdpPoint) -> bool {
    let drained = found.bursts.of(way).and_then(drained_bit_s);
    let carries = pushed(found, way).map(|tcp| tcp.rate).into_iter().chain(drained).reduce(f64::max);
    let shared = carries.is_some_and(|rate| point.sent.wire_rate_bit_s as f64 > rate * BURDEN);
    // Loss by itself takes TCP down to less than these datagrams: the bursts' rate decides, where there is one.
    shared && drained.is_some()
}

fn disorder(way: Way, point: &UdpPoint) -> Vec<Cause> {
    let received = &point.received;
    let share = |count: u64| count as f64 / received.datagrams.max(1) as f64;
    let mut causes = Vec::new();
    if received.reordered >= LOST_MIN && share(received.reordered) > DISORDER {
        let far = received.reorder_distances.iter().map(|bin| bin.to).max().unwrap_or(0);
        let evidence = format!(
            "{} of {} datagrams came behind later ones {} ({}), up to {far} places",
            received.reordered,
            received.datagrams,
            there(way),
            percent(share(received.reordered))
        );
        let remedy = "a bundle or a router that spreads packets, not flows: have it hash by flow; net.ipv4.tcp_reordering bears some";
        causes.push(cause(Kind::Reordering, Some(way), (0.4 + share(received.reordered)).min(0.8), evidence, remedy));
    }
    if received.duplicates >= LOST_MIN && share(received.duplicates) > DISORDER {
        let evidence = format!(
            "{} of {} datagrams came twice {} ({})",
            received.duplicates,
            received.datagrams,
            there(way),
            percent(share(received.duplicates))
        );
        let remedy = "a loop of bridges, a mirror port in the path, or two routers that both forward: look at the switches there";
        causes.push(cause(Kind::Duplicates, Some(way), (0.4 + share(received.duplicates)).min(0.8), evidence, remedy));
    }
    causes
}

/// What TCP did in a direction, in numbers.
struct Pushed {
    /// What it got, once it was under way.
    rate: f64,
    /// Share of the bytes sent again once it was under way: how every start overshoots is no fault of the path.
    resent: f64,
    min_rtt: f64,
    /// The longest round trip.
    rtt: f64,
    /// A processor was the limit, or others had them: what a host cannot take in is lost there, and what comes late is
    /// sent again.
    is_host_bound: bool,
    /// A window, a buffer, a processor or a pace of ours was the limit.
    is_bound: bool,
}

fn pushed(found: &Findings, way: Way) -> Option<Pushed> {
    let report = found.tcp.of(way)?;
    let up = way == Way::There;
    let result = report.ways.iter().find(|w| w.up == up)?;
    let (sender, intervals) = if up { (&report.near, &report.intervals) } else { (&report.far, &report.far_intervals) };
    let of_way = |flow: &Flow| flow.kernel.filter(|_| flow.up == up);
    let ends: Vec<Kernel> = sender.totals.iter().filter_map(|total| of_way(&total.flow)).collect();
    let end_s = intervals.last().map_or(0.0, |interval| interval.end_s);
    let later = intervals.iter().filter(|interval| interval.start_s >= end_s / 2.0);
    let later: Vec<Kernel> = later.flat_map(|interval| &interval.flows).filter_map(of_way).collect();
    let sum = |of: fn(&Kernel) -> u64| later.iter().map(of).sum::<u64>() as f64;
    let resent =
        if later.is_empty() { result.resent } else { sum(|k| k.resent_bytes) / sum(|k| k.sent_bytes).max(1.0) };
    let seen = intervals.iter().flat_map(|interval| &interval.flows).filter_map(of_way).chain(ends.iter().copied());
    let rtt = seen.map(|k| k.rtt_s).fold(0.0, f64::max);
    let min_rtt = ends.iter().map(|k| k.min_rtt_s).fold(f64::INFINITY, f64::min);
    let is_host_bound = result.binding.starts_with("cpu") || is_taken(&report.near.host) || is_taken(&report.far.host);
    let is_bound = is_host_bound || !result.binding.is_empty();
    let span: f64 =
        intervals.iter().filter(|interval| interval.start_s >= end_s / 2.0).map(|i| i.end_s - i.start_s).sum();
    // Once it was under way, as well; the rest is what arrived in the end.
    let rate = match span > 0.0 && !later.is_empty() {
        true => (sum(|k| k.sent_bytes) - sum(|k| k.resent_bytes)).max(0.0) * 8.0 / span,
        false => result.rate_bit_s as f64,
    };
    min_rtt.is_finite().then_some(Pushed { rate, resent, min_rtt, rtt, is_host_bound, is_bound })
}

/// Loss only of what exceeds something: a rate (policer), or what a queue holds.
fn squeezed(found: &Findings, way: Way, causes: &[Cause]) -> Option<Cause> {
    let tcp = pushed(found, way)?;
    if known(causes, Kind::Loss, way) || known(causes, Kind::LossyMember, way) {
        return None;
    }
    let burst = found.bursts.of(way);
    let light = found.datagrams.of(way);
    // That loss comes with the rate alone only a test at a low one can tell.
    let is_clean = light.is_some_and(|light| light.lost_in_network < LOST_MIN || is_burden(found, way, light));
    let drained = burst.and_then(drained_bit_s);
    // Where TCP gets what bursts come out at, the bottleneck is a queue, however short it was when somebody looked.
    let is_all = drained.is_some_and(|drained| tcp.rate > drained * ALL);
    let policer = policed(&tcp, way).filter(|_| is_clean && !is_all);
    let is_far_below = drained.is_some_and(|drained| tcp.rate < drained * FAR_BELOW);
    if is_far_below && policer.is_some() {
        return policer;
    }
    shallow(&tcp, way, burst).or(policer)
}

/// A burst loses its end, what is left of it comes at the pace of a bottleneck, its queue holds little of what TCP has on
/// its way, and TCP suffers.
fn shallow(tcp: &Pushed, way: Way, burst: Option<&UdpPoint>) -> Option<Cause> {
    let burst = burst?;
    let (drained, lost) = (drained_bit_s(burst)?, burst.lost_in_network_share);
    let suffers = tcp.resent > RESENT || tcp.rate < drained * (1.0 - HURTS);
    let held = held_bytes(burst, drained);
    if lost < BURST_LOSS || !suffers || held > drained / 8.0 * tcp.min_rtt * SHALLOW {
        return None;
    }
    let evidence = format!(
        "{} of each burst of {} lost {}: the queue holds some {}, and empties at {}; TCP gets {} and sends {} again",
        percent(lost),
        Bytes(burst_bytes(burst)),
        there(way),
        Bytes(held as u64),
        BitRate(drained as u64),
        BitRate(tcp.rate as u64),
        percent(tcp.resent)
    );
    let remedy = "a deeper buffer at the bottleneck, or senders that pace (bbr, SO_MAX_PACING_RATE a little below what the path gives)";
    Some(cause(Kind::ShallowQueue, Some(way), (0.5 + tcp.resent * 5.0).min(0.9), evidence, remedy))
}

/// TCP loses all the time, and no queue tells that it is too fast.
fn policed(tcp: &Pushed, way: Way) -> Option<Cause> {
    let queued = (tcp.rtt - tcp.min_rtt).max(0.0);
    if tcp.resent < RESENT || tcp.is_host_bound || queued > (tcp.min_rtt * QUEUED).max(QUEUED_S) {
        return None;
    }
    let evidence = format!(
        "TCP gets {} and sends {} again {} all the time, with no queue before the loss (round trips grow by {} at most); \
         at a low rate nothing is lost",
        BitRate(tcp.rate as u64),
        percent(tcp.resent),
        there(way),
        ms(queued)
    );
    let remedy =
        format!("a policer at about {}: ask for a shaper, or keep below it (--limit)", BitRate(tcp.rate as u64));
    Some(cause(Kind::Policer, Some(way), (0.5 + tcp.resent * 5.0).min(0.9), evidence, remedy))
}

fn burst_bytes(point: &UdpPoint) -> u64 {
    let length = match point.order.pace {
        UdpPace::Bursts { length, .. } => length,
        _ => 1,
    };
    u64::from(length) * u64::from(point.order.bytes)
}

/// The mean of the times between datagrams of one burst: the gaps between bursts are not of them. Where a path hands on
/// several at once, most are very short and a few are long: a percentile would say nothing.
fn within_bursts(spread: &UdpSpread, gap_s: f64) -> Option<f64> {
    let inside = || spread.bins.iter().filter(|bin| bin.to_s < gap_s / 4.0);
    let count: u64 = inside().map(|bin| bin.count).sum();
    let sum: f64 = inside().map(|bin| bin.count as f64 * (bin.from_s + bin.to_s) / 2.0).sum();
    (count > 0).then(|| sum / count as f64)
}

/// How fast the bottleneck let go of a burst: from arrival to arrival. None where they came as fast as they were sent.
fn drained_bit_s(point: &UdpPoint) -> Option<f64> {
    let UdpPace::Bursts { gap_s, .. } = point.order.pace else { return None };
    let sent = within_bursts(point.sent.spacing.as_ref()?, gap_s)?;
    let came = within_bursts(point.received.inter_arrival.as_ref()?, gap_s)?;
    let bits = (u64::from(point.order.bytes) + WIRE_BYTES) as f64 * 8.0;
    // A burst that is only cut takes no longer than it was sent: few of its datagrams come, and so each after a longer gap.
    let whole = came * (1.0 - point.lost_in_network_share);
    (whole > sent * 1.5).then(|| bits / came)
}

/// What the queue held of a burst, at most: what arrived, less what had left it while the burst came.
fn held_bytes(point: &UdpPoint, drained_bit_s: f64) -> f64 {
    let UdpPace::Bursts { length, gap_s, .. } = point.order.pace else { return f64::INFINITY };
    let span =
        point.sent.spacing.as_ref().and_then(|spread| within_bursts(spread, gap_s)).unwrap_or(0.0) * f64::from(length);
    (burst_bytes(point) as f64 * (1.0 - point.lost_in_network_share) - drained_bit_s / 8.0 * span).max(0.0)
}

/// Less than the path's capacity comes through, nothing of ours explains it, and round trips vary before we send anything.
fn others(found: &Findings, way: Way, causes: &[Cause]) -> Option<Cause> {
    let tcp = pushed(found, way)?;
    if tcp.is_bound {
        return None;
    }
    let explained = [Kind::Loss, Kind::LossyMember, Kind::Policer, Kind::ShallowQueue, Kind::MtuHole, Kind::Reordering];
    if explained.iter().any(|kind| known(causes, *kind, way)) {
        return None;
    }
    let burst = found.bursts.of(way);
    let capacity = match found.link_bit_s {
        0 => burst.and_then(drained_bit_s)?,
        link => link as f64,
    };
    let idle = found.latency.as_ref()?;
    let variation = if way == Way::There { idle.variation_forward } else { idle.variation_backward };
    let varies = variation.map_or(0.0, |variation| variation.p95_s);
    let taken = 1.0 - tcp.rate / capacity;
    if taken < TAKEN || varies < 0.000_2 {
        return None;
    }
    let evidence = format!(
        "TCP gets {} of {} {}, nothing of ours limits it, and delays vary by {} (95 %) with nothing of ours on the path",
        BitRate(tcp.rate as u64),
        BitRate(capacity as u64),
        there(way),
        ms(varies)
    );
    Some(cause(
        Kind::CrossTraffic,
        Some(way),
        taken.min(0.7),
        evidence,
        "others use the path: ask who, or when it is quieter",
    ))
}
