//! A typed client of a node's API (`/api/v1`), blocking, over the HTTP client of `web`.
//!
//! What this crate does not know: how a node works, where credentials come from (the caller passes the `Authorization` field), and
//! which hosts to trust and how to dial them (the caller passes a dialer).

use model::id::Uuid;
use model::v1::Receipt;
use model::v1::flows::Flows;
use model::v1::node::{
    Capabilities, FileResults, Health, Measurements, Order, Probe, ProbeOrder, ProbeStage, Probes, Schedule,
    ScheduleStatus, Schedules, ScratchChange, ScratchFiles, ScratchOrder, ScratchPlace,
};
use model::v1::{Change, Stage, Transfer, Transfers};
use web::api_client::{ApiClient, EventStream};
use web::{Dialer, HttpUrl, Method};

pub use web::api_client::ApiError as Error;

type Result<T> = std::result::Result<T, Error>;

/// A node's API.
#[derive(Clone)]
pub struct Api(ApiClient);

/// Selects a page of transfers or tests.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery<S = Stage> {
    /// Only items in this state.
    pub state: Option<S>,
    /// Only items after this one.
    pub after: Option<Uuid>,
    /// The greatest length of the page; without it the node's default.
    pub limit: Option<usize>,
}

impl<S> Default for PageQuery<S> {
    fn default() -> PageQuery<S> {
        PageQuery { state: None, after: None, limit: None }
    }
}

impl<S: Copy> PageQuery<S> {
    fn query(&self, word: fn(S) -> &'static str) -> String {
        let mut query = Vec::new();
        query.extend(self.state.map(|state| format!("state={}", word(state))));
        query.extend(self.after.map(|after| format!("after={after}")));
        query.extend(self.limit.map(|limit| format!("limit={limit}")));
        query.join("&")
    }
}

impl Api {
    /// The API of the node at `https://HOST:PORT/`. `authorization` is the value of the field `Authorization`: `Bearer …`.
    pub fn new(dialer: Dialer, origin: HttpUrl, authorization: Option<&str>) -> Api {
        Api(ApiClient::new("node", dialer, origin, authorization))
    }

    /// The node's health.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn health(&self) -> Result<Health> {
        self.0.get("/api/v1/health")
    }

    /// What the node offers this client.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn capabilities(&self) -> Result<Capabilities> {
        self.0.get("/api/v1/capabilities")
    }

    /// The audit of the host's settings, where the node allows it: `host` and `findings`, as in `longhaul tune audit --json`.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn host(&self) -> Result<serde_json::Value> {
        self.0.get("/api/v1/host")
    }

    /// The traffic of the host's NICs, as WLCG's document of a site's network.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn network(&self) -> Result<serde_json::Value> {
        self.0.get("/api/v1/site-network")
    }

    /// The `top` flows with the most traffic at the node.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn flows(&self, top: usize) -> Result<Flows> {
        self.0.get(&format!("/api/v1/flows?top={top}"))
    }

    /// Orders a transfer. Returns it, and whether it is new: the same order may be sent repeatedly.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn create_transfer(&self, order: &Order) -> Result<(Transfer, bool)> {
        let (status, transfer) = self.0.send(&Method::Post, "/api/v1/transfers", Some(order))?;
        Ok((transfer, status == 201))
    }

    /// A page of the client's transfers.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn list_transfers(&self, which: PageQuery) -> Result<Transfers> {
        self.0.get(&format!("/api/v1/transfers?{}", which.query(Stage::word)))
    }

    /// A transfer.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn transfer(&self, id: Uuid) -> Result<Transfer> {
        self.0.get(&format!("/api/v1/transfers/{id}"))
    }

    /// The results of a transfer's files if the order named them one by one: at most `limit`, without the first `after`.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn files(&self, id: Uuid, after: u64, limit: usize) -> Result<FileResults> {
        self.0.get(&format!("/api/v1/transfers/{id}/files?after={after}&limit={limit}"))
    }

    /// Changes the settings of a transfer.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn change_transfer(&self, id: Uuid, change: &Change) -> Result<Transfer> {
        Ok(self.0.send(&Method::parse("PATCH"), &format!("/api/v1/transfers/{id}"), Some(change))?.1)
    }

    /// Cancels a transfer. Files that have arrived stay.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn cancel_transfer(&self, id: Uuid) -> Result<Transfer> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/transfers/{id}"), None::<&()>)?.1)
    }

    /// The receipt of a transfer that has ended.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn receipt(&self, id: Uuid) -> Result<Receipt> {
        self.0.get(&format!("/api/v1/transfers/{id}/receipt"))
    }

    /// Orders a test from this node to another. Returns it, and whether it is new: the same order may be sent repeatedly.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn create_probe(&self, order: &ProbeOrder) -> Result<(Probe, bool)> {
        let (status, probe) = self.0.send(&Method::Post, "/api/v1/probes", Some(order))?;
        Ok((probe, status == 201))
    }

    /// A page of the client's tests, without their reports.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn list_probes(&self, which: PageQuery<ProbeStage>) -> Result<Probes> {
        self.0.get(&format!("/api/v1/probes?{}", which.query(ProbeStage::word)))
    }

    /// A test, with its report once it is done.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn probe(&self, id: Uuid) -> Result<Probe> {
        self.0.get(&format!("/api/v1/probes/{id}"))
    }

    /// Cancels a test.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn cancel_probe(&self, id: Uuid) -> Result<Probe> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/probes/{id}"), None::<&()>)?.1)
    }

    /// Has the node repeat a test. Returns the schedule, and whether it is new: the same schedule may be sent repeatedly.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn create_schedule(&self, schedule: &Schedule) -> Result<(ScheduleStatus, bool)> {
        let (code, status) = self.0.send(&Method::Post, "/api/v1/schedules", Some(schedule))?;
        Ok((status, code == 201))
    }

    /// The client's schedules.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn schedules(&self) -> Result<Schedules> {
        self.0.get("/api/v1/schedules")
    }

    /// Removes a schedule.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn remove_schedule(&self, id: Uuid) -> Result<ScheduleStatus> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/schedules/{id}"), None::<&()>)?.1)
    }

    /// At most `limit` measurements of the client's schedules with numbers above `after`. Waits up to `wait_s` seconds for the first.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn measurements(&self, after: u64, limit: usize, wait_s: u32) -> Result<Measurements> {
        self.0.get(&format!("/api/v1/measurements?after={after}&limit={limit}&wait_s={wait_s}"))
    }

    /// Orders a scratch place. Returns it, and whether it is new: only then it has its key. The same order sent again renews it.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn create_scratch(&self, order: &ScratchOrder) -> Result<(ScratchPlace, bool)> {
        let (status, place) = self.0.send(&Method::Post, "/api/v1/scratches", Some(order))?;
        Ok((place, status == 201))
    }

    /// A scratch place.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn scratch(&self, id: Uuid) -> Result<ScratchPlace> {
        self.0.get(&format!("/api/v1/scratches/{id}"))
    }

    /// Renews a scratch place.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn renew_scratch(&self, id: Uuid, change: ScratchChange) -> Result<ScratchPlace> {
        Ok(self.0.send(&Method::parse("PATCH"), &format!("/api/v1/scratches/{id}"), Some(&change))?.1)
    }

    /// Ends a scratch place, with its key, its files, and the transfers that were ordered with the key. Returns it as it was.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn remove_scratch(&self, id: Uuid) -> Result<ScratchPlace> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/scratches/{id}"), None::<&()>)?.1)
    }

    /// Has the node make files in a scratch place, in the background; [`Api::scratch`] says how many it has made.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn make_scratch_files(&self, id: Uuid, files: &ScratchFiles) -> Result<ScratchPlace> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/scratches/{id}/files"), Some(files))?.1)
    }

    /// The events of one transfer, or of all; those after the event `last`.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses the request.
    pub fn events(&self, id: Option<Uuid>, last: Option<&str>) -> Result<Events> {
        let target = id.map_or("/api/v1/events".to_owned(), |id| format!("/api/v1/transfers/{id}/events"));
        Ok(Events(self.0.listen(&target, last)?))
    }
}

/// An event: a transfer as it is now, and the id from which to resume.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The value of `Last-Event-ID` that resumes after this event.
    pub id: String,
    /// The transfer.
    pub transfer: Transfer,
}

/// A stream of events.
pub struct Events(EventStream);

impl Events {
    /// Waits for the next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection breaks, or an event does not parse.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        while let Some(event) = self.0.next_event()? {
            if event.event == "transfer" {
                let why = |e: serde_json::Error| Error::Protocol { server: "node", why: e.to_string() };
                return Ok(Some(Event { id: event.id, transfer: serde_json::from_str(&event.data).map_err(why)? }));
            }
        }
        Ok(None)
    }
}
