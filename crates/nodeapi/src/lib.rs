//! A typed client of a node's API (`/api/v1`), blocking, over the HTTP client of `web`.
//!
//! What this crate does not know: how a node does what it is asked, who one is (it is given the field), whom to trust and how to
//! dial (it is given a dialer).
//!
//! A request that is answered by a problem is an error with that problem: its fault and its reason are the node's own words. Every
//! request has a connection of its own: what is asked once in a while needs no pool, and a node that restarted is found again.

use model::id::Uuid;
use model::v1::Receipt;
use model::v1::node::{Capabilities, Health, Order, Probe, ProbeOrder, ProbeStage, Probes, Problem};
use model::v1::{Change, Stage, Transfer, Transfers};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web::client::ClientError;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

/// Bytes of an answer: a page of 10,000 transfers is some 7 MB, and names may be long.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Bytes of an event: one transfer.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Why there is no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node says no.
    #[error("the node refuses ({}): {}", .0.status, .0.reason)]
    Refused(Problem),
    /// Something answers, and not with what the API says.
    #[error("what answered does not speak the node's API: {0}")]
    Protocol(String),
    /// Nobody can be asked.
    #[error(transparent)]
    Line(#[from] ClientError),
}

type Result<T> = std::result::Result<T, Error>;

/// A node's API.
#[derive(Clone)]
pub struct Api {
    dialer: Dialer,
    origin: HttpUrl,
    headers: Headers,
}

/// Which transfers, or which tests.
#[derive(Clone, Copy, Debug)]
pub struct Which<S = Stage> {
    /// Only those in this state.
    pub state: Option<S>,
    /// Only those behind this one.
    pub after: Option<Uuid>,
    /// So many at most; the node's default otherwise.
    pub limit: Option<usize>,
}

impl<S> Default for Which<S> {
    fn default() -> Which<S> {
        Which { state: None, after: None, limit: None }
    }
}

impl<S: Copy> Which<S> {
    fn query(&self, word: fn(S) -> &'static str) -> String {
        let mut query = Vec::new();
        query.extend(self.state.map(|state| format!("state={}", word(state))));
        query.extend(self.after.map(|after| format!("after={after}")));
        query.extend(self.limit.map(|limit| format!("limit={limit}")));
        query.join("&")
    }
}

impl Api {
    /// The API of the node at `https://HOST:PORT/`; `authorization` is the value of that field, `Bearer …`.
    pub fn new(dialer: Dialer, origin: HttpUrl, authorization: Option<&str>) -> Api {
        let mut headers = Headers::new();
        if let Some(value) = authorization {
            headers.add("Authorization", value);
        }
        Api { dialer, origin, headers }
    }

    /// Whether the node is well.
    pub fn health(&self) -> Result<Health> {
        self.get("/api/v1/health")
    }

    /// What it can do for us.
    pub fn capabilities(&self) -> Result<Capabilities> {
        self.get("/api/v1/capabilities")
    }

    /// Orders a transfer, and whether it is a new one: the same order may be sent again and again.
    pub fn create(&self, order: &Order) -> Result<(Transfer, bool)> {
        let (status, transfer) = self.ask(&Method::Post, "/api/v1/transfers", Some(order))?;
        Ok((transfer, status == 201))
    }

    /// A page of our transfers.
    pub fn list(&self, which: Which) -> Result<Transfers> {
        self.get(&format!("/api/v1/transfers?{}", which.query(Stage::word)))
    }

    /// One of them.
    pub fn transfer(&self, id: Uuid) -> Result<Transfer> {
        self.get(&format!("/api/v1/transfers/{id}"))
    }

    /// Changes one.
    pub fn change(&self, id: Uuid, change: &Change) -> Result<Transfer> {
        Ok(self.ask(&Method::parse("PATCH"), &format!("/api/v1/transfers/{id}"), Some(change))?.1)
    }

    /// Ends one. What has arrived stays.
    pub fn cancel(&self, id: Uuid) -> Result<Transfer> {
        Ok(self.ask(&Method::Delete, &format!("/api/v1/transfers/{id}"), None::<&()>)?.1)
    }

    /// What one that has ended came to.
    pub fn receipt(&self, id: Uuid) -> Result<Receipt> {
        self.get(&format!("/api/v1/transfers/{id}/receipt"))
    }

    /// Orders a test from that node to another, and whether it is a new one: the same order may be sent again and again.
    pub fn create_probe(&self, order: &ProbeOrder) -> Result<(Probe, bool)> {
        let (status, probe) = self.ask(&Method::Post, "/api/v1/probes", Some(order))?;
        Ok((probe, status == 201))
    }

    /// A page of our tests, without their reports.
    pub fn list_probes(&self, which: Which<ProbeStage>) -> Result<Probes> {
        self.get(&format!("/api/v1/probes?{}", which.query(ProbeStage::word)))
    }

    /// One of them, with its report once it is done.
    pub fn probe(&self, id: Uuid) -> Result<Probe> {
        self.get(&format!("/api/v1/probes/{id}"))
    }

    /// Ends one.
    pub fn cancel_probe(&self, id: Uuid) -> Result<Probe> {
        Ok(self.ask(&Method::Delete, &format!("/api/v1/probes/{id}"), None::<&()>)?.1)
    }

    /// What happens to one, or to all; from behind an event that was heard before.
    pub fn events(&self, id: Option<Uuid>, last: Option<&str>) -> Result<Events> {
        let target = id.map_or("/api/v1/events".to_owned(), |id| format!("/api/v1/transfers/{id}/events"));
        let mut headers = self.headers.clone().with("Accept", "text/event-stream");
        if let Some(last) = last {
            headers.add("Last-Event-ID", last);
        }
        let mut client = Client::new(&self.dialer, &self.origin)?;
        client.send(&Method::Get, &target, &headers)?;
        let (response, mut body) = client.answer(&Method::Get)?;
        match response.status {
            200 | 204 => Ok(Events { client, body, unread: Vec::new() }),
            _ => {
                let said = client.read_all(&mut body, ANSWER_BYTES_MAX)?;
                Err(refused(&response, &said))
            }
        }
    }

    fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T> {
        Ok(self.ask(&Method::Get, target, None::<&()>)?.1)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &Method,
        target: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(u16, T)> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| Error::Protocol(e.to_string()))?;
        let mut headers = self.headers.clone();
        if let Some(body) = &body {
            headers.add("Content-Type", "application/json");
            headers.add("Content-Length", body.len().to_string());
        }
        let mut client = Client::new(&self.dialer, &self.origin)?;
        client.send(method, target, &headers)?;
        client.write(&body.unwrap_or_default())?;
        let (response, mut body) = client.answer(method)?;
        let said = client.read_all(&mut body, ANSWER_BYTES_MAX)?;
        match response.status {
            200..=299 => {
                let read = serde_json::from_slice(&said).map_err(|e| Error::Protocol(e.to_string()))?;
                Ok((response.status, read))
            }
            _ => Err(refused(&response, &said)),
        }
    }
}

fn refused(response: &Response, said: &[u8]) -> Error {
    match serde_json::from_slice(said) {
        Ok(problem) => Error::Refused(problem),
        Err(_) => Error::Protocol(format!("status {} without a problem", response.status)),
    }
}

/// An event: a transfer as it is now, and the mark by which to go on behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What `Last-Event-ID` is to say.
    pub id: String,
    /// The transfer.
    pub transfer: Transfer,
}

/// Events as they come.
pub struct Events {
    client: Client,
    body: Body,
    unread: Vec<u8>,
}

impl Events {
    /// The next event; none where the node has no more to say.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                if let Some(event) = read_event(&String::from_utf8_lossy(&block))? {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.unread.len() > EVENT_BYTES_MAX {
                return Err(Error::Protocol("an event without an end".into()));
            }
            let mut piece = [0; 16 << 10];
            match self.client.read(&mut self.body, &mut piece)? {
                0 => return Ok(None),
                got => self.unread.extend_from_slice(&piece[..got]),
            }
        }
    }
}

/// A block of the stream; none where it is a comment.
fn read_event(block: &str) -> Result<Option<Event>> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if field("event") != Some("transfer") {
        return Ok(None);
    }
    let data = field("data").ok_or_else(|| Error::Protocol("an event without data".into()))?;
    let transfer = serde_json::from_str(data).map_err(|e| Error::Protocol(e.to_string()))?;
    Ok(Some(Event { id: field("id").unwrap_or_default().to_owned(), transfer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_from_comments() {
        assert_eq!(read_event(": still here\n\n").unwrap(), None);
        let transfer = Transfer { state: Stage::Done, ..Transfer::default() };
        let block = format!("id: 7\nevent: transfer\ndata: {}\n\n", serde_json::to_string(&transfer).unwrap());
        assert_eq!(read_event(&block).unwrap(), Some(Event { id: "7".into(), transfer }));
        assert!(read_event("id: 7\nevent: transfer\n\n").is_err());
    }
}
