//! Routes for scratch places.

use std::sync::Arc;

use model::Fault;
use model::id::Uuid;
use model::v1::node::{ScratchChange, ScratchFiles, ScratchOrder};

use super::answer::{read, send};
use super::required_id;
use crate::http::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::scratch::{NOT_OFFERED, Orderer, ScratchPlaces, ScratchRefused, no_right};

impl From<ScratchRefused> for RequestFailure {
    fn from(refused: ScratchRefused) -> RequestFailure {
        use ScratchRefused as Why;
        let reason = refused.to_string();
        let later =
            |seconds: &str| -> RequestFailure { Refused::new(503, reason.clone()).with("Retry-After", seconds).into() };
        match refused {
            Why::Unknown(_) => refuse(404, reason),
            Why::Lifetime(_) | Why::Files(_) => refuse(400, reason),
            Why::IdTaken(_) => refuse(409, reason),
            Why::Ending(_) => later("1"),
            Why::Full | Why::Stopping => later("60"),
            Why::NodeQuota { .. } | Why::PlaceQuota { .. } | Why::Paths => {
                Refused { fault: Some(Fault::Storage), ..Refused::new(507, reason) }.into()
            }
            Why::NoRandom => refuse(500, reason),
            Why::Directory(error) => error.into(),
        }
    }
}

/// The scratch places, for a principal that may order them.
fn places(context: &RequestContext<'_>) -> Outcome<Arc<ScratchPlaces>> {
    let places = context.service.access_control.scratch().ok_or_else(|| refuse(404, NOT_OFFERED))?;
    if !ScratchPlaces::may_order(context.access()) {
        return Err(context.deny(no_right().into()));
    }
    Ok(places)
}

/// POST /api/v1/scratches.
pub(super) fn create(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let places = places(context)?;
    let order: ScratchOrder = read(context, "an order")?;
    let access = context.access();
    let orderer = Orderer { holder: access.holder().to_owned(), who: access.who(), peer: context.exchange.peer() };
    let (place, is_new) = places.order(orderer, &order)?;
    send(context, if is_new { 201 } else { 200 }, &place)
}

/// GET /api/v1/scratches/ID.
pub(super) fn one(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let place = places(context)?.get(context.access().holder(), &id)?;
    send(context, 200, &place)
}

/// PATCH /api/v1/scratches/ID.
pub(super) fn change(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let places = places(context)?;
    let change: ScratchChange = read(context, "a change")?;
    let place = places.renew(context.access().holder(), &id, change.lifetime_s)?;
    send(context, 200, &place)
}

/// DELETE /api/v1/scratches/ID.
pub(super) fn remove(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let place = places(context)?.remove(context.access().holder(), &id)?;
    send(context, 202, &place)
}

/// POST /api/v1/scratches/ID/files.
pub(super) fn make_files(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let places = places(context)?;
    let files: ScratchFiles = read(context, "an order for files")?;
    let place = places.make_files(context.access().holder(), &id, &files)?;
    send(context, 202, &place)
}
