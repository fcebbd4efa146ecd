//! Reads fixed routes.
//!
//! Does not know: the shortest route, or whether the paths of a fixed one are joined.

use super::facts;
use super::flow::required;
use super::path::site_of;
use crate::planning::{Crossing, FixedRoute};
use crate::problem::{Problem, instead};
use crate::source::Entry;
use crate::{Scenario, quantity};

pub(super) const ROUTE_REMEDY: &str = "write a table with a header, like [route.cern-bnl]";
const OVER_REMEDY: &str = "write the names of paths in order, like over = [\"perth-singapore\", \"singapore-london\"]";

/// Reads a fixed route over paths that were read before.
pub(super) fn route(entry: &Entry, scenario: &Scenario) -> Result<FixedRoute, Problem> {
    let table = entry.table(ROUTE_REMEDY)?;
    table.only(&["from", "to", "over", "rtt"], "a route")?;
    let end = |key: &str| {
        let entry = required(entry, table, key, "name both ends, like from = \"cern\" and to = \"bnl\"")?;
        site_of(entry, entry.text("write the name of a site")?, scenario)
    };
    let over = required(entry, table, "over", OVER_REMEDY)?;
    // `!NAME` is crossed from its second end to its first.
    let crossing = |item: &Entry| {
        let text = item.text(OVER_REMEDY)?;
        let name = text.strip_prefix('!').unwrap_or(text);
        let names = scenario.paths.iter().map(|path| path.name.as_str());
        let unknown = || item.problem(format!("there is no path {name:?}"), instead(name, names));
        Ok(Crossing { path: scenario.path(name).ok_or_else(unknown)?, against: name != text })
    };
    let route = FixedRoute {
        name: entry.key.clone(),
        from: end("from")?,
        to: end("to")?,
        over: over.list(OVER_REMEDY)?.iter().map(crossing).collect::<Result<_, _>>()?,
        rtt: table.get("rtt").map(quantity::delay).transpose()?,
    };
    facts::check_ends(entry, route.from, route.to, scenario)?;
    Ok(route)
}
