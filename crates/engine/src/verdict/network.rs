//! What lies between two ends that both wait for their sockets.

use model::account::Account;
use model::laws;
use model::units::{BitRate, Bytes};
use model::v1::{Limit, Stream};

use super::{Case, limit, percent};

/// What is known of the way between.
pub(super) struct Facts<'a> {
    pub case: &'a Case<'a>,
    pub streams: &'a [&'a Stream],
    pub sent_by: Option<&'a Account>,
    pub received_by: Option<&'a Account>,
    /// Share of the senders' time in which they waited for the network.
    pub waited: f64,
}

/// The share of the busy time from which on a window counts as the limit.
const FULL: f64 = 0.3;

/// The windows, the loss or the path.
pub(super) fn verdict(facts: &Facts<'_>) -> Limit {
    let busy: f64 = facts.streams.iter().map(|s| s.busy_s).sum();
    let share = |of: fn(&Stream) -> f64| match busy > 0.0 {
        true => facts.streams.iter().map(|s| of(s)).sum::<f64>() / busy,
        false => 0.0,
    };
    let (window, buffer) = (share(|s| s.receive_window_limited_s), share(|s| s.send_buffer_limited_s));
    let rtt = facts.streams.iter().map(|s| s.min_rtt_s).filter(|rtt| *rtt > 0.0).fold(f64::INFINITY, f64::min);
    let rtt = if rtt.is_finite() { rtt } else { 0.0 };
    if let Some(unscaled) = scaling(facts, rtt) {
        return unscaled;
    }
    let capacity = facts.sent_by.map_or(0, |a| a.capacity_bit_s);
    if window.max(buffer) > FULL && capacity == 0 && rtt > 0.0 {
        return if window >= buffer { receive_window(facts, window, rtt) } else { send_buffer(facts, buffer, rtt) };
    }
    if let Some(lossy) = loss(facts, rtt) {
        return lossy;
    }
    if let Some(short) = slow_start(facts, rtt) {
        return short;
    }
    path(facts, capacity, rtt)
}

/// Windows that are not scaled end at 64 KiB.
fn scaling(facts: &Facts<'_>, rtt: f64) -> Option<Limit> {
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
    Some(limit("network", evidence, remedy))
}

fn ms(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3).replace(".000 ms", " ms")
}

fn receive_window(facts: &Facts<'_>, share: f64, rtt: f64) -> Limit {
    let window = facts.streams.iter().map(|s| s.window_bytes).max().unwrap_or(0);
    let evidence = format!(
        "receive window {} at {} = {} per stream, full {} of the time",
        Bytes(window),
        ms(rtt),
        BitRate(laws::window_rate_bit_s(window as f64, rtt) as u64),
        percent(share)
    );
    let most = facts.received_by.map_or(0, |a| a.receive_buffer_max);
    let now = if most > 0 { format!(" (now {})", Bytes(most)) } else { String::new() };
    limit("network", evidence, format!("raise net.ipv4.tcp_rmem{now} at the receiving host"))
}

fn send_buffer(facts: &Facts<'_>, share: f64, rtt: f64) -> Limit {
    let most = facts.sent_by.map_or(0, |a| a.send_buffer_max);
    let evidence = format!(
        "send buffer {} at {} = {} per stream at most, full {} of the time",
        Bytes(most),
        ms(rtt),
        BitRate(laws::window_rate_bit_s(most as f64, rtt) as u64),
        percent(share)
    );
    limit("network", evidence, "raise net.ipv4.tcp_wmem at the sending host")
}

/// Loss that is not congestion, under a congestion control that takes it for that.
fn loss(facts: &Facts<'_>, rtt: f64) -> Option<Limit> {
    let sent: u64 = facts.streams.iter().map(|s| s.sent_bytes).sum();
    let lost: u64 = facts.streams.iter().map(|s| s.resent_bytes).sum();
    let clear = facts.sent_by.map_or(0.0, |a| f64::from(a.clear_loss_ppb) / 1e9);
    let share = if sent > 0 { lost as f64 / sent as f64 } else { 0.0 };
    let first = facts.streams.first()?;
    let loss_based = !first.congestion.starts_with("bbr");
    if !loss_based || clear <= 1e-7 || rtt <= 0.0 {
        return None;
    }
    let each = laws::cubic_bit_s(f64::from(first.mss_bytes), rtt, clear.max(1e-9));
    let evidence = format!(
        "path loss {} with {}: expect {} per stream at {} ({} of the bytes were sent again)",
        small_percent(clear),
        first.congestion,
        BitRate(each as u64),
        ms(rtt),
        small_percent(share)
    );
    let missed = facts.sent_by.map_or("", |a| a.missed.as_str());
    let remedy = match missed {
        "" => "find where the path loses packets; bbr (--congestion) bears loss better".to_owned(),
        name => format!(
            "{name} would bear it, and the sending host does not allow it: `modprobe tcp_{name}`, then add {name} to \
             net.ipv4.tcp_allowed_congestion_control"
        ),
    };
    Some(limit("network", evidence, remedy))
}

fn small_percent(share: f64) -> String {
    let digits = if share >= 0.001 { 2 } else { 4 };
    format!("{:.digits$} %", share * 100.0)
}

/// The job was over before the streams had grown.
fn slow_start(facts: &Facts<'_>, rtt: f64) -> Option<Limit> {
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

/// The path itself.
fn path(facts: &Facts<'_>, capacity: u64, rtt: f64) -> Limit {
    let sent: u64 = facts.streams.iter().map(|s| s.sent_bytes).sum();
    let lost: u64 = facts.streams.iter().map(|s| s.resent_bytes).sum();
    let share = if sent > 0 { lost as f64 / sent as f64 } else { 0.0 };
    let names = facts.streams.first().map_or("", |s| s.congestion.as_str());
    let gives = match capacity {
        0 => format!("senders waited {} of their time for the network", percent(facts.waited)),
        rate => format!("the path gave {} and no more when it was full", BitRate(rate)),
    };
    let evidence = format!(
        "{gives}; round trip {}, {} of the bytes sent again, {} streams with {names}",
        ms(rtt),
        small_percent(share),
        facts.streams.len()
    );
    let clear = facts.sent_by.map_or(0.0, |a| f64::from(a.clear_loss_ppb) / 1e9);
    let remedy = match clear > 1e-3 {
        true => format!(
            "{} is lost without a queue: a policer, a shallow queue or a bad link on the way",
            small_percent(clear)
        ),
        false => "this is what the path has left for this job: a faster path, or less of other traffic".to_owned(),
    };
    limit("network", evidence, remedy)
}
