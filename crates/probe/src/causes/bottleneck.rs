//! Causes at the bottleneck: short queues, policers, links below their stated rate, cross traffic.

use model::units::{BitRate, Bytes};
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind};
use model::v1::probe::udp::UdpPoint;

use super::bursts::{burst_bytes, drained_bit_s, held_bytes};
use super::datagrams::{LOST_MIN, is_burden};
use super::tcp_summary::TcpSummary;
use super::{cause, in_direction, known, ms, percent};

/// The least loss within bursts that shows a short queue.
const BURST_LOSS: f64 = 0.02;
/// A queue that holds less than this part of the bandwidth-delay product is short.
const SHALLOW: f64 = 0.25;
/// TCP that sends more than this share again suffers from loss.
const RESENT: f64 = 0.002;
/// Before a queue overflows, it adds at least this share of the round trip, or 12 ms.
const QUEUED: f64 = 0.1;
const QUEUED_S: f64 = 0.012;
/// A short queue slows TCP if TCP is slower than the bottleneck by this share.
const SLOWED: f64 = 0.1;
/// Behind a short queue TCP reaches a good part of the queue's rate. Below this share of it the limit is a policer.
const FAR_BELOW: f64 = 0.25;
/// TCP at this share of the bottleneck's rate uses all of it.
const ALL: f64 = 0.9;
/// Cross traffic is assumed if TCP gets this share less than the path's capacity; a busy host costs up to a fifth.
const TAKEN: f64 = 0.3;
/// A link that drains at less than this share of its stated rate is a narrow one, if TCP gets this share of the draining rate.
const NARROW: f64 = 0.8;
/// Round trips that a loss-based congestion control needs before it shows the effect of a queue.
const ROUNDS_MIN: f64 = 40.0;
/// Loss of BBR that shows a short queue: with a sufficient queue BBR loses nothing after the start.
const BBR_LOSS: f64 = 0.01;
/// Two congestion controls whose rates agree within this share have found the available rate.
const AGREE: f64 = 0.2;
/// A burst that arrived complete, and is this many times what the queue held when TCP lost packets, proves a longer queue. The factor
/// is large because hosts spread the bursts that they send, and smooth the round trips that they report.
const HELD: f64 = 3.0;
/// The part of the longest round trip that is not due to the queue.
const JITTER_S: f64 = 0.001;
/// Delays that vary by more than this on a path without test traffic show cross traffic.
const VARIES_S: f64 = 0.000_2;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for direction in [Direction::Forward, Direction::Reverse] {
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(lossy_bottleneck(found, direction, &all));
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(below_capacity(found, direction, &all));
    }
    causes
}

/// The evidence of a direction's bottleneck.
struct BottleneckEvidence<'a> {
    direction: Direction,
    tcp: TcpSummary,
    /// The test with loss-based congestion control, if the first one was with BBR.
    loss_based: Option<TcpSummary>,
    burst: Option<&'a UdpPoint>,
    /// The rate at which bursts drain, bit/s.
    drained: Option<f64>,
    /// Share that is lost at any rate; none if no test was at a light rate.
    always_lost: Option<f64>,
}

impl<'a> BottleneckEvidence<'a> {
    fn of(found: &'a Findings, direction: Direction) -> Option<BottleneckEvidence<'a>> {
        let burst = found.bursts.of(direction);
        let light = found.datagrams.of(direction).filter(|light| !is_burden(found, direction, light));
        let few = |light: &UdpPoint| light.lost_in_network < LOST_MIN;
        Some(BottleneckEvidence {
            direction,
            tcp: TcpSummary::of(found.tcp.of(direction), direction)?,
            loss_based: TcpSummary::of(found.loss_based.of(direction), direction),
            burst,
            drained: burst.and_then(drained_bit_s),
            always_lost: light.map(|light| if few(light) { 0.0 } else { light.lost_in_network_share }),
        })
    }

    /// The higher rate of the two TCP tests.
    fn best_rate(&self) -> f64 {
        self.loss_based.as_ref().map_or(self.tcp.rate, |other| other.rate.max(self.tcp.rate))
    }

    /// The results of TCP, in words.
    fn tcp_results(&self) -> String {
        let tcp = &self.tcp;
        let with = self.loss_based.as_ref().map_or(String::new(), |other| {
            format!(" (with CUBIC {} and {})", BitRate(other.rate as u64), percent(other.resent))
        });
        format!("TCP gets {} and sends {} again{with}", BitRate(tcp.rate as u64), percent(tcp.resent))
    }
}

/// A cause of loss above a bound: that of a rate (policer), or of the queue's size.
fn lossy_bottleneck(found: &Findings, direction: Direction, causes: &[Cause]) -> Option<Cause> {
    let seen = BottleneckEvidence::of(found, direction)?;
    if known(causes, Kind::LossyMember, direction) {
        return None;
    }
    // Where TCP reaches the rate at which bursts drain, the bottleneck is a queue, even if the measured delays are short.
    let fills_bottleneck = seen.drained.is_some_and(|drained| seen.best_rate() > drained * ALL);
    let policer = policer_cause(&seen).filter(|_| !fills_bottleneck);
    let is_far_below = seen.drained.is_some_and(|drained| seen.best_rate() < drained * FAR_BELOW);
    if is_far_below && policer.is_some() {
        return policer;
    }
    short_queue(&seen).or(policer).or_else(|| short_queue_by_cubic(&seen))
}

const DEEPER_QUEUE: &str = "a deeper buffer at the bottleneck, or senders that pace (bbr, SO_MAX_PACING_RATE a little below the \
                      path's rate)";

/// A short queue: bursts lose their ends, the rest arrives at the rate of a bottleneck, whose queue holds little of the
/// bandwidth-delay product, and TCP suffers.
fn short_queue(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let (burst, drained) = (seen.burst?, seen.drained?);
    let lost = burst.lost_in_network_share;
    let always_lost = seen.always_lost.unwrap_or(0.0);
    let is_slowed = |tcp: &TcpSummary| tcp.resent > RESENT || tcp.rate < drained * (1.0 - SLOWED);
    // With loss at any rate, the effect of the queue on TCP cannot be distinguished from that of the loss.
    let suffers = always_lost > 0.0 || is_slowed(&seen.tcp) || seen.loss_based.as_ref().is_some_and(is_slowed);
    let held = held_bytes(burst, drained);
    if lost < BURST_LOSS + 3.0 * always_lost || !suffers || held > drained / 8.0 * seen.tcp.min_rtt * SHALLOW {
        return None;
    }
    let evidence = format!(
        "{} of each burst of {} is lost {}: the queue holds some {}, and drains at {}; {}",
        percent(lost),
        Bytes(burst_bytes(burst)),
        in_direction(seen.direction),
        Bytes(held as u64),
        BitRate(drained as u64),
        seen.tcp_results()
    );
    Some(cause(
        Kind::ShallowQueue,
        Some(seen.direction),
        (0.5 + seen.tcp.resent * 5.0).min(0.9),
        evidence,
        DEEPER_QUEUE,
    ))
}

/// A short queue that the bursts are too short to fill: CUBIC backs off where BBR does not, or BBR loses all the time, and no queue
/// had grown before.
fn short_queue_by_cubic(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let (bbr, cubic) = (&seen.tcp, seen.loss_based.as_ref()?);
    let is_judged = seen.always_lost == Some(0.0) && !bbr.is_bound && !cubic.is_bound && cubic.rounds > ROUNDS_MIN;
    let queued = (cubic.rtt - cubic.min_rtt).max(0.0);
    // A queue that held a complete burst is long enough: something else loses packets.
    let holds_more = |burst: &UdpPoint| {
        burst.lost_in_network_share < BURST_LOSS && burst_bytes(burst) as f64 > bbr.rate / 8.0 * queued * HELD
    };
    if seen.burst.is_some_and(holds_more) {
        return None;
    }
    let suffers = cubic.rate < bbr.rate * NARROW || bbr.resent > BBR_LOSS;
    // A rate that still grows is no sign of a start here: CUBIC's rate grows after each loss.
    if !is_judged || cubic.resent == 0.0 || !suffers || queued > cubic.min_rtt * SHALLOW + JITTER_S {
        return None;
    }
    let evidence = format!(
        "CUBIC gets {} where BBR gets {} and sends {} again; it loses {} {} when round trips of {} have grown by {}: the queue holds some {}",
        BitRate(cubic.rate as u64),
        BitRate(bbr.rate as u64),
        percent(bbr.resent),
        percent(cubic.resent),
        in_direction(seen.direction),
        ms(cubic.min_rtt),
        ms(queued),
        Bytes((bbr.rate / 8.0 * queued) as u64)
    );
    Some(cause(Kind::ShallowQueue, Some(seen.direction), 0.5, evidence, DEEPER_QUEUE))
}

/// A policer: TCP loses all the time, and no queue grows before the loss.
fn policer_cause(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let tcp = &seen.tcp;
    let queued = (tcp.rtt - tcp.min_rtt).max(0.0);
    // Only a test at a low rate can show that the loss depends on the rate.
    let of_rate = tcp.resent - 2.0 * seen.always_lost?;
    if of_rate < RESENT || tcp.is_host_bound || queued > (tcp.min_rtt * QUEUED).max(QUEUED_S) {
        return None;
    }
    let evidence = format!(
        "TCP gets {} and sends {} again {} all the time, with no queue before the loss (round trips grow by {} at most); \
         at a low rate {} is lost",
        BitRate(tcp.rate as u64),
        percent(tcp.resent),
        in_direction(seen.direction),
        ms(queued),
        seen.always_lost.filter(|lost| *lost > 0.0).map_or_else(|| "nothing".into(), percent)
    );
    let remedy =
        format!("a policer at about {}: ask for a shaper, or keep below it (--limit)", BitRate(tcp.rate as u64));
    Some(cause(Kind::Policer, Some(seen.direction), (0.5 + tcp.resent * 5.0).min(0.9), evidence, remedy))
}

/// A cause of a rate below the path's capacity, where neither the hosts nor the known causes explain it.
fn below_capacity(found: &Findings, direction: Direction, causes: &[Cause]) -> Option<Cause> {
    let seen = BottleneckEvidence::of(found, direction)?;
    let explained = [Kind::Loss, Kind::LossyMember, Kind::Policer, Kind::ShallowQueue, Kind::MtuHole, Kind::Reordering];
    if seen.tcp.is_bound || seen.tcp.grows || explained.iter().any(|kind| known(causes, *kind, direction)) {
        return None;
    }
    let capacity = if found.link_bit_s > 0 { found.link_bit_s as f64 } else { seen.drained? };
    let taken = 1.0 - seen.best_rate() / capacity;
    if taken < TAKEN {
        return None;
    }
    narrow_link(&seen, capacity, taken).or_else(|| cross_traffic(found, &seen, capacity, taken))
}

/// A narrow link: bursts drain at less than the link's stated rate.
fn narrow_link(seen: &BottleneckEvidence<'_>, link: f64, taken: f64) -> Option<Cause> {
    // Where others share the queue, their packets are among those of the bursts: then TCP gets less than the draining rate.
    let is_link = |drained: &f64| *drained < link * NARROW && seen.best_rate() > drained * NARROW;
    let drained = seen.drained.filter(is_link)?;
    let evidence = format!(
        "TCP gets {} of {} {}, and bursts drain at {}: other traffic does not use the rest",
        BitRate(seen.best_rate() as u64),
        BitRate(link as u64),
        in_direction(seen.direction),
        BitRate(drained as u64)
    );
    let remedy = "a slower link, a member of a bundle that is down, or a shaper on the path: check the rate of each interface of that \
                  direction (ethtool, the provider's order)";
    Some(cause(Kind::NarrowLink, Some(seen.direction), taken.min(0.8), evidence, remedy))
}

/// Cross traffic: round trips vary without test traffic; or bursts drain at the link's rate, and TCP gets a part of it with either
/// congestion control.
fn cross_traffic(found: &Findings, seen: &BottleneckEvidence<'_>, capacity: f64, taken: f64) -> Option<Cause> {
    let idle = found.latency.as_ref()?;
    let variation = if seen.direction == Direction::Forward { idle.variation_forward } else { idle.variation_reverse };
    let varies = variation.map_or(0.0, |variation| variation.p95_s);
    let drains_at_capacity = seen.drained.is_some_and(|drained| drained >= capacity * NARROW);
    let same = |other: &TcpSummary| {
        (other.rate - seen.tcp.rate).abs() < seen.tcp.rate * AGREE && !other.is_bound && !other.grows
    };
    let is_rate_found = seen.tcp.rounds > ROUNDS_MIN && seen.loss_based.as_ref().is_some_and(same);
    let tcp_gets = format!(
        "TCP gets {} of {} {}, and the hosts do not limit it",
        BitRate(seen.tcp.rate as u64),
        BitRate(capacity as u64),
        in_direction(seen.direction)
    );
    let evidence = match seen.drained {
        _ if varies >= VARIES_S => {
            format!("{tcp_gets}; delays vary by {} (95 %) without test traffic on the path", ms(varies))
        }
        Some(drained) if drains_at_capacity && is_rate_found => {
            format!("{tcp_gets}; CUBIC gets the same, and bursts drain at {}", BitRate(drained as u64))
        }
        _ => return None,
    };
    Some(cause(
        Kind::CrossTraffic,
        Some(seen.direction),
        taken.min(0.7),
        evidence,
        "others use the path: find out who, or when it is quieter",
    ))
}
