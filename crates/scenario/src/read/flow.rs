//! Reads flows, and how demand is provisioned and grows.
//!
//! Does not know: which links a flow takes.

use super::facts;
use super::path::site_of;
use crate::planning::{DemandSettings, FlowDemand};
use crate::problem::{Problem, instead};
use crate::source::{Entry, Table, Value};
use crate::{Scenario, quantity};

pub(super) const FLOW_REMEDY: &str = "write a table with a header, like [flow.low-to-europe]";
const FLOW_WORDS: [&str; 9] = ["from", "to", "rate", "sum", "via", "switch", "since", "until", "source"];
const DEMAND_WORDS: [&str; 5] = ["burst", "overprovision", "growth", "capacity_growth", "year"];
const SITES_REMEDY: &str = "write the name of a site or a group in quotes, or a list of names";

/// Reads a flow between sites that were read before.
pub(super) fn flow(entry: &Entry, scenario: &Scenario) -> Result<FlowDemand, Problem> {
    let table = entry.table(FLOW_REMEDY)?;
    table.only(&FLOW_WORDS, "a flow")?;
    let from = sites(required(entry, table, "from", "say who sends, like from = \"perth\"")?, scenario)?;
    let to = sites(required(entry, table, "to", "say who receives, like to = [\"london\", \"tier1\"]")?, scenario)?;
    check_pairs(entry, &from, &to, scenario)?;
    let pairs = from.iter().map(|from| to.iter().filter(|to| *to != from).count()).sum::<usize>();
    let flow = FlowDemand {
        name: entry.key.clone(),
        line: entry.line,
        rate_bit_s: rate_of_pair(entry, table, pairs)?,
        from,
        to,
        via: table.get("via").map(|via| sites(via, scenario)).transpose()?.unwrap_or_default(),
        switch: facts::text(table, "switch")?,
        years: facts::years(table)?,
        source: facts::text(table, "source")?,
    };
    Ok(flow)
}

/// The rate of each pair: as stated, or an equal part of a stated sum.
fn rate_of_pair(header: &Entry, table: &Table, pairs: usize) -> Result<f64, Problem> {
    const ZERO: &str = "leave the flow out if nothing flows";
    match (table.get("rate"), table.get("sum")) {
        (Some(rate), None) => Ok(quantity::rate(rate, ZERO)?.0 as f64),
        (None, Some(sum)) => Ok(quantity::rate(sum, ZERO)?.0 as f64 / pairs as f64),
        (Some(_), Some(sum)) => {
            Err(sum.problem("both rate and sum are stated", "write the rate of each pair, or the sum of all"))
        }
        (None, None) => {
            let what = format!("{} has no rate", header.key);
            Err(header.problem(what, "add rate = \"20Gbit/s\" for each pair, or sum = \"400Gbit/s\" for all"))
        }
    }
}

/// Reads how demand is provisioned.
pub(super) fn demand(entry: &Entry) -> Result<DemandSettings, Problem> {
    let table = entry.table("write a table with a header: [demand]")?;
    table.only(&DEMAND_WORDS, "a demand")?;
    let factor = |key: &str| {
        const REMEDY: &str = "write a factor from 1 to 100, without quotes";
        table.get(key).map_or(Ok(1.0), |entry| quantity::number(entry, 1.0..=100.0, REMEDY))
    };
    let growth = |key: &str| table.get(key).map_or(Ok(0.0), growth);
    Ok(DemandSettings {
        burst: factor("burst")?,
        overprovision: factor("overprovision")?,
        growth: growth("growth")?,
        capacity_growth: growth("capacity_growth")?,
        year: table.get("year").map(facts::year).transpose()?,
    })
}

/// `"40%"`: growth in a year, which may be more than 100 %.
fn growth(entry: &Entry) -> Result<f64, Problem> {
    const REMEDY: &str = "write the growth of a year in quotes, like \"40%\", from 0% to 1000%";
    let percent = entry.text(REMEDY)?.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(entry.wrong(REMEDY)),
    }
}

/// An entry that must be there.
pub(super) fn required<'t>(header: &Entry, table: &'t Table, key: &str, remedy: &str) -> Result<&'t Entry, Problem> {
    table.get(key).ok_or_else(|| header.problem(format!("{} has no {key}", header.key), remedy))
}

/// Sites by their names or the names of their groups, each once, in the order of the entry.
pub(super) fn sites(entry: &Entry, scenario: &Scenario) -> Result<Vec<usize>, Problem> {
    let items = match &entry.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(entry),
    };
    let mut found = Vec::new();
    for item in items {
        let name = item.text(SITES_REMEDY)?;
        for site in members(item, name, scenario)? {
            if !found.contains(&site) {
                found.push(site);
            }
        }
    }
    if found.is_empty() { Err(entry.problem(format!("{} names no site", entry.key), SITES_REMEDY)) } else { Ok(found) }
}

/// The site of this name, or the sites of the group of this name.
fn members(item: &Entry, name: &str, scenario: &Scenario) -> Result<Vec<usize>, Problem> {
    let is_member = |site: &usize| scenario.sites[*site].facts.groups.iter().any(|group| group == name);
    let members: Vec<usize> = (0..scenario.sites.len()).filter(is_member).collect();
    if !members.is_empty() {
        return Ok(members);
    }
    site_of(item, name, scenario).map(|site| vec![site]).map_err(|_| {
        let groups = scenario.sites.iter().flat_map(|site| site.facts.groups.iter().map(String::as_str));
        let names = scenario.sites.iter().map(|site| site.name.as_str()).chain(groups);
        item.problem(format!("there is no site or group {name:?}"), instead(name, names))
    })
}

/// Refuses a flow or work that has no pair of different sites.
pub(super) fn check_pairs(entry: &Entry, from: &[usize], to: &[usize], scenario: &Scenario) -> Result<(), Problem> {
    match (from, to) {
        ([one], [other]) => facts::check_ends(entry, *one, *other, scenario),
        _ => Ok(()),
    }
}
