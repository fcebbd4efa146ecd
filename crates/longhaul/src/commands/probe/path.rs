//! `longhaul probe path`: the routes in both directions, their MTU and their parallel paths.

use std::fs;

use model::Exit;
use model::v1::probe::route::{Change, Hop, Mtu, MtuBound, Route, RouteOrder, Routes, Sweep, SweepPath};
use probe::{Stop, route, task};
use serde::{Deserialize, Serialize};

use super::ProbeDocument;
use super::target::{Target, connect, resolve};
use crate::args::ProbePath;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The routes in both directions, and their changes since `--before`.
#[derive(Serialize, Deserialize)]
struct PathReport {
    #[serde(flatten)]
    routes: Routes,
    #[serde(default)]
    changes: Vec<Change>,
}

/// Runs the test.
///
/// # Errors
/// The other end cannot be reached, the routes cannot be traced, or the file of `--before` cannot be read.
pub fn run(path: &ProbePath, settings: &Settings, printer: &Printer, stop: &Stop) -> Result<Exit, Failure> {
    let order = RouteOrder {
        flows: path.flows,
        probes: path.probes,
        ttl_max: path.ttl_max,
        mtu_bytes_max: (path.mtu_max > 0).then_some(path.mtu_max),
        ..RouteOrder::default()
    };
    let before = path.before.as_ref().map(|file| read(file)).transpose()?;
    let mut hosts = None;
    let routes = match Target::new(&path.target, settings) {
        Ok(Target::Node(at)) => match connect(&at, settings) {
            Ok(mut node) => {
                let routes = task::routes(&mut node, &order, stop)?;
                hosts = node.hosts().cloned();
                routes
            }
            // Without a node, or a key for it, the forward direction can still be traced.
            Err(failure) => {
                Printer::note(&format!("{}; only the forward direction is traced", failure.message));
                route::one_way(resolve(&at)?.ip(), &order, &task::token()?, stop)?
            }
        },
        Ok(Target::Iperf3(at) | Target::Stamp(at)) => {
            route::one_way(resolve(&at)?.ip(), &order, &task::token()?, stop)?
        }
        Err(failure) => return Err(failure),
    };
    let changes = before.map_or_else(Vec::new, |before| changes(&before.routes, &routes));
    let found = PathReport { routes, changes };
    if printer.is_json() {
        printer.object(&ProbeDocument::of("result", "path", &path.target, &found).on(hosts.as_ref()));
    } else {
        print_report(&found, printer);
    }
    Ok(Exit::Done)
}

fn read(file: &std::path::Path) -> Result<PathReport, Failure> {
    let wrong = |why: String| Failure::usage(format!("--before {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).map_err(|e| wrong(format!("not what `probe path --json` prints: {e}")))
}

/// The changes of the routes in both directions.
fn changes(before: &Routes, now: &Routes) -> Vec<Change> {
    let mut changes = route::compare(&before.forward, &now.forward);
    if let (Some(before), Some(now)) = (&before.reverse, &now.reverse) {
        let reverse = |change: Change| Change { text: format!("reverse: {}", change.text), ..change };
        changes.extend(route::compare(before, now).into_iter().map(reverse));
    }
    changes
}

fn print_report(found: &PathReport, printer: &Printer) {
    print_route("-> forward", &found.routes.forward, printer);
    match &found.routes.reverse {
        Some(reverse) => print_route("<- reverse", reverse, printer),
        None => printer.line("<- reverse: only a node can trace it"),
    }
    for asymmetry in &found.routes.asymmetries {
        printer.line(&format!("differs: {}", asymmetry.text));
    }
    for change in &found.changes {
        printer.line(&format!("changed: {}", change.text));
    }
}

fn print_route(name: &str, route: &Route, printer: &Printer) {
    printer.line(&format!("{name}: {} to {}", route.path.source, route.path.target));
    route.path.hops.iter().for_each(|hop| print_hop(hop, printer));
    let end = format!("{:?}", route.path.end).to_lowercase();
    let distance = route.path.distance.map_or_else(|| format!("   ends: {end}"), |hops| format!("   {hops} hops"));
    printer.line(&distance);
    if let Some(mtu) = &route.mtu {
        printer.line(&format!("   {}", mtu_line(mtu)));
    }
    if let Some(sweep) = &route.sweep {
        print_sweep(sweep, printer);
    }
}

fn print_hop(hop: &Hop, printer: &Printer) {
    let routers: Vec<String> = hop.routers.iter().map(|router| router.address.clone()).collect();
    let who = if routers.is_empty() { "*".to_owned() } else { routers.join(" or ") };
    let rtt = match (hop.rtt_min_s, hop.rtt_median_s) {
        (Some(min), Some(median)) => format!("{:.2} ms, median {:.2} ms", min * 1e3, median * 1e3),
        _ => "no answer".to_owned(),
    };
    let silent = match hop.sent.saturating_sub(hop.answered) {
        0 => String::new(),
        silent if hop.answered == 0 => format!(" to {silent} probes"),
        silent => format!(", {silent} of {} without an answer", hop.sent),
    };
    printer.line(&format!("   {:>2}  {who:<40} {rtt}{silent}", hop.ttl));
}

fn mtu_line(mtu: &Mtu) -> String {
    let bound = match mtu.bound {
        MtuBound::Interface => " (this end's interface; the path may carry more)",
        MtuBound::Path => "",
        MtuBound::Limit => " (no larger ones were tried)",
    };
    let hole = if mtu.black_hole {
        "; larger packets are lost without an ICMP message (a black hole: ICMP \"too big\" is filtered, or an MTU is wrong)"
    } else {
        ""
    };
    format!("packets of up to {} bytes pass{bound}{hole}", mtu.mtu_bytes)
}

/// The loss on one path of a sweep. Only a node answers each probe; other hosts limit the rate of their ICMP messages.
fn swept_path_line(path: &SweepPath, is_judged: bool) -> String {
    let flows = path.ports.len();
    let silent = path.sent.saturating_sub(path.answered);
    let what = match (is_judged, silent) {
        (true, _) => "lost",
        (false, 0) => "unanswered",
        (false, _) => "unanswered (hosts limit such answers; this says nothing of loss)",
    };
    format!("{flows} flows, {silent} of {} probes {what}", path.sent)
}

fn print_sweep(sweep: &Sweep, printer: &Printer) {
    printer.line(&format!("   {} paths for {} flows", sweep.paths.len(), sweep.flows.len()));
    for (at, path) in sweep.paths.iter().enumerate() {
        printer.line(&format!("   path {at}: {}", swept_path_line(path, sweep.judged)));
    }
    for suspect in &sweep.suspects {
        printer.line(&format!("   suspect: {}", suspect.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_answers_of_a_host_without_a_node_are_not_called_loss() {
        let path = SweepPath { ports: vec![1, 2], sent: 400, answered: 12, ..SweepPath::default() };
        assert_eq!(swept_path_line(&path, true), "2 flows, 388 of 400 probes lost");
        let wanted = "2 flows, 388 of 400 probes unanswered (hosts limit such answers; this says nothing of loss)";
        assert_eq!(swept_path_line(&path, false), wanted);
        let odd = SweepPath { answered: 401, ..path };
        assert_eq!(swept_path_line(&odd, false), "2 flows, 0 of 400 probes unanswered", "more answers than probes");
    }
}
