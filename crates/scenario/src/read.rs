//! Reads the text of a scenario: sites first, then paths, then events. Each is checked as it is read.
//!
//! Does not know: checks that need the whole scenario (see `check`).

mod address;
mod background;
mod change;
mod cost;
mod facts;
mod flow;
mod link_settings;
mod path;
mod replicas;
mod route;
mod site;
mod work;

use std::time::Duration;

use super::problem::Problem;
use super::source::{Entry, Table};
use super::{Event, Scenario, quantity};

pub(super) use path::site_of;

/// The most sites that the lab has. More would measure the lab, not the network.
pub const LAB_SITES_MAX: usize = 64;
/// The most that a file may describe.
const SITES_MAX: usize = 4_096;
const PATHS_MAX: usize = 20_000;
/// In the lab there is a route from each interface to each other one.
const LAB_INTERFACES_MAX: usize = 128;
const LAB_PATHS_MAX: usize = 250;
/// Each entry of a list is an aggregate of the simulator, or a line of a table.
const ENTRIES_MAX: usize = 10_000;
const SCALE_REMEDY: &str = "write what the lab divides rates by, from 1 to 1000000, without quotes, like scale = 100";
const ROOT_WORDS: [&str; 14] = [
    "seed",
    "memory",
    "scale",
    "site",
    "path",
    "event",
    "route",
    "demand",
    "flow",
    "work",
    "cost",
    "replicas",
    "background",
    "simulate",
];
/// No lab lives longer, so a later event never happens. Sums of such times do not overflow.
const END_OF_TIME: Duration = Duration::from_secs(1_000_000_000);

const SITE_REMEDY: &str = "write a table with a header, like [site.canberra]";
const PATH_REMEDY: &str = "write a table with a header, like [path.canberra-paris]";
const EVENT_REMEDY: &str = "write a table with a header in double brackets: [[event]]";

/// The lines of a file, for checks that need the whole scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioLines {
    /// Of each interface of each site: the line of its address, or of the table that implies it.
    pub addresses: Vec<Vec<usize>>,
    /// The lines of each path.
    pub paths: Vec<PathLines>,
}

/// The lines of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathLines {
    /// The line of its header.
    pub header: usize,
    /// The line of the `via` of each direction, or that of the header.
    pub via: [usize; 2],
}

/// Reads a whole scenario.
pub(super) fn scenario(text: &str) -> Result<(Scenario, ScenarioLines), Problem> {
    let root = Table::parse(text)?;
    root.only(&ROOT_WORDS, "a scenario")?;
    let seed = root.get("seed").map(|entry| entry.whole(0..=i128::from(u64::MAX))).transpose()?;
    let scale = |entry| quantity::number(entry, 1.0..=1e6, SCALE_REMEDY);
    let mut scenario = Scenario {
        seed: seed.unwrap_or(0),
        memory: root.get("memory").map(quantity::size).transpose()?,
        sites: Vec::new(),
        paths: Vec::new(),
        events: Vec::new(),
        scale: root.get("scale").map_or(Ok(1.0), scale)?,
        routes: Vec::new(),
        demand: root.get("demand").map(flow::demand).transpose()?.unwrap_or_default(),
        flows: Vec::new(),
        work: Vec::new(),
        costs: Vec::new(),
        background: Vec::new(),
        replicas: Vec::new(),
        simulation: root.get("simulate").map(work::simulation).transpose()?.unwrap_or_default(),
    };
    let mut lines = ScenarioLines::default();
    sites(&root, &mut scenario, &mut lines)?;
    paths(&root, &mut scenario, &mut lines)?;
    scenario.events = events(&root, &scenario)?;
    for entry in bounded(&root, "route", route::ROUTE_REMEDY)? {
        scenario.routes.push(route::route(entry, &scenario)?);
    }
    for entry in bounded(&root, "flow", flow::FLOW_REMEDY)? {
        scenario.flows.push(flow::flow(entry, &scenario)?);
    }
    for entry in bounded(&root, "work", work::WORK_REMEDY)? {
        scenario.work.push(work::work(entry, &scenario)?);
    }
    for entry in bounded(&root, "cost", cost::COST_REMEDY)? {
        scenario.costs.push(cost::cost(entry)?);
    }
    for entry in bounded(&root, "replicas", replicas::REPLICAS_REMEDY)? {
        scenario.replicas.push(replicas::replicas(entry, &scenario)?);
    }
    for entry in bounded(&root, "background", background::BACKGROUND_REMEDY)? {
        scenario.background.push(background::background(entry, &scenario)?);
    }
    Ok((scenario, lines))
}

fn sites(root: &Table, scenario: &mut Scenario, lines: &mut ScenarioLines) -> Result<(), Problem> {
    let entries = tables(root, "site", SITE_REMEDY)?;
    let is_for_lab = entries.len() <= LAB_SITES_MAX;
    for (number, entry) in entries.iter().enumerate() {
        if number == SITES_MAX {
            return Err(entry.problem(format!("more than {SITES_MAX} sites"), "describe fewer"));
        }
        let (mut site, addresses) = site::read(entry, number + 1)?;
        if !is_for_lab {
            // Addresses that are given out would not be unique, and planning needs none.
            site.interfaces.iter_mut().for_each(|interface| (interface.v4, interface.v6) = (None, None));
        }
        scenario.sites.push(site);
        let interfaces = scenario.sites.iter().map(|site| site.interfaces.len()).sum::<usize>();
        if is_for_lab && interfaces > LAB_INTERFACES_MAX {
            return Err(entry.problem(format!("more than {LAB_INTERFACES_MAX} interfaces in all"), "describe fewer"));
        }
        lines.addresses.push(addresses);
    }
    if scenario.sites.is_empty() {
        return Err(Problem::new(1, "there is no site", "write at least one, like [site.canberra]"));
    }
    Ok(())
}

fn paths(root: &Table, scenario: &mut Scenario, lines: &mut ScenarioLines) -> Result<(), Problem> {
    let most = if scenario.sites.len() <= LAB_SITES_MAX { LAB_PATHS_MAX } else { PATHS_MAX };
    for (number, entry) in tables(root, "path", PATH_REMEDY)?.iter().enumerate() {
        if number == most {
            return Err(entry.problem(format!("more than {most} paths"), "describe fewer"));
        }
        let (path, path_lines) = path::read(entry, scenario)?;
        scenario.paths.push(path);
        lines.paths.push(path_lines);
    }
    Ok(())
}

/// The entries of a table of tables that is not too long.
fn bounded<'t>(root: &'t Table, key: &str, remedy: &str) -> Result<&'t [Entry], Problem> {
    let entries = tables(root, key, remedy)?;
    match entries.get(ENTRIES_MAX) {
        None => Ok(entries),
        Some(entry) => Err(entry.problem(format!("more than {ENTRIES_MAX} tables of {key}"), "describe fewer")),
    }
}

/// The entries of a table of tables; none if the table is missing.
fn tables<'t>(root: &'t Table, key: &str, remedy: &str) -> Result<&'t [Entry], Problem> {
    match root.get(key) {
        Some(entry) => Ok(&entry.table(remedy)?.entries),
        None => Ok(&[]),
    }
}

fn events(root: &Table, scenario: &Scenario) -> Result<Vec<Event>, Problem> {
    let Some(entry) = root.get("event") else { return Ok(Vec::new()) };
    let mut events = Vec::new();
    for item in entry.list(EVENT_REMEDY)? {
        events.push(event(item, scenario)?);
    }
    // The sort is stable: events of one time keep the order of the file.
    events.sort_by_key(|event: &Event| event.at);
    Ok(events)
}

fn event(item: &Entry, scenario: &Scenario) -> Result<Event, Problem> {
    let table = item.table(EVENT_REMEDY)?;
    table.only(&["at", "path", "site", "direction", "member", "set", "for"], "an event")?;
    let at = table.get("at").ok_or_else(|| item.problem("the event has no time", "add one, like at = \"30s\""))?;
    let set = table
        .get("set")
        .ok_or_else(|| item.problem("the event changes nothing", "write the change, like set = { down = true }"))?;
    let target = change::target(item, table, scenario)?;
    let words = set.table("write a table, like set = { down = true }")?;
    let change = change::read(scenario, target, set.line, &words.entries)?;
    let lasts = table.get("for").map(duration).transpose()?;
    Ok(Event { at: quantity::time(at)?.min(END_OF_TIME), change, lasts })
}

fn duration(entry: &Entry) -> Result<Duration, Problem> {
    match quantity::time(entry)? {
        Duration::ZERO => Err(entry.problem("for is zero", "leave it out for a change that stays")),
        time => Ok(time.min(END_OF_TIME)),
    }
}
