//! Serves HTTP/2 (RFC 9113). Each connection has a thread with a runtime that drives its frames; a few worker threads answer its
//! requests by the same service as HTTP/1.1. The bounds:
//!
//! - Connections: [`CONNECTIONS_MAX`], each of which keeps its thread and four descriptors also while it is idle (300 s, then
//!   GOAWAY). Beyond that TLS does not offer `h2` any more, and clients speak HTTP/1.1; those with prior knowledge are told
//!   ENHANCE_YOUR_CALM.
//! - Threads: each connection has one worker for sure and up to [`workers::WORKERS_MAX`] while there are any to lend
//!   ([`LENT_MAX`] in the server). 512 connections, 512 first workers and 1024 lent ones: as many as HTTP/1.1 may have.
//! - Memory of bodies on their way in: what a client may send before it is read is the window of its connection. 16 MiB carry
//!   1.3 Gbit/s over 100 ms; the first [`WIDE_MAX`] connections get that, the others 1 MiB: 16 × 16 + 496 × 1 = 752 MiB at the
//!   very worst, when nobody's body is read. One stream takes half of it, so that another one can still be heard.
//! - Memory of answers that nobody fetches: 512 KiB for each stream of a wide connection, 32 KiB of the others, of a hundred
//!   streams each: 16 × 50 + 496 × 3.1 = 2338 MiB at the very worst; and the 512 KiB that the transport may hold back.
//! - Floods: h2's own bounds on streams that are reset, on small frames and on continuations are kept; streams that are reset
//!   while they wait for a worker keep their place until a worker has looked at them.
//!
//! What this module does not know: what a request means.

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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

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
const LENT_MAX: usize = 1024;
/// Streams of a connection at once; those without a worker wait. What RFC 9113, section 6.5.2, recommends at least, and what
/// clients take for granted before they have heard it: those beyond would be refused.
const STREAMS_MAX: u32 = 100;
/// Bytes that a connection may send ahead.
const WIDE_BYTES: u32 = 16 << 20;
const NARROW_BYTES: u32 = 1 << 20;
/// Bytes of an answer that wait for the transport, for each stream.
const WIDE_SEND_BYTES: usize = 512 << 10;
const NARROW_SEND_BYTES: usize = 32 << 10;
/// Largest frame that is accepted: four times the minimum, since each frame has a cost.
const FRAME_BYTES: u32 = 64 << 10;
/// How long the preface and the settings may take.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// After so long without a stream a connection ends.
const IDLE: Duration = Duration::from_secs(300);
/// How long the client has to close after GOAWAY, when nothing is left to answer.
const GOODBYE: Duration = Duration::from_secs(5);
/// How often deadlines are checked.
const LOOK_ROUND: Duration = Duration::from_secs(1);

/// The connections of a server that speak HTTP/2.
pub(crate) struct Connections {
    open: AtomicUsize,
    lent: AtomicUsize,
    closing: watch::Sender<bool>,
}

/// A connection's slot, given back when dropped.
struct Slot<'a> {
    connections: &'a Connections,
    wide: bool,
}

impl Connections {
    /// An empty one.
    pub fn new() -> Connections {
        Connections { open: AtomicUsize::new(0), lent: AtomicUsize::new(0), closing: watch::Sender::new(false) }
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

    fn lend(&self) -> bool {
        let more = |lent| (lent < LENT_MAX).then_some(lent + 1);
        self.lent.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn take_back(&self) {
        self.lent.fetch_sub(1, Ordering::AcqRel);
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
    client_name: Option<String>,
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
    client_name: Option<String>,
    connections: &Connections,
    service: &dyn Service,
) -> io::Result<()> {
    let Some(slot) = connections.enter() else { return refuse(conn, Reason::ENHANCE_YOUR_CALM) };
    let (peer, secure) = (conn.peer(), conn.tls().is_some());
    let facts = ConnectionFacts { peer, secure, client_name };
    let queue = RequestQueue::new();
    let work = |job: PendingRequest| stream::answer(job, &facts, service);
    let runtime = runtime()?;
    // The scope ends when the last worker has cleaned up behind its request.
    std::thread::scope(|scope| {
        let work = &work;
        let give_to_worker = |job| {
            if let Err(mut job) = workers::give_to_worker(scope, &queue, connections, work, job) {
                // Nothing was done: the client may ask again (RFC 9113, section 8.7).
                job.respond.send_reset(Reason::REFUSED_STREAM);
            }
        };
        let _closes = queue.closes();
        let ended = runtime.block_on(async {
            let (mut connection, transport) = hello(conn, slot.wide).await?;
            attend(&mut connection, &transport, connections, &queue, give_to_worker).await
        });
        match ended {
            // Clients hang up as they like; what was cut off by that, its own request tells.
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
        let (mut connection, transport) = hello(conn, false).await?;
        connection.abrupt_shutdown(reason);
        let over = poll_fn(|cx| {
            let over = connection.poll_closed(cx);
            match transport.push(cx) {
                Ok(()) => over.map(|_| ()),
                Err(_) => Poll::Ready(()),
            }
        });
        let _ = tokio::time::timeout(GOODBYE, over).await;
        let _ = tokio::time::timeout(GOODBYE, poll_fn(|cx| transport.part(cx))).await;
        Ok(())
    })
}

/// Refuses a client that speaks clear text where only TLS is allowed.
pub(crate) fn refuse_unsealed(conn: Conn) -> io::Result<()> {
    refuse(conn, Reason::INADEQUATE_SECURITY)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

/// The preface and the settings.
async fn hello(conn: Conn, wide: bool) -> io::Result<(Connection, Transport)> {
    let transport = Transport::new(conn.into_parts())?;
    let (window, ahead) = if wide { (WIDE_BYTES, WIDE_SEND_BYTES) } else { (NARROW_BYTES, NARROW_SEND_BYTES) };
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(web::head::HEAD_BYTES_MAX as u32)
        .max_frame_size(FRAME_BYTES)
        .max_send_buffer_size(ahead)
        .initial_connection_window_size(window)
        .initial_window_size(window / 2);
    let mut handshake = pin!(builder.handshake(transport.clone()));
    let done = poll_fn(|cx| {
        let done = handshake.as_mut().poll(cx);
        transport.push(cx)?;
        done.map_err(broken)
    });
    let connection = tokio::time::timeout(HELLO_WITHIN, done).await??;
    Ok((connection, transport))
}

fn broken(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    }
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

/// The next event of a connection.
enum Event {
    Stream(Box<PendingRequest>),
    Over(io::Result<()>),
    /// A worker is free, or time has passed.
    Look,
    Close,
}

/// Drives a connection until it is over.
async fn attend(
    connection: &mut Connection,
    transport: &Transport,
    connections: &Connections,
    queue: &RequestQueue<PendingRequest>,
    give_to_worker: impl Fn(PendingRequest),
) -> io::Result<()> {
    let mut closing = connections.closing.subscribe();
    let mut close = pin!(closing.wait_for(|closing| *closing));
    let (mut quiet_since, mut said_goodbye) = (Instant::now(), false);
    loop {
        let mut freed = pin!(queue.freed());
        let mut tick = pin!(tokio::time::sleep(LOOK_ROUND));
        let event = poll_fn(|cx| {
            let next = next(connection, queue.has_room(), cx);
            if let Err(error) = transport.push(cx) {
                return Poll::Ready(Event::Over(Err(error)));
            }
            if next.is_ready() {
                return next;
            }
            if freed.as_mut().poll(cx).is_ready() || tick.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Look);
            }
            // Not asked again once it has answered.
            if !said_goodbye && close.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Close);
            }
            Poll::Pending
        });
        match event.await {
            Event::Stream(job) => {
                quiet_since = Instant::now();
                let mut job = job;
                if wants_the_other(&job.request) {
                    job.respond.send_reset(Reason::HTTP_1_1_REQUIRED);
                } else {
                    give_to_worker(*job);
                }
            }
            Event::Over(result) => return result,
            Event::Look if queue.is_busy() => quiet_since = Instant::now(),
            Event::Look if said_goodbye && quiet_since.elapsed() > GOODBYE => return Ok(()),
            Event::Look if !said_goodbye && quiet_since.elapsed() > IDLE => {
                (quiet_since, said_goodbye) = (Instant::now(), true);
                connection.graceful_shutdown();
            }
            Event::Look => {}
            Event::Close => {
                (quiet_since, said_goodbye) = (Instant::now(), true);
                connection.graceful_shutdown();
            }
        }
    }
}

/// Whether a client does better by HTTP/1.1, as [`frames`] says.
fn wants_the_other<B>(request: &http::Request<B>) -> bool {
    let agent = request.headers().get("user-agent").map(|agent| agent.as_bytes());
    request.method() == http::Method::PUT && agent.is_some_and(|agent| agent.starts_with(b"xrootd-tpc/"))
}

/// The next stream. While there is no room for one, it stays with the library, which bounds what may wait there.
fn next(connection: &mut Connection, room: bool, cx: &mut std::task::Context<'_>) -> Poll<Event> {
    if !room {
        return connection.poll_closed(cx).map(|over| Event::Over(over.map_err(broken)));
    }
    connection.poll_accept(cx).map(|next| match next {
        Some(Ok((request, respond))) => Event::Stream(Box::new(PendingRequest { request, respond })),
        Some(Err(error)) => Event::Over(Err(broken(error))),
        None => Event::Over(Ok(())),
    })
}
