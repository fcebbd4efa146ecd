//! Evaluates bursts of datagrams: the rate at which the bottleneck's queue drains, and the bytes that it holds.

use model::v1::probe::udp::{UdpPace, UdpPoint, UdpSpread, WIRE_BYTES};

/// Datagrams of a burst.
fn length(point: &UdpPoint) -> u64 {
    match point.order.pace {
        UdpPace::Bursts { length, .. } => u64::from(length),
        _ => 1,
    }
}

pub(super) fn burst_bytes(point: &UdpPoint) -> u64 {
    length(point) * u64::from(point.order.bytes)
}

/// The mean time between datagrams of one burst. It excludes the gaps between bursts, and the longest time of each burst, which may
/// be a pause of a host. Where a path delivers several datagrams at once, most times are very short and a few are long, so a
/// percentile would be meaningless.
fn within_bursts(point: &UdpPoint, spread: &UdpSpread, gap_s: f64) -> Option<f64> {
    let inside = || spread.bins.iter().filter(|bin| bin.to_s < gap_s / 4.0);
    let count: u64 = inside().map(|bin| bin.count).sum();
    let bursts = point.sent.datagrams / length(point).max(1);
    let counted = count.saturating_sub(bursts);
    let mut left = counted;
    let sum: f64 = inside()
        .map(|bin| {
            let of_bin = bin.count.min(left);
            left -= of_bin;
            of_bin as f64 * (bin.from_s + bin.to_s) / 2.0
        })
        .sum();
    (counted > 0).then(|| sum / counted as f64)
}

/// The rate at which the bottleneck drained bursts, from arrival to arrival. None if they arrived as fast as they were sent.
pub(super) fn drained_bit_s(point: &UdpPoint) -> Option<f64> {
    let UdpPace::Bursts { gap_s, .. } = point.order.pace else { return None };
    let sent = within_bursts(point, point.sent.spacing.as_ref()?, gap_s)?;
    let received = within_bursts(point, point.received.inter_arrival.as_ref()?, gap_s)?;
    let bits = (u64::from(point.order.bytes) + WIRE_BYTES) as f64 * 8.0;
    // A policer only drops: the remaining datagrams arrive at longer intervals, but the whole burst takes no longer.
    let of_burst = received * (1.0 - point.lost_in_network_share);
    (of_burst > sent * 1.5).then(|| bits / received)
}

/// Most bytes of a burst that the queue held: the bytes that arrived, less those that left the queue during the burst.
pub(super) fn held_bytes(point: &UdpPoint, drained_bit_s: f64) -> f64 {
    let UdpPace::Bursts { length, gap_s, .. } = point.order.pace else { return f64::INFINITY };
    let span = point.sent.spacing.as_ref().and_then(|spread| within_bursts(point, spread, gap_s)).unwrap_or(0.0)
        * f64::from(length);
    (burst_bytes(point) as f64 * (1.0 - point.lost_in_network_share) - drained_bit_s / 8.0 * span).max(0.0)
}
