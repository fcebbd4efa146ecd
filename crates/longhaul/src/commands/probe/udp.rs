//! `longhaul probe udp`: rate, loss and order of datagrams, and the round trips of requests.

use client::RemoteNode;
use model::HostPort;
use model::units::{BitRate, Bytes};
use model::v1::probe::host::Hosts;
use model::v1::probe::tcp::Directions;
use model::v1::probe::udp::{UdpOrder, UdpPace, UdpPoint, UdpRequestOrder, UdpRequests, UdpSpread};
use probe::iperf3::{self, DatagramOrder};
use probe::udp::{RunProgress, columns};
use probe::{Stop, task};
use serde::Serialize;

use super::ProbeDocument;
use super::check::{self, Figure};
use super::target::{Target, connect, resolve};
use crate::args::{Measure, ProbeUdp};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The number of requests of each size.
const REQUESTS: u64 = 1_000;
/// How long an answer may take.
const ANSWER_TIMEOUT_S: f64 = 1.0;
/// Payload of a request, bytes: the least that is allowed.
const REQUEST_BYTES: u32 = 64;

/// The runs of the test: every size with every spacing.
fn orders(udp: &ProbeUdp) -> Result<Vec<UdpOrder>, Failure> {
    let count = udp.count;
    let seconds = udp.count.is_none().then_some(udp.time.as_secs_f64());
    let mut orders = Vec::new();
    for size in &udp.size {
        let bytes = u32::try_from(size.0).map_err(|_| Failure::usage(format!("datagrams of {size}: too large")))?;
        let paces = match (udp.rate, udp.burst) {
            (Some(rate), _) => vec![UdpPace::Rate { rate_bit_s: rate.0 }],
            (None, Some(length)) => {
                vec![UdpPace::Bursts { length, spacing_s: 0.0, gap_s: udp.gap.unwrap_or_default().as_secs_f64() }]
            }
            (None, None) if udp.max => vec![UdpPace::Max],
            (None, None) if udp.spacing.is_empty() => vec![UdpPace::Rate { rate_bit_s: 100_000_000 }],
            (None, None) => udp.spacing.iter().map(|s| UdpPace::Spacing { spacing_s: s.as_secs_f64() }).collect(),
        };
        orders.extend(paces.into_iter().map(|pace| UdpOrder { bytes, pace, count, seconds }));
    }
    Ok(orders)
}

/// Runs the test.
///
/// # Errors
/// Without `--check`: the other end cannot be reached or refuses the test, or an option is wrong.
pub fn run(udp: &ProbeUdp, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<u8, Failure> {
    check::run_checked(&udp.check, printer, || {
        let at = match Target::new(&udp.target, settings)? {
            Target::Node(at) => at,
            Target::Iperf3(at) => return iperf3(udp, &at, printer, stop),
            Target::Stamp(_) => return Err(Failure::usage("stamp:// is for probe latency")),
        };
        let mut node = connect(&at, settings)?;
        if udp.request {
            return request(udp, &mut node, printer, stop);
        }
        let orders = orders(udp)?;
        if udp.udpmon && !printer.is_json() {
            printer.line(&format!("{}{}", columns::TITLES, columns::SHAPE_TITLES));
        }
        let mut points = Vec::new();
        for order in &orders {
            let test = if udp.reverse { task::receive } else { task::send };
            let point = test(&mut node, order, &RunProgress::default(), stop)?;
            print_report(udp, &point, node.hosts(), orders.len() > 1, printer);
            points.push(point);
        }
        Ok(figures(&points))
    })
}

/// The counts of both ends in a test with an iperf3 server.
#[derive(Serialize)]
struct Iperf3Counts {
    /// Payload that arrived, bit/s.
    rate_bit_s: u64,
    sent: u64,
    received: u64,
    lost: u64,
    lost_share: f64,
    /// Variation of the delay (RFC 3550).
    jitter_s: f64,
    seconds: f64,
}

/// Runs the test with an iperf3 server, which gives a rate and the counts of both ends.
fn iperf3(udp: &ProbeUdp, at: &HostPort, printer: &Printer, stop: &Stop) -> Result<Vec<Figure>, Failure> {
    let ([size], None, false, [], None) =
        (&udp.size[..], udp.burst, udp.max || udp.request, &udp.spacing[..], udp.count)
    else {
        return Err(Failure::usage(
            "iperf3 takes datagrams of one size, at a --rate, for a --time, and no other option",
        ));
    };
    let order = DatagramOrder {
        streams: 1,
        direction: if udp.reverse { Directions::Reverse } else { Directions::Forward },
        seconds: udp.time.as_secs_f64(),
        bytes: u32::try_from(size.0).map_err(|_| Failure::usage(format!("datagrams of {size}: too large")))?,
        rate_bit_s: udp.rate.map_or(100_000_000, |rate| rate.0),
    };
    let found = iperf3::test_datagrams(resolve(at)?, &order, stop)?;
    let near = found.near.first().map(|(_, result)| result.clone()).unwrap_or_default();
    let far = found.far.first().cloned().unwrap_or_default();
    let (from, to) = if udp.reverse { (&far, &near) } else { (&near, &far) };
    let lost = u64::try_from(to.lost).unwrap_or(0);
    let counts = Iperf3Counts {
        rate_bit_s: (to.bytes as f64 * 8.0 / found.seconds.max(1e-9)) as u64,
        sent: from.packets,
        received: to.packets.saturating_sub(lost),
        lost,
        lost_share: lost as f64 / from.packets.max(1) as f64,
        jitter_s: to.jitter_s,
        seconds: found.seconds,
    };
    match (printer.is_json(), udp.check.check) {
        (true, _) => printer.object(&ProbeDocument::of("result", "udp_iperf3", &udp.target, &counts)),
        (false, false) => printer.line(&format!(
            "{} {}  {} datagrams sent in {:.2} s, {} arrived, {lost} ({:.4} %) lost, jitter {}",
            if udp.reverse { "<-" } else { "->" },
            BitRate(counts.rate_bit_s),
            counts.sent,
            counts.seconds,
            counts.received,
            counts.lost_share * 100.0,
            us(counts.jitter_s)
        )),
        (false, true) => {}
    }
    Ok(vec![(Measure::Rate, counts.rate_bit_s as f64), (Measure::Loss, counts.lost_share)])
}

pub(super) fn figures(points: &[UdpPoint]) -> Vec<Figure> {
    let share = |part: u64, point: &UdpPoint| part as f64 / point.received.datagrams.max(1) as f64;
    let worst = |of: &dyn Fn(&UdpPoint) -> f64| points.iter().map(of).fold(0.0, f64::max);
    vec![
        (Measure::Rate, points.iter().map(|p| p.received.rate_bit_s).min().unwrap_or(0) as f64),
        (Measure::Loss, worst(&|p| p.lost_share)),
        (Measure::Reordered, worst(&|p| share(p.received.reordered, p))),
        (Measure::Duplicates, worst(&|p| share(p.received.duplicates, p))),
    ]
}

fn print_report(udp: &ProbeUdp, point: &UdpPoint, hosts: Option<&Hosts>, of_many: bool, printer: &Printer) {
    if printer.is_json() {
        let event = if of_many { "point" } else { "result" };
        return printer.object(&ProbeDocument::of(event, "udp", &udp.target, point).on(hosts));
    }
    if udp.check.check {
        return;
    }
    if udp.udpmon {
        return printer.line(&format!("{}{}", columns::row(point), columns::shape(point)));
    }
    print_point(point, udp.reverse, printer);
}

fn us(seconds: f64) -> String {
    format!("{:.1} µs", seconds * 1e6)
}

fn print_point(point: &UdpPoint, reverse: bool, printer: &Printer) {
    let sent = &point.sent;
    let received = &point.received;
    let arrow = if reverse { "<-" } else { "->" };
    printer.line(&format!(
        "{arrow} {}  {} datagrams of {} sent in {:.2} s, {} arrived, {} ({:.4} %) lost",
        BitRate(received.rate_bit_s),
        sent.datagrams,
        Bytes(point.order.bytes.into()),
        sent.seconds,
        received.datagrams,
        point.lost,
        point.lost_share * 100.0
    ));
    printer.line(&format!(
        "   sent       {} of payload, {} on an Ethernet",
        BitRate(sent.rate_bit_s),
        BitRate(sent.wire_rate_bit_s)
    ));
    let spread = |name: &str, spread: &UdpSpread, target: Option<f64>| {
        let target = target.map_or(String::new(), |target| format!(" (wanted: {})", us(target)));
        printer.line(&format!(
            "   {name:<10} median {}, 95 % {}, 99 % {}, most {}{target}",
            us(spread.p50_s),
            us(spread.p95_s),
            us(spread.p99_s),
            us(spread.max_s)
        ));
    };
    match &sent.spacing {
        Some(spacing) => spread("spacing", spacing, sent.spacing_target_s),
        None => printer.line("   spacing    not measured: the kernel splits each batch into datagrams"),
    }
    if let Some(arrivals) = &received.inter_arrival {
        spread("arrivals", arrivals, None);
    }
    if let Some(one_way) = &received.one_way {
        spread("variation", one_way, None);
    }
    if point.lost > 0 {
        let kind = if point.lost_in_host_exact { "" } else { " (estimated)" };
        let at_sender = point.lost.saturating_sub(point.lost_in_host).saturating_sub(point.lost_in_network);
        let unsent =
            if at_sender > 0 { format!("{at_sender} in the sending host (estimated), ") } else { String::new() };
        printer.line(&format!(
            "   lost       {unsent}{} in the receiving host{kind}, {} in the network ({:.4} %), in {} runs",
            point.lost_in_host,
            point.lost_in_network,
            point.lost_in_network_share * 100.0,
            received.lost_runs_total
        ));
        let shown = received.lost_runs.iter().take(5);
        let runs: Vec<String> =
            shown.map(|(from, count)| if *count == 1 { from.to_string() } else { format!("{from}+{count}") }).collect();
        let more = if received.lost_runs_total > 5 { ", …" } else { "" };
        printer.line(&format!("   numbers    {}{more}", runs.join(", ")));
    }
    printer
        .line(&format!("   order      {} came out of order, {} came again", received.reordered, received.duplicates));
    if let Some(why) = &point.host_limited {
        printer.line(&format!("   note       this may be due to a host rather than the network: {why}"));
    }
}

fn request(udp: &ProbeUdp, node: &mut RemoteNode, printer: &Printer, stop: &Stop) -> Result<Vec<Figure>, Failure> {
    let size =
        |bytes: &Bytes| u32::try_from(bytes.0).map_err(|_| Failure::usage(format!("answers of {bytes}: too large")));
    let order = UdpRequestOrder {
        request_bytes: REQUEST_BYTES,
        answer_bytes: udp.size.iter().map(size).collect::<Result<_, _>>()?,
        count: udp.count.unwrap_or(REQUESTS),
        timeout_s: ANSWER_TIMEOUT_S,
    };
    let found = task::request(node, &order, stop)?;
    match (printer.is_json(), udp.check.check) {
        (true, _) => printer.object(&ProbeDocument::of("result", "udp_request", &udp.target, &found).on(node.hosts())),
        (false, false) => print_requests(&found, printer),
        (false, true) => {}
    }
    Ok(request_figures(&found))
}

/// The figures that were measured: without requests there is no loss, without answers no round trip.
fn request_figures(found: &UdpRequests) -> Vec<Figure> {
    let (asked, answered) = found.sizes.iter().fold((0, 0), |(a, b), size| (a + size.asked, b + size.answered));
    let times = found.sizes.iter().filter(|size| size.answered > 0).map(|size| size.round_trip.p50_s);
    let loss = (asked > 0).then(|| (Measure::Loss, 1.0 - answered as f64 / asked as f64));
    loss.into_iter().chain(times.reduce(f64::max).map(|rtt| (Measure::Rtt, rtt))).collect()
}

fn print_requests(found: &UdpRequests, printer: &Printer) {
    printer.line("answer bytes    asked  answered      least     median       99 %       most");
    for size in &found.sizes {
        let r = &size.round_trip;
        let time = |seconds| if size.answered > 0 { us(seconds) } else { "-".to_owned() };
        let [least, median, p99, most] = [r.min_s, r.p50_s, r.p99_s, r.max_s].map(time);
        printer.line(&format!(
            "{:>12} {:>8} {:>9} {least:>10} {median:>10} {p99:>10} {most:>10}",
            size.answer_bytes, size.asked, size.answered
        ));
    }
    for (name, line) in [("least", found.line_of_min), ("mean", found.line_of_mean)] {
        if let Some(line) = line {
            let fixed = us(line.intercept_s);
            let ns = line.slope_s_per_byte * 1e9;
            printer.line(&format!("a line through the {name}: {fixed} and {ns:.3} ns for each byte of the answer"));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::v1::probe::udp::UdpRoundTrips;

    use super::*;

    #[test]
    fn unmeasured_figures_are_left_out() {
        let size = |asked, answered, p50_s| {
            let round_trip = UdpSpread { p50_s, ..UdpSpread::default() };
            UdpRoundTrips { asked, answered, round_trip, ..UdpRoundTrips::default() }
        };
        let figures = |sizes| request_figures(&UdpRequests { sizes, ..UdpRequests::default() });
        assert_eq!(figures(vec![]), []);
        assert_eq!(figures(vec![size(0, 0, 0.0)]), []);
        assert_eq!(
            figures(vec![size(4, 0, 0.0)]),
            [(Measure::Loss, 1.0)],
            "no time of 0 s, which any bound would pass"
        );
        assert_eq!(figures(vec![size(4, 0, 0.0), size(4, 2, 0.3)]), [(Measure::Loss, 0.75), (Measure::Rtt, 0.3)]);
    }
}
