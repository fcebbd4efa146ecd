//! Server-sent events (the HTML standard, section 9.2): transfers as they change. An event is written on every change of state, and
//! once a second while bytes move; a comment every 15 s shows both ends that the connection lives.
//!
//! The id of an event is the number of the change that it reports, and these numbers keep growing over restarts of the node: a client
//! that returns with `Last-Event-ID` receives the changes since. A stream holds a thread, which polls the table four times a second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::v1::Stage;
use parking_lot::{Mutex, MutexGuard};
use serve::Length;
use web::{Headers, Response};

use web::routes::EVENTS;

use super::{EVENT_STREAMS_EACH_MAX, EVENT_STREAMS_MAX, required_id};
use crate::clock::now;
use crate::http::refused::{Outcome, Refused, RequestOutcome, refuse};
use crate::http::request_context::RequestContext;
use crate::transfers::TransferChange;

/// How often the table of transfers is polled.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How often the progress of a running transfer is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The longest time without an event or a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The number of subscribers, by holder.
#[derive(Default)]
pub(super) struct EventSubscribers(Mutex<HashMap<String, usize>>);

impl EventSubscribers {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock()
    }

    /// A permit for one more stream of a holder. The bound of a holder leaves permits for others.
    fn take(&self, holder: &str) -> Result<SubscriberPermit<'_>, Refused> {
        let mut counts = self.counts();
        let full = |most: usize, whose: &str| {
            let reason = format!("{most} streams of events{whose} are open on this node already; try again later");
            Err(Refused::new(503, reason).with("Retry-After", "30"))
        };
        if counts.values().sum::<usize>() >= EVENT_STREAMS_MAX {
            return full(EVENT_STREAMS_MAX, "");
        }
        if counts.get(holder).is_some_and(|own| *own >= EVENT_STREAMS_EACH_MAX) {
            return full(EVENT_STREAMS_EACH_MAX, " of yours");
        }
        *counts.entry(holder.to_owned()).or_default() += 1;
        Ok(SubscriberPermit { subscribers: self, holder: holder.to_owned() })
    }
}

/// A permit for one stream of events, released when dropped.
struct SubscriberPermit<'a> {
    subscribers: &'a EventSubscribers,
    holder: String,
}

impl Drop for SubscriberPermit<'_> {
    fn drop(&mut self) {
        let mut counts = self.subscribers.counts();
        if let Some(own) = counts.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.holder);
            }
        }
    }
}

/// GET /api/v1/events.
pub(super) fn of_all(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    listen(context, None)
}

/// GET /api/v1/transfers/ID/events.
pub(super) fn of_one(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    if context.service.services.transfers.get(context.access().holder(), &id).is_none() {
        return Err(refuse(404, format!("there is no transfer {id} here, or you may not see it")));
    }
    listen(context, Some(id))
}

fn listen(context: &mut RequestContext<'_>, only: Option<Uuid>) -> Outcome {
    if context.request().method == web::Method::Head {
        // HEAD of a stream that does not end has no sensible answer.
        let refused = Refused::new(405, "a stream of events has no HEAD: use GET").with("Allow", "GET");
        return Err(refused.into());
    }
    let service = context.service;
    let _permit = service.api.subscribers.take(context.access().holder())?;
    let last = context.request().headers.get("last-event-id").map(str::trim).filter(|text| !text.is_empty());
    let last = last
        .map(|text| text.parse::<u64>().map_err(|_| refuse(400, "Last-Event-ID is not an id of this node's events")));
    let last = last.transpose()?;
    let transfers = &service.services.transfers;
    let holder = context.access().holder().to_owned();
    if let (Some(last), Some(id)) = (last, &only)
        && transfers.get(&holder, id).is_some_and(|transfer| transfer.state.is_last())
        && transfers.changed_since(last, &holder, only.as_ref()).0.is_empty()
    {
        // A browser does not reconnect after this status.
        context.exchange.begin(Response::new(204), Length::Known(0))?;
        context.exchange.end(&Headers::new())?;
        return Ok(RequestOutcome { status: 204, bytes: 0 });
    }
    let response = Response::new(200)
        .with("Content-Type", EVENTS)
        .with("Cache-Control", "no-store")
        // A proxy that buffers the answer would hold events back.
        .with("X-Accel-Buffering", "no");
    context.exchange.begin(response, Length::Open)?;
    let mut stream = EventStream {
        holder,
        only,
        mark: 0,
        sent: HashMap::new(),
        written_at: Instant::now(),
        checked: Instant::now(),
        bytes: 0,
    };
    let done = stream.run(context, last);
    done.and_then(|()| context.exchange.end(&Headers::new()))?;
    Ok(RequestOutcome { status: 200, bytes: stream.bytes })
}

/// The last event of a transfer, and when it was sent.
struct LastEvent {
    state: Stage,
    bytes: u64,
    at: Instant,
}

/// A stream of events to one client.
struct EventStream {
    holder: String,
    only: Option<Uuid>,
    /// The number of the last change that was read.
    mark: u64,
    sent: HashMap<Uuid, LastEvent>,
    /// When the last event or comment was written.
    written_at: Instant,
    /// When the client's credential was last checked.
    checked: Instant,
    bytes: u64,
}

impl EventStream {
    fn run(&mut self, context: &mut RequestContext<'_>, last: Option<u64>) -> std::io::Result<()> {
        let transfers = &context.service.services.transfers;
        match (last, self.only) {
            (Some(last), _) => self.mark = last,
            // From the mark 0 the transfer is reported in any state.
            (None, Some(_)) => {}
            (None, None) => {
                let (unended, mark) = transfers.unended_of(&self.holder, None);
                for changed in unended {
                    self.send_event(context, &changed)?;
                }
                self.mark = mark;
            }
        }
        loop {
            let (changes, mark) = transfers.changed_since(self.mark, &self.holder, self.only.as_ref());
            self.mark = mark;
            for changed in changes {
                self.send_event(context, &changed)?;
                if self.only.is_some() && changed.transfer.state.is_last() {
                    return Ok(());
                }
            }
            for changed in transfers.under_way_of(&self.holder, self.only.as_ref()) {
                if self.is_due(&changed) {
                    self.send_event(context, &changed)?;
                }
            }
            if self.checked.elapsed() >= HEARTBEAT {
                self.checked = Instant::now();
                if !is_still_authenticated(context) {
                    return Ok(());
                }
            }
            if self.written_at.elapsed() >= HEARTBEAT {
                self.write(context, ": still here\n\n")?;
            }
            if context.service.services.is_stopping() || context.exchange.is_closed_by_peer() {
                return Ok(());
            }
            std::thread::sleep(CHECK_EVERY);
        }
    }

    /// Whether a running transfer is to be reported again: a new state at once, more bytes once a second.
    fn is_due(&self, changed: &TransferChange) -> bool {
        let now = &changed.transfer;
        self.sent.get(&now.id).is_none_or(|before| {
            before.state != now.state || before.bytes != now.bytes && before.at.elapsed() >= PROGRESS_EVERY
        })
    }

    fn send_event(&mut self, context: &mut RequestContext<'_>, changed: &TransferChange) -> std::io::Result<()> {
        let transfer = &*changed.transfer;
        let data = serde_json::to_string(transfer)?;
        if transfer.state.is_last() {
            self.sent.remove(&transfer.id);
        } else {
            let sent = LastEvent { state: transfer.state, bytes: transfer.bytes, at: Instant::now() };
            self.sent.insert(transfer.id, sent);
        }
        self.write(context, &format!("id: {}\nevent: transfer\ndata: {data}\n\n", changed.revision))
    }

    fn write(&mut self, context: &mut RequestContext<'_>, text: &str) -> std::io::Result<()> {
        context.exchange.write(text.as_bytes())?;
        self.written_at = Instant::now();
        self.bytes += text.len() as u64;
        Ok(())
    }
}

/// Whether the client's credential is still valid.
fn is_still_authenticated(context: &RequestContext<'_>) -> bool {
    let access = context.access();
    context.service.access_control.is_holder_valid(access.holder())
        && access.expires().is_none_or(|ends| ends > now().seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_leaves_event_streams_for_others() {
        let subscribers = EventSubscribers::default();
        let mut mine: Vec<SubscriberPermit<'_>> =
            (0..EVENT_STREAMS_EACH_MAX).map(|_| subscribers.take("me").unwrap()).collect();
        assert!(subscribers.take("me").is_err_and(|refused| refused.status == 503));
        let others: Vec<SubscriberPermit<'_>> = (EVENT_STREAMS_EACH_MAX..EVENT_STREAMS_MAX)
            .map(|at| subscribers.take(&format!("{}", at / EVENT_STREAMS_EACH_MAX)).unwrap())
            .collect();
        assert!(subscribers.take("another").is_err(), "none is left at all");
        mine.pop();
        drop(subscribers.take("another").unwrap());
        drop((mine, others));
        assert!(subscribers.counts().is_empty(), "holders without streams are removed");
    }
}
