//! One request on a stream of HTTP/2. The thread that answers uses the library's handles: it waits for bytes and for room, and the
//! connection's thread does the rest. A stream whose body ends early is reset, so that no client takes a part for the whole.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use auth::x509::CertificateCheck;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use store::Source;
use web::{Headers, Method, Request, Response};

use super::{ConnectionFacts, PendingRequest, heads, to_io_error, wait};
use crate::exchange::{BodyPace, ClientPace, Exchange, Length, STALLED_AFTER, copy_range};
use crate::service::{Rejection, Service};

/// The most bytes of an answer that are handed over at once: each time costs a wake-up or two.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes of a body that are skipped after the answer, and for how long: clients stop sending when they have read the answer.
const UNWANTED_BYTES_MAX: usize = 16 << 20;
const UNWANTED_WITHIN: Duration = Duration::from_secs(5);
/// The time for the trailer fields of a body that has ended: they are in the frame that ends it.
const TRAILERS_WITHIN: Duration = Duration::from_secs(5);

/// A request being answered.
pub(super) struct H2<'a> {
    facts: &'a ConnectionFacts,
    request: Request,
    body: RecvStream,
    body_length: Option<u64>,
    /// Bytes of the body that have come and were not read yet.
    piece: Bytes,
    /// The client waits for `100 Continue` before it sends its body.
    waits_to_send: bool,
    body_pace: BodyPace,
    client_pace: ClientPace,
    /// In a cell, because [`Exchange::is_closed_by_peer`] polls it through a shared reference.
    out: RefCell<ResponseStream>,
    /// Bytes of the answer that are still to be sent, if their number is known.
    left: Option<u64>,
    ended: bool,
    broken: bool,
    /// The client was asked to repeat the request over HTTP/1.1.
    left_to_http1: bool,
    /// Fields to add to the answer's head.
    extra_fields: Headers,
}

struct ResponseStream {
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
}

/// Answers a request, or refuses a head that is not a request.
pub(super) fn answer(job: PendingRequest, facts: &ConnectionFacts, service: &dyn Service) {
    let PendingRequest { request, mut respond } = job;
    // The client has reset the stream while it waited for a worker.
    if is_reset(respond.poll_reset(&mut Context::from_waker(Waker::noop()))) {
        return;
    }
    let (parts, body) = request.into_parts();
    let (request, body_length, bad) = match heads::request(&parts, body.is_end_stream()) {
        Ok((request, length)) => (request, length, None),
        Err(bad) => (Request::new(Method::Get, "/", Headers::new()), None, Some(bad)),
    };
    let mut stream = H2 {
        facts,
        waits_to_send: request.waits_for_continue() && body_length != Some(0),
        request,
        body,
        body_length,
        piece: Bytes::new(),
        body_pace: BodyPace::new(body_length),
        client_pace: ClientPace::default(),
        out: RefCell::new(ResponseStream { respond, body: None }),
        left: None,
        ended: false,
        broken: false,
        left_to_http1: false,
        extra_fields: Headers::new(),
    };
    match bad {
        None => {
            service.answer(&mut stream);
            stream.discard_body();
        }
        Some((status, reason)) => {
            service.refused(&Rejection::Request { peer: facts.peer, status, reason: &reason });
            let _ = stream.send_refusal(status, &reason);
        }
    }
}

fn is_reset(reset: Poll<Result<Reason, h2::Error>>) -> bool {
    match reset {
        Poll::Ready(Ok(reason)) => reason != Reason::NO_ERROR,
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

fn stream_reset() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has reset the stream")
}

impl H2<'_> {
    /// Marks the stream as broken after an error.
    fn note_failure<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.broken |= result.is_err();
        result
    }

    fn send_refusal(&mut self, status: u16, reason: &str) -> io::Result<()> {
        let text = format!("{reason}\n");
        let head = Response::new(status).with("Content-Type", "text/plain; charset=utf-8");
        self.begin(head, Length::Known(text.len() as u64))?;
        self.write(text.as_bytes())?;
        self.end(&Headers::new())
    }

    /// Fetches bytes of the body. Returns whether there are any.
    fn fetch(&mut self) -> io::Result<bool> {
        while self.piece.is_empty() {
            let within = self.body_pace.time_left()?;
            let body = &mut self.body;
            match wait::until(within, |cx| body.poll_data(cx)) {
                Some(Some(Ok(piece))) => self.piece = piece,
                Some(Some(Err(error))) => return Err(to_io_error(error)),
                Some(None) => return Ok(false),
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "the body has stalled")),
            }
        }
        Ok(true)
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.waits_to_send) && !self.has_begun() {
            let mut interim = http::Response::new(());
            *interim.status_mut() = http::StatusCode::CONTINUE;
            self.out.get_mut().respond.send_informational(interim).map_err(to_io_error)?;
        }
        if !self.fetch()? {
            return Ok(0);
        }
        let got = self.piece.len().min(buffer.len());
        buffer[..got].copy_from_slice(&self.piece.split_to(got));
        // The window grows only by what the service has read.
        self.body.flow_control().release_capacity(got).map_err(to_io_error)?;
        self.body_pace.count_received(got)?;
        Ok(got)
    }

    /// Skips what the client still sends after the answer. If the stream were dropped before, it would be reset with
    /// NO_ERROR (RFC 9113, section 8.1), and curl (7.88) would discard the answer.
    fn discard_body(&mut self) {
        if !self.ended || self.broken || self.left_to_http1 {
            return;
        }
        let deadline = Instant::now() + UNWANTED_WITHIN;
        let mut skipped_bytes = self.piece.len();
        while skipped_bytes <= UNWANTED_BYTES_MAX {
            let _ = self.body.flow_control().release_capacity(std::mem::take(&mut self.piece).len());
            let body = &mut self.body;
            match wait::until(deadline.saturating_duration_since(Instant::now()), |cx| body.poll_data(cx)) {
                Some(Some(Ok(piece))) => {
                    skipped_bytes += piece.len();
                    self.piece = piece;
                }
                _ => return,
            }
        }
    }

    /// Sends bytes as the client's window permits.
    fn put(&mut self, bytes: &[u8], last: bool) -> io::Result<()> {
        let Some(out) = &mut self.out.get_mut().body else { return Err(io::ErrorKind::NotConnected.into()) };
        let mut at = 0;
        while at < bytes.len() {
            let most = (bytes.len() - at).min(PIECE_BYTES);
            out.reserve_capacity(most);
            let began = Instant::now();
            let room = wait::until(STALLED_AFTER, |cx| match out.capacity() {
                0 => match out.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(0))) => {
                        // The window went to another stream; some will be free later.
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                    other => other,
                },
                room => Poll::Ready(Some(Ok(room))),
            });
            let room = match room {
                Some(Some(Ok(room))) => room.min(most),
                Some(Some(Err(error))) => return Err(to_io_error(error)),
                Some(None) => return Err(stream_reset()),
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")),
            };
            let waited = began.elapsed();
            let piece = Bytes::copy_from_slice(&bytes[at..at + room]);
            at += room;
            out.send_data(piece, last && at == bytes.len()).map_err(to_io_error)?;
            self.facts.sent_bytes.fetch_add(room as u64, Ordering::Relaxed);
            self.client_pace.count_sent(room as u64, waited)?;
        }
        Ok(())
    }
}

impl Drop for H2<'_> {
    fn drop(&mut self) {
        if (self.ended && !self.broken) || self.left_to_http1 {
            return;
        }
        let out = self.out.get_mut();
        match &mut out.body {
            Some(body) if !self.ended => body.send_reset(Reason::INTERNAL_ERROR),
            None => out.respond.send_reset(Reason::INTERNAL_ERROR),
            // The answer was complete before the body broke.
            Some(_) => {}
        }
    }
}

impl Exchange for H2<'_> {
    fn request(&self) -> &Request {
        &self.request
    }

    fn peer(&self) -> SocketAddr {
        self.facts.peer
    }

    fn is_secure(&self) -> bool {
        self.facts.secure
    }

    fn certificate(&self) -> Option<&Arc<CertificateCheck>> {
        self.facts.certificate.as_ref()
    }

    fn body_length(&self) -> Option<u64> {
        self.body_length
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let got = self.take(buffer);
        self.note_failure(got)
    }

    fn trailers(&mut self) -> Headers {
        let body = &mut self.body;
        match wait::until(TRAILERS_WITHIN, |cx| body.poll_trailers(cx)) {
            Some(Ok(Some(fields))) => web::parts::trailers(&fields),
            _ => Headers::new(),
        }
    }

    fn expect_short_body(&mut self) {
        self.body_pace.expect_short_body();
    }

    fn add_to_answer(&mut self, fields: Headers) {
        self.extra_fields = fields;
    }

    fn begin(&mut self, mut response: Response, length: Length) -> io::Result<()> {
        let bodiless = matches!(response.status, 204 | 304);
        if let (Length::Known(bytes), false) = (length, bodiless) {
            response.headers.set("Content-Length", bytes.to_string());
        }
        crate::exchange::add_common_fields(&mut response, &self.extra_fields);
        self.ended = bodiless || self.request.method == Method::Head || length == Length::Known(0);
        self.left = match length {
            Length::Known(bytes) => Some(bytes),
            Length::Open => None,
        };
        let out = self.out.get_mut();
        match out.respond.send_response(heads::response(&response), self.ended) {
            Ok(body) => {
                out.body = Some(body);
                Ok(())
            }
            Err(error) => self.note_failure(Err(to_io_error(error))),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // This answer has no body, or it is complete.
        if self.ended || bytes.is_empty() {
            return Ok(());
        }
        let mut last = false;
        if let Some(left) = &mut self.left {
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                return self.note_failure(Err(io::Error::other("the answer is longer than its head states")));
            };
            (*left, last) = (rest, rest == 0);
        }
        let sent = self.put(bytes, last);
        self.note_failure(sent)?;
        self.ended |= last;
        Ok(())
    }

    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64, sent: &mut dyn FnMut(u64)) -> io::Result<()> {
        let copied = copy_range(source, offset, bytes, &mut |piece| {
            self.write(piece)?;
            sent(piece.len() as u64);
            Ok(())
        });
        self.note_failure(copied)
    }

    fn end(&mut self, trailers: &Headers) -> io::Result<()> {
        // An answer that is not complete is reset when it is dropped.
        if self.ended || self.left.is_some() {
            return Ok(());
        }
        let Some(out) = &mut self.out.get_mut().body else { return Err(io::ErrorKind::NotConnected.into()) };
        let trailers = heads::fields(trailers);
        let sent = if trailers.is_empty() { out.send_data(Bytes::new(), true) } else { out.send_trailers(trailers) };
        self.note_failure(sent.map_err(to_io_error))?;
        self.ended = true;
        Ok(())
    }

    fn is_multiplexed(&self) -> bool {
        true
    }

    fn bytes_sent_by_connection(&self) -> u64 {
        self.facts.sent_bytes.load(Ordering::Relaxed)
    }

    fn leave_to_http1(&mut self) -> bool {
        // libcurl repeats the request by itself (RFC 9113, section 7), in xrootd's copies as well; some other clients fail. Only for
        // GET: curl (7.88) does not repeat a body that it has begun to send.
        let agent = self.request.headers.get("user-agent").unwrap_or_default();
        let repeats_request = ["curl/", "xrootd-tpc/"].iter().any(|known| agent.starts_with(known));
        if self.has_begun() || !repeats_request {
            return false;
        }
        self.out.get_mut().respond.send_reset(Reason::HTTP_1_1_REQUIRED);
        self.left_to_http1 = true;
        true
    }

    fn has_begun(&self) -> bool {
        self.left_to_http1 || self.out.borrow().body.is_some()
    }

    fn is_closed_by_peer(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let ResponseStream { respond, body } = &mut *self.out.borrow_mut();
        // After a complete answer the client may close the stream.
        if self.ended {
            return false;
        }
        is_reset(match body {
            Some(out) => out.poll_reset(&mut cx),
            None => respond.poll_reset(&mut cx),
        })
    }
}
