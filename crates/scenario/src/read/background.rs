//! Reads background traffic: what others send over a path.
//!
//! Does not know: how the traffic of each hour comes about.

use model::traffic::TrafficShape;

use super::flow::required;
use crate::planning::Background;
use crate::problem::{Problem, instead};
use crate::source::Entry;
use crate::{Scenario, quantity};

pub(super) const BACKGROUND_REMEDY: &str = "write a table with a header, like [background.campus]";
const BACKGROUND_WORDS: [&str; 4] = ["path", "shape", "mean", "later"];
/// No place on Earth has a day that begins later.
const LATER_MAX_S: u64 = 86_400;

/// Reads the background traffic of a path that was read before.
pub(super) fn background(entry: &Entry, scenario: &Scenario) -> Result<Background, Problem> {
    let table = entry.table(BACKGROUND_REMEDY)?;
    table.only(&BACKGROUND_WORDS, "background traffic")?;
    let named = required(entry, table, "path", "say which path others use as well, like path = \"perth-london\"")?;
    let name = named.text("write the name of a path in quotes")?;
    let Some(path) = scenario.paths.iter().position(|path| path.name == name) else {
        return Err(named.problem(format!("there is no path {name:?}"), "name a path of this file"));
    };
    if scenario.paths[path].directions.iter().any(|direction| direction.members[0].rate.is_none()) {
        let what = format!("{name} has no rate, so traffic of others takes nothing from it");
        return Err(named.problem(what, "state the rate of the path"));
    }
    let shape = required(entry, table, "shape", "say how it varies, like shape = \"daily\"")?;
    let names = TrafficShape::ALL.map(TrafficShape::name);
    let text = shape.text(&instead("", names))?;
    let later = table.get("later").map(|later| (later, quantity::time(later)));
    let later = match later {
        None => std::time::Duration::ZERO,
        Some((entry, time)) => {
            let time = time?;
            if time.as_secs() > LATER_MAX_S {
                return Err(entry.problem("later is more than one day", "write at most \"24h\""));
            }
            time
        }
    };
    Ok(Background {
        name: entry.key.clone(),
        line: entry.line,
        path,
        shape: TrafficShape::of_name(text).ok_or_else(|| shape.wrong(instead(text, names)))?,
        mean: quantity::rate(
            required(entry, table, "mean", "add its mean rate, like mean = \"40Gbit/s\"")?,
            "leave the table out if nothing flows",
        )?,
        later,
    })
}
