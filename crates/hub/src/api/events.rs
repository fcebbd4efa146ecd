//! Server-sent events (the HTML standard, section 9.2) of jobs, read from the log in the database: a client that reconnects with
//! `Last-Event-ID` misses nothing, whichever hub it asks.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use model::v1::hub::JobEvent;
use tokio::sync::mpsc;
use web::Refused;
use web::routes::EVENTS;

use super::{ApiRequest, ApiResult, jobs};
use crate::database::events::{self, Event};
use crate::state::{HubState, unavailable};
use crate::time;

/// How often the log is read.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// The longest time between two writes to a stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The most events that are read at once.
pub(super) const PAGE: i64 = 500;

/// GET /api/v1/events.
pub(super) async fn of_all(request: ApiRequest) -> ApiResult {
    listen(request, None).await
}

/// GET /api/v1/jobs/ID/events.
pub(super) async fn of_one(request: ApiRequest) -> ApiResult {
    let job = jobs::requested_job(&request).await?.job.id.to_string();
    listen(request, Some(job)).await
}

async fn listen(request: ApiRequest, job: Option<String>) -> ApiResult {
    let from = match (last_event_id(&request)?, &job) {
        (Some(last), _) => last,
        (None, Some(_)) => 0,
        (None, None) => events::last(&request.hub.database.pool).await.map_err(unavailable)?,
    };
    let hub = Arc::clone(&request.hub);
    follow(&hub, from, move |from| {
        let (request, job) = (request.clone(), job.clone());
        async move {
            let found = events::after(&request.hub.database.pool, from, job.as_deref(), PAGE).await.ok()?;
            let mut page = Page { last: from, ..Page::default() };
            for event in &found {
                page.last = event.number;
                page.is_over |= job.is_some() && event.kind == "ended";
                if request.member.may_change(&event.owner, &request.member.community) {
                    page.text.push_str(&server_sent(event));
                }
            }
            Some(page)
        }
    })
}

/// The number of the last event that a client has received, by its `Last-Event-ID`.
pub(super) fn last_event_id(request: &ApiRequest) -> Result<Option<i64>, Refused> {
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let wrong = |_| Refused::new(400, "Last-Event-ID is not the id of an event of this hub");
    last.map(|id| id.trim().parse::<i64>().map_err(wrong)).transpose()
}

/// The events since the last read.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The events, as they are sent.
    pub text: String,
    /// The number of the last event that was read, whether or not the client may see it.
    pub last: i64,
    /// The stream is over: no further event can follow.
    pub is_over: bool,
}

/// Answers with the events after `from`, page by page, until the client leaves or the stream is over; `next` reads a page.
pub(super) fn follow<F>(hub: &Arc<HubState>, from: i64, next: impl Fn(i64) -> F + Send + 'static) -> ApiResult
where
    F: Future<Output = Option<Page>> + Send,
{
    let full = || {
        Refused::new(503, "the hub has no room for another stream of events; ask again later").with("Retry-After", "30")
    };
    hub.event_streams.try_acquire().map_err(|_| full())?.forget();
    let (sender, receiver) = mpsc::channel(16);
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        send_pages(from, next, &sender).await;
        hub.event_streams.add_permits(1);
    });
    let mut response = Response::new(Body::new(Stream(receiver)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Sends pages of events, and a comment when there was nothing to send for [`HEARTBEAT`].
async fn send_pages<F>(mut from: i64, next: impl Fn(i64) -> F, sender: &mpsc::Sender<Bytes>)
where
    F: Future<Output = Option<Page>>,
{
    let mut silent = Duration::ZERO;
    loop {
        let Some(Page { mut text, last, is_over }) = next(from).await else { return };
        from = last;
        if text.is_empty() && silent >= HEARTBEAT {
            text.push_str(": still here\n\n");
        }
        silent = if text.is_empty() { silent + POLL_EVERY } else { Duration::ZERO };
        if !text.is_empty() && sender.send(text.into()).await.is_err() || sender.is_closed() || is_over {
            return;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// An event in the form of a stream of server-sent events.
fn server_sent(event: &Event) -> String {
    let body = JobEvent {
        at: time::show(event.at),
        job: event.job.clone(),
        kind: event.kind.clone(),
        facts: serde_json::from_str(&event.body).unwrap_or_default(),
    };
    format!("id: {}\nevent: job\ndata: {}\n\n", event.number, serde_json::to_string(&body).unwrap_or_default())
}

/// The body of a stream of events.
struct Stream(mpsc::Receiver<Bytes>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }
}
