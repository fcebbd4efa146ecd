//! Causes at the bottleneck: short queues, policers, links that give less than they should, cross traffic.

use model::units::{BitRate, Bytes};
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind};
use model::v1::probe::udp::UdpPoint;

use super::bursts::{burst_bytes, drained_bit_s, held_bytes};
use super::datagrams::{LOST_MIN, is_burden};
use super::pushed::Pushed;
use super::{cause, in_direction, known, ms, percent};

/// The least loss within bursts that shows a short queue.
const BURST_LOSS: f64 = 0.02;
/// A queue that holds less than this part of the bandwidth-delay product is short.
const SHALLOW: f64 = 0.25;
/// TCP that sends again more than this share suffers from loss.
const RESENT: f64 = 0.002;
/// Before a queue overflows it adds this share of the round trip at least, or 12 ms.
const QUEUED: f64 = 0.1;
const QUEUED_S: f64 = 0.012;
/// A short queue hurts if TCP gets this share less than the bottleneck's rate.
const HURTS: f64 = 0.1;
/// Behind a short queue TCP reaches a good part of the queue's rate. Below this share of it the limit is a policer.
const FAR_BELOW: f64 = 0.25;
/// TCP with this share of the bottleneck's rate has all of it.
const ALL: f64 = 0.9;
/// Cross traffic shows if TCP gets this share less than the path's capacity; a host that stutters costs a fifth.
const TAKEN: f64 = 0.3;
/// A link that drains at less than this share of its stated rate is a narrow one, if TCP gets this share of what it drains.
const NARROW: f64 = 0.8;
/// Round trips that a loss-based congestion control needs before it shows the effect of a queue.
const ROUNDS_MIN: f64 = 40.0;
/// Loss of BBR that shows a short queue: with a sufficient queue BBR loses nothing after the start.
const LIVES_WITH: f64 = 0.01;
/// Two congestion controls whose rates agree within this share have found the available rate.
const AGREE: f64 = 0.2;
/// A burst that arrived whole, and is this many times what the queue held when TCP lost packets, proves a longer queue. The factor
/// is large because hosts spread the bursts that they send, and smooth the round trips that they report.
const HELD: f64 = 3.0;
/// The part of the longest round trip that is not due to the queue.
const JITTER_S: f64 = 0.001;
/// Delays that vary by more than this on a path without test traffic show cross traffic.
const VARIES_S: f64 = 0.000_2;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for way in [Direction::Forward, Direction::Reverse] {
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(squeezed(found, way, &all));
        let all: Vec<Cause> = before.iter().chain(&causes).cloned().collect();
        causes.extend(below(found, way, &all));
    }
    causes
}

/// The evidence of a direction's bottleneck.
struct BottleneckEvidence<'a> {
    way: Direction,
    tcp: Pushed,
    /// The test with loss-based congestion control, if the first one was with BBR.
    loss_based: Option<Pushed>,
    burst: Option<&'a UdpPoint>,
    /// The rate at which bursts drain, bit/s.
    drained: Option<f64>,
    /// Share that is lost at any rate; none if no test was at a light rate.
    always_lost: Option<f64>,
}

impl<'a> BottleneckEvidence<'a> {
    fn of(found: &'a Findings, way: Direction) -> Option<BottleneckEvidence<'a>> {
        let burst = found.bursts.of(way);
        let light = found.datagrams.of(way).filter(|light| !is_burden(found, way, light));
        let few = |light: &UdpPoint| light.lost_in_network < LOST_MIN;
        Some(BottleneckEvidence {
            way,
            tcp: Pushed::of(found.tcp.of(way), way)?,
            loss_based: Pushed::of(found.loss_based.of(way), way),
            burst,
            drained: burst.and_then(drained_bit_s),
            always_lost: light.map(|light| if few(light) { 0.0 } else { light.lost_in_network_share }),
        })
    }

    /// The higher rate of both TCP tests.
    fn best(&self) -> f64 {
        self.loss_based.as_ref().map_or(self.tcp.rate, |other| other.rate.max(self.tcp.rate))
    }

    /// The results of TCP, in words.
    fn got(&self) -> String {
        let tcp = &self.tcp;
        let with = self.loss_based.as_ref().map_or(String::new(), |other| {
            format!(" (with CUBIC {} and {})", BitRate(other.rate as u64), percent(other.resent))
        });
        format!("TCP gets {} and sends {} again{with}", BitRate(tcp.rate as u64), percent(tcp.resent))
    }
}

/// A cause of loss above a bound: that of a rate (policer), or of the queue's size.
fn squeezed(found: &Findings, way: Direction, causes: &[Cause]) -> Option<Cause> {
    let seen = BottleneckEvidence::of(found, way)?;
    if known(causes, Kind::LossyMember, way) {
        return None;
    }
    // Where TCP reaches the rate at which bursts drain, the bottleneck is a queue, however short the measured delays.
    let is_all = seen.drained.is_some_and(|drained| seen.best() > drained * ALL);
    let policer = policed(&seen).filter(|_| !is_all);
    let is_far_below = seen.drained.is_some_and(|drained| seen.best() < drained * FAR_BELOW);
    if is_far_below && policer.is_some() {
        return policer;
    }
    shallow(&seen).or(policer).or_else(|| hidden(&seen))
}

const DEEPER: &str = "a deeper buffer at the bottleneck, or senders that pace (bbr, SO_MAX_PACING_RATE a little below what \
                      the path gives)";

/// A short queue: bursts lose their ends, the rest arrives at the rate of a bottleneck, whose queue holds little of the
/// bandwidth-delay product, and TCP suffers.
fn shallow(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let (burst, drained) = (seen.burst?, seen.drained?);
    let (lost, always) = (burst.lost_in_network_share, seen.always_lost.unwrap_or(0.0));
    let hurts = |tcp: &Pushed| tcp.resent > RESENT || tcp.rate < drained * (1.0 - HURTS);
    // With loss at any rate, the effect of the queue on TCP cannot be told from that of the loss.
    let suffers = always > 0.0 || hurts(&seen.tcp) || seen.loss_based.as_ref().is_some_and(hurts);
    let held = held_bytes(burst, drained);
    if lost < BURST_LOSS + 3.0 * always || !suffers || held > drained / 8.0 * seen.tcp.min_rtt * SHALLOW {
        return None;
    }
    let evidence = format!(
        "{} of each burst of {} lost {}: the queue holds some {}, and empties at {}; {}",
        percent(lost),
        Bytes(burst_bytes(burst)),
        in_direction(seen.way),
        Bytes(held as u64),
        BitRate(drained as u64),
        seen.got()
    );
    Some(cause(Kind::ShallowQueue, Some(seen.way), (0.5 + seen.tcp.resent * 5.0).min(0.9), evidence, DEEPER))
}

/// CUBIC backs off where BBR does not, or BBR loses all the time, and no queue had grown before: one that bursts are too short for.
fn hidden(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let (bbr, cubic) = (&seen.tcp, seen.loss_based.as_ref()?);
    let is_judged = seen.always_lost == Some(0.0) && !bbr.is_bound && !cubic.is_bound && cubic.rounds > ROUNDS_MIN;
    let queued = (cubic.rtt - cubic.min_rtt).max(0.0);
    // A burst that came through whole was held: a queue for that is there, and something else loses.
    let holds_more = |burst: &UdpPoint| {
        burst.lost_in_network_share < BURST_LOSS && burst_bytes(burst) as f64 > bbr.rate / 8.0 * queued * HELD
    };
    if seen.burst.is_some_and(holds_more) {
        return None;
    }
    let suffers = cubic.rate < bbr.rate * NARROW || bbr.resent > LIVES_WITH;
    // That its rate rises again after a loss is how it works, and no sign of a start.
    if !is_judged || cubic.resent == 0.0 || !suffers || queued > cubic.min_rtt * SHALLOW + JITTER_S {
        return None;
    }
    let evidence = format!(
        "CUBIC gets {} where BBR gets {} and sends {} again, and loses {} {} when round trips of {} have grown by {}: the queue holds some {}",
        BitRate(cubic.rate as u64),
        BitRate(bbr.rate as u64),
        percent(bbr.resent),
        percent(cubic.resent),
        in_direction(seen.way),
        ms(cubic.min_rtt),
        ms(queued),
        Bytes((bbr.rate / 8.0 * queued) as u64)
    );
    Some(cause(Kind::ShallowQueue, Some(seen.way), 0.5, evidence, DEEPER))
}

/// TCP loses all the time, and no queue tells that it is too fast.
fn policed(seen: &BottleneckEvidence<'_>) -> Option<Cause> {
    let tcp = &seen.tcp;
    let queued = (tcp.rtt - tcp.min_rtt).max(0.0);
    // That loss comes with the rate alone only a test at a low one can tell.
    let of_rate = tcp.resent - 2.0 * seen.always_lost?;
    if of_rate < RESENT || tcp.is_host_bound || queued > (tcp.min_rtt * QUEUED).max(QUEUED_S) {
        return None;
    }
    let evidence = format!(
        "TCP gets {} and sends {} again {} all the time, with no queue before the loss (round trips grow by {} at most); \
         at a low rate {} is lost",
        BitRate(tcp.rate as u64),
        percent(tcp.resent),
        in_direction(seen.way),
        ms(queued),
        seen.always_lost.filter(|lost| *lost > 0.0).map_or_else(|| "nothing".into(), percent)
    );
    let remedy =
        format!("a policer at about {}: ask for a shaper, or keep below it (--limit)", BitRate(tcp.rate as u64));
    Some(cause(Kind::Policer, Some(seen.way), (0.5 + tcp.resent * 5.0).min(0.9), evidence, remedy))
}

/// Less than the path's capacity comes through, and nothing of ours explains it.
fn below(found: &Findings, way: Direction, causes: &[Cause]) -> Option<Cause> {
    let seen = BottleneckEvidence::of(found, way)?;
    let explained = [Kind::Loss, Kind::LossyMember, Kind::Policer, Kind::ShallowQueue, Kind::MtuHole, Kind::Reordering];
    if seen.tcp.is_bound || seen.tcp.grows || explained.iter().any(|kind| known(causes, *kind, way)) {
        return None;
    }
    let capacity = if found.link_bit_s > 0 { found.link_bit_s as f64 } else { seen.drained? };
    let taken = 1.0 - seen.best() / capacity;
    if taken < TAKEN {
        return None;
    }
    narrow(&seen, capacity, taken).or_else(|| others(found, &seen, capacity, taken))
}

/// Bursts come out at less than the link is said to give.
fn narrow(seen: &BottleneckEvidence<'_>, link: f64, taken: f64) -> Option<Cause> {
    // Where others share a queue, bursts come out among theirs: TCP gets less than that, a part of what they leave.
    let is_ours = |drained: &f64| *drained < link * NARROW && seen.best() > drained * NARROW;
    let drained = seen.drained.filter(is_ours)?;
    let evidence = format!(
        "TCP gets {} of {} {}, and bursts come out at {}: it is not others who take the rest",
        BitRate(seen.best() as u64),
        BitRate(link as u64),
        in_direction(seen.way),
        BitRate(drained as u64)
    );
    let remedy = "a slower link, a member of a bundle that is down, or a shaper on the way: look at what each interface of that \
                  direction gives (ethtool, the provider's order)";
    Some(cause(Kind::NarrowLink, Some(seen.way), taken.min(0.8), evidence, remedy))
}

/// Cross traffic: round trips vary without test traffic; or bursts drain at the link's rate, and TCP gets a part of it with either
/// congestion control.
fn others(found: &Findings, seen: &BottleneckEvidence<'_>, capacity: f64, taken: f64) -> Option<Cause> {
    let idle = found.latency.as_ref()?;
    let variation = if seen.way == Direction::Forward { idle.variation_forward } else { idle.variation_reverse };
    let varies = variation.map_or(0.0, |variation| variation.p95_s);
    let gives_all = seen.drained.is_some_and(|drained| drained >= capacity * NARROW);
    let same =
        |other: &Pushed| (other.rate - seen.tcp.rate).abs() < seen.tcp.rate * AGREE && !other.is_bound && !other.grows;
    let is_found = seen.tcp.rounds > ROUNDS_MIN && seen.loss_based.as_ref().is_some_and(same);
    let got = format!(
        "TCP gets {} of {} {}, nothing of ours limits it",
        BitRate(seen.tcp.rate as u64),
        BitRate(capacity as u64),
        in_direction(seen.way)
    );
    let evidence = match seen.drained {
        _ if varies >= VARIES_S => {
            format!("{got}, and delays vary by {} (95 %) with nothing of ours on the path", ms(varies))
        }
        Some(drained) if gives_all && is_found => {
            format!("{got}, CUBIC gets the same, and bursts come out at {}", BitRate(drained as u64))
        }
        _ => return None,
    };
    Some(cause(
        Kind::CrossTraffic,
        Some(seen.way),
        taken.min(0.7),
        evidence,
        "others use the path: ask who, or when it is quieter",
    ))
}
