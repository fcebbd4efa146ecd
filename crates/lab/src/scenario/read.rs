//! Reads the text of a scenario: sites first, then paths, then events. Each is checked as it is read.
//!
//! Does not know: checks that need the whole scenario (see `check`).

mod address;
mod change;
mod link_settings;
mod path;
mod site;

use std::time::Duration;

use super::problem::Problem;
use super::source::{Entry, Table};
use super::{Event, Scenario, quantity};

/// The most that a file may describe. Larger scenarios would measure the lab, not the network.
const SITES_MAX: usize = 64;
const PATHS_MAX: usize = 250;
/// There is a route from each interface to each other one.
const INTERFACES_MAX: usize = 128;
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
    root.only(&["seed", "memory", "site", "path", "event"], "a scenario")?;
    let seed = root.get("seed").map(|entry| entry.whole(0..=i128::from(u64::MAX))).transpose()?;
    let memory = root.get("memory").map(quantity::size).transpose()?;
    let mut scenario = Scenario { seed: seed.unwrap_or(0), memory, sites: vec![], paths: vec![], events: vec![] };
    let mut lines = ScenarioLines::default();

    for (number, entry) in tables(&root, "site", SITE_REMEDY)?.iter().enumerate() {
        if number == SITES_MAX {
            return Err(entry.problem(format!("more than {SITES_MAX} sites"), "describe fewer"));
        }
        let (site, addresses) = site::read(entry, number + 1)?;
        scenario.sites.push(site);
        let interfaces = scenario.sites.iter().map(|site| site.interfaces.len()).sum::<usize>();
        if interfaces > INTERFACES_MAX {
            return Err(entry.problem(format!("more than {INTERFACES_MAX} interfaces in all"), "describe fewer"));
        }
        lines.addresses.push(addresses);
    }
    if scenario.sites.is_empty() {
        return Err(Problem::new(1, "there is no site", "write at least one, like [site.canberra]"));
    }
    for (number, entry) in tables(&root, "path", PATH_REMEDY)?.iter().enumerate() {
        if number == PATHS_MAX {
            return Err(entry.problem(format!("more than {PATHS_MAX} paths"), "describe fewer"));
        }
        let (path, stands) = path::read(entry, &scenario)?;
        scenario.paths.push(path);
        lines.paths.push(stands);
    }
    scenario.events = events(&root, &scenario)?;
    Ok((scenario, lines))
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
        .ok_or_else(|| item.problem("the event changes nothing", "say what changes, like set = { down = true }"))?;
    let target = change::target(item, table, scenario)?;
    let words = set.table("write a table, like set = { down = true }")?;
    let change = change::read(scenario, target, set.line, &words.entries)?;
    let lasts = table.get("for").map(lasting).transpose()?;
    Ok(Event { at: quantity::time(at)?.min(END_OF_TIME), change, lasts })
}

fn lasting(entry: &Entry) -> Result<Duration, Problem> {
    match quantity::time(entry)? {
        Duration::ZERO => Err(entry.problem("for is zero", "leave it out for a change that stays")),
        time => Ok(time.min(END_OF_TIME)),
    }
}
