//! The rates that the laws of TCP and the facts of both hosts allow in a direction, and the term that binds. Pure.

use model::laws;
use model::units::{BitRate, Bytes};
use model::v1::probe::Direction;
use model::v1::probe::tcp::{DirectionReport, End, Order, Term, Total};

use crate::host::largest;

/// A stream's thread that uses this share of a processor may be the limit.
const BUSY_SHARE: f64 = 0.6;
/// A window or buffer that was full for this share of the busy time counts as full.
const FULL_SHARE: f64 = 0.1;
/// A rate within this share of a term is explained by the term. A rate above it was not limited by the term; a rate far below it
/// is limited by something else.
const TERM_TOLERANCE: f64 = 0.2;
/// The laws of loss hold in the mean over long times; a rate is within this factor of them.
const LOSS_LAW_FACTOR: f64 = 2.0;
/// The least share of bytes sent again, and the least segments, that make a term for loss.
const LOSS_MIN: f64 = 1e-7;
const SEGMENTS_MIN: f64 = 10.0;
/// A test of fewer round trips, or of fewer segments than [`SEGMENTS_MIN`], shows the start of a connection and no limit.
const ROUNDS_MIN: f64 = 8.0;
/// A window below one part in this many of the buffer that its host allows is bounded by something else than the buffer.
const WINDOW_DIVISOR: u64 = 4;

/// The report of each direction of a test, from the totals of both ends.
pub fn directions(order: &Order, near: &End, far: &End) -> Vec<DirectionReport> {
    let has = |is_forward: bool| near.totals.iter().any(|total| total.flow.direction.is_forward() == is_forward);
    let report = |is_forward: bool| {
        let (from, to) = if is_forward { (near, far) } else { (far, near) };
        judge(order, is_forward, from, to)
    };
    [true, false].into_iter().filter(|is_forward| has(*is_forward)).map(report).collect()
}

/// One direction: sums of both ends.
struct Sums<'a> {
    sent: Vec<&'a Total>,
    received: Vec<&'a Total>,
    rate: f64,
    seconds: f64,
    /// Length of the start that is left out.
    omit_s: f64,
}

impl<'a> Sums<'a> {
    fn of(order: &Order, is_forward: bool, from: &'a End, to: &'a End) -> Sums<'a> {
        let flows = |end: &'a End| {
            end.totals.iter().filter(|total| total.flow.direction.is_forward() == is_forward).collect::<Vec<_>>()
        };
        let received = flows(to);
        let bytes: u64 = received.iter().map(|total| total.counted_bytes).sum();
        let seconds = received.iter().map(|total| total.counted_s).fold(0.0, f64::max);
        let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        Sums { sent: flows(from), received, rate, seconds, omit_s: order.omit_s }
    }

    /// The sum over the sending streams.
    fn sum(&self, of: fn(&model::v1::probe::tcp::Kernel) -> f64) -> f64 {
        self.sent.iter().filter_map(|total| total.flow.kernel.as_ref()).map(of).sum()
    }

    /// The mean over the sending streams.
    fn mean(&self, of: fn(&model::v1::probe::tcp::Kernel) -> f64) -> f64 {
        self.sum(of) / self.sent.len().max(1) as f64
    }

    /// The rate at the end, where it is above the mean: a window takes time to grow.
    fn rate_at_end(&self) -> f64 {
        self.rate.max(self.sum(|k| k.delivery_rate_bit_s as f64))
    }

    /// The largest window that the receiver offered a stream.
    fn largest_window(&self) -> u64 {
        self.sent.iter().filter_map(|total| total.flow.kernel).map(|k| k.window_bytes).max().unwrap_or(0)
    }

    /// Why the test was too short to show a limit; none if it was long enough.
    fn why_too_short(&self) -> Option<String> {
        let rtt = self.mean(|k| k.min_rtt_s);
        let mss = self.mean(|k| f64::from(k.mss_bytes));
        let rounds = if rtt > 0.0 { (self.seconds + self.omit_s) / rtt } else { f64::INFINITY };
        if rounds < ROUNDS_MIN {
            return Some(format!(
                "nothing yet: {rounds:.1} round trips of {:.1} ms are only the beginning of a connection; try a longer test (-t)",
                rtt * 1e3
            ));
        }
        let bytes = sum(&self.received, |total| total.flow.bytes as f64);
        (mss > 0.0 && bytes < SEGMENTS_MIN * mss)
            .then(|| format!("nothing that shows in {}: try more bytes, or a longer test (-t)", Bytes(bytes as u64)))
    }

    /// The share of the sent bytes that were sent again.
    fn resent(&self) -> f64 {
        share(self.sum(|k| k.resent_bytes as f64), self.sum(|k| k.sent_bytes as f64))
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn sum(totals: &[&Total], of: fn(&Total) -> f64) -> f64 {
    totals.iter().map(|total| of(total)).sum()
}

fn judge(order: &Order, is_forward: bool, from: &End, to: &End) -> DirectionReport {
    let sums = Sums::of(order, is_forward, from, to);
    let mut expected = terms(order, &sums, from, to);
    expected.sort_by_key(|term| term.rate_bit_s);
    let gigabytes = |totals: &[&Total]| sum(totals, |total| total.flow.bytes as f64) / 1e9;
    let cpu = |totals: &[&Total]| share(sum(totals, |total| total.cpu_s), gigabytes(totals));
    DirectionReport {
        direction: Direction::of(is_forward),
        sent_bytes: sums.sent.iter().map(|total| total.flow.bytes).sum(),
        received_bytes: sums.received.iter().map(|total| total.flow.bytes).sum(),
        rate_bit_s: sums.rate as u64,
        resent: sums.resent(),
        cpu_s_per_gb: (cpu(&sums.sent), cpu(&sums.received)),
        binding: binding(&sums, &expected).map_or_else(String::new, |term| term.name.clone()),
        limit: limit(&sums, &expected, to),
        expected,
    }
}

fn terms(order: &Order, sums: &Sums<'_>, from: &End, to: &End) -> Vec<Term> {
    let streams = sums.sent.len() as f64;
    let rtt = sums.mean(|k| k.min_rtt_s);
    let term = |name: &str, rate: f64, evidence: String| Term {
        name: name.into(),
        rate_bit_s: if rate.is_finite() { rate as u64 } else { u64::MAX },
        evidence,
    };
    let mut terms = Vec::new();
    if order.pace_bit_s > 0 {
        terms.push(term("pace", order.pace_bit_s as f64, "as asked".into()));
    }
    if rtt > 0.0 {
        let busy = sums.sum(|k| k.busy_s);
        let offered = sums.mean(|k| k.window_bytes as f64);
        let full = share(sums.sum(|k| k.receive_window_limited_s), busy);
        // A window grows on demand: its size is a bound only if it was full or its buffer is fixed.
        let largest_window = match order.window_bytes {
            0 => largest(&to.host, "net.ipv4.tcp_rmem"),
            bytes => bytes,
        };
        let most = if full > FULL_SHARE { offered } else { offered.max(largest_window as f64) };
        let evidence =
            format!("{} per stream at {:.1} ms, full {:.0} % of the time", Bytes(most as u64), rtt * 1e3, full * 100.0);
        terms.push(term("receive_window", laws::window_rate_bit_s(most, rtt) * streams, evidence));
        let full = share(sums.sum(|k| k.send_buffer_limited_s), busy);
        let buffer = match order.window_bytes {
            0 => largest(&from.host, "net.ipv4.tcp_wmem"),
            bytes => bytes.saturating_mul(2),
        };
        // The kernel uses half of a buffer for its own structures (tcp(7)).
        let evidence =
            format!("{} per stream at {:.1} ms, full {:.0} % of the time", Bytes(buffer), rtt * 1e3, full * 100.0);
        terms.push(term("send_buffer", laws::window_rate_bit_s(buffer as f64 / 2.0, rtt) * streams, evidence));
        terms.extend(loss(sums, rtt, streams));
    }
    // The threads' processor time counts from the start, so it includes the part that is left out of the rate.
    let span = sums.seconds + order.omit_s;
    for (name, totals) in [("cpu_sender", &sums.sent), ("cpu_receiver", &sums.received)] {
        let busiest = totals.iter().map(|total| share(total.cpu_s, span)).fold(0.0, f64::max);
        if busiest > 0.05 {
            let evidence = format!("the busiest thread used {:.0} % of a processor", busiest * 100.0);
            terms.push(term(name, sums.rate / busiest.min(1.0), evidence));
        }
    }
    terms
}

/// The rate that congestion control allows at the observed loss.
fn loss(sums: &Sums<'_>, rtt: f64, streams: f64) -> Option<Term> {
    let lost = sums.resent();
    let name = sums.sent.first()?.congestion.clone();
    let mss = sums.mean(|k| f64::from(k.mss_bytes));
    let is_few = sums.sum(|k| k.resent_bytes as f64) < SEGMENTS_MIN * mss;
    if lost < LOSS_MIN || is_few || name.starts_with("bbr") {
        return None;
    }
    let law = if name == "reno" { laws::mathis_bit_s } else { laws::cubic_bit_s };
    let rate = law(mss, rtt, lost) * streams;
    let evidence = format!("{:.4} % of the bytes sent again, with {name}", lost * 100.0);
    Some(Term { name: "loss".into(), rate_bit_s: rate as u64, evidence })
}

/// The term that a direction reached.
fn binding<'a>(sums: &Sums<'_>, expected: &'a [Term]) -> Option<&'a Term> {
    let busy = sums.sum(|k| k.busy_s);
    let full = |of: fn(&model::v1::probe::tcp::Kernel) -> f64| share(sums.sum(of), busy) > FULL_SHARE;
    let is_too_short = sums.why_too_short().is_some();
    let binds = |term: &&Term| {
        let allows = term.rate_bit_s as f64;
        let reached = |rate: f64, most: f64| (allows * (1.0 - TERM_TOLERANCE)..=allows * most).contains(&rate);
        match term.name.as_str() {
            "pace" => sums.rate > allows * (1.0 - TERM_TOLERANCE),
            _ if is_too_short => false,
            "receive_window" => {
                full(|k| k.receive_window_limited_s) && reached(sums.rate_at_end(), 1.0 + TERM_TOLERANCE)
            }
            // The kernel's own part of a buffer varies.
            "send_buffer" => {
                full(|k| k.send_buffer_limited_s) && reached(sums.rate_at_end(), 2.0 * (1.0 + TERM_TOLERANCE))
            }
            // A thread with enough processor time left for half as much again is not the limit.
            "cpu_sender" | "cpu_receiver" => allows < sums.rate / BUSY_SHARE,
            _ => (allows / LOSS_LAW_FACTOR..=allows * LOSS_LAW_FACTOR).contains(&sums.rate),
        }
    };
    expected.iter().find(binds)
}

/// The remedy for a receive window that was full.
fn window_remedy(sums: &Sums<'_>, to: &End) -> String {
    let offered = sums.largest_window();
    let most = largest(&to.host, "net.ipv4.tcp_rmem");
    if offered * WINDOW_DIVISOR >= most {
        return "raise net.ipv4.tcp_rmem at the receiving host, or use more streams".into();
    }
    format!(
        "the receiving host would open it to {} and had not come that far: a longer test (-t), or more streams; if it stays \
         there, the program reads too slowly",
        Bytes(most)
    )
}

/// What limited a direction, in a sentence.
fn limit(sums: &Sums<'_>, expected: &[Term], to: &End) -> String {
    let busy = sums.sum(|k| k.busy_s);
    let Some(term) = binding(sums, expected) else {
        if let Some(why) = sums.why_too_short() {
            return why;
        }
        let in_flight = share(busy, sums.seconds * sums.sent.len() as f64);
        let full = share(sums.sum(|k| k.receive_window_limited_s), busy);
        let window = if full > FULL_SHARE {
            format!("a receive window that was full {:.0} % of the time would have allowed another rate", full * 100.0)
        } else {
            "no host withheld anything".into()
        };
        return format!(
            "the path: {window}, and {:.4} % was sent again; data was on its way {:.0} % of the time",
            sums.resent() * 100.0,
            in_flight.min(1.0) * 100.0
        );
    };
    let rate = BitRate(term.rate_bit_s);
    let evidence = &term.evidence;
    match term.name.as_str() {
        "pace" => format!("the pace that was asked for, {rate}"),
        "receive_window" => {
            format!("the receive window: {evidence} = {rate}; {}", window_remedy(sums, to))
        }
        "send_buffer" => {
            format!(
                "the send buffer: {evidence} = {rate}; raise net.ipv4.tcp_wmem at the sending host, or use more streams"
            )
        }
        "loss" => format!("loss: {evidence}, lets through {rate}; find where it is lost, or try --congestion bbr"),
        "cpu_sender" => format!("the sending host: {evidence}; more streams use more processors"),
        _ => format!("the receiving host: {evidence}; more streams use more processors"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::v1::probe::host::Use;
    use model::v1::probe::tcp::{Flow, Kernel};

    fn end(kernel: Option<Kernel>, cpu_s: f64, congestion: &str) -> End {
        let flow = Flow { stream: 1, direction: Direction::Forward, bytes: 1_000_000_000, rate_bit_s: 0, kernel };
        let congestion = congestion.to_owned();
        let total = Total { flow, counted_bytes: 1_000_000_000, counted_s: 80.0, congestion, cpu_s };
        let settings = [("net.ipv4.tcp_rmem", "4096 131072 33554432"), ("net.ipv4.tcp_wmem", "4096 16384 1073741824")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        End { totals: vec![total], host: Use { settings, ..Use::default() }, remarks: Vec::new() }
    }

    fn kernel() -> Kernel {
        Kernel {
            min_rtt_s: 0.303,
            mss_bytes: 1448,
            window_bytes: 4 << 20,
            sent_bytes: 1_000_000_000,
            busy_s: 80.0,
            ..Kernel::default()
        }
    }

    fn forward_report(kernel: Kernel, cpu_s: f64, congestion: &str) -> DirectionReport {
        let order = Order::default();
        directions(&order, &end(Some(kernel), cpu_s, congestion), &end(None, 1.0, "")).remove(0)
    }

    #[test]
    fn the_binding_term_is_named() {
        let window = forward_report(Kernel { receive_window_limited_s: 70.0, ..kernel() }, 1.0, "cubic");
        assert_eq!(window.rate_bit_s, 100_000_000);
        assert!(window.limit.contains("receive window: 4.00 MiB per stream at 303.0 ms"), "{window:?}");
        assert_eq!(
            (window.expected[0].name.as_str(), window.expected[0].rate_bit_s / 1_000_000),
            ("receive_window", 110)
        );
        let loss = forward_report(Kernel { resent_bytes: 20_000, ..kernel() }, 1.0, "cubic");
        assert!(loss.limit.starts_with("loss: 0.0020 %") && loss.binding == "loss", "{loss:?}");
        // A few segments are no loss.
        let few = forward_report(Kernel { resent_bytes: 5_000, ..kernel() }, 1.0, "cubic");
        assert!(few.binding.is_empty() && few.limit.starts_with("the path"), "{few:?}");
        let busy = forward_report(kernel(), 79.0, "bbr");
        assert!(busy.limit.starts_with("the sending host: the busiest thread used 99 %"), "{busy:?}");
        let path = forward_report(kernel(), 2.0, "bbr");
        assert!(path.limit.starts_with("the path"), "{path:?}");
        assert!((path.cpu_s_per_gb.0 - 2.0).abs() < 1e-9 && path.sent_bytes == path.received_bytes);
    }

    #[test]
    fn a_window_that_its_host_would_have_opened_further_is_not_to_be_raised() {
        // From a test of 4 s: the receiving host would have opened the window to 1 GiB, so there is no setting to raise.
        let full = Kernel { receive_window_limited_s: 70.0, ..kernel() };
        let ends = |most: &str| {
            let mut to = end(None, 1.0, "");
            to.host.settings.insert("net.ipv4.tcp_rmem".into(), format!("4096 131072 {most}"));
            (end(Some(full), 1.0, "cubic"), to)
        };
        let limit = |most: &str| {
            let (from, to) = ends(most);
            directions(&Order::default(), &from, &to).remove(0).limit
        };
        assert!(limit("8388608").contains("raise net.ipv4.tcp_rmem"), "{}", limit("8388608"));
        let opening = limit("1073741824");
        assert!(!opening.contains("raise net.ipv4.tcp_rmem") && opening.contains("a longer test"), "{opening}");
        // A window of which only a tenth was used limited nothing.
        let wide = forward_report(Kernel { window_bytes: 40 << 20, ..full }, 1.0, "cubic");
        assert!(wide.binding.is_empty(), "{wide:?}");
    }

    #[test]
    fn a_test_that_is_too_short_names_no_limit() {
        let short = |counted_s, bytes, kernel| {
            let with = |mut end: End| {
                let total = &mut end.totals[0];
                total.counted_s = counted_s;
                total.flow.bytes = bytes;
                total.counted_bytes = bytes;
                end
            };
            directions(&Order::default(), &with(end(Some(kernel), 0.0, "cubic")), &with(end(None, 0.0, ""))).remove(0)
        };
        let begun = short(2.0, 25_000_000, Kernel { receive_window_limited_s: 70.0, ..kernel() });
        assert!(begun.binding.is_empty() && begun.limit.contains("6.6 round trips of 303.0 ms"), "{begun:?}");
        let little = short(5.0, 9_000, kernel());
        assert!(little.binding.is_empty() && little.limit.contains("8.79 KiB"), "{little:?}");
    }

    proptest::proptest! {
        /// Whatever was counted, the rate that the binding term allows is close to the measured rate.
        #[test]
        fn the_binding_term_allows_the_measured_rate(
            window_bytes in 10_000_u64..1_000_000_000,
            resent_bytes in 0_u64..50_000_000,
            receive_window_limited_s in 0.0..80.0_f64,
            send_buffer_limited_s in 0.0..80.0_f64,
            delivery_rate_bit_s in 0_u64..20_000_000_000,
            min_rtt_s in 0.000_02..0.4_f64,
            cpu_s in 0.0..80.0_f64,
        ) {
            let seen = Kernel {
                window_bytes,
                resent_bytes,
                receive_window_limited_s,
                send_buffer_limited_s,
                delivery_rate_bit_s,
                min_rtt_s,
                ..kernel()
            };
            let report = forward_report(seen, cpu_s, "cubic");
            let reached = (report.rate_bit_s.max(delivery_rate_bit_s)) as f64;
            for term in report.expected.iter().filter(|term| term.name == report.binding) {
                let allows = term.rate_bit_s as f64;
                let (least, most) = match term.name.as_str() {
                    "receive_window" => (0.8, 1.2),
                    "send_buffer" => (0.8, 2.4),
                    "loss" => (0.25, 2.0),
                    _ => (0.0, f64::INFINITY),
                };
                let rate = if term.name == "loss" { report.rate_bit_s as f64 } else { reached };
                proptest::prop_assert!(rate >= allows * least * 0.99 && rate <= allows * most * 1.01, "{report:?}");
            }
        }
    }
}
