//! Serves HTTP/2 (RFC 9113). Each connection has a thread with a runtime that drives its frames; a few worker threads answer its
//! requests by the same service as HTTP/1.1. The bounds:
//!
//! - Connections: [`CONNECTIONS_MAX`], each of which keeps its thread and four descriptors also while it is idle (300 s, then
//!   GOAWAY). Beyond that TLS does not offer `h2` any more, and clients speak HTTP/1.1; clients with prior knowledge get
//!   ENHANCE_YOUR_CALM.
//! - Threads: each connection has one worker of its own and up to [`workers::WORKERS_MAX`] while extra workers are left
//!   ([`EXTRA_WORKERS_MAX`] in the server). 512 connections, 512 first workers and 1024 extra ones: as many as HTTP/1.1 may have.
//! - Memory of request bodies: a client may send the window of its connection before the service reads. 16 MiB carry
//!   1.3 Gbit/s over 100 ms; the first [`WIDE_MAX`] connections get that, the others 1 MiB: 16 × 16 + 496 × 1 = 752 MiB at the
//!   very worst, when no body is read. One stream takes at most half of the window, so that others can still send.
//! - Memory of answers that clients do not read: 512 KiB for each stream of a wide connection, 32 KiB for each of the others, with a
//!   hundred streams each: 16 × 50 + 496 × 3.1 = 2338 MiB at the very worst; and the 512 KiB that the transport may hold back.
//! - Floods: h2's own bounds on streams that are reset, on small frames and on continuations are kept; a stream that is
//!   reset while it waits for a worker keeps its place until a worker takes it.
//!
//! This module does not interpret requests.

mod frames;
mod heads;
mod stream;
mod transport;
mod wait;
mod workers;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use auth::x509::CertificateCheck;
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use tokio::sync::watch;
use web::Conn;

use self::transport::Transport;
use self::workers::RequestQueue;
use crate::service::Service;

/// The start of the client preface of HTTP/2 with prior knowledge (RFC 9113, section 3.4): enough to recognise it.
pub(crate) const PREFACE: &[u8] = b"PRI ";

/// Connections at once.
const CONNECTIONS_MAX: usize = 512;
/// Connections that get a wide window.
const WIDE_MAX: usize = 16;
/// Workers in the server besides the first one of each connection.
const EXTRA_WORKERS_MAX: usize = 1024;
/// Streams of a connection at once; those without a worker wait. This is the least that RFC 9113, section 6.5.2, recommends, and
/// clients assume it before they have read the settings: with less, some of their first streams would be refused.
const STREAMS_MAX: u32 = 100;
/// Bytes that a client may send before the service reads them, for each connection.
const WIDE_BYTES: u32 = 16 << 20;
const NARROW_BYTES: u32 = 1 << 20;
/// Bytes of an answer that wait for the transport, for each stream.
const WIDE_SEND_BYTES: usize = 512 << 10;
const NARROW_SEND_BYTES: usize = 32 << 10;
/// Largest frame that is accepted: four times the minimum, since each frame has a cost.
const FRAME_BYTES: u32 = 64 << 10;
/// How long the preface and the settings may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(20);
/// A connection that has had no stream for this time ends.
const IDLE: Duration = Duration::from_secs(300);
/// How long the client has to close after GOAWAY, when nothing is left to answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How often deadlines are checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The connections of a server that speak HTTP/2.
pub(crate) struct Connections {
    open: AtomicUsize,
    extra_workers: AtomicUsize,
    closing: watch::Sender<bool>,
}

/// A connection's slot, released when dropped.
struct Slot<'a> {
    connections: &'a Connections,
    wide: bool,
}

impl Connections {
    /// A set without connections.
    pub fn new() -> Connections {
        Connections {
            open: AtomicUsize::new(0),
            extra_workers: AtomicUsize::new(0),
            closing: watch::Sender::new(false),
        }
    }

    /// Whether one more connection would be accepted.
    pub fn has_room(&self) -> bool {
        self.open.load(Ordering::Acquire) < CONNECTIONS_MAX && !*self.closing.borrow()
    }

    /// Sends GOAWAY on all connections: requests that have begun are still answered, new ones are not.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    fn enter(&self) -> Option<Slot<'_>> {
        let before = self.open.fetch_add(1, Ordering::AcqRel);
        let slot = Slot { connections: self, wide: before < WIDE_MAX };
        (before < CONNECTIONS_MAX).then_some(slot)
    }

    fn take_extra_worker(&self) -> bool {
        let more = |workers| (workers < EXTRA_WORKERS_MAX).then_some(workers + 1);
        self.extra_workers.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn release_extra_worker(&self) {
        self.extra_workers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The facts that all requests of a connection share.
struct ConnectionFacts {
    peer: SocketAddr,
    secure: bool,
    certificate: Option<Arc<CertificateCheck>>,
    /// Bytes of bodies that were sent.
    sent_bytes: AtomicU64,
}

/// A request, with its body and the handle for its answer.
struct PendingRequest {
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

type Connection = h2::server::Connection<Transport, Bytes>;

/// Answers the requests of a connection, until it has ended and all requests that were begun have ended.
pub(crate) fn serve(
    conn: Conn,
    certificate: Option<Arc<CertificateCheck>>,
    connections: &Connections,
    service: &dyn Service,
) -> io::Result<()> {
    let Some(slot) = connections.enter() else { return refuse(conn, Reason::ENHANCE_YOUR_CALM) };
    let peer = conn.peer();
    let facts = ConnectionFacts { peer, secure: conn.tls().is_some(), certificate, sent_bytes: AtomicU64::new(0) };
    let queue = RequestQueue::new();
    let work = |job: PendingRequest| stream::answer(job, &facts, service);
    let runtime = runtime()?;
    // The scope ends when the last worker has cleaned up behind its request.
    std::thread::scope(|scope| {
        let work = &work;
        let give_to_worker = |job| {
            if let Err(mut job) = workers::give_to_worker(scope, &queue, connections, work, job) {
                // The request was not processed: the client may repeat it (RFC 9113, section 8.7).
                job.respond.send_reset(Reason::REFUSED_STREAM);
            }
        };
        let _close = queue.close_on_drop();
        let ended = runtime.block_on(async {
            let (mut connection, transport) = handshake(conn, slot.wide).await?;
            drive(&mut connection, &transport, connections, &queue, give_to_worker).await
        });
        match ended {
            // A client may hang up at any time; the request that this cuts off reports it.
            Err(error) if error.kind() != io::ErrorKind::ConnectionAborted => {
                tracing::debug!(%peer, %error, "a connection of HTTP/2 broke");
                Ok(())
            }
            other => other,
        }
    })
}

/// Refuses a connection in HTTP/2, since such a client understands nothing else.
fn refuse(conn: Conn, reason: Reason) -> io::Result<()> {
    runtime()?.block_on(async {
        let (mut connection, transport) = handshake(conn, false).await?;
        connection.abrupt_shutdown(reason);
        let over = poll_fn(|cx| {
            let over = connection.poll_closed(cx);
            match transport.push(cx) {
                Ok(()) => over.map(|_| ()),
                Err(_) => Poll::Ready(()),
            }
        });
        let _ = tokio::time::timeout(CLOSE_WITHIN, over).await;
        let _ = tokio::time::timeout(CLOSE_WITHIN, poll_fn(|cx| transport.shut_down(cx))).await;
        Ok(())
    })
}

/// Refuses a client that speaks clear text where only TLS is allowed.
pub(crate) fn refuse_clear_text(conn: Conn) -> io::Result<()> {
    refuse(conn, Reason::INADEQUATE_SECURITY)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

/// Exchanges the preface and the settings.
async fn handshake(conn: Conn, wide: bool) -> io::Result<(Connection, Transport)> {
    let transport = Transport::new(conn.into_parts())?;
    let (window, send_bytes) = if wide { (WIDE_BYTES, WIDE_SEND_BYTES) } else { (NARROW_BYTES, NARROW_SEND_BYTES) };
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(web::head::HEAD_BYTES_MAX as u32)
        .max_frame_size(FRAME_BYTES)
        .max_send_buffer_size(send_bytes)
        .initial_connection_window_size(window)
        .initial_window_size(window / 2);
    let mut handshake = pin!(builder.handshake(transport.clone()));
    let done = poll_fn(|cx| {
        let done = handshake.as_mut().poll(cx);
        transport.push(cx)?;
        done.map_err(to_io_error)
    });
    let connection = tokio::time::timeout(HANDSHAKE_WITHIN, done).await??;
    Ok((connection, transport))
}

fn to_io_error(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    }
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

/// The next event of a connection.
enum Event {
    Stream(Box<PendingRequest>),
    Over(io::Result<()>),
    /// A worker has become free, or it is time to check the deadlines.
    Check,
    Close,
}

/// Drives a connection until it is over.
async fn drive(
    connection: &mut Connection,
    transport: &Transport,
    connections: &Connections,
    queue: &RequestQueue<PendingRequest>,
    give_to_worker: impl Fn(PendingRequest),
) -> io::Result<()> {
    let mut closing = connections.closing.subscribe();
    let mut close = pin!(closing.wait_for(|closing| *closing));
    let mut quiet_since = Instant::now();
    let mut goaway_sent = false;
    loop {
        let mut freed = pin!(queue.freed());
        let mut tick = pin!(tokio::time::sleep(CHECK_EVERY));
        let event = poll_fn(|cx| {
            let next = next(connection, queue.has_room(), cx);
            if let Err(error) = transport.push(cx) {
                return Poll::Ready(Event::Over(Err(error)));
            }
            if next.is_ready() {
                return next;
            }
            if freed.as_mut().poll(cx).is_ready() || tick.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Check);
            }
            // A future must not be polled again after it was ready.
            if !goaway_sent && close.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Close);
            }
            Poll::Pending
        });
        match event.await {
            Event::Stream(job) => {
                quiet_since = Instant::now();
                let mut job = job;
                if prefers_http1(&job.request) {
                    job.respond.send_reset(Reason::HTTP_1_1_REQUIRED);
                } else {
                    give_to_worker(*job);
                }
            }
            Event::Over(result) => return result,
            Event::Check if queue.is_busy() => quiet_since = Instant::now(),
            Event::Check if goaway_sent && quiet_since.elapsed() > CLOSE_WITHIN => return Ok(()),
            Event::Check if !goaway_sent && quiet_since.elapsed() > IDLE => {
                (quiet_since, goaway_sent) = (Instant::now(), true);
                connection.graceful_shutdown();
            }
            Event::Check => {}
            Event::Close => {
                (quiet_since, goaway_sent) = (Instant::now(), true);
                connection.graceful_shutdown();
            }
        }
    }
}

/// Whether a request fails over HTTP/2 and succeeds over HTTP/1.1: see [`frames`].
fn prefers_http1<B>(request: &http::Request<B>) -> bool {
    let agent = request.headers().get("user-agent").map(|agent| agent.as_bytes());
    request.method() == http::Method::PUT && agent.is_some_and(|agent| agent.starts_with(b"xrootd-tpc/"))
}

/// The next stream. While the queue has no room, streams stay in the h2 library, which bounds their number.
fn next(connection: &mut Connection, room: bool, cx: &mut std::task::Context<'_>) -> Poll<Event> {
    if !room {
        return connection.poll_closed(cx).map(|over| Event::Over(over.map_err(to_io_error)));
    }
    connection.poll_accept(cx).map(|next| match next {
        Some(Ok((request, respond))) => Event::Stream(Box::new(PendingRequest { request, respond })),
        Some(Err(error)) => Event::Over(Err(to_io_error(error))),
        None => Event::Over(Ok(())),
    })
}
