//! Reads replica scenarios: who keeps copies of what sources produce, and how they get there.
//!
//! Does not know: routes, loads or sums of costs.

use super::facts;
use super::flow::{check_pairs, required, sites};
use super::path::site_of;
use super::work::{time, word};
use crate::planning::{ReplicaScenario, ServingOrder};
use crate::problem::Problem;
use crate::source::{Entry, Table};
use crate::{Scenario, quantity};

pub(super) const REPLICAS_REMEDY: &str = "write a table with a header, like [replicas.parallel]";
const REPLICAS_WORDS: [&str; 12] =
    ["from", "to", "sum", "daily", "order", "copies", "passed_on", "via", "hold", "full", "circuit", "source"];
const VIA_REMEDY: &str = "write which source goes over which site, like via = { perth = \"singapore\" }";
const IDLE: &str = "leave the rate out if nothing flows";
/// The circuit that oceans are crossed with, unless the scenario says another.
const CIRCUIT_BIT_S: f64 = 100e9;

/// Reads a replica scenario between sites that were read before.
pub(super) fn replicas(entry: &Entry, scenario: &Scenario) -> Result<ReplicaScenario, Problem> {
    let table = entry.table(REPLICAS_REMEDY)?;
    table.only(&REPLICAS_WORDS, "a replica scenario")?;
    let from = sites(required(entry, table, "from", "say who produces data, like from = \"telescope\"")?, scenario)?;
    let to = sites(required(entry, table, "to", "say who keeps copies, like to = \"centre\"")?, scenario)?;
    check_pairs(entry, &from, &to, scenario)?;
    let sum = required(entry, table, "sum", "add what each source sends for one copy, like sum = \"100Gbit/s\"")?;
    let orders = [("parallel", ServingOrder::Parallel), ("in-turn", ServingOrder::InTurn)];
    let replicas = ReplicaScenario {
        name: entry.key.clone(),
        line: entry.line,
        sum_bit_s: quantity::rate(sum, IDLE)?.0 as f64,
        daily: table.get("daily").map(quantity::size).transpose()?,
        order: word(table, "order", &orders)?,
        copies: table.get("copies").map_or(Ok(1), |entry| entry.whole(1..=to.len() as i128))?,
        passed_on: table.get("passed_on").map_or(Ok(false), Entry::truth)?,
        via: table.get("via").map_or(Ok(Vec::new()), |entry| via(entry, &from, scenario))?,
        hold: time(table, "hold")?,
        full: table.get("full").map_or(Ok(Vec::new()), |entry| sites(entry, scenario))?,
        circuit_bit_s: table
            .get("circuit")
            .map_or(Ok(CIRCUIT_BIT_S), |entry| Ok(quantity::rate(entry, IDLE)?.0 as f64))?,
        source: facts::text(table, "source")?,
        from,
        to,
    };
    check(table, &replicas, scenario)?;
    Ok(replicas)
}

fn via(entry: &Entry, from: &[usize], scenario: &Scenario) -> Result<Vec<(usize, usize)>, Problem> {
    let mut pairs = Vec::new();
    for item in &entry.table(VIA_REMEDY)?.entries {
        let source = site_of(item, &item.key, scenario)?;
        if !from.contains(&source) {
            return Err(item.problem(format!("{} is no source", item.key), "name sites of from"));
        }
        let over = site_of(item, item.text(VIA_REMEDY)?, scenario)?;
        facts::check_ends(item, source, over, scenario)?;
        pairs.push((source, over));
    }
    Ok(pairs)
}

/// Refuses words that contradict each other.
fn check(table: &Table, replicas: &ReplicaScenario, scenario: &Scenario) -> Result<(), Problem> {
    if let Some(hold) = table.get("hold") {
        let lacks = replicas.from.iter().find(|source| !replicas.via.iter().any(|(from, _)| from == *source));
        if let Some(source) = lacks {
            let name = &scenario.sites[*source].name;
            let what = format!("nobody holds the data of {name}");
            return Err(hold.problem(what, format!("name the site, like via = {{ {name} = \"london\" }}")));
        }
    }
    if let Some(passed_on) = table.get("passed_on").filter(|_| replicas.passed_on && replicas.copies < 2) {
        return Err(passed_on.problem("one copy is passed on to nobody", "add copies = 2, or leave passed_on out"));
    }
    let is_in_turn = replicas.order == ServingOrder::InTurn;
    let idle = ["copies", "passed_on", "hold", "full"].into_iter().find_map(|key| table.get(key));
    match idle.filter(|_| is_in_turn) {
        None => Ok(()),
        Some(idle) => {
            let what = format!("{} does not go with order = \"in-turn\"", idle.key);
            Err(idle.problem(what, "leave one of the two out: in turn, one site gets one copy of all for a while"))
        }
    }
}
