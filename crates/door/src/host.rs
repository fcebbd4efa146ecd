//! The node as its sessions see it: who is let in, where exports lie, what goes into the access log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Access, Action, Denied, Rights};
use engine::leftovers::Leftovers;
use engine::node::{Event, Gate, Host, TargetPlace};
use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::locator::Place;
use model::name::{Name, RelPath};
use model::units::{BitRate, Bytes};
use store::ends::{self, End};
use wire::frame::{Direction, KeyProof, Listed, Refusal, Request};
use wire::join::SessionId;

use crate::exports::Served;
use crate::questions;
use crate::registry::Registry;
use crate::state::StateDir;

/// The exports of a node and the rules around them.
pub(crate) struct Exports {
    served: Vec<Served>,
    anonymous: Option<Rights>,
    plain: bool,
    state: StateDir,
    registry: Registry,
}

pub(crate) fn refuse(error: &(impl Blame + std::error::Error)) -> Refusal {
    Refusal::from_error(error)
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

impl Exports {
    pub fn new(
        served: Vec<Served>,
        anonymous: Option<Rights>,
        plain: bool,
        state: StateDir,
        registry: Registry,
    ) -> Exports {
        Exports { served, anonymous, plain, state, registry }
    }

    /// Exports that somebody may know of.
    pub fn visible<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a Served> {
        self.served.iter().filter(|s| access.may_see(&s.export.name))
    }

    /// The export at a place, if the action is allowed there.
    pub fn allowed<'a>(
        &'a self,
        access: &Access,
        action: Action,
        place: &'a Place,
    ) -> Result<(&'a Served, &'a RelPath), Refusal> {
        let Place::Path { export, path } = place else {
            let reason = format!("{place:?} is not a path of an export").to_lowercase();
            return Err(Refusal::new(Fault::Config, reason));
        };
        let served = self.served.iter().find(|s| s.export.name == *export && access.may_see(export));
        let served = served.ok_or_else(|| refuse(&Denied::NoExport(export.clone())))?;
        access.allow(action, export, served.export.writable, path).map_err(|e| refuse(&e))?;
        Ok((served, path))
    }

    /// Writes down where unfinished files are made, so that a later job can sweep them if this one is killed.
    fn watch_leftovers(&self, served: &Served, tag: &str) -> Box<dyn Fn(&RelPath) + Send + Sync> {
        Leftovers::sweep(self.state.path());
        match Leftovers::begin(self.state.path(), &served.export.dir, tag) {
            Ok(leftovers) => Box::new(move |dir| leftovers.opening(dir)),
            Err(error) => {
                tracing::warn!(%error, "cannot write down unfinished files; if this job is killed they stay");
                Box::new(|_| {})
            }
        }
    }
}

impl Host for Exports {
    fn login(&self, key: Option<&KeyProof>, _peer: SocketAddr) -> Result<Access, Refusal> {
        let Some(key) = key else {
            return self.anonymous.map(Access::Anonymous).ok_or_else(|| refuse(&Denied::NoKey));
        };
        let grants = self.state.grants().map_err(|error| {
            tracing::error!(%error, "grants cannot be read: nobody is let in");
            Refusal::new(Fault::Local, "the node cannot read its grants; its operator must look at its log")
        })?;
        grants.check(&key.id, &key.secret, unix_seconds()).map_err(|e| refuse(&e))
    }

    fn open_gate(&self, session: SessionId, gate: Gate) -> Result<Box<dyn Send>, Refusal> {
        self.registry.open(session, gate)
    }

    fn allows_plain(&self) -> bool {
        self.plain
    }

    fn source(&self, access: &Access, place: &Place) -> Result<SourceRoot, Refusal> {
        if let Place::Zero(size) = place {
            let store = Arc::new(End::Zero(size.0));
            return Ok(SourceRoot { store, path: RelPath::root(), name: ends::zero_name() });
        }
        let (served, path) = self.allowed(access, Action::Read, place)?;
        let name = path.name().or_else(|| Name::new(served.export.name.as_bytes()).ok());
        let name = name.ok_or_else(|| Refusal::new(Fault::Bug, "the export has no usable name"))?;
        Ok(SourceRoot { store: Arc::clone(&served.store), path: path.clone(), name })
    }

    fn target(&self, access: &Access, place: &Place, tag: &str) -> Result<TargetPlace, Refusal> {
        if *place == Place::Null {
            let (store, path) = (Arc::new(End::Null), RelPath::root());
            return Ok(TargetPlace { store, path, may_replace: Ok(()), opening: Box::new(|_| {}) });
        }
        let (served, path) = self.allowed(access, Action::Create, place)?;
        let may_replace = self.allowed(access, Action::Modify, place).map(drop);
        let opening = self.watch_leftovers(served, tag);
        Ok(TargetPlace { store: Arc::clone(&served.store), path: path.clone(), may_replace, opening })
    }

    fn ask(
        &self,
        access: &Access,
        request: &Request,
        emit: &mut dyn FnMut(Vec<Listed>) -> bool,
    ) -> Result<(), Refusal> {
        questions::answer(self, access, request, emit)
    }

    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        let who = access.who();
        match event {
            Event::Login { software } => {
                tracing::info!(target: "access", %peer, who, event = "login", software);
            }
            Event::Asked { request, refusal } => {
                let (what, outcome) = (questions::describe(request), refusal.map_or("done", |_| "refused"));
                let error = refusal.map(|r| r.reason.as_str());
                tracing::info!(target: "access", %peer, who, event = "ask", what, outcome, error);
            }
            Event::Job { order, totals, elapsed, error } => {
                let event = if order.direction == Direction::Push { "push" } else { "pull" };
                let places: Vec<String> = order.places.iter().take(3).map(Place::to_string).collect();
                let rate = BitRate::mean(Bytes(totals.bytes), elapsed.as_secs_f64()).to_string();
                let outcome = match error {
                    Some(_) => "failed",
                    None if totals.failed > 0 => "partial",
                    None => "done",
                };
                tracing::info!(
                    target: "access", %peer, who, event, job = %model::id::Uuid::from_bytes(order.job),
                    places = places.join(" "), outcome, bytes = totals.bytes, files = totals.files,
                    skipped = totals.skipped, failed = totals.failed, seconds = elapsed.as_secs_f64(), rate,
                    error = error.map(|e| e.as_refusal().reason),
                );
            }
        }
    }
}
