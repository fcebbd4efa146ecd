//! `longhaul probe all`: all tests, one after the other, and the causes that follow from their results.

use std::fs;
use std::time::Duration;

use client::RemoteNode;
use model::HostPort;
use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::probe::all::{Findings, PerDirection, Support};
use model::v1::probe::latency::Latency;
use model::v1::probe::route::RouteOrder;
use model::v1::probe::tcp::{Order, Report};
use model::v1::probe::udp::{UdpOrder, UdpPace, UdpPoint};
use probe::host::HostUsage;
use probe::{Stop, causes, stamp, task, udp};
use report::path::{self, headline};

use super::check::{self, Figure};
use super::target::{Target, connect};
use super::{ProbeDocument, latency};
use crate::args::{Measure, ProbeAll};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The size of small datagrams. 20,000 a second for ten seconds show a loss of 0.0046 % (nine of them), at 32 Mbit/s.
const SMALL_BYTES: u32 = 200;
/// The time between two small datagrams.
const SMALL_SPACING_S: f64 = 5e-5;
/// Bursts of 754 kB, two a second: more than a short queue holds, at a low load.
const BURST_BYTES: u32 = 1_472;
const BURST_LENGTH: u32 = 512;
const BURST_GAP_S: f64 = 0.5;
/// Packets of the latency test per second.
const LATENCY_RATE: f64 = 100.0;
/// Flows that search for parallel paths.
const FLOWS: u16 = 16;
/// Probes of each flow.
const PROBES: u32 = 200;
/// The congestion control of a second test, where the sender uses BBR.
const LOSS_BASED: &str = "cubic";
/// The pause between two tests, so that packets under way arrive.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs all tests. A test that fails is listed as left out, and the others go on.
///
/// # Errors
/// The node cannot be reached, the user interrupts, or the page cannot be written.
pub fn run(all: &ProbeAll, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<u8, Failure> {
    check::run_checked(&all.check, printer, || {
        let at = Target::node(&all.target, "all", settings)?;
        let usage = HostUsage::begin();
        let mut tests = TestSequence {
            all,
            at: &at,
            settings,
            stop,
            is_chatty: printer.is_chatty() && !all.check.check,
            left_out: Vec::new(),
        };
        let findings = tests.findings()?;
        let causes = causes::causes(&findings);
        let support = Support { findings, causes, near: usage.read() };
        if let Some(file) = &all.html {
            let text = path::page(&all.target, &support);
            fs::write(file, text).map_err(|e| Failure::local(format!("cannot write {}: {e}", file.display())))?;
        }
        match (printer.is_json(), all.check.check) {
            (true, _) => printer.object(&ProbeDocument::of("result", "all", &all.target, &support)),
            (false, false) => print_report(&support, printer),
            (false, true) => {}
        }
        Ok(figures(&support))
    })
}

fn figures(support: &Support) -> Vec<Figure> {
    let mut figures = vec![(Measure::Causes, support.causes.len() as f64)];
    let found = &support.findings;
    figures.extend(
        rate(&found.tcp, Direction::Forward)
            .into_iter()
            .chain(rate(&found.tcp, Direction::Reverse))
            .reduce(f64::min)
            .map(|r| (Measure::Rate, r)),
    );
    figures.extend(found.latency.as_ref().map(latency::figures).unwrap_or_default());
    figures
}

/// The congestion control of the sender in a direction.
fn congestion(report: &Report, direction: Direction) -> &str {
    let sender = if direction == Direction::Forward { &report.near } else { &report.far };
    sender.totals.first().map_or("", |total| total.congestion.as_str())
}

/// The rate of TCP in a direction, bit/s.
pub(super) fn rate(tcp: &PerDirection<Report>, direction: Direction) -> Option<f64> {
    let report = tcp.of(direction)?;
    report.directions.first().map(|result| result.rate_bit_s as f64)
}

/// Runs the tests one after the other, each over a session of its own, so that no test affects the next one.
struct TestSequence<'a> {
    all: &'a ProbeAll,
    at: &'a HostPort,
    settings: &'a Settings,
    stop: &'a Stop,
    is_chatty: bool,
    left_out: Vec<String>,
}

impl TestSequence<'_> {
    fn findings(&mut self) -> Result<Findings, Failure> {
        let seconds = self.all.time.as_secs_f64();
        // A node that does not answer this request cannot do any test.
        let limits = connect(self.at, self.settings)?.limits()?;
        let routes = self.run_test("routes", |node, stop| {
            let order = RouteOrder { flows: FLOWS, probes: PROBES, ..RouteOrder::default() };
            Ok(task::routes(node, &order, stop)?)
        })?;
        let order = stamp::Order {
            rate_packets_s: LATENCY_RATE,
            extent: stamp::Extent::Time(self.all.time),
            one_clock: probe::host::is_own_clock(limits.clock),
            ..stamp::Order::default()
        };
        let latency = self.run_test("latency", |node, stop| Ok(task::latency(node, &order, stop)?))?;
        let small = UdpOrder {
            bytes: SMALL_BYTES,
            pace: UdpPace::Spacing { spacing_s: SMALL_SPACING_S },
            count: None,
            seconds: Some(seconds),
        };
        let datagrams = self.datagrams("datagrams", &small)?;
        let pace = UdpPace::Bursts { length: BURST_LENGTH, spacing_s: 0.0, gap_s: BURST_GAP_S };
        let burst = UdpOrder { bytes: BURST_BYTES, pace, count: None, seconds: Some(seconds) };
        let bursts = self.datagrams("bursts", &burst)?;
        let tcp = PerDirection {
            forward: self.tcp("TCP forward", Direction::Forward, seconds)?,
            reverse: self.tcp("TCP reverse", Direction::Reverse, seconds)?,
        };
        let loss_based = PerDirection {
            forward: self.loss_based("TCP forward", Direction::Forward, tcp.forward.as_ref(), seconds)?,
            reverse: self.loss_based("TCP reverse", Direction::Reverse, tcp.reverse.as_ref(), seconds)?,
        };
        let loaded = self.loaded(&order)?;
        let left_out = std::mem::take(&mut self.left_out);
        let link_bit_s = self.all.link.map_or(0, |rate| rate.0);
        let limits = Some(limits);
        Ok(Findings { link_bit_s, limits, routes, latency, datagrams, bursts, tcp, loss_based, loaded, left_out })
    }

    /// Runs one test. A failed test is listed as left out; an interrupt ends the sequence.
    fn run_test<T>(
        &mut self,
        name: &str,
        test: impl FnOnce(&mut RemoteNode, &Stop) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.is_chatty {
            Printer::stderr_line(&format!("{name} …"));
        }
        std::thread::sleep(PAUSE);
        let found = connect(self.at, self.settings).and_then(|mut node| test(&mut node, self.stop));
        match found {
            Ok(found) => Ok(Some(found)),
            Err(failure) if self.stop.is_stopped() => Err(failure),
            Err(failure) => {
                self.left_out.push(format!("{name}: {}", failure.message));
                Ok(None)
            }
        }
    }

    fn datagrams(&mut self, name: &str, order: &UdpOrder) -> Result<PerDirection<UdpPoint>, Failure> {
        let progress = udp::RunProgress::default();
        let forward =
            self.run_test(&format!("{name} forward"), |node, stop| Ok(task::send(node, order, &progress, stop)?))?;
        let reverse =
            self.run_test(&format!("{name} reverse"), |node, stop| Ok(task::receive(node, order, &progress, stop)?))?;
        Ok(PerDirection { forward, reverse })
    }

    fn tcp(&mut self, name: &str, direction: Direction, seconds: f64) -> Result<Option<Report>, Failure> {
        let order = Order { direction: direction.into(), seconds, streams: 1, ..Order::default() };
        self.run_test(name, |node, stop| Ok(probe::tcp::test(&order, node, stop, &mut |_| {})?))
    }

    /// Repeats a TCP test with CUBIC where the sender uses BBR, which hides what a short queue does to other senders.
    fn loss_based(
        &mut self,
        name: &str,
        direction: Direction,
        before: Option<&Report>,
        seconds: f64,
    ) -> Result<Option<Report>, Failure> {
        if !before.is_some_and(|report| congestion(report, direction).starts_with("bbr")) {
            return Ok(None);
        }
        let order = Order {
            direction: direction.into(),
            seconds,
            streams: 1,
            congestion: Some(LOSS_BASED.into()),
            ..Order::default()
        };
        let name = format!("{name} with {LOSS_BASED}");
        let report = self.run_test(&name, |node, stop| Ok(probe::tcp::test(&order, node, stop, &mut |_| {})?))?;
        let Some(report) = report else { return Ok(None) };
        if congestion(&report, direction) != LOSS_BASED {
            self.left_out.push(format!("{name}: the sending host does not have it (`modprobe tcp_{LOSS_BASED}`)"));
            return Ok(None);
        }
        Ok(Some(report))
    }

    fn loaded(&mut self, order: &stamp::Order) -> Result<Option<Latency>, Failure> {
        let at = self.at;
        let settings = self.settings;
        self.run_test("latency beside TCP", |_, stop| {
            latency::test_under_load(at, order, 1, settings, stop).map(|(latency, _)| latency)
        })
    }
}

fn print_report(support: &Support, printer: &Printer) {
    let found = &support.findings;
    for (direction, name) in [(Direction::Forward, "-> forward"), (Direction::Reverse, "<- reverse")] {
        if let Some(report) = found.tcp.of(direction) {
            for result in &report.directions {
                printer.line(&format!("{name}: TCP {}, limited by {}", BitRate(result.rate_bit_s), result.limit));
            }
        }
        if let Some(point) = found.datagrams.of(direction) {
            printer.line(&format!(
                "{name}: {} of {} datagrams lost, {} out of order, {} twice",
                point.lost, point.sent.datagrams, point.received.reordered, point.received.duplicates
            ));
        }
    }
    for (name, latency) in [("alone", &found.latency), ("beside TCP", &found.loaded)] {
        if let Some(rtt) = latency.as_ref().and_then(|latency| latency.round_trip) {
            printer.line(&format!(
                "round trip {name}: {:.2} ms, 99 % below {:.2} ms",
                rtt.median_s * 1e3,
                rtt.p99_s * 1e3
            ));
        }
    }
    for why in &found.left_out {
        printer.line(&format!("left out: {why}"));
    }
    if support.causes.is_empty() {
        printer.line("nothing is wrong, as far as these tests can see");
    }
    for (at, cause) in support.causes.iter().enumerate() {
        printer.line(&format!("{}. {}", at + 1, headline(cause)));
        printer.line(&format!("   evidence  {}", cause.evidence));
        printer.line(&format!("   remedy    {}", cause.remedy));
    }
}
