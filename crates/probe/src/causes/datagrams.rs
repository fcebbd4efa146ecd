//! Causes that datagrams show: loss, policers, short queues, disorder, copies, other people's traffic.

use model::units::{BitRate, Bytes};
use model::v1::probe::all::{Cause, Findings, Kind, Way};
use model::v1::probe::udp::{UdpPace, UdpPoint, WIRE_BYTES};

use super::{cause, known, ms, percent, there};

/// So many lost ones are no accident.
const LOST_MIN: u64 = 3;
/// Shares of datagrams that are worth a word.
const DISORDER: f64 = 1e-4;
/// Loss of a burst's datagrams from which on the queue is short; and how deep it would have to be for TCP, of a BDP.
const BURST_LOSS: f64 = 0.02;
/// From this share of what TCP sent again on it lives with loss.
const RESENT: f64 = 0.002;
/// A queue adds at least so much of the round trip before it runs over, or some milliseconds.
const QUEUED: f64 = 0.05;
const QUEUED_S: f64 = 0.003;
/// What a path gives less than its capacity for others to be on it.
const TAKEN: f64 = 0.15;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (way, point) in found.datagrams.each() {
        let Some(point) = point else { continue };
        causes.extend(loss(way, point).filter(|_| !known(before, Kind::LossyMember, way)));
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
fn loss(way: Way, point: &UdpPoint) -> Option<Cause> {
    if point.lost_in_network < LOST_MIN {
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
    rate: f64,
    resent: f64,
    min_rtt: f64,
    rtt: f64,
}

fn pushed(found: &Findings, way: Way) -> Option<Pushed> {
    let report = found.tcp.each().into_iter().find(|(of, _)| *of == way)?.1?;
    let result = report.ways.iter().find(|w| w.up == (way == Way::There))?;
    let sender = if way == Way::There { &report.near } else { &report.far };
    let kernels: Vec<_> = sender.totals.iter().filter(|t| t.flow.up == (way == Way::There)).filter_map(|t| t.flow.kernel).collect();
    let count = kernels.len().max(1) as f64;
    let min_rtt = kernels.iter().map(|k| k.min_rtt_s).fold(f64::INFINITY, f64::min);
    let rtt = kernels.iter().map(|k| k.rtt_s).sum::<f64>() / count;
    min_rtt.is_finite().then_some(Pushed { rate: result.rate_bit_s as f64, resent: result.resent, min_rtt, rtt })
}

/// Loss only of what exceeds something: a rate (policer), or what a queue holds.
fn squeezed(found: &Findings, way: Way, causes: &[Cause]) -> Option<Cause> {
    let tcp = pushed(found, way)?;
    if known(causes, Kind::Loss, way) || known(causes, Kind::LossyMember, way) || tcp.resent < RESENT {
        return None;
    }
    let queued = tcp.rtt - tcp.min_rtt;
    if queued > (tcp.min_rtt * QUEUED).max(QUEUED_S * 4.0) {
        // It overflowed a queue that is worth the name: that is what queues do.
        return None;
    }
    let burst = found.bursts.each().into_iter().find(|(of, _)| *of == way)?.1;
    let drained = burst.and_then(drained_bit_s);
    let lost = burst.map_or(0.0, |burst| burst.lost_in_network_share);
    let weight = (0.5 + tcp.resent * 5.0).min(0.9);
    match (burst, drained) {
        (Some(burst), Some(rate)) if lost > BURST_LOSS => {
            let evidence = format!(
                "{} of each burst of {} lost {}, and TCP sends {} again while the queue adds {} at most; it empties at {}",
                percent(lost),
                burst_size(burst),
                there(way),
                percent(tcp.resent),
                ms(queued.max(0.0)),
                BitRate(rate as u64)
            );
            let remedy = "a deeper buffer at the bottleneck, or senders that pace (bbr, SO_MAX_PACING_RATE a little below what the path gives)";
            Some(cause(Kind::ShallowQueue, Some(way), weight, evidence, remedy))
        }
        _ => {
            let evidence = format!(
                "TCP gets {} and sends {} again {}, with no queue before the loss ({} above the least round trip); at a low rate nothing is lost",
                BitRate(tcp.rate as u64),
                percent(tcp.resent),
                there(way),
                ms(queued.max(0.0))
            );
            let remedy = format!("a policer at about {}: ask for a shaper, or keep below it (--limit)", BitRate(tcp.rate as u64));
            Some(cause(Kind::Policer, Some(way), weight, evidence, remedy))
        }
    }
}

fn burst_size(point: &UdpPoint) -> String {
    let length = match point.order.pace {
        UdpPace::Bursts { length, .. } => length,
        _ => 1,
    };
    Bytes(u64::from(length) * u64::from(point.order.bytes)).to_string()
}

/// How fast the bottleneck let go of a burst: from arrival to arrival. None where they came as fast as they were sent.
fn drained_bit_s(point: &UdpPoint) -> Option<f64> {
    let (sent, came) = (point.sent.spacing.as_ref()?, point.received.inter_arrival.as_ref()?);
    let bits = (u64::from(point.order.bytes) + WIRE_BYTES) as f64 * 8.0;
    (came.p50_s > sent.p50_s * 1.5 && came.p50_s > 0.0).then(|| bits / came.p50_s)
}

/// Less than the path's capacity comes through, nothing of ours explains it, and round trips vary before we send anything.
fn others(found: &Findings, way: Way, causes: &[Cause]) -> Option<Cause> {
    let tcp = pushed(found, way)?;
    let explained = [Kind::Loss, Kind::LossyMember, Kind::Policer, Kind::ShallowQueue, Kind::MtuHole, Kind::Reordering];
    if explained.iter().any(|kind| known(causes, *kind, way)) {
        return None;
    }
    let burst = found.bursts.each().into_iter().find(|(of, _)| *of == way)?.1;
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
    Some(cause(Kind::CrossTraffic, Some(way), taken.min(0.7), evidence, "others use the path: ask who, or when it is quieter"))
}
