//! Causes that follow from datagrams alone: loss, reordering, duplicates.

use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind};
use model::v1::probe::udp::UdpPoint;

use super::bursts::drained_bit_s;
use super::pushed::Pushed;
use super::{cause, in_direction, known, percent};

/// Fewer lost datagrams are no evidence.
pub(super) const LOST_MIN: u64 = 3;
/// The least share of datagrams for a cause of reordering or duplicates.
const DISORDER: f64 = 1e-4;
/// Datagrams above this share of the path's rate are a burden.
const BURDEN: f64 = 0.5;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (way, point) in found.datagrams.each() {
        let Some(point) = point else { continue };
        causes.extend(loss(found, way, point).filter(|_| !known(before, Kind::LossyMember, way)));
        causes.extend(disorder(way, point));
    }
    causes
}

/// Loss at a rate that is no burden.
fn loss(found: &Findings, way: Direction, point: &UdpPoint) -> Option<Cause> {
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
        in_direction(way),
        percent(share)
    );
    let remedy = "look for errors (CRC, light) on the links of that direction; until then a congestion control that bears loss: bbr";
    // 0.0046 % is enough to take cubic down to a hundredth over a long path.
    Some(cause(Kind::Loss, Some(way), (0.6 + share * 20.0).min(0.95), evidence, remedy))
}

/// Whether these datagrams were a burden for the path: then their loss says nothing about lower rates. TCP gets little of a path
/// with loss, so the rate at which bursts drain counts as well.
pub(super) fn is_burden(found: &Findings, way: Direction, point: &UdpPoint) -> bool {
    let drained = found.bursts.of(way).and_then(drained_bit_s);
    let carries = Pushed::of(found.tcp.of(way), way).map(|tcp| tcp.rate).into_iter().chain(drained).reduce(f64::max);
    let shared = carries.is_some_and(|rate| point.sent.wire_rate_bit_s as f64 > rate * BURDEN);
    // Loss by itself takes TCP down to less than these datagrams: the bursts' rate decides, where there is one.
    shared && drained.is_some()
}

fn disorder(way: Direction, point: &UdpPoint) -> Vec<Cause> {
    let received = &point.received;
    let share = |count: u64| count as f64 / received.datagrams.max(1) as f64;
    let mut causes = Vec::new();
    if received.reordered >= LOST_MIN && share(received.reordered) > DISORDER {
        let far = received.reorder_distances.iter().map(|bin| bin.to).max().unwrap_or(0);
        let evidence = format!(
            "{} of {} datagrams came behind later ones {} ({}), up to {far} places",
            received.reordered,
            received.datagrams,
            in_direction(way),
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
            in_direction(way),
            percent(share(received.duplicates))
        );
        let remedy = "a loop of bridges, a mirror port in the path, or two routers that both forward: look at the switches there";
        causes.push(cause(Kind::Duplicates, Some(way), (0.4 + share(received.duplicates)).min(0.8), evidence, remedy));
    }
    causes
}
