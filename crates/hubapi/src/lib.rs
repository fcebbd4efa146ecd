//! A typed client of a hub's API (`/api/v1`), blocking, over the HTTP client of `web`.
//!
//! What this crate does not know: how a hub carries out a request, which credential the client has (the caller gives the header field),
//! which servers to trust and how to connect (the caller gives a dialer).

mod data;
mod exercises;
mod people;

use std::marker::PhantomData;

use model::v1::hub::{
    Collaboration, Community, Endpoint, Files, Job, JobChange, JobEvent, JobOrder, Jobs, Link, PlanTwin, Queues,
    Shares, Site, Stopped, WhoAmI, Why,
};
use model::v1::watch::{
    Acknowledgement, Alarm, Alarms, Annotation, Grid, History, Interfaces, Talkers, Why as PathWhy,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web::api_client::{ApiClient, EventStream};
use web::target::encode;
use web::{Dialer, HttpUrl, Method};

pub use data::DataQuery;
pub use web::api_client::ApiError as Error;

type Result<T> = std::result::Result<T, Error>;

/// A hub's API.
///
/// # Errors
/// Every method fails as [`ApiClient::ask`] does.
#[derive(Clone)]
pub struct Api(ApiClient);

/// A part of the collaboration's description that has a name: a site, an endpoint, a link, a community.
pub trait DescribedPart: Serialize + DeserializeOwned {
    /// The path of its kind: `sites`.
    const KIND: &'static str;
}

impl DescribedPart for Site {
    const KIND: &'static str = "sites";
}

impl DescribedPart for Endpoint {
    const KIND: &'static str = "endpoints";
}

impl DescribedPart for Link {
    const KIND: &'static str = "links";
}

impl DescribedPart for Community {
    const KIND: &'static str = "communities";
}

impl Api {
    /// The API of the hub at `https://HOST:PORT/`; `authorization` is the value of the header field of that name: `Bearer …`.
    pub fn new(dialer: Dialer, origin: HttpUrl, authorization: Option<&str>) -> Api {
        Api(ApiClient::new("hub", dialer, origin, authorization))
    }

    /// The state of all watched pairs; of one test only, if it is named.
    pub fn watch_grid(&self, test: Option<&str>) -> Result<Grid> {
        let query = test.map(|test| format!("?test={test}")).unwrap_or_default();
        self.0.get(&format!("/api/v1/watch/grid{query}"))
    }

    /// Measurements of a pair since a time.
    pub fn watch_history(&self, from: &str, to: &str, test: &str, since: &str, rows: u32) -> Result<History> {
        let [from, to, test, since] = [from, to, test, since].map(|text| encode(text.as_bytes()));
        self.0.get(&format!("/api/v1/watch/history?from={from}&to={to}&test={test}&since={since}&rows={rows}"))
    }

    /// The alarms that are open; with a time, also those that have ended since.
    pub fn watch_alarms(&self, since: Option<&str>) -> Result<Alarms> {
        let query = since.map(|since| format!("?since={}", encode(since.as_bytes()))).unwrap_or_default();
        self.0.get(&format!("/api/v1/watch/alarms{query}"))
    }

    /// The state of a path, and its causes.
    pub fn watch_why(&self, from: &str, to: &str) -> Result<PathWhy> {
        let [from, to] = [from, to].map(|text| encode(text.as_bytes()));
        self.0.get(&format!("/api/v1/watch/why?from={from}&to={to}"))
    }

    /// Acknowledges an alarm: somebody has seen it.
    pub fn watch_acknowledge(&self, id: i64, note: &str) -> Result<Alarm> {
        let acknowledgement = Acknowledgement { by: String::new(), note: note.to_owned() };
        let target = format!("/api/v1/watch/alarms/{id}/acknowledgement");
        Ok(self.0.send(&Method::Post, &target, Some(&acknowledgement))?.1)
    }

    /// Adds an annotation: a note of what happened at a time.
    pub fn watch_annotate(&self, annotation: &Annotation) -> Result<Annotation> {
        Ok(self.0.send(&Method::Post, "/api/v1/watch/annotations", Some(annotation))?.1)
    }

    /// Interfaces whose counters are read.
    pub fn watch_interfaces(&self) -> Result<Interfaces> {
        self.0.get("/api/v1/watch/interfaces")
    }

    /// The clients that move most through all nodes, in a time window that the nodes keep.
    pub fn watch_talkers(&self, window: &str, top: u32) -> Result<Talkers> {
        self.0.get(&format!("/api/v1/watch/talkers?window={}&top={top}", encode(window.as_bytes())))
    }

    /// The public key that the watch signs its directory with.
    pub fn watch_directory_key(&self) -> Result<String> {
        let answer: serde_json::Value = self.0.get("/api/v1/watch/directory/key")?;
        Ok(answer["key"].as_str().unwrap_or_default().to_owned())
    }

    /// The nodes that measure for the watch.
    pub fn watch_nodes(&self) -> Result<Vec<serde_json::Value>> {
        self.0.get("/api/v1/watch/nodes")
    }

    /// The collaboration as the text of a scenario.
    pub fn twin(&self) -> Result<String> {
        let twin: PlanTwin = self.0.get("/api/v1/plan/twin")?;
        Ok(twin.scenario)
    }

    /// The name and role of the client at the hub.
    pub fn whoami(&self) -> Result<WhoAmI> {
        self.0.get("/api/v1/whoami")
    }

    /// Submits a job; returns it, and whether it is new: an order may be sent again, and makes one job only.
    pub fn submit(&self, order: &JobOrder) -> Result<(Job, bool)> {
        let (status, job) = self.0.send(&Method::Post, "/api/v1/jobs", Some(order))?;
        Ok((job, status == 201))
    }

    /// A page of jobs, newest first; with `unended`, only those that have not ended.
    pub fn jobs(&self, unended: bool, before: Option<i64>, limit: usize) -> Result<Jobs> {
        let state = if unended { "unended" } else { "all" };
        let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
        self.0.get(&format!("/api/v1/jobs?state={state}&limit={limit}{before}"))
    }

    /// A job by its id.
    pub fn job(&self, id: &str) -> Result<Job> {
        self.0.get(&format!("/api/v1/jobs/{id}"))
    }

    /// A page of the files of a job.
    pub fn files(&self, id: &str, after: i64, limit: usize) -> Result<Files> {
        self.0.get(&format!("/api/v1/jobs/{id}/files?after={after}&limit={limit}"))
    }

    /// Why the waiting files of a job do not move.
    pub fn why(&self, id: &str, limit: usize) -> Result<Vec<Why>> {
        self.0.get(&format!("/api/v1/jobs/{id}/why?limit={limit}"))
    }

    /// Changes a job.
    pub fn change(&self, id: &str, change: &JobChange) -> Result<Job> {
        Ok(self.0.send(&Method::parse("PATCH"), &format!("/api/v1/jobs/{id}"), Some(change))?.1)
    }

    /// Cancels a job. Files that have arrived stay.
    pub fn cancel(&self, id: &str) -> Result<Job> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/jobs/{id}"), None::<&()>)?.1)
    }

    /// The queues that have files.
    pub fn queues(&self) -> Result<Queues> {
        self.0.get("/api/v1/queues")
    }

    /// The queues whose files are promised by a deadline.
    pub fn reservations(&self) -> Result<Queues> {
        self.0.get("/api/v1/reservations")
    }

    /// The shared resources.
    pub fn shares(&self) -> Result<Shares> {
        self.0.get("/api/v1/shares")
    }

    /// The whole description of the collaboration.
    pub fn collaboration(&self) -> Result<Collaboration> {
        self.0.get("/api/v1/collaboration")
    }

    /// Replaces the whole description.
    pub fn describe(&self, all: &Collaboration) -> Result<Collaboration> {
        Ok(self.0.send(&Method::Put, "/api/v1/collaboration", Some(all))?.1)
    }

    /// The description of one part.
    pub fn described<T: DescribedPart>(&self, name: &str) -> Result<T> {
        self.0.get(&format!("/api/v1/{}/{name}", T::KIND))
    }

    /// Describes one part.
    pub fn put<T: DescribedPart>(&self, name: &str, value: &T) -> Result<T> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/{}/{name}", T::KIND), Some(value))?.1)
    }

    /// Removes one part.
    pub fn remove<T: DescribedPart>(&self, name: &str) -> Result<Collaboration> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/{}/{name}", T::KIND), None::<&()>)?.1)
    }

    /// Stops `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`: the hub begins no new transfers for it.
    pub fn stop(&self, what: &str, stopped: &Stopped) -> Result<Collaboration> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/stops/{what}"), Some(stopped))?.1)
    }

    /// Ends a stop.
    pub fn start(&self, what: &str) -> Result<Collaboration> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/stops/{what}"), None::<&()>)?.1)
    }

    /// Events of a job as they happen, after the event with the id `last`.
    pub fn events(&self, id: &str, last: Option<&str>) -> Result<JobEvents> {
        Ok(Events::new(self.0.listen(&format!("/api/v1/jobs/{id}/events"), last)?, "job"))
    }
}

/// A stream of events of one kind.
pub struct Events<T> {
    stream: EventStream,
    /// The `event` field of these events in the stream.
    kind: &'static str,
    of: PhantomData<T>,
}

/// Events of a job.
pub type JobEvents = Events<JobEvent>;

impl<T: DeserializeOwned> Events<T> {
    fn new(stream: EventStream, kind: &'static str) -> Events<T> {
        Events { stream, kind, of: PhantomData }
    }

    /// The next event, with its id for `Last-Event-ID`; `None` when the hub has ended the stream.
    pub fn next_event(&mut self) -> Result<Option<(String, T)>> {
        while let Some(sent) = self.stream.next_event()? {
            if sent.event == self.kind {
                let why = |e: serde_json::Error| Error::Protocol { server: "hub", why: e.to_string() };
                return Ok(Some((sent.id, serde_json::from_str(&sent.data).map_err(why)?)));
            }
        }
        Ok(None)
    }
}
