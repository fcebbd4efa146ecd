//! Routes for tests from this node to another.

use model::id::Uuid;
use model::v1::node::{ProbeOrder, ProbeStage, Probes};

use super::answer::{page_query, read, send};
use super::required_id;
use crate::http::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::transfers::{ID_USED_TEXT, Unaccepted};

fn unknown(id: &Uuid) -> RequestFailure {
    refuse(404, format!("there is no test {id} here, or no longer, or you may not see it"))
}

/// POST /api/v1/probes.
pub(super) fn create(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let order: ProbeOrder = read(context, "an order")?;
    match context.service.services.test_orders.accept(context.access(), order) {
        Ok((probe, is_new)) => send(context, if is_new { 201 } else { 200 }, &probe),
        Err(Unaccepted::Refused(refusal)) => Err(context.deny(refusal.into())),
        Err(Unaccepted::IdTaken) => Err(refuse(409, "this id belongs to another order; choose another one")),
        Err(Unaccepted::IdUsed) => Err(refuse(409, ID_USED_TEXT)),
        Err(Unaccepted::Full(why)) => Err(Refused::new(503, why).with("Retry-After", "60").into()),
    }
}

/// GET /api/v1/probes.
pub(super) fn list(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let query = page_query(context, &ProbeStage::ALL, ProbeStage::word)?;
    let page = context.service.services.test_orders.page(context.access().holder(), &query);
    let (probes, next) =
        page.ok_or_else(|| refuse(404, "the test that `after` names is not known here, or no longer"))?;
    send(context, 200, &Probes { probes, next })
}

/// GET /api/v1/probes/ID.
pub(super) fn one(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let found = context.service.services.test_orders.get(context.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(context, 200, &found)
}

/// DELETE /api/v1/probes/ID.
pub(super) fn cancel(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let probe =
        context.service.services.test_orders.cancel(context.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(context, if probe.state.is_last() { 200 } else { 202 }, &probe)
}
