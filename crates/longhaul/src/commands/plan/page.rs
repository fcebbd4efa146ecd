//! `plan report`: one page with demand, cost, links and simulation; every number with its formula, inputs and source behind it.

use std::path::Path;

use model::Exit;
use model::fault::Fault;
use model::figure::Figure;
use model::v1::plan::{PlanMoment, PlanSimulation};
use plan::replication::ReplicaFigures;
use report::html::{self, Plot, Scale, Step, Table};

use super::figure_list::figure_list;
use super::{LoadedScenario, check, figures, link_page, map, replicas, show_rate, show_time, simulation};
use crate::args::PlanReport;
use crate::failure::Failure;
use crate::printer::Printer;

/// The years that the report adds costs over.
const COST_YEARS: u16 = 10;

/// Writes the page.
///
/// # Errors
/// The page cannot be written.
pub fn run(args: &PlanReport, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let network = loaded.network();
    let mut body = format!("<h1>{}</h1>", html::brief(&loaded.name));
    body += &findings(loaded);
    if !loaded.scenario.flows.is_empty() {
        body += "<h2>Demand</h2>";
        body += &figure_list(&figures::demand_figures(20.0, None, loaded)?);
        body += &link_page::section(loaded, &network);
    }
    if !loaded.scenario.costs.is_empty() {
        let since = loaded.year.or(loaded.scenario.demand.year).unwrap_or(2024);
        body += "<h2>Cost</h2>";
        body += &figure_list(&figures::cost_figures(since, since + COST_YEARS - 1, loaded));
        body += &replica_section(since, loaded);
    }
    if !loaded.scenario.work.is_empty() {
        let outcome = simulation::run_to_the_end(loaded, printer)?;
        body += &simulation_section(loaded, &outcome.document(&loaded.name, loaded.scenario.seed, loaded.year));
    }
    write(&args.out, &html::page(&loaded.name, &body))?;
    if printer.is_chatty() {
        printer.line(&format!("written to {}", args.out.display()));
    }
    Ok(Exit::Done)
}

/// A page about one simulation.
pub fn simulation(loaded: &LoadedScenario, document: &PlanSimulation) -> String {
    let title = format!("Simulation of {}", loaded.name);
    let body = format!("<h1>{}</h1>{}", html::brief(&title), simulation_section(loaded, document));
    html::page(&title, &body)
}

/// Writes a page to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, page: &str) -> Result<(), Failure> {
    let fault = Fault::Storage;
    std::fs::write(file, page).map_err(|error| Failure {
        exit: fault.into(),
        fault,
        message: format!("cannot write the page to {}: {error}", file.display()),
    })
}

fn findings(loaded: &LoadedScenario) -> String {
    let items: String =
        check::findings(loaded).iter().map(|finding| format!("<li>{}</li>", html::brief(finding))).collect();
    if items.is_empty() { String::new() } else { format!("<h2>What cannot work</h2><ul class=\"bad\">{items}</ul>") }
}

/// The replica scenarios in a table, with their figures below.
fn replica_section(since: u16, loaded: &LoadedScenario) -> String {
    let all = replicas::all(since, since + COST_YEARS - 1, loaded);
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new("numbers", "Ways to keep replicas", &replicas::HEADS);
    all.iter().for_each(|of| table.row(&replicas::row(of)));
    let figures: Vec<Figure> = all.iter().flat_map(ReplicaFigures::all).collect();
    format!("<h2>Replicas</h2>{}{}", table.end(), figure_list(&figures))
}

fn simulation_section(loaded: &LoadedScenario, document: &PlanSimulation) -> String {
    let state = match (document.stopped, document.complete) {
        (true, _) => "stopped before its end",
        (false, true) => "all work done",
        (false, false) => "not all done when the simulated time was over",
    };
    let mut body = format!(
        "<h2>Simulation</h2><div class=\"verdict\"><p>{} simulated, {} events: {state}.</p></div>",
        show_time(document.simulated_s),
        document.events
    );
    body += &work_table(document);
    body += &map::of_simulation(loaded, document);
    body += &course_charts(&document.course);
    let mut table =
        Table::new("numbers", "The fullest first", &["resource", "usable", "mean", "peak", "bound queues for"]);
    for resource in &document.resources {
        table.row(&[
            resource.name.clone(),
            resource.usable_bit_s.map_or("not stated".to_owned(), show_rate),
            show_rate(resource.mean_bit_s),
            show_rate(resource.peak_bit_s),
            format!("{:.0} %", resource.bound * 100.0),
        ]);
    }
    body + &table.end()
}

fn work_table(document: &PlanSimulation) -> String {
    let heads = ["work", "files", "done", "late", "repeated", "last", "median", "95 %", "99 %"];
    let mut table = Table::new("numbers", "Times count from the arrival of a file at its source", &heads);
    for work in &document.work {
        table.row(&[
            work.name.clone(),
            work.files.to_string(),
            work.done.to_string(),
            work.late.to_string(),
            work.failed.to_string(),
            show_time(work.last_s),
            show_time(work.took.median_s),
            show_time(work.took.p95_s),
            show_time(work.took.p99_s),
        ]);
    }
    table.end()
}

fn course_charts(course: &[PlanMoment]) -> String {
    let end = course.last().map_or(0.0, |last| last.at_s);
    let steps = |value: &dyn Fn(&PlanMoment) -> f64| -> Vec<Step> {
        let step = |pair: &[PlanMoment]| Step { from: pair[0].at_s, to: pair[1].at_s, low: 0.0, high: value(&pair[1]) };
        course.windows(2).map(step).collect()
    };
    let most = |value: &dyn Fn(&PlanMoment) -> f64| course.iter().map(value).fold(0.0, f64::max);
    let rate = |moment: &PlanMoment| moment.rate_bit_s;
    let buffered = |moment: &PlanMoment| moment.buffered_bytes / 1e12;
    let mut rates = Plot::new(
        "rate",
        "Rate of all transfers",
        "in the simulated time",
        Scale::seconds(end),
        Scale::rate(most(&rate)),
    );
    rates.line(0, &steps(&rate));
    let y = Scale::plain(most(&buffered), "TB");
    let mut buffers = Plot::new(
        "buffers",
        "Data that wait at their sources",
        "files that have arrived there and not begun",
        Scale::seconds(end),
        y,
    );
    buffers.line(1, &steps(&buffered));
    rates.figure("") + &buffers.figure("")
}
