//! `longhaul probe latency`: the delay, its variation and the loss of small packets.

use std::time::Duration;

use model::HostPort;
use model::v1::probe::host::Hosts;
use model::v1::probe::latency::{Delay, Hops, Latency, Variation};
use model::v1::probe::tcp;
use probe::host::HostUsage;
use probe::{Stop, stamp, task};

use super::check::{self, Figure};
use super::target::{Target, connect, resolve};
use super::{ProbeDocument, tcp_peer::TcpPeer};
use crate::args::{Measure, ProbeLatency};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

fn order(latency: &ProbeLatency) -> stamp::Order {
    let extent = latency.count.map_or(stamp::Extent::Time(latency.time), stamp::Extent::Packets);
    stamp::Order {
        rate_packets_s: latency.rate,
        extent,
        packet_bytes: latency.size,
        dscp: latency.dscp,
        timeout: latency.timeout,
        ..stamp::Order::default()
    }
}

/// Runs the test.
///
/// # Errors
/// Without `--check`: the other end cannot be reached or refuses the test, or an option is wrong.
pub fn run(latency: &ProbeLatency, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<u8, Failure> {
    check::run_checked(&latency.check, printer, || {
        let order = order(latency);
        order.check()?;
        let (result, hosts) = match latency.under_load {
            None => test(&Target::new(&latency.target, settings)?, &order, settings, stop)?,
            Some(streams) => {
                let at = Target::node(&latency.target, "latency --under-load", settings)?;
                test_under_load(&at, &order, streams, settings, stop)?
            }
        };
        match (printer.is_json(), latency.check.check) {
            (true, _) => {
                let document = ProbeDocument::of("result", "latency", &latency.target, &result).on(hosts.as_ref());
                printer.object(&document);
            }
            (false, false) => print_report(&result, printer),
            (false, true) => {}
        }
        Ok(figures(&result))
    })
}

/// Runs one test with a node or a STAMP reflector.
pub(super) fn test(
    target: &Target,
    order: &stamp::Order,
    settings: &Settings,
    stop: &Stop,
) -> Result<(Latency, Option<Hosts>), Failure> {
    Ok(match target {
        Target::Node(at) => {
            let mut node = connect(at, settings)?;
            let one_clock = node.limits().is_ok_and(|limits| probe::host::is_own_clock(limits.clock));
            let order = stamp::Order { one_clock, ..*order };
            (task::latency(&mut node, &order, stop)?, node.hosts().cloned())
        }
        Target::Stamp(at) => {
            let usage = HostUsage::begin();
            let result = task::latency_to_reflector(resolve(at)?, order, stop)?;
            (result, Some(Hosts { near: usage.read(), far: None }))
        }
        Target::Iperf3(_) => return Err(Failure::usage("iperf3 has no test of latency; name a node, or stamp://HOST")),
    })
}

/// The longest duration of the load, s. The load must begin before the first packet and end after the last one, however long the login,
/// the agreement and the wait for late packets take; it is stopped when the test is over. A test with a node lasts an hour at most.
fn load_seconds(seconds: f64) -> f64 {
    const SPARE_S: f64 = 600.0;
    const NODE_S_MAX: f64 = 3_600.0;
    (seconds + SPARE_S).min(NODE_S_MAX.max(seconds + 2.0))
}

/// Runs a latency test while a TCP test loads the forward direction. The TCP test is stopped when the latency test ends.
pub(super) fn test_under_load(
    at: &HostPort,
    order: &stamp::Order,
    streams: u32,
    settings: &Settings,
    stop: &Stop,
) -> Result<(Latency, Option<Hosts>), Failure> {
    let seconds = order.packets() as f64 / order.rate_packets_s;
    let load = tcp::Order { streams, seconds: load_seconds(seconds), ..tcp::Order::default() };
    probe::tcp::check(&load)?;
    let mut far = TcpPeer::Node(Box::new(connect(at, settings)?));
    let load_stop = Stop::default();
    std::thread::scope(|scope| {
        let load_thread = scope.spawn(|| far.test(&load, &load_stop, &mut |_| {}));
        std::thread::sleep(Duration::from_secs(1));
        let result = test(&Target::Node(at.clone()), order, settings, stop);
        load_stop.stop();
        let load_result = load_thread.join().map_err(|_| Failure::local("the load broke off"))?;
        match load_result {
            Err(probe::Error::Interrupted) => result,
            Ok(_) => {
                Printer::note("the load ended before the test: the last round trips were measured without load");
                result
            }
            Err(error) => Err(error.into()),
        }
    })
}

pub(super) fn figures(result: &Latency) -> Vec<Figure> {
    let packets = &result.packets;
    let lost = packets.lost as f64 / packets.sent.max(1) as f64;
    let mut figures = vec![(Measure::Loss, lost)];
    figures.extend(result.round_trip.map(|rtt| (Measure::Rtt, rtt.median_s)));
    let p95 = |variation: &Variation| variation.p95_s;
    let variations = [result.variation_forward, result.variation_reverse];
    figures.extend(variations.iter().flatten().map(p95).reduce(f64::max).map(|value| (Measure::Variation, value)));
    figures
}

fn ms(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

fn print_packets(result: &Latency, printer: &Printer) {
    let p = &result.packets;
    let lost = p.lost as f64 / p.sent.max(1) as f64 * 100.0;
    printer.line(&format!(
        "{} packets in {:.1} s, {} answered, {} lost ({lost:.3} %)",
        p.sent, result.seconds, p.received, p.lost
    ));
    match (p.lost_forward, p.lost_reverse) {
        (Some(forward), Some(reverse)) => {
            printer.line(&format!(
                "   lost       {forward} forward, {reverse} in reverse, {} at an unknown place",
                p.lost_unplaced
            ));
        }
        _ => {
            let why = p.direction_unknown.as_deref().unwrap_or("the other end does not count for itself");
            printer.line(&format!("   lost       the direction is not known: {why}"));
        }
    }
    if p.duplicates + p.reordered > 0 {
        printer.line(&format!("   order      {} came again, {} behind a later one", p.duplicates, p.reordered));
    }
}

fn print_report(result: &Latency, printer: &Printer) {
    print_packets(result, printer);
    let delay = |name: &str, delay: &Delay| {
        printer.line(&format!(
            "   {name:<10} median {}, least {}, mean {}, 95 % {}, 99 % {}, most {}",
            ms(delay.median_s),
            ms(delay.min_s),
            ms(delay.mean_s),
            ms(delay.p95_s),
            ms(delay.p99_s),
            ms(delay.max_s)
        ));
    };
    if let Some(round_trip) = &result.round_trip {
        delay("round trip", round_trip);
    }
    for (name, found) in [("forward", &result.forward), ("reverse", &result.reverse)] {
        if let Some(found) = found {
            delay(name, found);
        }
    }
    if let Some(why) = &result.one_way_refused {
        printer.line(&format!("   one way    unknown: {why}"));
    }
    for (name, found) in [("forward", &result.variation_forward), ("reverse", &result.variation_reverse)] {
        if let Some(v) = found {
            printer.line(&format!(
                "   variation  {name}: median {}, 95 % {}, 99 % {} ({} pairs)",
                ms(v.p50_s),
                ms(v.p95_s),
                ms(v.p99_s),
                v.pairs
            ));
        }
    }
    for (name, found) in [("forward", result.hops_forward), ("reverse", result.hops_reverse)] {
        if let Some(Hops { least, most }) = found {
            let varies = if least == most {
                String::new()
            } else {
                format!(" to {most}: the route changed, or there are several")
            };
            printer.line(&format!("   routers    {name}: {least}{varies}"));
        }
    }
    if let Some(step) = &result.clock_step {
        printer.line(&format!(
            "   note       the clock of the {} end was set by {} meanwhile",
            step.end,
            ms(step.step_s)
        ));
    }
    if result.host_limited {
        printer
            .line("   note       this host was late to send more than once in a hundred times: delays may be its own");
    }
    printer.line(&format!("   times      taken by the {}; {}", result.times, clocks(result)));
}

fn clocks(result: &Latency) -> String {
    let clock = |clock: &model::v1::probe::latency::Clock| {
        if clock.synchronised {
            format!("synchronised within {}", ms(clock.error_s))
        } else {
            "not synchronised".to_owned()
        }
    };
    let far = result.far_clock.as_ref().map_or("unknown".to_owned(), clock);
    format!("this clock is {}, the other {far}", clock(&result.clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_outlasts_the_test() {
        for (seconds, wanted) in [(10.0, 610.0), (3_300.0, 3_600.0), (3_600.0, 3_602.0)] {
            assert_eq!(load_seconds(seconds), wanted);
        }
    }
}
