//! Answers to the questions about tests from this node to another.

use model::id::Uuid;
use model::v1::node::{ProbeOrder, ProbeStage, Probes};

use super::answer::{asked, read, send};
use super::expect;
use crate::http::refused::{Outcome, Refused, Trouble, refuse};
use crate::http::visit::Visit;
use crate::transfers::{SPENT, Unaccepted};

fn unknown(id: &Uuid) -> Trouble {
    refuse(404, format!("there is no test {id} here (any more), or none that you may know of"))
}

/// POST /api/v1/probes.
pub(super) fn create(visit: &mut Visit<'_>, _: Option<Uuid>) -> Outcome {
    let order: ProbeOrder = read(visit, "an order")?;
    match visit.web.services.test_orders.accept(visit.access(), order) {
        Ok((probe, is_new)) => send(visit, if is_new { 201 } else { 200 }, &probe),
        Err(Unaccepted::Refused(refusal)) => Err(visit.unwelcome(refusal.into())),
        Err(Unaccepted::Known) => Err(refuse(409, "this id is that of another order; choose another one")),
        Err(Unaccepted::Spent) => Err(refuse(409, SPENT)),
        Err(Unaccepted::Full(why)) => Err(Refused::new(503, why).with("Retry-After", "60").into()),
    }
}

/// GET /api/v1/probes.
pub(super) fn list(visit: &mut Visit<'_>, _: Option<Uuid>) -> Outcome {
    let asked = asked(visit, &ProbeStage::ALL, ProbeStage::word)?;
    let page = visit.web.services.test_orders.page(visit.access().holder(), &asked);
    let (probes, next) =
        page.ok_or_else(|| refuse(404, "the test that the page is to begin behind is not known here (any more)"))?;
    send(visit, 200, &Probes { probes, next })
}

/// GET /api/v1/probes/ID.
pub(super) fn one(visit: &mut Visit<'_>, id: Option<Uuid>) -> Outcome {
    let id = expect(id)?;
    let found = visit.web.services.test_orders.get(visit.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(visit, 200, &found)
}

/// DELETE /api/v1/probes/ID.
pub(super) fn cancel(visit: &mut Visit<'_>, id: Option<Uuid>) -> Outcome {
    let id = expect(id)?;
    let left = visit.web.services.test_orders.cancel(visit.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(visit, if left.state.is_last() { 200 } else { 202 }, &left)
}
