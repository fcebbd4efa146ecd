//! `longhaul probe tcp --scan`: repeats a test with different values of one setting.

use model::units::{BitRate, Bytes};
use model::v1::probe::tcp::{Order, Scan, ScanPoint, ScanReport};
use probe::Stop;
use probe::tcp::scan;

use super::ProbeDocument;
use super::check::Figure;
use super::tcp_peer::TcpPeer;
use crate::args::{Measure, ProbeScan, ProbeTcp};
use crate::failure::Failure;
use crate::printer::Printer;

/// Runs a scan. A failed point is reported and skipped; if the first point fails, the scan fails.
///
/// # Errors
/// The first point fails, or the user interrupts.
pub fn run(
    what: ProbeScan,
    tcp: &ProbeTcp,
    order: &Order,
    far: &mut TcpPeer,
    stop: &Stop,
    printer: &Printer,
) -> Result<Vec<Figure>, Failure> {
    let what = match what {
        ProbeScan::Streams => Scan::Streams,
        ProbeScan::Window => Scan::Window,
        ProbeScan::Cores => Scan::NearCores,
        ProbeScan::FarCores => Scan::FarCores,
    };
    let mut values: Vec<u64> = tcp.values.iter().map(|value| value.0).collect();
    if values.is_empty() {
        let near_count = sys::limits::processors() as u32;
        let far_count = if matches!(what, Scan::FarCores) { far_processors(order, far, stop)? } else { near_count };
        values = scan::values(what, (near_count, far_count));
    }
    let mut points = Vec::new();
    for (value, order) in scan::orders(what, &values, order)? {
        let point = match far.test(&order, stop, &mut |_| {}) {
            Ok(report) => scan::point(value, &report),
            Err(error) if points.is_empty() || stop.is_stopped() => return Err(error.into()),
            Err(error) => scan::failed(value, &error),
        };
        if printer.is_json() {
            printer.object(&ProbeDocument::of("point", "tcp", &tcp.target, &point));
        } else {
            printer.line(&row(what, &point));
        }
        points.push(point);
    }
    let report = scan::judge(what, points);
    if printer.is_json() {
        printer.object(&ProbeDocument::of("scan", "tcp", &tcp.target, &report));
    } else {
        summary(&report, printer);
    }
    Ok(vec![(Measure::Rate, report.best_bit_s as f64)])
}

/// The number of processors of the other end, which reports it with the result of a short test.
fn far_processors(order: &Order, far: &mut TcpPeer, stop: &Stop) -> Result<u32, Failure> {
    let short = Order { seconds: 0.1, bytes: 0, omit_s: 0.0, interval_s: 0.1, ..order.clone() };
    let count = far.test(&short, stop, &mut |_| {})?.far.host.processors;
    match count {
        0 => Err(Failure::usage("this other end does not choose processors; --scan far-cores needs a node")),
        count => Ok(count),
    }
}

fn value(what: Scan, value: u64) -> String {
    match what {
        Scan::Streams if value == 1 => "1 stream".into(),
        Scan::Streams => format!("{value} streams"),
        Scan::Window => Bytes(value).to_string(),
        Scan::NearCores | Scan::FarCores => format!("processor {value}"),
    }
}

fn row(what: Scan, point: &ScanPoint) -> String {
    let name = value(what, point.value);
    if !point.failed.is_empty() {
        return format!("{name:>14}  failed: {}", point.failed);
    }
    let rate = BitRate(point.rate_bit_s).to_string();
    let resent_percent = point.resent * 100.0;
    let cpu = point.cpu_s_per_gb;
    format!("{name:>14}  {rate:>12}  {resent_percent:.4} % sent again  CPU {cpu:.2} s/GB  {}", point.limit)
}

fn summary(report: &ScanReport, printer: &Printer) {
    let Some(knee) = report.knee else { return };
    let best = BitRate(report.best_bit_s);
    printer.line(&format!("{} are within 3 % of the best, {best}", value(report.scan, knee)));
    if matches!(report.scan, Scan::Window) && report.bdp_bytes > 0 {
        printer.line(&format!(
            "{} are in flight at that rate: buffers of this size should suffice",
            Bytes(report.bdp_bytes)
        ));
    }
    for bad in &report.bad {
        printer.line(&format!("{} gives less than nine tenths of the rate of the others", value(report.scan, *bad)));
    }
}
