//! Causes that follow only from datagrams: loss, reordering, duplicates.

use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind};
use model::v1::probe::udp::UdpPoint;

use super::bursts::drained_bit_s;
use super::tcp_summary::TcpSummary;
use super::{cause, in_direction, known, percent};

/// Least lost datagrams that are evidence.
pub(super) const LOST_MIN: u64 = 3;
/// The least share of datagrams for a cause of reordering or duplicates.
const DISORDER: f64 = 1e-4;
/// Datagrams above this share of the path's rate are a burden.
const BURDEN: f64 = 0.5;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (direction, point) in found.datagrams.each() {
        let Some(point) = point else { continue };
        causes.extend(loss(found, direction, point).filter(|_| !known(before, Kind::LossyMember, direction)));
        causes.extend(disorder(direction, point));
    }
    causes
}

/// Loss at a rate that is no burden.
fn loss(found: &Findings, direction: Direction, point: &UdpPoint) -> Option<Cause> {
    if point.lost_in_network < LOST_MIN || is_burden(found, direction, point) {
        return None;
    }
    let share = point.lost_in_network_share;
    let runs = point.received.lost_runs_total.max(1);
    let mean = point.lost as f64 / runs as f64;
    let pattern = if mean < 1.5 { "one by one" } else { "in runs" };
    let evidence = format!(
        "{} of {} datagrams at {} lost {} ({}), {pattern}: the loss does not depend on load",
        point.lost_in_network,
        point.sent.datagrams,
        BitRate(point.sent.rate_bit_s),
        in_direction(direction),
        percent(share)
    );
    let remedy = "look for errors (CRC, light) on the links of that direction; until then a congestion control that tolerates loss: bbr";
    // 0.0046 % is enough to slow CUBIC down to a hundredth over a long path.
    Some(cause(Kind::Loss, Some(direction), (0.6 + share * 20.0).min(0.95), evidence, remedy))
}

/// Whether these datagrams were a burden for the path: then their loss does not apply to lower rates. TCP uses little of a path
/// with loss, so the rate at which bursts drain counts as well.
pub(super) fn is_burden(found: &Findings, direction: Direction, point: &UdpPoint) -> bool {
    let drained = found.bursts.of(direction).and_then(drained_bit_s);
    let path_rate = TcpSummary::of(found.tcp.of(direction), direction)
        .map(|tcp| tcp.rate)
        .into_iter()
        .chain(drained)
        .reduce(f64::max);
    let is_large = path_rate.is_some_and(|rate| point.sent.wire_rate_bit_s as f64 > rate * BURDEN);
    // Loss alone slows TCP down below the rate of these datagrams: without a rate of bursts they are no burden.
    is_large && drained.is_some()
}

fn disorder(direction: Direction, point: &UdpPoint) -> Vec<Cause> {
    let received = &point.received;
    let share = |count: u64| count as f64 / received.datagrams.max(1) as f64;
    let mut causes = Vec::new();
    if received.reordered >= LOST_MIN && share(received.reordered) > DISORDER {
        let farthest = received.reorder_distances.iter().map(|bin| bin.to).max().unwrap_or(0);
        let evidence = format!(
            "{} of {} datagrams arrived after later ones {} ({}), by up to {farthest} places",
            received.reordered,
            received.datagrams,
            in_direction(direction),
            percent(share(received.reordered))
        );
        let remedy = "a bundle or a router that spreads packets, not flows: have it hash by flow; net.ipv4.tcp_reordering tolerates some";
        causes.push(cause(
            Kind::Reordering,
            Some(direction),
            (0.4 + share(received.reordered)).min(0.8),
            evidence,
            remedy,
        ));
    }
    if received.duplicates >= LOST_MIN && share(received.duplicates) > DISORDER {
        let evidence = format!(
            "{} of {} datagrams arrived twice {} ({})",
            received.duplicates,
            received.datagrams,
            in_direction(direction),
            percent(share(received.duplicates))
        );
        let remedy = "a loop of bridges, a mirror port in the path, or two routers that both forward: look at the switches there";
        causes.push(cause(
            Kind::Duplicates,
            Some(direction),
            (0.4 + share(received.duplicates)).min(0.8),
            evidence,
            remedy,
        ));
    }
    causes
}
