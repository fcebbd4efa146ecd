//! The node as its sessions see it: who is let in, where exports lie, what goes into the access log.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Access, AccessKey, Action, Denied, Fingerprint, Grant, Grants, Rights};
use engine::commons::Commons;
use engine::control::Control;
use engine::history::History;
use engine::journal::{self, Journals};
use engine::leftovers::Leftovers;
use engine::node::{Asker, Event, Gate, Host, Said, TargetPlace};
use engine::scan::SourceRoot;
use model::Kind;
use model::fault::{Blame, Fault};
use model::locator::Place;
use model::name::{Name, RelPath};
use model::units::{BitRate, Bytes};
use probe::disk::Ground;
use store::Store;
use store::ends::{self, End};
use wire::frame::{Direction, JobName, KeyProof, Open, Refusal, Request};
use wire::join::SessionId;

use crate::errands::Errands;
use crate::exports::Served;
use crate::jobs::Jobs;
use crate::listen::NodeConfig;
use crate::probes::Probes;
use crate::questions;
use crate::registry::Registry;
use crate::state::StateDir;

/// The exports of a node and the rules around them.
pub(crate) struct Exports {
    /// The jobs of this node, which share paths.
    commons: Commons,
    served: Vec<Served>,
    anonymous: Option<Rights>,
    grants: Grants,
    plain: bool,
    state: StateDir,
    registry: Registry,
    pub jobs: Jobs,
    pub errands: Errands,
    /// Keys for single copies between nodes, for a moment.
    lent: Mutex<Grants>,
    fingerprint: OnceLock<Fingerprint>,
    /// Tests that run.
    pub probes: Probes,
    stopping: AtomicBool,
}

/// How long a key for one job is good for: longer than any job, short enough to be forgotten.
const ERRAND_KEY_SECONDS: i64 = 30 * 24 * 3600;

/// Keys for single jobs that are out at once, for each guest that may ask for them.
const ERRAND_KEYS_MAX: usize = 256;

/// How long a key for a copy opens a session; what runs by then goes on.
const LENT_SECONDS: i64 = 15 * 60;

/// Such keys that are out at once.
const LENT_MAX: usize = 10_000;

/// What somebody may reach: a store, a path in it, and where that store lies.
pub(crate) struct Reach {
    pub store: Arc<dyn Store>,
    pub path: RelPath,
    pub dir: PathBuf,
    pub export: String,
}

impl Reach {
    fn whole(served: &Served, path: &RelPath) -> Reach {
        let (store, dir) = (Arc::clone(&served.store), served.export.dir.clone());
        Reach { store, path: path.clone(), dir, export: served.export.name.clone() }
    }
}

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
    pub fn new(me: Weak<Exports>, served: Vec<Served>, config: NodeConfig, registry: Registry) -> Exports {
        let NodeConfig { listen, anonymous, grants, plain, state, timeouts, own_guests, audit, .. } = config;
        let probes = Probes::new(audit);
        let jobs = Jobs::default();
        let dir = state.path().join("errands");
        let errands =
            Errands::new(me, jobs.clone(), dir, timeouts, own_guests || listen.ip().is_loopback(), !own_guests);
        let stopping = AtomicBool::new(false);
        let commons = Commons::default();
        Exports {
            served,
            anonymous,
            grants,
            plain,
            state,
            registry,
            jobs,
            errands,
            lent: Mutex::default(),
            fingerprint: OnceLock::new(),
            probes,
            stopping,
            commons,
        }
    }

    /// The node stops: what it carries ends, to go on with the next start, and no session is kept.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.jobs.cancel_all();
        self.errands.stop();
    }

    /// Whether the node stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// What a key gives.
    pub fn access_by_key(&self, key: &AccessKey) -> Result<Access, Refusal> {
        self.access_of_proof(&key.id, key.expose_secret())
    }

    fn access_of_proof(&self, id: &[u8; 8], secret: &[u8; 32]) -> Result<Access, Refusal> {
        if let Ok(access) = self.grants.check(id, secret, unix_seconds()) {
            return Ok(access);
        }
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).check(id, secret, unix_seconds());
        if let Ok(access) = lent {
            return Ok(access);
        }
        let unreadable = |error: crate::StateError| {
            tracing::error!(%error, "grants cannot be read: nobody is let in");
            Refusal::new(Fault::Local, "the node cannot read its grants; its operator must look at its log")
        };
        let errands = self.state.errand_grants().map_err(unreadable)?;
        if let Ok(access) = errands.check(id, secret, unix_seconds()) {
            let parent = access.grant().and_then(|g| g.errand.as_ref()).map(|errand| errand.parent.clone());
            // Whoever asked for it may have been shut out since.
            return match parent.and_then(|parent| self.access_of(&parent)) {
                Some(_) => Ok(access),
                None => Err(refuse(&Denied::UnknownKey)),
            };
        }
        let grants = self.state.grants().map_err(unreadable)?;
        grants.check(id, secret, unix_seconds()).map_err(|e| refuse(&e))
    }

    /// What those may who show nothing.
    pub fn access_of_nobody(&self) -> Option<Access> {
        self.anonymous.map(Access::Anonymous)
    }

    /// The access of a job's holder, after a restart; none where the grant is gone.
    pub fn access_of(&self, holder: &str) -> Option<Access> {
        if holder.is_empty() {
            return self.anonymous.map(Access::Anonymous);
        }
        let stored = self.state.grants().unwrap_or_default();
        let mut all = self.grants.list.iter().chain(&stored.list);
        let valid = |g: &&Grant| g.id == holder && g.expires.is_none_or(|expires| expires > unix_seconds());
        all.find(valid).cloned().map(Access::Granted)
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
        let identity = reach.store.stat(&RelPath::root()).map_err(storage)?.identity;
        Ground::open_same(&reach.dir, identity).map_err(|e| refuse(&e))
    }

    /// A key for one job into a place, with no more rights than its holder has there, for another node to use.
    pub fn key_for(&self, access: &Access, job: &JobName, place: &Place, delete: bool) -> Result<AccessKey, Refusal> {
        let (export, path) = match place {
            Place::Null if access.rights() == Rights::Read => {
                return Err(refuse(&Denied::Rights { allowed: "read", needed: "create" }));
            }
            Place::Null => (String::new(), None),
            Place::Path { export, path } => {
                self.allowed(access, Action::Create, place)?;
                (export.clone(), Some(path))
            }
            _ => return Err(Refusal::new(Fault::Config, format!("{place} cannot be written to"))),
        };
        let may_replace = path.is_none() || self.allowed(access, Action::Modify, place).is_ok();
        let rights = if may_replace { Rights::Write } else { Rights::Create };
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let now = unix_seconds();
        let mut grant = Grant::new(id, &secret, export, &access.prefix(), rights, now);
        grant.name = format!("one job of {}", access.who());
        grant.expires = Some(now + ERRAND_KEY_SECONDS);
        let job = model::id::Uuid::from_bytes(*job).to_string();
        let (path, parent) = (path.map(|path| auth::hex(path.as_bytes())), access.holder().to_owned());
        grant.errand = Some(auth::Errand { job, path, parent: parent.clone(), delete });
        let keep = |grants: &mut Grants| {
            grants.list.retain(|g| g.expires.is_some_and(|expires| expires > now));
            let of_parent = |g: &&Grant| g.errand.as_ref().is_some_and(|errand| errand.parent == parent);
            let room = grants.list.iter().filter(of_parent).count() < ERRAND_KEYS_MAX;
            if room {
                grants.list.push(grant);
            }
            room
        };
        let trouble = |error: crate::StateError| {
            tracing::error!(%error, "a key for a job cannot be written down");
            Refusal::new(Fault::Local, "the node cannot write its grants; its operator must look at its log")
        };
        if !self.state.change_errand_grants(keep).map_err(trouble)? {
            let reason = format!("{ERRAND_KEYS_MAX} keys for single jobs are out already; they end with their jobs");
            return Err(Refusal::new(Fault::Auth, reason));
        }
        let node = self.state.fingerprint().map_err(trouble)?;
        Ok(AccessKey::new(id, secret, node))
    }

    /// The node's identity.
    pub fn fingerprint(&self) -> Result<Fingerprint, crate::StateError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(*known);
        }
        let read = self.state.fingerprint()?;
        Ok(*self.fingerprint.get_or_init(|| read))
    }

    /// A key for one file and for a moment, for another node that copies it on behalf of somebody who may: to read it, or,
    /// as part of a job, to write it.
    pub fn lend(
        &self,
        access: &Access,
        export: &str,
        path: &RelPath,
        job: Option<JobName>,
        replaces: bool,
    ) -> Result<AccessKey, Refusal> {
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let now = unix_seconds();
        let (prefix, rights) = match job {
            None => (path.clone(), Rights::Read),
            Some(_) if replaces => (path.parent(), Rights::Write),
            Some(_) => (path.parent(), Rights::Create),
        };
        let mut grant = Grant::new(id, &secret, export.to_owned(), &prefix, rights, now);
        grant.name = format!("one copy of {}", access.who());
        grant.expires = Some(now + LENT_SECONDS);
        grant.errand = job.map(|job| auth::Errand {
            job: model::id::Uuid::from_bytes(job).to_string(),
            path: Some(auth::hex(path.as_bytes())),
            parent: access.holder().to_owned(),
            delete: false,
        });
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.list.retain(|grant| grant.expires.is_some_and(|expires| expires > now));
        if lent.list.len() >= LENT_MAX {
            return Err(Refusal::new(
                Fault::Local,
                format!("{LENT_MAX} keys for copies are out already; try again later"),
            ));
        }
        lent.list.push(grant);
        drop(lent);
        let node = self.fingerprint().map_err(|error| {
            tracing::error!(%error, "the node's identity cannot be read");
            Refusal::new(Fault::Local, "the node cannot read its identity; its operator must look at its log")
        })?;
        Ok(AccessKey::new(id, secret, node))
    }

    /// The job that a key was for is done: the key is, too.
    fn forget_errand_key(&self, access: &Access) {
        let Some(grant) = access.grant().filter(|grant| grant.errand.is_some()) else { return };
        let _ = self.state.change_errand_grants(|grants| grants.list.retain(|g| g.id != grant.id));
    }

    /// Exports that somebody may know of.
    pub fn visible<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a Served> {
        self.served.iter().filter(|s| access.may_see(&s.export.name))
    }

    /// The store and path behind a place, if the action is allowed there.
    ///
    /// A key that is confined to a path gets a store rooted in that path, so that no link below it leads back up, not
    /// even to what the export's other keys may see.
    pub fn allowed(&self, access: &Access, action: Action, place: &Place) -> Result<Reach, Refusal> {
        let Place::Path { export, path } = place else {
            let what = match place {
                Place::Exports => "the node as a whole".to_owned(),
                other => other.to_string(),
            };
            let reason = format!("{what} cannot be used for this; name a path: lh://HOST/EXPORT/PATH");
            return Err(Refusal::new(Fault::Config, reason));
        };
        let served = self.served.iter().find(|s| s.export.name == *export && access.may_see(export));
        let served = served.ok_or_else(|| refuse(&Denied::NoExport(export.clone())))?;
        access.allow(action, export, served.export.writable, path).map_err(|e| refuse(&e))?;
        let prefix = access.ground(action, export, path);
        let (confined, path) = match path.below(&prefix) {
            _ if prefix.is_root() => return Ok(Reach::whole(served, path)),
            // For a single file, there or to come: its directory, and nothing but that name. What a key opens that is not
            // there yet is a directory: a job that fills it makes it.
            Some(below) if below.is_root() && self.names_a_file(served, access, path) => {
                (prefix.parent(), path.name().map(|name| RelPath::root().join(&name)).unwrap_or_default())
            }
            Some(below) => (prefix, below),
            None => return Err(Refusal::new(Fault::Auth, "the access key is not for that path")),
        };
        if action.changes() {
            store::make_dirs(&*served.store, &confined).map_err(|e| refuse(&e))?;
        }
        let store = served.store.below(&confined).map_err(storage)?;
        let dir = served.export.dir.join(std::ffi::OsStr::from_bytes(confined.as_bytes()));
        Ok(Reach { store: Arc::new(store), path, dir, export: export.clone() })
    }

    fn names_a_file(&self, served: &Served, access: &Access, path: &RelPath) -> bool {
        match served.store.stat(path) {
            Ok(stat) => stat.meta.kind == Kind::File,
            Err(_) => access.ticket().is_some(),
        }
    }

    /// Writes down where unfinished files are made, so that a later job can sweep them if this one is killed.
    pub fn watch_leftovers(&self, dir: &std::path::Path, tag: &str) -> Box<dyn Fn(&RelPath) + Send + Sync> {
        Leftovers::sweep(self.state.path());
        match Leftovers::begin(self.state.path(), dir, tag) {
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
        self.access_of_proof(&key.id, &key.secret)
    }

    fn open_gate(&self, session: SessionId, gate: Gate) -> Result<Box<dyn Send>, Refusal> {
        self.registry.open(session, gate)
    }

    fn commons(&self) -> Option<Commons> {
        Some(self.commons.clone())
    }

    fn history(&self) -> Option<History> {
        Some(History::new(self.state.path()))
    }

    fn allows_plain(&self) -> bool {
        self.plain
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
        if access.grant().is_some_and(|grant| !grant.is_for(&job, path, order.options.delete)) {
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
        let opening = self.watch_leftovers(&reach.dir, tag);
        journal::sweep(self.state.path(), journal::KEPT_FOR);
        let journals = Journals::new(self.state.path(), &reach.dir);
        let journals = Some(if may_replace.is_ok() { journals } else { journals.of(access.holder()) });
        Ok(TargetPlace { store: reach.store, path: reach.path, may_replace, opening, journals })
    }

    fn begin(&self, access: &Access, order: &Open, control: &Control) -> Result<Box<dyn Send>, Refusal> {
        let role = if order.direction == Direction::Push { "receive" } else { "send" };
        self.jobs.begin(order.job, role, access.holder(), control)
    }

    fn ask(&self, asker: Asker<'_>, request: &Request, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        if asker.access.grant().is_some_and(|grant| grant.errand.is_some()) {
            return Err(Refusal::new(Fault::Auth, "this access key is for one job, and for nothing else"));
        }
        match request {
            Request::Probe(ask) => {
                let access = asker.access;
                self.probes.answer(asker, ask, &|place| self.testing_ground(access, place), emit)
            }
            other => questions::answer(self, asker.access, other, emit),
        }
    }

    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        let who = access.who();
        match event {
            Event::Login { software } => {
                tracing::info!(target: "access", %peer, who, event = "login", software);
            }
            Event::Renewed { streams } => {
                tracing::info!(target: "access", %peer, who, event = "renew", streams);
            }
            Event::Asked { request, refusal } => {
                let (what, outcome) = (questions::describe(request), refusal.map_or("done", |_| "refused"));
                let error = refusal.map(|r| r.reason.as_str());
                tracing::info!(target: "access", %peer, who, event = "ask", what, outcome, error);
            }
            Event::Job { order, totals, elapsed, error } => {
                if error.is_none() && totals.failed == 0 {
                    self.forget_errand_key(access);
                }
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
