//! A client of the JSON APIs of nodes and hubs: the part that both have in common.
//!
//! A response that is a problem (RFC 9457) becomes an error with the fault and the reason of the server. One connection is kept open
//! between requests, so that a client that polls every half second makes only one handshake. A GET that fails on a kept connection is
//! sent again on a new one, since the server may have restarted. Other methods always use a new connection.

use std::sync::Arc;

use model::v1::node::Problem;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::ClientError;
use crate::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

/// The most bytes of a response: a page of 10,000 transfers is some 7 MB, and names may be long.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The server refuses the request.
    #[error("the {server} refuses ({}): {}", .problem.status, .problem.reason)]
    Refused {
        /// The kind of server: `node` or `hub`.
        server: &'static str,
        /// The refusal.
        problem: Problem,
    },
    /// The response is not one of the API.
    #[error("the response is not one of the API of a {server}: {why}")]
    Protocol {
        /// The expected kind of server.
        server: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The server cannot be reached.
    #[error(transparent)]
    Connection(#[from] ClientError),
}

/// A client of one server's API.
#[derive(Clone)]
pub struct ApiClient {
    server: &'static str,
    dialer: Dialer,
    origin: HttpUrl,
    headers: Headers,
    /// The connection of the last request, where its server keeps it open.
    kept: Arc<Mutex<Option<Client>>>,
}

impl ApiClient {
    /// A client of the server at `https://HOST:PORT/`. `server` is `node` or `hub`; `authorization` is the value of the field
    /// `Authorization`, such as `Bearer …`.
    pub fn new(server: &'static str, dialer: Dialer, origin: HttpUrl, authorization: Option<&str>) -> ApiClient {
        let mut headers = Headers::new();
        if let Some(value) = authorization {
            headers.add("Authorization", value);
        }
        ApiClient { server, dialer, origin, headers, kept: Arc::default() }
    }

    /// Sends a GET, and parses the response.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or does not speak its API.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, ApiError> {
        Ok(self.send(&Method::Get, target, None::<&()>)?.1)
    }

    /// Sends a request with a body. Returns the status and the parsed response.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or does not speak its API.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: &Method,
        target: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(u16, T), ApiError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| self.protocol(e.to_string()))?;
        let mut headers = self.headers.clone();
        if let Some(body) = &body {
            headers.add("Content-Type", "application/json");
            headers.add("Content-Length", body.len().to_string());
        }
        let body = body.unwrap_or_default();
        let kept = if *method == Method::Get { self.kept.lock().take() } else { None };
        let over_kept = kept.and_then(|client| self.exchange(client, method, target, &headers, &body).ok());
        let (response, text) = match over_kept {
            Some(exchanged) => exchanged,
            None => self.exchange(Client::new(&self.dialer, &self.origin)?, method, target, &headers, &body)?,
        };
        match response.status {
            200..=299 => {
                let read = serde_json::from_slice(&text).map_err(|e| self.protocol(e.to_string()))?;
                Ok((response.status, read))
            }
            _ => Err(self.refused(&response, &text)),
        }
    }

    /// Sends a request on a connection, reads the response, and keeps the connection if the server does.
    fn exchange(
        &self,
        mut client: Client,
        method: &Method,
        target: &str,
        headers: &Headers,
        body: &[u8],
    ) -> Result<(Response, Vec<u8>), ClientError> {
        client.send(method, target, headers)?;
        client.write(body)?;
        let (response, mut body) = client.final_response(method)?;
        let text = client.read_all(&mut body, ANSWER_BYTES_MAX)?;
        let is_closed = response.headers.all("connection").any(|word| word.trim().eq_ignore_ascii_case("close"));
        if !is_closed {
            *self.kept.lock() = Some(client);
        }
        Ok((response, text))
    }

    /// Opens a stream of events; `last` is the id of the last event that was received before.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or does not speak its API.
    pub fn listen(&self, target: &str, last: Option<&str>) -> Result<EventStream, ApiError> {
        let mut headers = self.headers.clone().with("Accept", "text/event-stream");
        if let Some(last) = last {
            headers.add("Last-Event-ID", last);
        }
        let mut client = Client::new(&self.dialer, &self.origin)?;
        client.send(&Method::Get, target, &headers)?;
        let (response, mut body) = client.final_response(&Method::Get)?;
        match response.status {
            200 | 204 => Ok(EventStream { server: self.server, client, body, unread: Vec::new() }),
            _ => {
                let text = client.read_all(&mut body, ANSWER_BYTES_MAX)?;
                Err(self.refused(&response, &text))
            }
        }
    }

    fn protocol(&self, why: String) -> ApiError {
        ApiError::Protocol { server: self.server, why }
    }

    fn refused(&self, response: &Response, text: &[u8]) -> ApiError {
        match serde_json::from_slice(text) {
            Ok(problem) => ApiError::Refused { server: self.server, problem },
            // A credential is checked before the request reaches the API, so this refusal is plain text.
            Err(_) if matches!(response.status, 401 | 403) => {
                let problem = Problem {
                    title: "refused".to_owned(),
                    status: response.status,
                    fault: "auth".to_owned(),
                    reason: String::from_utf8_lossy(text).trim().to_owned(),
                };
                ApiError::Refused { server: self.server, problem }
            }
            Err(_) => self.protocol(format!("status {} without a problem", response.status)),
        }
    }
}

/// The most bytes of an event: one transfer.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentEvent {
    /// Its id, for `Last-Event-ID`.
    pub id: String,
    /// Its name.
    pub event: String,
    /// Its data.
    pub data: String,
}

/// A stream of server-sent events.
pub struct EventStream {
    server: &'static str,
    client: Client,
    body: Body,
    unread: Vec<u8>,
}

impl EventStream {
    /// The next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection breaks, or an event has no end.
    pub fn next_event(&mut self) -> Result<Option<SentEvent>, ApiError> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                if let Some(event) = read_event(&String::from_utf8_lossy(&block)) {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.unread.len() > EVENT_BYTES_MAX {
                return Err(ApiError::Protocol { server: self.server, why: "an event is too long".into() });
            }
            let mut piece = [0; 16 << 10];
            match self.client.read(&mut self.body, &mut piece)? {
                0 => return Ok(None),
                got => self.unread.extend_from_slice(&piece[..got]),
            }
        }
    }
}

/// Parses a block of the stream; `None` where it is a comment.
fn read_event(block: &str) -> Option<SentEvent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (event, data) = (field("event")?.to_owned(), field("data")?.to_owned());
    Some(SentEvent { id: field("id").unwrap_or_default().to_owned(), event, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_in_a_stream_of_events_are_skipped() {
        assert_eq!(read_event(": still here\n\n"), None);
        let event = SentEvent { id: "7".into(), event: "transfer".into(), data: "{}".into() };
        assert_eq!(read_event("id: 7\nevent: transfer\ndata: {}\n\n"), Some(event));
    }
}
