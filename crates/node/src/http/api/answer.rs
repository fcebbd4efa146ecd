//! The answers of the API's routes, except for tests, schedules, tape and the streams of events.

use auth::Action;
use model::id::Uuid;
use model::v1::node::{Capabilities, Export, Health, Limits, Load, Order};
use model::v1::tune::AuditRequest;
use model::v1::{Change, Stage, Transfer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web::Response;
use web::routes::JSON;
use web::target::pairs;

use super::{BODY_BYTES_MAX, EVENT_STREAMS_MAX, PAGE, required_id};
use crate::http::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::http::short_body::read_short_body;
use crate::http::text::Text;
use crate::test_orders;
use crate::transfers::{
    ID_USED_TEXT, PageQuery, REMEMBERED_MAX, RUNNING_MAX, SCHEMES, UNENDED_MAX, Unaccepted, places_here,
};

/// Sends a value as JSON.
pub(super) fn send(context: &mut RequestContext<'_>, status: u16, answer: &impl Serialize) -> Outcome {
    let text = serde_json::to_vec(answer).map_err(|e| refuse(500, format!("the answer cannot be written: {e}")))?;
    send_text(context, status, text)
}

/// Sends a text that is JSON, with a line feed at its end.
pub(super) fn send_text(context: &mut RequestContext<'_>, status: u16, mut text: Vec<u8>) -> Outcome {
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    let response = Response::new(status)
        .with("Content-Type", JSON)
        .with("Cache-Control", "no-store")
        .with("X-Content-Type-Options", "nosniff");
    Ok(Text::send(context.exchange, response, &text)?)
}

/// Reads the body as JSON. Error texts name fields but never repeat a value, which may be a secret.
pub(super) fn read<T: DeserializeOwned>(context: &mut RequestContext<'_>, what: &str) -> Outcome<T> {
    read_within(context, what, BODY_BYTES_MAX)
}

/// Reads a body of at most `bytes_max` bytes as JSON.
pub(super) fn read_within<T: DeserializeOwned>(
    context: &mut RequestContext<'_>,
    what: &str,
    bytes_max: usize,
) -> Outcome<T> {
    let kind = context.request().headers.get("content-type").unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
        return Err(refuse(415, format!("{what} is JSON: send it with Content-Type: {JSON}")));
    }
    // A body without a length counts as one of the greatest length.
    let expected = context.exchange.body_length().map_or(bytes_max, |bytes| bytes.min(bytes_max as u64) as usize);
    let mut memory = context.service.services.memory.part(context.access().holder());
    memory.grow(expected).map_err(|full| Refused::new(503, full.to_string()).with("Retry-After", "5"))?;
    let body = read_short_body(context.exchange, bytes_max, what)?;
    Ok(web::json::read(&body, what)?)
}

/// GET /api/v1/health.
pub(super) fn health(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let (status, word) = if context.service.services.is_stopping() { (503, "stopping") } else { (200, "ok") };
    send(context, status, &Health { status: word.into() })
}

/// GET /api/v1/capabilities.
pub(super) fn capabilities(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let access_control = &context.service.access_control;
    let node = access_control.fingerprint().map_err(|error| {
        tracing::error!(%error, "the node's identity cannot be read");
        refuse(500, "the node cannot read its identity; its operator must look at its log")
    })?;
    let exports = access_control.describe(context.access()).into_iter();
    let exports = exports.map(|(name, writable, elsewhere)| Export { name, writable, elsewhere }).collect();
    let (running, queued) = context.service.services.transfers.load();
    let load_percent = std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or(0, |load| (load * 100.0) as u64);
    let protocols = ["lh", "http/1.1", "h2", "webdav", "third-party-copy"].map(str::to_owned).to_vec();
    let schemes = std::iter::once("lh").chain(SCHEMES).map(str::to_owned).collect();
    let answer = Capabilities {
        software: engine::SOFTWARE.to_owned(),
        node: node.to_string(),
        addresses: vec![access_control.address().to_string()],
        exports,
        protocols,
        schemes,
        limits: Limits {
            running_max: RUNNING_MAX.all as u64,
            running_each_max: RUNNING_MAX.each as u64,
            unended_max: UNENDED_MAX.each as u64,
            remembered_max: REMEMBERED_MAX as u64,
            page_max: PAGE.max as u64,
            body_bytes_max: BODY_BYTES_MAX as u64,
            event_streams_max: EVENT_STREAMS_MAX as u64,
            probes_unended_max: test_orders::UNENDED_MAX.each as u64,
            probe_seconds_max: test_orders::SECONDS_MAX as u64,
        },
        load: Load {
            running: running as u64,
            queued: queued as u64,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            load_percent,
        },
    };
    send(context, 200, &answer)
}

/// The parameters of an audit of the host; the defaults are those of `longhaul tune audit`.
fn audit_parameters(context: &RequestContext<'_>) -> Outcome<AuditRequest> {
    let mut ask = AuditRequest { rate_bit_s: None, rtt_s: 0.1, role: "dtn".into() };
    for (name, value) in pairs(context.target.query.as_deref().unwrap_or_default()) {
        let wrong = || refuse(400, "rate_bit_s is a number of bit/s, and rtt_s one of seconds, at most 60");
        match name.as_str() {
            "rate_bit_s" => ask.rate_bit_s = Some(value.parse().ok().filter(|rate| *rate > 0).ok_or_else(wrong)?),
            "rtt_s" => ask.rtt_s = value.parse().ok().filter(|rtt| *rtt > 0.0 && *rtt <= 60.0).ok_or_else(wrong)?,
            "role" => ask.role = value,
            "authz" | "access_token" | "" => {}
            _ => return Err(refuse(400, "the parameters of an audit are rate_bit_s, rtt_s and role, and no others")),
        }
    }
    Ok(ask)
}

/// GET /api/v1/host.
pub(super) fn host(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let ask = audit_parameters(context)?;
    let lines = context.service.services.audit(context.access(), &ask)?;
    let read = |line: &String| serde_json::from_str::<serde_json::Value>(line);
    let lines = lines.iter().map(read).collect::<Result<Vec<_>, _>>();
    let mut lines = lines.map_err(|e| refuse(500, format!("the audit is not valid JSON: {e}")))?.into_iter();
    let host = lines.next().unwrap_or_default();
    send(context, 200, &serde_json::json!({"host": host, "findings": lines.collect::<Vec<_>>()}))
}

/// POST /api/v1/transfers.
pub(super) fn create(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let order: Order = read(context, "an order")?;
    // The call-out program may be asked as well, as for every other request over HTTP.
    let (writes, places) = places_here(&order)?;
    for (export, path) in &places {
        context.resolve(if writes { Action::Create } else { Action::Read }, export, path)?;
    }
    match context.service.services.transfers.accept(context.access(), order) {
        Ok((transfer, is_new)) => send(context, if is_new { 201 } else { 200 }, &*transfer),
        Err(Unaccepted::Refused(refusal)) => Err(context.deny(refusal.into())),
        Err(Unaccepted::IdTaken) => Err(refuse(409, "this id belongs to another order; choose another one")),
        Err(Unaccepted::IdUsed) => Err(refuse(409, ID_USED_TEXT)),
        Err(Unaccepted::Full(why)) => Err(Refused::new(503, why).with("Retry-After", "60").into()),
    }
}

/// The parameters of a list: state, first id, length.
pub(super) fn page_query<S: Copy>(
    context: &RequestContext<'_>,
    states: &[S],
    word: fn(S) -> &'static str,
) -> Outcome<PageQuery<S>> {
    let mut query = PageQuery { state: None, after: None, limit: PAGE.usual };
    let wrong = |reason: String| Err(refuse(400, reason));
    for (name, value) in pairs(context.target.query.as_deref().unwrap_or_default()) {
        match name.as_str() {
            "state" => match states.iter().copied().find(|state| word(*state) == value) {
                Some(state) => query.state = Some(state),
                None => {
                    let words: Vec<_> = states.iter().copied().map(word).collect();
                    let words = words.join(", ");
                    return wrong(format!("state is one of {words}"));
                }
            },
            "after" => match value.parse() {
                Ok(id) => query.after = Some(id),
                Err(_) => return wrong("after is an id: a UUID".into()),
            },
            "limit" => match value.parse() {
                Ok(limit) if (1..=PAGE.max).contains(&limit) => query.limit = limit,
                _ => return wrong(format!("limit is a number from 1 to {}", PAGE.max)),
            },
            "authz" | "access_token" | "" => {}
            _ => return wrong("the parameters of a list are state, after and limit, and no others".into()),
        }
    }
    Ok(query)
}

/// GET /api/v1/transfers.
pub(super) fn list(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    /// The JSON of `Transfers`, without a copy of each transfer.
    #[derive(Serialize)]
    struct BorrowedTransfers<'a> {
        transfers: Vec<&'a Transfer>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Uuid>,
    }
    let query = page_query(context, &Stage::ALL, Stage::word)?;
    let page = context.service.services.transfers.page(context.access().holder(), &query);
    let page = page.ok_or_else(|| refuse(404, "the transfer that `after` names is not known here, or no longer"))?;
    let listed =
        BorrowedTransfers { transfers: page.found.iter().map(|transfer| &**transfer).collect(), next: page.next };
    send(context, 200, &listed)
}

fn unknown(id: &Uuid) -> RequestFailure {
    refuse(404, format!("there is no transfer {id} here, or you may not see it"))
}

/// GET /api/v1/transfers/ID.
pub(super) fn one(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let found = context.service.services.transfers.get(context.access().holder(), &id).ok_or_else(|| unknown(&id))?;
    send(context, 200, &*found)
}

/// GET /api/v1/transfers/ID/files.
pub(super) fn files(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let mut after = 0;
    let mut limit = PAGE.usual;
    for (name, value) in pairs(context.target.query.as_deref().unwrap_or_default()) {
        let wrong =
            || refuse(400, "the parameters of a list of files are after and limit, which are numbers, and no others");
        match name.as_str() {
            "after" => after = value.parse().map_err(|_| wrong())?,
            "limit" => limit = value.parse().ok().filter(|limit| (1..=PAGE.max).contains(limit)).ok_or_else(wrong)?,
            "authz" | "access_token" | "" => {}
            _ => return Err(wrong()),
        }
    }
    let transfers = &context.service.services.transfers;
    let page = transfers.outcomes(context.access().holder(), &id, after, limit).ok_or_else(|| unknown(&id))?;
    send(context, 200, &page)
}

/// PATCH /api/v1/transfers/ID.
pub(super) fn change(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let holder = context.access().holder().to_owned();
    let transfers = &context.service.services.transfers;
    transfers.get(&holder, &id).ok_or_else(|| unknown(&id))?;
    let change: Change = read(context, "a change")?;
    if change.cancel && change != (Change { cancel: true, ..Change::default() }) {
        return Err(refuse(400, "a change with cancel has no other fields"));
    }
    let changed = transfers.change(&holder, &id, &change);
    let changed = changed.ok_or_else(|| refuse(409, "the transfer has ended and can no longer be changed"))?;
    send(context, status_of_change(&change, &changed), &*changed)
}

/// The status of the answer to a change: 202 if a cancelled transfer has not ended yet.
fn status_of_change(change: &Change, transfer: &Transfer) -> u16 {
    if change.cancel && !transfer.state.is_last() { 202 } else { 200 }
}

/// DELETE /api/v1/transfers/ID.
pub(super) fn cancel(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let transfer = context.service.services.transfers.cancel(context.access().holder(), &id);
    let transfer = transfer.ok_or_else(|| unknown(&id))?;
    send(context, status_of_change(&Change { cancel: true, ..Change::default() }, &transfer), &*transfer)
}

/// GET /api/v1/transfers/ID/receipt.
pub(super) fn receipt(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let holder = context.access().holder();
    let found = context.service.services.transfers.get(holder, &id).ok_or_else(|| unknown(&id))?;
    if !found.state.is_last() {
        return Err(refuse(409, "the transfer has not ended: it has no receipt yet"));
    }
    let text = context.service.services.transfers.receipt(holder, &id);
    let text = text.ok_or_else(|| refuse(404, "the transfer ended without having begun: there is no receipt"))?;
    send_text(context, 200, text.into_bytes())
}
