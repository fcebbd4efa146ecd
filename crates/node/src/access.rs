//! Who may do what here, and where that is: exports, grants, the policy, and the one way from a place that somebody names to a store.
//! Every protocol of the node asks here.
//!
//! What this module does not know: sessions, requests, transfers.

mod admission;
mod credentials;
mod lending;
mod live_configuration;
mod outbound;
mod resolved_path;

use model::Refusal;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::{Access, Action, Actions, Grants, Issuer};
use client::StateDir;
use engine::history::History;
use engine::journal::{self, Journals};
use engine::leftovers::Leftovers;
use engine::movers::Peers;
use engine::path_shares::PathShares;
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::locator::Place;
use model::name::{Name, RelPath};
use probe::disk::Ground;
use store::ends::{self, End};
use wire::frame::Open;

use self::lending::Delegations;
pub(crate) use self::live_configuration::LiveConfiguration;
pub(crate) use self::resolved_path::{RENAME_STAYS, ResolvedPath, check_name};
use crate::config::NodeConfig;
use crate::exports::Served;
use crate::locks::Locks;
use crate::tape::TapeLibrary;
use crate::test_service::Audit;

/// Who may do what on a node, and where.
pub(crate) struct AccessControl {
    live: ArcSwap<LiveConfiguration>,
    grants: Grants,
    state: StateDir,
    /// Where this node listens.
    address: SocketAddr,
    delegations: Delegations,
    /// What clients of HTTP have locked.
    pub locks: Arc<Locks>,
    /// The transfers of this node, which share paths.
    path_shares: PathShares,
    /// The node lives for one copy, and its guests are its operator.
    own_guests: bool,
}

/// How full an export is.
pub(crate) struct Filled {
    pub export: String,
    pub is_writable: bool,
    /// The device that it lies on: several exports may share one.
    pub device: u64,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Whose tokens can be for it: the names of their issuers.
    pub communities: Vec<String>,
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

impl AccessControl {
    /// By what whoever starts the node says.
    pub fn new(live: LiveConfiguration, config: &NodeConfig) -> AccessControl {
        if !config.own_guests {
            live.warn();
        }
        AccessControl {
            live: ArcSwap::from_pointee(live),
            grants: config.grants.clone(),
            state: config.state.clone(),
            address: config.listen,
            delegations: Delegations::default(),
            locks: Arc::new(Locks::of((!config.own_guests).then_some(&config.state))),
            path_shares: PathShares::default(),
            own_guests: config.own_guests,
        }
    }

    /// The tape behind an export, whoever may see it.
    pub fn tape(&self, export: &str) -> Option<Arc<TapeLibrary>> {
        self.live.load().export(export)?.tape.clone()
    }

    /// The tapes behind all exports.
    pub fn tapes(&self) -> Vec<Arc<TapeLibrary>> {
        self.live.load().served.iter().filter_map(|served| served.tape.clone()).collect()
    }

    /// Whether there is tape behind any export.
    pub fn has_tape(&self) -> bool {
        self.live.load().served.iter().any(|served| served.tape.is_some())
    }

    /// Counts from now on; what has begun goes on as it began. Says in words what is other of the exports.
    pub fn replace(&self, live: LiveConfiguration) -> String {
        live.warn();
        let before = self.live.load_full();
        self.live.store(Arc::new(live));
        self.live.load_full().changes_since(&before)
    }

    /// The directory of a disk test: where an export begins, or the part of it that the key is for. Nothing below: a link
    /// there could lead anywhere. Who may write above a part can put a link in its place, too: it must be the directory
    /// that the store has open.
    pub fn testing_ground(&self, access: &Access, place: &str) -> Result<Ground, Refusal> {
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
        self.live.load_full().visible(access).map(|served| served.export.name.clone()).collect()
    }

    /// The exports that somebody may know of: their names, whether anything there may be changed, whether they lie elsewhere.
    pub fn describe(&self, access: &Access) -> Vec<(String, bool, bool)> {
        let live = self.live.load_full();
        let facts =
            |served: &Served| (served.export.name.clone(), served.export.writable, served.export.abroad.is_some());
        live.visible(access).map(facts).collect()
    }

    /// What the node tells of how its host's settings stand; none where it tells nothing.
    pub fn audit(&self) -> Option<Audit> {
        self.live.load_full().audit
    }

    /// Where this node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the exports lie on this host, by name.
    pub fn dirs(&self) -> Vec<(String, PathBuf)> {
        let live = self.live.load_full();
        let here = live.served.iter().filter(|served| served.export.abroad.is_none());
        here.map(|served| (served.export.name.clone(), served.export.dir.clone())).collect()
    }

    /// Whether an export that somebody may know of takes no changes, whoever asks.
    pub fn is_read_only(&self, access: &Access, export: &str) -> bool {
        self.live.load_full().visible(access).any(|served| served.export.name == export && !served.export.writable)
    }

    /// Whether DELETE, MOVE and COPY over HTTP take a directory away with all that is in it.
    pub fn deletes_trees(&self, export: &str) -> bool {
        self.live.load_full().export(export).is_some_and(|served| served.export.recursive_delete)
    }

    /// Whether there is an export of this name, whoever may see it.
    pub fn has_export(&self, name: &str) -> bool {
        self.live.load_full().export(name).is_some()
    }

    /// Writes down where unfinished files are made, so that a later job can sweep them if this one is killed.
    pub fn watch_leftovers(&self, reach: &ResolvedPath, tag: &str) -> Box<dyn Fn(&RelPath) + Send + Sync> {
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

    /// Whether somebody may read the numbers without a credential, also in clear.
    pub fn is_monitored_from(&self, address: IpAddr) -> bool {
        self.live.load_full().metrics.contain(address)
    }

    /// The same, over a line that nobody reads along on: this host itself, where the node is more than one copy's.
    pub fn tells_numbers_to(&self, address: IpAddr) -> bool {
        self.is_monitored_from(address) || (address.to_canonical().is_loopback() && !self.own_guests)
    }

    /// Whether somebody may see what others do here: with a credential, where it reads every export as a whole.
    pub fn shows_all_to(&self, access: &Access) -> bool {
        let live = self.live.load_full();
        let reads = |export: &str| access.actions_below(export, false, &RelPath::root()).contains(Actions::FOR_READ);
        !access.is_guest() && !live.served.is_empty() && live.served.iter().all(|s| reads(&s.export.name))
    }

    /// How full the exports are that lie on this host: those that somebody may know of, or all.
    pub fn filled(&self, access: Option<&Access>) -> Vec<Filled> {
        let (live, policy) = (self.live.load_full(), self.policy());
        let here = live.served.iter().filter(|served| served.export.abroad.is_none());
        let told = here.filter(|served| access.is_none_or(|access| access.may_see(&served.export.name)));
        let filled = told.filter_map(|served| {
            let (name, space) = (&served.export.name, served.store.space(&RelPath::root()).ok()??);
            let is_for = |issuer: &&Issuer| match (&issuer.export, &issuer.exports) {
                (Some(export), _) => export == name,
                (None, Some(exports)) => exports.contains(name),
                (None, None) => true,
            };
            Some(Filled {
                export: name.clone(),
                is_writable: served.export.writable,
                device: space.device,
                total_bytes: space.total_bytes,
                free_bytes: space.free_bytes,
                communities: policy.issuers.iter().filter(is_for).map(|issuer| issuer.name.clone()).collect(),
            })
        });
        filled.collect()
    }

    /// When the site's certificate ends, seconds since 1970; none without one.
    pub fn certificate_ends(&self) -> Option<i64> {
        self.live.load_full().certificate_ends
    }

    /// Whether payload may go in clear.
    pub fn allows_plain(&self) -> bool {
        self.live.load_full().plain
    }

    /// Where streams are taken besides the address that the node listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let with_port =
            |at: &SocketAddr| SocketAddr::new(at.ip(), if at.port() == 0 { self.address.port() } else { at.port() });
        self.live.load_full().advertise.iter().map(with_port).collect()
    }

    /// Node processes that carry streams beside this one.
    pub fn movers(&self) -> Option<Arc<Peers>> {
        self.live.load_full().movers.clone()
    }

    /// What earlier transfers found out about paths.
    pub fn history(&self) -> History {
        History::new(self.state.path())
    }

    /// What the transfers of this node share.
    pub fn path_shares(&self) -> PathShares {
        self.path_shares.clone()
    }

    /// A source that somebody may read.
    ///
    /// # Errors
    /// It is not there, or not theirs to read.
    pub fn source(&self, access: &Access, place: &Place) -> Result<SourceRoot, Refusal> {
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

    /// A target that somebody may write to, for a job of this order.
    ///
    /// # Errors
    /// It is not theirs to write, or not for such a job.
    pub fn target(&self, access: &Access, order: &Open, tag: &str) -> Result<TargetPlace, Refusal> {
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
            return Ok(TargetPlace::new(Arc::new(End::Null), RelPath::root()));
        }
        let reach = self.allowed(access, Action::Create, place)?;
        let may_replace = self.allowed(access, Action::Modify, place).map(drop);
        if order.options.dry_run {
            return Ok(TargetPlace { may_replace, ..TargetPlace::new(reach.store, reach.path) });
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
}
