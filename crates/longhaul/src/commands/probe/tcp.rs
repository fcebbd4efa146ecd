//! `longhaul probe tcp`: the rate of TCP in one or both directions.

use model::units::{BitRate, Bytes};
use model::v1::probe::tcp::{DirectionReport, Directions, Flow, Interval, Order, Report};
use probe::Stop;

use super::check::{self, Figure};
use super::target::Target;
use super::tcp_peer::TcpPeer;
use super::{ProbeDocument, scan};
use crate::args::{Measure, ProbeTcp};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

fn order(tcp: &ProbeTcp) -> Result<Order, Failure> {
    let direction = match (tcp.both, tcp.reverse) {
        (true, _) => Directions::Both,
        (false, true) => Directions::Reverse,
        (false, false) => Directions::Forward,
    };
    let block_bytes =
        u32::try_from(tcp.block.0).map_err(|_| Failure::usage(format!("blocks of {}: too large", tcp.block)))?;
    Ok(Order {
        streams: tcp.streams,
        direction,
        seconds: if tcp.bytes.is_some() { 0.0 } else { tcp.time.as_secs_f64() },
        bytes: tcp.bytes.map_or(0, |bytes| bytes.0),
        omit_s: tcp.omit.as_secs_f64(),
        interval_s: tcp.interval.as_secs_f64(),
        block_bytes,
        congestion: tcp.congestion.clone(),
        window_bytes: tcp.window.map_or(0, |window| window.0),
        mss_bytes: tcp.mss.unwrap_or(0),
        pace_bit_s: tcp.pace.map_or(0, |pace| pace.0),
        dscp: tcp.dscp,
        near_cores: tcp.cores.clone(),
        far_cores: tcp.far_cores.clone(),
    })
}

/// Runs the test.
///
/// # Errors
/// Without `--check`: the other end cannot be reached or refuses the test, or an option is wrong.
pub fn run(tcp: &ProbeTcp, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<u8, Failure> {
    check::run_checked(&tcp.check, printer, || {
        let order = order(tcp)?;
        probe::tcp::check(&order)?;
        let mut far = TcpPeer::connect(&Target::new(&tcp.target, settings)?, settings)?;
        if let Some(scan) = tcp.scan {
            return scan::run(scan, tcp, &order, &mut far, stop, printer);
        }
        let quiet = tcp.check.check;
        let mut note = |interval: &Interval| {
            if !quiet {
                print_interval(interval, &tcp.target, printer);
            }
        };
        let report = far.test(&order, stop, &mut note)?;
        match (printer.is_json(), quiet) {
            (true, _) => printer.object(&ProbeDocument::of("result", "tcp", &tcp.target, &report)),
            (false, false) => print_report(&report, printer),
            (false, true) => {}
        }
        Ok(figures(&report))
    })
}

/// The figures for bounds: of two directions the worse.
fn figures(report: &Report) -> Vec<Figure> {
    let rtt = report.near.totals.iter().chain(&report.far.totals).filter_map(|t| t.flow.kernel).map(|k| k.rtt_s);
    let rate = report.directions.iter().map(|direction| direction.rate_bit_s).min().unwrap_or(0);
    let loss = report.directions.iter().map(|direction| direction.resent).fold(0.0, f64::max);
    vec![(Measure::Rate, rate as f64), (Measure::Loss, loss), (Measure::Rtt, rtt.fold(0.0, f64::max))]
}

fn arrow(is_forward: bool) -> &'static str {
    if is_forward { "->" } else { "<-" }
}

fn print_interval(interval: &Interval, target: &str, printer: &Printer) {
    if printer.is_json() {
        printer.object(&ProbeDocument::of("interval", "tcp", target, interval));
        return;
    }
    if !printer.is_chatty() {
        return;
    }
    let omitted = if interval.omitted { "  (left out)" } else { "" };
    for is_forward in [true, false] {
        let flows: Vec<&Flow> =
            interval.flows.iter().filter(|flow| flow.direction.is_forward() == is_forward).collect();
        if flows.is_empty() {
            continue;
        }
        let (bytes, rate) =
            flows.iter().fold((0, 0), |(bytes, rate), flow| (bytes + flow.bytes, rate + flow.rate_bit_s));
        let bytes = Bytes(bytes).to_string();
        let rate = BitRate(rate).to_string();
        Printer::stderr_line(&format!(
            "[{:>6.2}-{:<6.2}s] {}  {bytes:>10}  {rate:>12}{}{omitted}",
            interval.start_s,
            interval.end_s,
            arrow(is_forward),
            sender_figures(&flows)
        ));
    }
}

/// The kernel's figures of the streams that this end sends, as text.
fn sender_figures(flows: &[&Flow]) -> String {
    let kernels: Vec<_> = flows.iter().filter_map(|flow| flow.kernel).collect();
    let Some(first) = kernels.first() else { return String::new() };
    let rtt = kernels.iter().map(|k| k.rtt_s).sum::<f64>() / kernels.len() as f64;
    let window = kernels.iter().map(|k| k.cwnd_bytes).sum::<u64>();
    let resent = kernels.iter().map(|k| k.retransmits).sum::<u64>();
    let busy = kernels.iter().map(|k| k.busy_s).sum::<f64>().max(1e-9);
    let percent_of_busy = |seconds: f64| (seconds / busy * 100.0).round();
    let mut text = format!("  rtt {:.1} ms  cwnd {}  resent {resent}", rtt * 1e3, Bytes(window));
    let receive = percent_of_busy(kernels.iter().map(|k| k.receive_window_limited_s).sum());
    let send = percent_of_busy(kernels.iter().map(|k| k.send_buffer_limited_s).sum());
    if receive >= 1.0 {
        text += &format!("  receive window full {receive} %");
    }
    if send >= 1.0 {
        text += &format!("  send buffer full {send} %");
    }
    if !first.window_scaling {
        text += "  windows not scaled";
    }
    text
}

fn print_report(report: &Report, printer: &Printer) {
    for direction in &report.directions {
        print_direction(report, direction, printer);
    }
    for remark in report.near.remarks.iter().chain(&report.far.remarks) {
        printer.line(&format!("   note       {remark}"));
    }
    for (end, host) in [("this end", &report.near.host), ("other end", &report.far.host)] {
        if host.processors > 0 {
            printer.line(&format!(
                "   {end:<9}  {} processors, {:.0} % busy ({:.0} % by others, {:.0} % stolen), {}, {}",
                host.processors,
                host.busy * 100.0,
                host.others() * 100.0,
                host.steal * 100.0,
                host.kernel,
                host.congestion
            ));
        }
    }
}

fn print_direction(report: &Report, direction: &DirectionReport, printer: &Printer) {
    let arrived = if direction.sent_bytes == direction.received_bytes {
        "all of it arrived".to_owned()
    } else {
        format!("{} sent, {} arrived when it ended", Bytes(direction.sent_bytes), Bytes(direction.received_bytes))
    };
    let streams = report.order.streams;
    let streams = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
    printer.line(&format!(
        "{} {}  {}, {streams}, {arrived}; {:.4} % sent again; CPU {:.2} s/GB to send, {:.2} s/GB to receive",
        arrow(direction.direction.is_forward()),
        BitRate(direction.rate_bit_s),
        Bytes(direction.received_bytes),
        direction.resent * 100.0,
        direction.cpu_s_per_gb.0,
        direction.cpu_s_per_gb.1
    ));
    printer.line(&format!("   limited by {}", direction.limit));
    for term in &direction.expected {
        let rate = BitRate(term.rate_bit_s).to_string();
        printer.line(&format!(
            "   expected   {rate:>12} at most by {} ({})",
            term.name.replace('_', " "),
            term.evidence
        ));
    }
}
