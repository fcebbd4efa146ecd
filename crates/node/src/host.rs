//! The node as its sessions see it: who is let in, where exports lie, what goes into the access log.

mod admission;
mod counted;
mod lending;
mod notes;
mod offer;
mod outbound;
mod reach;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Access, Action, Grants};
use engine::budget::{Budget, Part};
use engine::commons::Commons;
use engine::control::Control;
use engine::history::History;
use engine::journal::{self, Journals};
use engine::leftovers::Leftovers;
use engine::movers::Peers;
use engine::node::{Asker, Event, Gate, Host, Said, TargetPlace};
use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::locator::Place;
use model::name::{Name, RelPath};
use probe::disk::Ground;
use store::ends::{self, End};
use wire::frame::{Direction, KeyProof, Open, Refusal, Request};
use wire::join::SessionId;

pub(crate) use counted::{Filled, user};
use lending::Lent;
pub(crate) use offer::Offer;
pub(crate) use reach::{RENAME_STAYS, Reach, check_name};

use crate::audit::Trail;
use crate::config::NodeConfig;
use crate::current::Current;
use crate::digests::Digests;
use crate::exports::Served;
use crate::jobs::Jobs;
use crate::locks::Locks;
use crate::meters::Meters;
use crate::nics::Nics;
use crate::probes::Probes;
use crate::questions;
use crate::registry::Registry;
use crate::state::StateDir;
use crate::transfers::Transfers;
use crate::trials::Trials;

/// The exports of a node and the rules around them.
pub(crate) struct Exports {
    /// The jobs of this node, which share paths.
    commons: Commons,
    offer: Current<Offer>,
    grants: Grants,
    state: StateDir,
    registry: Registry,
    pub jobs: Jobs,
    pub digests: Digests,
    /// What clients of HTTP have locked.
    pub locks: Arc<Locks>,
    /// What goes over the interfaces of this host.
    pub nics: Nics,
    pub transfers: Transfers,
    /// Tests that this node makes for its guests.
    pub trials: Trials,
    /// Where this node listens.
    address: SocketAddr,
    lent: Lent,
    /// Tests that run.
    pub probes: Probes,
    stopping: AtomicBool,
    /// What is kept in memory for those who ask, until they are answered.
    pub memory: Budget,
    /// Where decisions are written down.
    pub trail: Trail,
    /// What the node does, in numbers.
    pub meters: Arc<Meters>,
    /// It lives for one copy.
    own_guests: bool,
}

/// Bytes of what is being asked, in all and of one holder: lists of files, bodies of orders.
const MEMORY_BYTES: (usize, usize) = (256 << 20, 96 << 20);

/// A store's error for the one who asked.
pub(crate) fn storage(error: store::Error) -> Refusal {
    let mut refusal = refuse(&error);
    if error.is_not_found() {
        refusal.fault = Fault::Missing;
    }
    refusal
}

pub(crate) fn refuse(error: &(impl Blame + std::error::Error)) -> Refusal {
    Refusal::from_error(error)
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

impl Exports {
    pub fn new(me: Weak<Exports>, offer: Offer, config: NodeConfig, registry: Registry) -> Exports {
        let NodeConfig { listen, grants, state, timeouts, own_guests, .. } = config;
        if !own_guests {
            offer.warn();
        }
        // What its operator does with a node of his own is nobody's business to look up.
        let trail = if own_guests { Trail::none() } else { Trail::new(state.path()) };
        let probes = Probes::default();
        let jobs = Jobs::default();
        let digests = Digests::new(state.path());
        let locks = Arc::new(Locks::of((!own_guests).then_some(&state)));
        let trials = Trials::new(Weak::clone(&me));
        let transfers = Transfers::new(me, jobs.clone(), state.path(), timeouts, listen, !own_guests);
        let stopping = AtomicBool::new(false);
        let commons = Commons::default();
        Exports {
            offer: Current::new(offer),
            grants,
            state,
            registry,
            jobs,
            digests,
            locks,
            nics: Nics::default(),
            transfers,
            trials,
            address: listen,
            lent: Lent::default(),
            probes,
            stopping,
            memory: Budget::new(MEMORY_BYTES.0, MEMORY_BYTES.1),
            commons,
            trail,
            meters: Arc::default(),
            own_guests,
        }
    }

    /// Offers this from now on; what has begun goes on as it began. Says in words what is other of the exports.
    pub fn replace(&self, offer: Offer) -> String {
        offer.warn();
        let before = self.offer.now();
        self.offer.replace(offer);
        self.offer.now().changes_since(&before)
    }

    /// The node stops: what it carries ends, to go on with the next start, and no session is kept.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.jobs.cancel_all();
        self.transfers.stop();
        self.trials.stop();
    }

    /// Whether the node stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The directory of a disk test: where an export begins, or the part of it that the key is for. Nothing below: a link
    /// there could lead anywhere. Who may write above a part can put a link in its place, too: it must be the directory
    /// that the store has open.
    fn testing_ground(&self, access: &Access, place: &str) -> Result<Ground, Refusal> {
        let (export, path) = place.split_once('/').unwrap_or((place, ""));
        let path = RelPath::parse(path.as_bytes()).map_err(|e| Refusal::new(Fault::Config, e.to_string()))?;
        let reach = self.allowed(access, Action::Create, &Place::Path { export: export.into(), path })?;
        if !reach.path.is_root() {
            let why = format!("the disk is tested where an export, or your part of it, begins: lh://HOST/{export}");
            return Err(Refusal::new(Fault::Config, why));
        }
        if reach.abroad {
            let why = format!("{export} is no disk of that node: it lies on somebody else's server");
            return Err(Refusal::new(Fault::Config, why));
        }
        let identity = reach.store.stat(&RelPath::root()).map_err(storage)?.identity;
        Ground::open_same(&reach.dir, identity).map_err(|e| refuse(&e))
    }

    /// The names of the exports that somebody may know of.
    pub fn visible(&self, access: &Access) -> Vec<String> {
        self.offer.now().visible(access).map(|served| served.export.name.clone()).collect()
    }

    /// The exports that somebody may know of: their names, whether anything there may be changed, whether they lie elsewhere.
    pub fn describe(&self, access: &Access) -> Vec<(String, bool, bool)> {
        let offer = self.offer.now();
        let facts =
            |served: &Served| (served.export.name.clone(), served.export.writable, served.export.abroad.is_some());
        offer.visible(access).map(facts).collect()
    }

    /// How this host stands, where the node tells.
    pub fn audit(&self, access: &Access, ask: &model::v1::tune::Ask) -> Result<Vec<String>, Refusal> {
        self.probes.audit(self.offer.now().audit, access, ask)
    }

    /// Where this node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the exports lie on this host, by name.
    pub fn dirs(&self) -> Vec<(String, PathBuf)> {
        let offer = self.offer.now();
        let here = offer.served.iter().filter(|served| served.export.abroad.is_none());
        here.map(|served| (served.export.name.clone(), served.export.dir.clone())).collect()
    }

    /// Whether an export that somebody may know of takes no changes, whoever asks.
    pub fn is_read_only(&self, access: &Access, export: &str) -> bool {
        self.offer.now().visible(access).any(|served| served.export.name == export && !served.export.writable)
    }

    /// Whether DELETE, MOVE and COPY over HTTP take a directory away with all that is in it.
    pub fn deletes_trees(&self, export: &str) -> bool {
        self.offer.now().export(export).is_some_and(|served| served.export.recursive_delete)
    }

    /// Whether there is an export of this name, whoever may see it.
    pub fn has_export(&self, name: &str) -> bool {
        self.offer.now().export(name).is_some()
    }

    /// Writes down where unfinished files are made, so that a later job can sweep them if this one is killed.
    pub fn watch_leftovers(&self, reach: &Reach, tag: &str) -> Box<dyn Fn(&RelPath) + Send + Sync> {
        if reach.abroad {
            // Nobody sweeps there, and what is unfinished is removed by the store as far as the server can be reached.
            return Box::new(|_| {});
        }
        Leftovers::sweep(self.state.path());
        match Leftovers::begin(self.state.path(), &reach.dir, tag) {
            Ok(leftovers) => Box::new(move |dir| leftovers.opening(dir)),
            Err(error) => {
                tracing::warn!(%error, "cannot write down unfinished files; if this job is killed they stay");
                Box::new(|_| {})
            }
        }
    }
}

impl Host for Exports {
    fn login(&self, key: Option<&KeyProof>, peer: SocketAddr) -> Result<Access, Refusal> {
        let let_in = self.let_in(key, peer.ip());
        let_in.inspect_err(|refusal| self.turned_away(peer, refusal))
    }

    fn still_stands(&self, access: &Access) -> Result<(), Refusal> {
        self.session_stands(access)
    }

    fn open_gate(&self, session: SessionId, gate: Gate) -> Result<Box<dyn Send>, Refusal> {
        self.registry.open(session, gate)
    }

    fn memory(&self, access: &Access) -> Part {
        self.memory.part(access.holder())
    }

    fn commons(&self) -> Option<Commons> {
        Some(self.commons.clone())
    }

    fn history(&self) -> Option<History> {
        Some(History::new(self.state.path()))
    }

    fn allows_plain(&self) -> bool {
        self.offer.now().plain
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let with_port =
            |at: &SocketAddr| SocketAddr::new(at.ip(), if at.port() == 0 { self.address.port() } else { at.port() });
        self.offer.now().advertise.iter().map(with_port).collect()
    }

    fn movers(&self) -> Option<Arc<Peers>> {
        self.offer.now().movers.clone()
    }

    fn source(&self, access: &Access, place: &Place) -> Result<SourceRoot, Refusal> {
        if let Place::Zero(size) = place {
            let store = Arc::new(End::Zero(size.0));
            return Ok(SourceRoot { store, path: RelPath::root(), name: ends::zero_name() });
        }
        let reach = self.allowed(access, Action::Read, place)?;
        let named = match place {
            Place::Path { path, .. } => path.name(),
            _ => None,
        };
        let name = named.or_else(|| Name::new(reach.export.as_bytes()).ok());
        let name = name.ok_or_else(|| Refusal::new(Fault::Bug, "the export has no usable name"))?;
        Ok(SourceRoot { store: reach.store, path: reach.path, name })
    }

    fn target(&self, access: &Access, order: &Open, tag: &str) -> Result<TargetPlace, Refusal> {
        let place = &order.places[0];
        let path = match place {
            Place::Path { path, .. } => Some(path),
            _ => None,
        };
        let job = model::id::Uuid::from_bytes(order.job).to_string();
        if access.grant().is_some_and(|grant| !grant.is_for(&job, path, order.options.delete.is_asked())) {
            let reason = "the access key is for another job, another target of it, or a job that removes nothing";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        if *place == Place::Null {
            let (store, path) = (Arc::new(End::Null), RelPath::root());
            return Ok(TargetPlace { store, path, may_replace: Ok(()), opening: Box::new(|_| {}), journals: None });
        }
        let reach = self.allowed(access, Action::Create, place)?;
        let may_replace = self.allowed(access, Action::Modify, place).map(drop);
        if order.options.dry_run {
            let (opening, journals) = (Box::new(|_: &RelPath| {}), None);
            return Ok(TargetPlace { store: reach.store, path: reach.path, may_replace, opening, journals });
        }
        if order.options.owner && may_replace.is_err() {
            let reason = "a key that may only create cannot say who owns what it creates (--owner)";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        let opening = self.watch_leftovers(&reach, tag);
        journal::sweep(self.state.path(), journal::KEPT_FOR);
        let journals = Journals::new(self.state.path(), &reach.dir);
        let journals = Some(if may_replace.is_ok() { journals } else { journals.of(access.holder()) });
        Ok(TargetPlace { store: reach.store, path: reach.path, may_replace, opening, journals })
    }

    fn begin(&self, access: &Access, order: &Open, control: &Control) -> Result<Box<dyn Send>, Refusal> {
        let role = if order.direction == Direction::Push { "receive" } else { "send" };
        let held = self.jobs.begin(order.job, role, access.holder(), control)?;
        // Out of the numbers first: whoever comes after it may be told them.
        Ok(Box::new((self.meters.job(user(access), control, role == "receive"), held)))
    }

    fn ask(&self, asker: Asker<'_>, request: &Request, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        if asker.access.grant().is_some_and(|grant| grant.errand.is_some() || self.is_lent(grant)) {
            return Err(Refusal::new(Fault::Auth, "this access key is for one job, and for nothing else"));
        }
        match request {
            Request::Probe(ask) => {
                let (access, audit) = (asker.access, self.offer.now().audit);
                self.probes.answer(asker, ask, (&|place| self.testing_ground(access, place), audit), emit)
            }
            other => questions::answer(self, &asker, other, emit),
        }
    }

    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        self.write_down(peer, access, event);
    }
}
