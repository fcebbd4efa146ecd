//! Reads the words of sites and paths that planning needs.
//!
//! Does not know: the words of the lab in the same tables.

use crate::planning::{LinkFacts, SiteFacts, Years};
use crate::problem::Problem;
use crate::source::{Entry, Table, Value};
use crate::{Scenario, quantity};

/// The planning words of a site.
pub(super) const SITE_FACTS: [&str; 11] = [
    "group",
    "country",
    "position",
    "nodes",
    "node_rate",
    "disk_rate",
    "read_rate",
    "write_rate",
    "tape_rate",
    "disk",
    "mark",
];
/// The planning words of a path.
pub(super) const LINK_FACTS: [&str; 6] = ["distance", "owner", "shared_risk", "since", "until", "mark"];

const NAMES_REMEDY: &str = "write a name in quotes, or a list of names";
const POSITION_REMEDY: &str = "write degrees north and east, like [51.5, -0.1]";
/// The longest cable is 45,000 km.
const DISTANCE_MAX_KM: f64 = 100_000.0;
const YEARS: std::ops::RangeInclusive<i128> = 1970..=2200;

/// Reads the facts of a site.
pub(super) fn site(table: &Table) -> Result<SiteFacts, Problem> {
    let rate =
        |key: &str| table.get(key).map(|entry| quantity::rate(entry, "leave it out if there is none")).transpose();
    let disk_rate = rate("disk_rate")?;
    Ok(SiteFacts {
        groups: table.get("group").map(names).transpose()?.unwrap_or_default(),
        country: text(table, "country")?,
        position: table.get("position").map(position).transpose()?,
        nodes: table.get("nodes").map(|entry| entry.whole(1..=1_000_000)).transpose()?,
        node_rate: rate("node_rate")?,
        read_rate: rate("read_rate")?.or(disk_rate),
        write_rate: rate("write_rate")?.or(disk_rate),
        tape_rate: rate("tape_rate")?,
        disk: table.get("disk").map(quantity::size).transpose()?,
        mark: table.get("mark").map(mark).transpose()?,
    })
}

/// Reads the facts of the link that a path stands for.
pub(super) fn link(table: &Table) -> Result<LinkFacts, Problem> {
    Ok(LinkFacts {
        distance_km: table.get("distance").map(distance).transpose()?,
        owner: text(table, "owner")?,
        shared_risk: table.get("shared_risk").map(names).transpose()?.unwrap_or_default(),
        years: years(table)?,
        mark: table.get("mark").map(mark).transpose()?,
    })
}

/// `since` and `until`.
pub(super) fn years(table: &Table) -> Result<Years, Problem> {
    let year = |key: &str| table.get(key).map(|entry| entry.whole::<u16>(YEARS)).transpose();
    let years = Years { from: year("since")?, until: year("until")? };
    match (years.from, years.until, table.get("until")) {
        (Some(from), Some(until), Some(entry)) if until < from => {
            let what = format!("until = {until} is before since = {from}");
            Err(entry.problem(what, "write the first and the last year, in this order"))
        }
        _ => Ok(years),
    }
}

/// A year.
pub(super) fn year(entry: &Entry) -> Result<u16, Problem> {
    entry.whole(YEARS)
}

/// A string.
pub(super) fn text(table: &Table, key: &str) -> Result<Option<String>, Problem> {
    let Some(entry) = table.get(key) else { return Ok(None) };
    Ok(Some(entry.text("write it in quotes")?.to_owned()))
}

/// One name, or a list of names.
fn names(entry: &Entry) -> Result<Vec<String>, Problem> {
    let items = match &entry.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(entry),
    };
    items.iter().map(|item| item.text(NAMES_REMEDY).map(str::to_owned)).collect()
}

/// Refuses what leads from a site to itself.
pub(super) fn check_ends(entry: &Entry, from: usize, to: usize, scenario: &Scenario) -> Result<(), Problem> {
    if from != to {
        return Ok(());
    }
    let what = format!("{} leads from {} to itself", entry.key, scenario.sites[from].name);
    Err(entry.problem(what, "name another site, or leave it out"))
}

fn position(entry: &Entry) -> Result<[f64; 2], Problem> {
    let [north, east] = entry.list(POSITION_REMEDY)? else { return Err(entry.wrong(POSITION_REMEDY)) };
    let north = quantity::number(north, -90.0..=90.0, POSITION_REMEDY)?;
    let east = quantity::number(east, -180.0..=180.0, POSITION_REMEDY)?;
    Ok([north, east])
}

/// `"4600km"`.
fn distance(entry: &Entry) -> Result<f64, Problem> {
    const REMEDY: &str = "write kilometres with their unit, in quotes, like \"4600km\"";
    let number = entry.text(REMEDY)?.trim().strip_suffix("km").and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(km) if km > 0.0 && km <= DISTANCE_MAX_KM => Ok(km),
        _ => Err(entry.wrong(REMEDY)),
    }
}

fn mark(entry: &Entry) -> Result<f64, Problem> {
    match quantity::probability(entry)? {
        0.0 => Err(entry.problem("mark is zero", "write the share that transfers may use, like \"80%\"")),
        share => Ok(share),
    }
}
