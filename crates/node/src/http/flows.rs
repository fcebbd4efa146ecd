//! `/api/v1/flows`: the top talkers. A principal that may see the whole node reads about all addresses and users; any other
//! principal reads about itself.

use super::metrics::{require_get, send_text};
use super::refused::{Outcome, refuse};
use super::request_context::RequestContext;
use crate::flows::FlowQuery;

/// Rows of each table by default.
const TOP: usize = 20;
/// The greatest number of rows of each table: as many as a table has.
const TOP_MAX: usize = 1000;

/// Answers GET and HEAD of `/api/v1/flows`.
pub(super) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    if context.access().is_anonymous() {
        let refused = refuse(403, "the flows of this node are shown to authenticated clients only");
        return Err(context.deny(refused));
    }
    require_get(context.exchange)?;
    let top = top(context.target.query.as_deref().unwrap_or_default());
    let top = top.ok_or_else(|| refuse(400, format!("top= is a number from 1 to {TOP_MAX}")))?;
    let services = &context.service.services;
    services.update_totals();
    let holder = context.access().holder().to_owned();
    let only = (!context.service.access_control.may_see_all(context.access())).then_some(holder.as_str());
    let report = services.meters.flows.report(&FlowQuery { only, top });
    let text = serde_json::to_string(&report).map_err(|error| refuse(500, error.to_string()))?;
    send_text(context.exchange, "application/json", (text + "\n").as_bytes())
}

/// The number of rows that a query asks for; none if the number is not valid.
fn top(query: &str) -> Option<usize> {
    let value = query.split('&').find_map(|part| part.strip_prefix("top="));
    value.map_or(Some(TOP), |value| value.parse().ok().filter(|top| (1..=TOP_MAX).contains(top)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_rows_has_bounds() {
        assert_eq!((top(""), top("authz=x&top=7"), top("top=1000")), (Some(TOP), Some(7), Some(1000)));
        assert_eq!((top("top=0"), top("top=1001"), top("top=x")), (None, None, None));
    }
}
