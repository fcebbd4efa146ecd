//! Routes for schedules and their measurements.

use std::time::Duration;

use model::id::Uuid;
use model::v1::node::{Schedule, Schedules};
use web::target::pairs;

use super::answer::{read, send};
use super::required_id;
use crate::http::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::measurements::{PAGE_MAX, WAIT_S_MAX};
use crate::transfers::{ID_USED_TEXT, Unaccepted};

fn unknown(id: &Uuid) -> RequestFailure {
    refuse(404, format!("there is no schedule {id} here, or you may not see it"))
}

/// POST /api/v1/schedules.
pub(super) fn create(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let schedule: Schedule = read(context, "a schedule")?;
    match context.service.services.schedules.accept(context.access(), schedule) {
        Ok((status, is_new)) => send(context, if is_new { 201 } else { 200 }, &status),
        Err(Unaccepted::Refused(refusal)) => Err(context.deny(refusal.into())),
        Err(Unaccepted::IdTaken) => {
            Err(refuse(409, "this id belongs to another schedule; remove that one, or choose another id"))
        }
        Err(Unaccepted::IdUsed) => Err(refuse(409, ID_USED_TEXT)),
        Err(Unaccepted::Full(why)) => Err(Refused::new(503, why).with("Retry-After", "600").into()),
    }
}

/// GET /api/v1/schedules.
pub(super) fn list(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let schedules = context.service.services.schedules.list(context.access().holder());
    send(context, 200, &Schedules { schedules })
}

/// GET /api/v1/schedules/ID.
pub(super) fn one(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let found = context.service.services.schedules.get(context.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(context, 200, &found)
}

/// DELETE /api/v1/schedules/ID.
pub(super) fn remove(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let removed =
        context.service.services.schedules.remove(context.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(context, 200, &removed)
}

/// GET /api/v1/measurements.
pub(super) fn measurements(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let mut after = 0u64;
    let mut limit = PAGE_MAX;
    let mut wait_s = 0.0f64;
    for (name, value) in pairs(context.target.query.as_deref().unwrap_or_default()) {
        let wrong = || {
            let reason = format!(
                "the parameters are after, a number, limit, from 1 to {PAGE_MAX}, and wait_s, from 0 to {WAIT_S_MAX}"
            );
            refuse(400, reason)
        };
        match name.as_str() {
            "after" => after = value.parse().map_err(|_| wrong())?,
            "limit" => limit = value.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit)).ok_or_else(wrong)?,
            "wait_s" => {
                wait_s = value.parse().ok().filter(|wait| (0.0..=WAIT_S_MAX).contains(wait)).ok_or_else(wrong)?
            }
            "authz" | "access_token" | "" => {}
            _ => return Err(wrong()),
        }
    }
    let services = &context.service.services;
    let wait = Duration::from_secs_f64(wait_s);
    let log = services.schedules.log();
    match log.after(context.access().holder(), after, limit, wait, services.shutdown()) {
        Some(page) => send(context, 200, &page),
        None => {
            Err(Refused::new(503, "too many requests wait for measurements already").with("Retry-After", "5").into())
        }
    }
}
