//! `/api/v1/flows`: the top talkers. A principal that may see the whole node reads about all addresses and users; any other
//! principal reads about itself.

use super::metrics::{only_read, tell};
use super::refused::{Outcome, refuse};
use super::request_context::RequestContext;
use crate::flows::FlowQuery;

/// Rows of each table by default.
const TOP: usize = 20;
/// Rows of each table at most: as many as a table has.
const TOP_MAX: usize = 1000;

/// Answers GET and HEAD of `/api/v1/flows`.
pub(super) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    if context.access().is_guest() {
        let refused = refuse(403, "who moves what through this node is told to those who show who they are");
        return Err(context.deny(refused));
    }
    only_read(context.exchange)?;
    let top = top(context.target.query.as_deref().unwrap_or_default());
    let top = top.ok_or_else(|| refuse(400, format!("top= is a number from 1 to {TOP_MAX}")))?;
    let services = &context.web.services;
    services.settle();
    let holder = context.access().holder().to_owned();
    let only = (!context.web.rules.shows_all_to(context.access())).then_some(holder.as_str());
    let told = services.meters.flows.told(&FlowQuery { only, top });
    let text = serde_json::to_string(&told).map_err(|error| refuse(500, error.to_string()))?;
    tell(context.exchange, "application/json", (text + "\n").as_bytes())
}

/// The rows that a query asks for; none where the number is not valid.
fn top(query: &str) -> Option<usize> {
    let said = query.split('&').find_map(|part| part.strip_prefix("top="));
    said.map_or(Some(TOP), |said| said.parse().ok().filter(|top| (1..=TOP_MAX).contains(top)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_rows() {
        assert_eq!((top(""), top("authz=x&top=7"), top("top=1000")), (Some(TOP), Some(7), Some(1000)));
        assert_eq!((top("top=0"), top("top=1001"), top("top=x")), (None, None, None));
    }
}
