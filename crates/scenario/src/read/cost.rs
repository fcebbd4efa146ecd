//! Reads costs.
//!
//! Does not know: their sum.

use model::money::Money;
use model::units::UnitError;

use super::facts;
use crate::planning::Cost;
use crate::problem::Problem;
use crate::quantity;
use crate::source::{Entry, Table};

pub(super) const COST_REMEDY: &str = "write a table with a header, like [cost.primary-links]";
const COST_WORDS: [&str; 10] =
    ["option", "count", "once", "per_year", "since", "until", "term", "spread", "prices", "source"];

/// Reads a cost.
pub(super) fn cost(entry: &Entry) -> Result<Cost, Problem> {
    let table = entry.table(COST_REMEDY)?;
    table.only(&COST_WORDS, "a cost")?;
    const COUNT_REMEDY: &str = "write how many, above 0, without quotes";
    let cost = Cost {
        name: entry.key.clone(),
        line: entry.line,
        option: facts::text(table, "option")?,
        count: table.get("count").map_or(Ok(1.0), |entry| quantity::number(entry, 0.0..=1e12, COUNT_REMEDY))?,
        once: money(table, "once")?,
        per_year: money(table, "per_year")?,
        years: facts::years(table)?,
        term: table.get("term").map(|entry| entry.whole(1..=100)).transpose()?,
        spread: table.get("spread").map_or(Ok(0.0), quantity::probability)?,
        prices: table.get("prices").map(facts::year).transpose()?,
        source: facts::text(table, "source")?,
    };
    match (cost.once, cost.per_year) {
        (None, None) => Err(entry.problem(
            format!("{} costs nothing", entry.key),
            "add a price, like once = \"50kEUR\" or per_year = \"15kEUR\"",
        )),
        (Some(once), Some(per_year)) if once.currency != per_year.currency => Err(entry.problem(
            format!("{} has prices in {} and in {}", entry.key, once.currency, per_year.currency),
            "write two costs: amounts of two currencies are not added",
        )),
        _ => Ok(cost),
    }
}

fn money(table: &Table, key: &str) -> Result<Option<Money>, Problem> {
    let Some(entry) = table.get(key) else { return Ok(None) };
    let text = entry.text("write it with its currency, in quotes, like \"50kEUR\"")?;
    text.parse().map(Some).map_err(|error: UnitError| entry.wrong(error.remedy))
}
