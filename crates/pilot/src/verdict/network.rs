//! The verdict when both ends wait for their sockets: windows, loss, slow start, other transfers, or the path.

use model::account::Account;
use model::laws;
use model::units::{BitRate, Bytes};
use model::v1::{Limit, Stream};

use super::{Case, limit, percent, spare};

/// The evidence about the network between the ends.
pub(super) struct NetworkFacts<'a> {
    pub case: &'a Case<'a>,
    pub streams: &'a [&'a Stream],
    pub sent_by: Option<&'a Account>,
    pub received_by: Option<&'a Account>,
    /// Share of the senders' time in which they waited for the network.
    pub waited: f64,
}

impl NetworkFacts<'_> {
    /// The mean rate of all streams together over the job, bit/s.
    fn rate(&self) -> f64 {
        let bytes: f64 = self.streams.iter().map(|s| s.bytes as f64).sum();
        bytes * 8.0 / self.case.elapsed.as_secs_f64().max(1e-9)
    }

    /// The mean rate of a stream over the job, bit/s, among those that were needed at a time. A stream that replaced another does not
    /// count as a second one.
    fn each(&self) -> f64 {
        let needed = (1.0 - spare(self.streams.iter().map(|s| s.bytes as f64))) * self.streams.len() as f64;
        let busy = self.streams.iter().map(|s| s.busy_s).sum::<f64>() / self.case.elapsed.as_secs_f64().max(1e-9);
        let at_a_time = if busy > 0.0 { needed.min(busy) } else { needed };
        self.rate() / at_a_time.max(1.0)
    }

    /// The mean rate of a stream, or its latest rate if that is higher: a growing rate needs time to reach what a window allows.
    fn grown(&self) -> f64 {
        let late = self.streams.iter().map(|s| s.delivery_rate_bit_s as f64);
        self.each().max(late.fold(0.0, f64::max))
    }
}

/// A possible limit, with the rate at which it would hold each stream.
struct Candidate {
    /// The least rate at which it may hold a stream: how much of a buffer is payload differs.
    least_bit_s: f64,
    most_bit_s: f64,
    /// The rate that a stream reached, as far as this limit may have held it.
    reached_bit_s: f64,
    limit: Limit,
}

/// A limit explains a rate that differs from the allowed one by at most this part.
const NEAR: f64 = 0.2;

impl Candidate {
    /// Whether the rate that was reached is the rate that this limit allows. A higher rate would have been limited by it; a much lower one
    /// was limited by something else.
    fn explains(&self) -> bool {
        let (least, most) = (self.least_bit_s * (1.0 - NEAR), self.most_bit_s * (1.0 + NEAR));
        (least..=most).contains(&self.reached_bit_s)
    }

    /// A candidate for a window or a buffer that allows each stream `each_bit_s`.
    fn of_window(each_bit_s: f64, facts: &NetworkFacts<'_>, limit: Limit) -> Candidate {
        let least_bit_s = each_bit_s * USABLE;
        Candidate { least_bit_s, most_bit_s: each_bit_s, reached_bit_s: facts.grown(), limit }
    }
}

/// The share of the busy time from which on a window counts as the limit.
const FULL: f64 = 0.3;
/// From this share on, a window counts as the limit where the data in flight fills it too: congestion control that paces, as BBR does,
/// settles at the rate that a full window gives, and hardly ever runs into it again.
const FULL_MIN: f64 = 0.05;
/// The part of a buffer or window that is payload at most: the kernel counts its own structures too.
const USABLE: f64 = 0.5;

/// The share of the time in which the streams had nothing in flight, or only data that the other end did not take, in words; empty if
/// the kernel did not say.
pub(super) fn idle(case: &Case<'_>, streams: &[&Stream]) -> String {
    let sum = |of: fn(&Stream) -> f64| streams.iter().map(|s| of(s)).sum::<f64>();
    let all = case.elapsed.as_secs_f64() * streams.len() as f64;
    let busy = sum(|s| s.busy_s);
    if busy <= 0.0 || all <= 0.0 {
        return String::new();
    }
    let moving = (busy - sum(|s| s.receive_window_limited_s)) / all;
    format!(", network idle {}", percent((1.0 - moving).clamp(0.0, 1.0)))
}

/// The limit: a window, loss, slow start, other transfers, or the path.
pub(super) fn verdict(facts: &NetworkFacts<'_>) -> Limit {
    let rtt = facts.streams.iter().map(|s| s.min_rtt_s).filter(|rtt| *rtt > 0.0).fold(f64::INFINITY, f64::min);
    let rtt = if rtt.is_finite() { rtt } else { 0.0 };
    let capacity = facts.sent_by.map_or(0, |a| a.capacity_bit_s);
    let candidates = [scaling(facts, rtt), windows(facts, capacity, rtt), loss(facts, rtt)];
    let mut named = candidates.into_iter().flatten();
    named
        .find(Candidate::explains)
        .map(|candidate| candidate.limit)
        .or_else(|| slow_start(facts, rtt))
        .or_else(|| shared(facts))
        .unwrap_or_else(|| path(facts, capacity, rtt))
}

/// The limit of a window or a buffer that was full on a path that was not.
fn windows(facts: &NetworkFacts<'_>, capacity: u64, rtt: f64) -> Option<Candidate> {
    let sum = |of: fn(&Stream) -> f64| facts.streams.iter().map(|s| of(s)).sum::<f64>();
    let busy = sum(|s| s.busy_s);
    if capacity > 0 || rtt <= 0.0 || busy <= 0.0 {
        return None;
    }
    let window = sum(|s| s.receive_window_limited_s) / busy;
    let buffer = sum(|s| s.send_buffer_limited_s) / busy;
    let in_flight = sum(|s| laws::bdp_bytes(s.delivery_rate_bit_s as f64, s.min_rtt_s)) / facts.streams.len() as f64;
    let fills = |bytes: u64| bytes > 0 && in_flight > bytes as f64 * USABLE;
    let limits = |share: f64, bytes: u64| share > FULL || share > FULL_MIN && fills(bytes);
    let by_window = limits(window, offered(facts));
    let by_buffer = limits(buffer, facts.sent_by.map_or(0, |a| a.send_buffer_max));
    match (by_window, by_buffer) {
        (true, false) => Some(receive_window(facts, window, rtt)),
        (true, true) if window >= buffer => Some(receive_window(facts, window, rtt)),
        (_, true) => Some(send_buffer(facts, buffer, rtt)),
        (false, false) => None,
    }
}

/// The largest window that the receiver offered a stream.
fn offered(facts: &NetworkFacts<'_>) -> u64 {
    facts.streams.iter().map(|s| s.window_bytes).max().unwrap_or(0)
}

/// The limit of windows that are not scaled: 64 KiB.
fn scaling(facts: &NetworkFacts<'_>, rtt: f64) -> Option<Candidate> {
    let known = facts.streams.iter().filter(|s| s.window_bytes > 0);
    if rtt <= 0.0 || known.clone().count() == 0 || known.clone().any(|s| s.window_scaling) {
        return None;
    }
    let each = laws::window_rate_bit_s(65_535.0, rtt);
    let evidence = format!(
        "no window scale was agreed (RFC 7323): each stream's window ends at 64 KiB, {} at {}",
        BitRate(each as u64),
        ms(rtt)
    );
    let off = |account: Option<&Account>| account.is_some_and(|a| !a.scales_windows);
    let remedy = match (off(facts.sent_by), off(facts.received_by)) {
        (true, _) => "set net.ipv4.tcp_window_scaling to 1 at the sending host",
        (_, true) => "set net.ipv4.tcp_window_scaling to 1 at the receiving host",
        _ => "both hosts scale windows: something on the way (a firewall, a middle box) strips the option from SYNs",
    };
    Some(Candidate::of_window(each, facts, limit("network", evidence, remedy)))
}

pub(super) fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let digits = if ms >= 99.95 {
        0
    } else if ms >= 9.995 {
        1
    } else {
        2
    };
    format!("{ms:.digits$} ms")
}

fn receive_window(facts: &NetworkFacts<'_>, share: f64, rtt: f64) -> Candidate {
    let window = offered(facts);
    let each = laws::window_rate_bit_s(window as f64, rtt);
    let evidence = format!(
        "receive window {} at {} = {} per stream, full {} of the time",
        Bytes(window),
        ms(rtt),
        BitRate(laws::window_rate_bit_s(window as f64, rtt) as u64),
        percent(share)
    );
    let most = facts.received_by.map_or(0, |a| a.receive_buffer_max);
    let now = if most > 0 { format!(" (now {})", Bytes(most)) } else { String::new() };
    let remedy = format!("raise net.ipv4.tcp_rmem{now} at the receiving host, or use more --streams");
    Candidate::of_window(each, facts, limit("network", evidence, remedy))
}

fn send_buffer(facts: &NetworkFacts<'_>, share: f64, rtt: f64) -> Candidate {
    let most = facts.sent_by.map_or(0, |a| a.send_buffer_max);
    let each = laws::window_rate_bit_s(most as f64, rtt);
    let evidence = format!(
        "send buffer {} at {} = {} per stream at most, full {} of the time",
        Bytes(most),
        ms(rtt),
        BitRate(laws::window_rate_bit_s(most as f64, rtt) as u64),
        percent(share)
    );
    let now = if most > 0 { format!(" (now {})", Bytes(most)) } else { String::new() };
    let remedy = format!("raise net.ipv4.tcp_wmem{now} at the sending host, or use more --streams");
    Candidate::of_window(each, facts, limit("network", evidence, remedy))
}

/// A stream at up to this multiple of the rate that the law expects at a loss may still be limited by that loss: the laws hold for long
/// transfers, in the mean.
const LAW_FACTOR: f64 = 2.0;
/// Fewer segments than these, sent again, are too few to apply a law to.
const SEGMENTS_MIN: f64 = 10.0;

/// The limit of loss that is not congestion, under a congestion control that takes it for congestion.
fn loss(facts: &NetworkFacts<'_>, rtt: f64) -> Option<Candidate> {
    let clear = clear_loss(facts);
    let first = facts.streams.first()?;
    if first.congestion.starts_with("bbr") || clear <= 1e-7 || rtt <= 0.0 {
        return None;
    }
    let law = if first.congestion == "reno" { laws::mathis_bit_s } else { laws::cubic_bit_s };
    let each = law(f64::from(first.mss_bytes), rtt, clear);
    let resent: f64 = facts.streams.iter().map(|s| s.resent_bytes as f64).sum();
    if resent < SEGMENTS_MIN * f64::from(first.mss_bytes) {
        return None;
    }
    let evidence = format!(
        "path loss {} with {}: expect {} per stream at {} ({} of the bytes were sent again)",
        small_percent(clear),
        first.congestion,
        BitRate(each as u64),
        ms(rtt),
        small_percent(sent_again(facts))
    );
    let remedy = permit(facts)
        .unwrap_or_else(|| "find where the path loses packets; --congestion bbr bears loss better".to_owned());
    let limit = limit("network", evidence, remedy);
    let (least_bit_s, most_bit_s) = (each / LAW_FACTOR, each * LAW_FACTOR);
    Some(Candidate { least_bit_s, most_bit_s, reached_bit_s: facts.each(), limit })
}

/// Advice for a sending host that does not permit the congestion control that the path asks for.
fn permit(facts: &NetworkFacts<'_>) -> Option<String> {
    let name = facts.sent_by.map(|a| a.missed.as_str()).filter(|name| !name.is_empty())?;
    Some(format!(
        "{name} would suit this path, and the sending host does not allow it: `modprobe tcp_{name}`, then add {name} to \
         net.ipv4.tcp_allowed_congestion_control"
    ))
}

fn clear_loss(facts: &NetworkFacts<'_>) -> f64 {
    facts.sent_by.map_or(0.0, |a| f64::from(a.clear_loss_ppb) / 1e9)
}

fn sent_again(facts: &NetworkFacts<'_>) -> f64 {
    let sum = |of: fn(&Stream) -> u64| facts.streams.iter().map(|s| of(s) as f64).sum::<f64>();
    let (sent, again) = (sum(|s| s.sent_bytes), sum(|s| s.resent_bytes));
    if sent > 0.0 { again / sent } else { 0.0 }
}

fn small_percent(share: f64) -> String {
    let digits = if share >= 0.001 || share == 0.0 { 2 } else { 4 };
    format!("{:.digits$} %", share * 100.0)
}

/// The limit of slow start: the job was over before the streams had grown.
fn slow_start(facts: &NetworkFacts<'_>, rtt: f64) -> Option<Limit> {
    let elapsed = facts.case.elapsed.as_secs_f64();
    let first = facts.streams.first()?;
    let rate = facts.streams.iter().map(|s| s.delivery_rate_bit_s as f64).sum::<f64>();
    let each = laws::bdp_bytes(rate, rtt) / facts.streams.len() as f64;
    let ramp = laws::slow_start_s(each, f64::from(first.mss_bytes.max(536)), rtt) + 3.0 * rtt;
    if rtt < 0.002 || ramp < elapsed / 2.0 {
        return None;
    }
    let evidence = format!(
        "slow start over {}: about {ramp:.1} s of the {elapsed:.1} s, with {} streams",
        ms(rtt),
        facts.streams.len()
    );
    Some(limit("latency", evidence, "nothing for so little data; a longer job loses a smaller part to it"))
}

/// The limit of other jobs: those of one of the two nodes had a share of the path when this job ended.
fn shared(facts: &NetworkFacts<'_>) -> Option<Limit> {
    let ends = [(facts.sent_by, "sending"), (facts.received_by, "receiving")];
    let shares = ends.iter().filter_map(|(account, end)| Some((account.map(|a| a.share_bit_s)?, *end)));
    let (share, end) = shares.filter(|(share, _)| *share > 0).min()?;
    let evidence = format!(
        "the path was full, and shared with other jobs of the {end} node; this job's share is {}",
        BitRate(share)
    );
    Some(limit("network", evidence, "a faster path, or a --limit on the other jobs (`longhaul job` lists them)"))
}

/// From this loss on, loss shapes the rate of a path.
const LOSSY: f64 = 1e-3;

/// The limit of the path itself.
fn path(facts: &NetworkFacts<'_>, capacity: u64, rtt: f64) -> Limit {
    let names = facts.streams.first().map_or("", |s| s.congestion.as_str());
    let gives = match capacity {
        0 => format!("senders waited {} of their time for the network", percent(facts.waited)),
        rate => format!("the path gave {} and no more when it was full", BitRate(rate)),
    };
    let count = facts.streams.len();
    let evidence = format!(
        "{gives}; round trip {}, {} of the bytes sent again, {count} {} with {names}",
        ms(rtt),
        small_percent(sent_again(facts)),
        if count == 1 { "stream" } else { "streams" }
    );
    let clear = clear_loss(facts);
    let full = "this is what the path has left for this job: a faster path, or less of other traffic";
    let remedy = match permit(facts) {
        Some(permit) if clear > LOSSY || capacity == 0 => permit,
        _ if clear > LOSSY => format!(
            "{} is lost without a queue: a policer, a shallow queue or a bad link on the way",
            small_percent(clear)
        ),
        _ => full.to_owned(),
    };
    limit("network", evidence, remedy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::verdict::Measured;

    proptest! {
        /// A limit that is named allows about the rate that was reached, and not a much higher one.
        #[test]
        fn a_named_limit_allows_about_the_rate_that_was_reached(
            bytes in 1_000_000_u64..20_000_000_000,
            late in 0_u64..20_000_000_000,
            rtt_us in 20_u32..400_000,
            window in 10_000_u64..64_000_000,
            (limited, buffered) in (0.0..60.0_f64, 0.0..60.0_f64),
            (clear_ppb, resent) in (0_u32..20_000_000, 0_u64..10_000_000),
            scaled in any::<bool>(),
            reno in any::<bool>(),
        ) {
            let stream = Stream {
                id: 1,
                bytes,
                delivery_rate_bit_s: late,
                min_rtt_s: f64::from(rtt_us) / 1e6,
                mss_bytes: 1448,
                busy_s: 60.0,
                sent_bytes: bytes,
                resent_bytes: resent.min(bytes),
                window_bytes: window,
                window_scaling: scaled,
                receive_window_limited_s: limited,
                send_buffer_limited_s: buffered,
                congestion: if reno { "reno".into() } else { "cubic".into() },
                ..Stream::default()
            };
            let sender = Account { clear_loss_ppb: clear_ppb, send_buffer_max: window * 2, ..Account::default() };
            let measured = Measured::default();
            let case = Case::new(&measured, true, Duration::from_secs(60));
            let streams = [&stream];
            let sent_by = Some(&sender);
            let facts = NetworkFacts { case: &case, streams: &streams, sent_by, received_by: None, waited: 0.9 };
            let limit = verdict(&facts);
            let rtt = stream.min_rtt_s;
            let best = facts.grown();
            let within = |bound: f64, low: f64, high: f64| bound * low <= best && facts.each() <= bound * high;
            let by_window = laws::window_rate_bit_s(window as f64, rtt);
            if limit.evidence.starts_with("receive window") {
                prop_assert!(within(by_window, 0.4, 1.2), "{} and {best}", limit.evidence);
            } else if limit.evidence.starts_with("send buffer") {
                prop_assert!(within(by_window * 2.0, 0.4, 1.2), "{} and {best}", limit.evidence);
            } else if limit.evidence.starts_with("no window scale") {
                prop_assert!(within(laws::window_rate_bit_s(65_535.0, rtt), 0.4, 1.2), "{} and {best}", limit.evidence);
            } else if limit.evidence.starts_with("path loss") {
                let law = if reno { laws::mathis_bit_s } else { laws::cubic_bit_s };
                let expected = law(1448.0, rtt, f64::from(clear_ppb) / 1e9);
                prop_assert!(expected * 0.4 <= facts.each() && facts.each() <= expected * 2.4, "{}", limit.evidence);
            }
        }
    }
}
