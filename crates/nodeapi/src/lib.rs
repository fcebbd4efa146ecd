//! A typed client of a node's API (`/api/v1`), blocking, over the HTTP client of `web`.
//!
//! What this crate does not know: how a node does what it is asked, who one is (it is given the field), whom to trust and how to
//! dial (it is given a dialer).

use model::id::Uuid;
use model::v1::Receipt;
use model::v1::flows::Flows;
use model::v1::node::{
    Capabilities, FileResults, Health, Measurements, Order, Probe, ProbeOrder, ProbeStage, Probes, Schedule,
    ScheduleStatus, Schedules,
};
use model::v1::{Change, Stage, Transfer, Transfers};
use web::api_client::{ApiClient, EventStream};
use web::{Dialer, HttpUrl, Method};

pub use web::api_client::ApiError as Error;

type Result<T> = std::result::Result<T, Error>;

/// A node's API.
#[derive(Clone)]
pub struct Api(ApiClient);

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
        Api(ApiClient::new("node", dialer, origin, authorization))
    }

    /// Whether the node is well.
    pub fn health(&self) -> Result<Health> {
        self.0.get("/api/v1/health")
    }

    /// What it can do for us.
    pub fn capabilities(&self) -> Result<Capabilities> {
        self.0.get("/api/v1/capabilities")
    }

    /// How its host's settings stand, where it tells: `host` and `findings`, as `longhaul tune audit --json` has them.
    pub fn host(&self) -> Result<serde_json::Value> {
        self.0.get("/api/v1/host")
    }

    /// What goes over the NICs of its host: WLCG's document of a site's network.
    pub fn network(&self) -> Result<serde_json::Value> {
        self.0.get("/api/v1/site-network")
    }

    /// Who moves most there.
    pub fn flows(&self, top: usize) -> Result<Flows> {
        self.0.get(&format!("/api/v1/flows?top={top}"))
    }

    /// Orders a transfer, and whether it is a new one: the same order may be sent again and again.
    pub fn create(&self, order: &Order) -> Result<(Transfer, bool)> {
        let (status, transfer) = self.0.ask(&Method::Post, "/api/v1/transfers", Some(order))?;
        Ok((transfer, status == 201))
    }

    /// A page of our transfers.
    pub fn list(&self, which: Which) -> Result<Transfers> {
        self.0.get(&format!("/api/v1/transfers?{}", which.query(Stage::word)))
    }

    /// One of them.
    pub fn transfer(&self, id: Uuid) -> Result<Transfer> {
        self.0.get(&format!("/api/v1/transfers/{id}"))
    }

    /// What became of its files, where they were named one by one, behind the first `after`.
    pub fn files(&self, id: Uuid, after: u64, limit: usize) -> Result<FileResults> {
        self.0.get(&format!("/api/v1/transfers/{id}/files?after={after}&limit={limit}"))
    }

    /// Changes one.
    pub fn change(&self, id: Uuid, change: &Change) -> Result<Transfer> {
        Ok(self.0.ask(&Method::parse("PATCH"), &format!("/api/v1/transfers/{id}"), Some(change))?.1)
    }

    /// Ends one. What has arrived stays.
    pub fn cancel(&self, id: Uuid) -> Result<Transfer> {
        Ok(self.0.ask(&Method::Delete, &format!("/api/v1/transfers/{id}"), None::<&()>)?.1)
    }

    /// What one that has ended came to.
    pub fn receipt(&self, id: Uuid) -> Result<Receipt> {
        self.0.get(&format!("/api/v1/transfers/{id}/receipt"))
    }

    /// Orders a test from that node to another, and whether it is a new one: the same order may be sent again and again.
    pub fn create_probe(&self, order: &ProbeOrder) -> Result<(Probe, bool)> {
        let (status, probe) = self.0.ask(&Method::Post, "/api/v1/probes", Some(order))?;
        Ok((probe, status == 201))
    }

    /// A page of our tests, without their reports.
    pub fn list_probes(&self, which: Which<ProbeStage>) -> Result<Probes> {
        self.0.get(&format!("/api/v1/probes?{}", which.query(ProbeStage::word)))
    }

    /// One of them, with its report once it is done.
    pub fn probe(&self, id: Uuid) -> Result<Probe> {
        self.0.get(&format!("/api/v1/probes/{id}"))
    }

    /// Ends one.
    pub fn cancel_probe(&self, id: Uuid) -> Result<Probe> {
        Ok(self.0.ask(&Method::Delete, &format!("/api/v1/probes/{id}"), None::<&()>)?.1)
    }

    /// Has the node repeat a test, and whether it is a new one: the same schedule may be sent again and again.
    pub fn create_schedule(&self, schedule: &Schedule) -> Result<(ScheduleStatus, bool)> {
        let (status, found) = self.0.ask(&Method::Post, "/api/v1/schedules", Some(schedule))?;
        Ok((found, status == 201))
    }

    /// Our schedules.
    pub fn schedules(&self) -> Result<Schedules> {
        self.0.get("/api/v1/schedules")
    }

    /// Removes one.
    pub fn remove_schedule(&self, id: Uuid) -> Result<ScheduleStatus> {
        Ok(self.0.ask(&Method::Delete, &format!("/api/v1/schedules/{id}"), None::<&()>)?.1)
    }

    /// What our schedules found behind a number; waits so long for the first one.
    pub fn measurements(&self, after: u64, limit: usize, wait_s: u32) -> Result<Measurements> {
        self.0.get(&format!("/api/v1/measurements?after={after}&limit={limit}&wait_s={wait_s}"))
    }

    /// What happens to one, or to all; from behind an event that was heard before.
    pub fn events(&self, id: Option<Uuid>, last: Option<&str>) -> Result<Events> {
        let target = id.map_or("/api/v1/events".to_owned(), |id| format!("/api/v1/transfers/{id}/events"));
        Ok(Events(self.0.listen(&target, last)?))
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
pub struct Events(EventStream);

impl Events {
    /// The next event; none where the node has no more to say.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        while let Some(sent) = self.0.next_event()? {
            if sent.event == "transfer" {
                let why = |e: serde_json::Error| Error::Protocol { server: "node", why: e.to_string() };
                return Ok(Some(Event { id: sent.id, transfer: serde_json::from_str(&sent.data).map_err(why)? }));
            }
        }
        Ok(None)
    }
}
