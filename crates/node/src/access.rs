//! Access control of the node: exports, grants, the policy. Only this module resolves a place that a client names to a store, for
//! every protocol of the node.
//!
//! What this module does not know: sessions, requests, transfers.

mod admission;
mod credentials;
mod delegation;
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
use engine::leftovers::UnfinishedFileLog;
use engine::movers::ConfiguredMovers;
use engine::path_shares::PathShares;
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::locator::NodePlace;
use model::name::{Name, RelPath};
use probe::disk::OpenDirectory;
use store::ends::{self, DisklessStore};
use wire::frame::Open;

use self::delegation::Delegations;
pub(crate) use self::live_configuration::LiveConfiguration;
pub(crate) use self::resolved_path::{RENAME_STAYS, ResolvedPath, check_name};
use crate::config::NodeConfig;
use crate::exports::ServedExport;
use crate::locks::Locks;
use crate::movers::RootMovers;
use crate::scratch::ScratchPlaces;
use crate::tape::TapeLibrary;
use crate::test_service::Audit;

/// Access control of a node: who may do what, and on which stores.
pub(crate) struct AccessControl {
    live: ArcSwap<LiveConfiguration>,
    grants: Grants,
    state: StateDir,
    /// The address that this node listens on.
    address: SocketAddr,
    delegations: Delegations,
    /// The locks that HTTP clients hold.
    pub locks: Arc<Locks>,
    /// The scratch places, if the node offers any.
    scratch: Option<Arc<ScratchPlaces>>,
    /// The shares of paths among the transfers of this node.
    path_shares: PathShares,
    /// The node exists for one copy, and its only client is its operator.
    serves_one_copy: bool,
}

/// Size and free space of an export, bytes.
pub(crate) struct ExportSpace {
    pub export: String,
    pub is_writable: bool,
    /// The device of the export: several exports may share one.
    pub device: u64,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// The names of the issuers whose tokens can be for this export.
    pub communities: Vec<String>,
}

/// A store's error as a refusal; a missing entry is [`Fault::Missing`].
pub(crate) fn storage_refusal(error: store::Error) -> Refusal {
    let mut refusal = refusal(&error);
    if error.is_not_found() {
        refusal.fault = Fault::Missing;
    }
    refusal
}

pub(crate) fn refusal(error: &(impl Blame + std::error::Error)) -> Refusal {
    Refusal::from_error(error)
}

impl AccessControl {
    /// Access control with this configuration, and with these scratch places.
    pub fn new(live: LiveConfiguration, config: &NodeConfig, scratch: Option<Arc<ScratchPlaces>>) -> AccessControl {
        if !config.serves_one_copy {
            live.warn();
        }
        AccessControl {
            live: ArcSwap::from_pointee(live),
            grants: config.grants.clone(),
            state: config.state.clone(),
            address: config.listen,
            delegations: Delegations::default(),
            locks: Arc::new(Locks::of((!config.serves_one_copy).then_some(&config.state))),
            scratch,
            path_shares: PathShares::default(),
            serves_one_copy: config.serves_one_copy,
        }
    }

    /// The scratch places, if the node offers any.
    pub fn scratch(&self) -> Option<Arc<ScratchPlaces>> {
        self.scratch.clone()
    }

    /// The tape library of an export, without a check of who may see the export.
    pub fn tape(&self, export: &str) -> Option<Arc<TapeLibrary>> {
        self.live.load().export(export)?.tape.clone()
    }

    /// The tape libraries of all exports.
    pub fn tapes(&self) -> Vec<Arc<TapeLibrary>> {
        self.live.load().served.iter().filter_map(|served| served.tape.clone()).collect()
    }

    /// Whether any export has a tape library.
    pub fn has_tape(&self) -> bool {
        self.live.load().served.iter().any(|served| served.tape.is_some())
    }

    /// Replaces the live configuration; requests that have begun keep the former one. Returns the changes of the exports, in words.
    pub fn replace(&self, live: LiveConfiguration) -> String {
        live.warn();
        let before = self.live.load_full();
        self.live.store(Arc::new(live));
        self.live.load_full().changes_since(&before)
    }

    /// The directory of a disk test: the root of an export, or of the part of it that the key is for. It is never a directory
    /// below, because a link there could lead anywhere. A client that may write above the part can replace the part by a link as
    /// well, so the directory must be the one that the store has open.
    ///
    /// # Errors
    /// The client may not create there, the path is not such a root, the export lies on a remote server, or the directory has
    /// been replaced.
    pub fn disk_test_directory(&self, access: &Access, place: &str) -> Result<OpenDirectory, Refusal> {
        let (export, path) = place.split_once('/').unwrap_or((place, ""));
        let path = RelPath::parse(path.as_bytes()).map_err(|e| Refusal::new(Fault::Config, e.to_string()))?;
        let resolved = self.resolve(access, Action::Create, &NodePlace::Path { export: export.into(), path })?;
        if !resolved.path.is_root() {
            let why = format!("the disk is tested where an export, or your part of it, begins: lh://HOST/{export}");
            return Err(Refusal::new(Fault::Config, why));
        }
        if resolved.is_remote {
            let why = format!("{export} lies on a remote server: only a directory of that node can be tested");
            return Err(Refusal::new(Fault::Config, why));
        }
        let identity = resolved.store.stat(&RelPath::root()).map_err(storage_refusal)?.identity;
        OpenDirectory::open_same(&resolved.dir, identity).map_err(|e| refusal(&e))
    }

    /// The names of the exports that a principal may see.
    pub fn visible(&self, access: &Access) -> Vec<String> {
        self.live.load_full().visible(access).map(|served| served.export.name.clone()).collect()
    }

    /// The exports that a principal may see: name, whether it is writable, whether it lies on a remote server.
    pub fn describe(&self, access: &Access) -> Vec<(String, bool, bool)> {
        let live = self.live.load_full();
        let facts = |served: &ServedExport| {
            (served.export.name.clone(), served.export.writable, served.export.remote_store.is_some())
        };
        live.visible(access).map(facts).collect()
    }

    /// The audit of the host's settings, if the node offers it.
    pub fn audit(&self) -> Option<Audit> {
        self.live.load_full().audit
    }

    /// The address that this node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directories of the exports that lie on this host, by name.
    pub fn dirs(&self) -> Vec<(String, PathBuf)> {
        let live = self.live.load_full();
        let local = live.served.iter().filter(|served| served.export.remote_store.is_none());
        local.map(|served| (served.export.name.clone(), served.export.dir.clone())).collect()
    }

    /// Whether a principal may see this export and the export is read-only for everybody.
    pub fn is_read_only(&self, access: &Access, export: &str) -> bool {
        self.live.load_full().visible(access).any(|served| served.export.name == export && !served.export.writable)
    }

    /// Whether DELETE, MOVE and COPY over HTTP remove a directory with its content.
    pub fn deletes_trees(&self, export: &str) -> bool {
        self.live.load_full().export(export).is_some_and(|served| served.export.recursive_delete)
    }

    /// Whether there is an export of this name, without a check of who may see it.
    pub fn has_export(&self, name: &str) -> bool {
        self.live.load_full().export(name).is_some()
    }

    /// Records the directories of unfinished files, so that a later job can sweep them if this process is killed.
    pub fn record_leftovers(&self, resolved: &ResolvedPath, tag: &str) -> Box<dyn Fn(&RelPath) + Send + Sync> {
        if resolved.is_remote {
            // A remote server is not swept; the store removes unfinished files as far as it can reach the server.
            return Box::new(|_| {});
        }
        UnfinishedFileLog::sweep(self.state.path());
        match UnfinishedFileLog::begin(self.state.path(), &resolved.dir, tag) {
            Ok(leftovers) => Box::new(move |dir| leftovers.note_directory(dir)),
            Err(error) => {
                tracing::warn!(%error, "cannot record unfinished files; they stay if this job is killed");
                Box::new(|_| {})
            }
        }
    }

    /// Whether a client at this address may read the metrics without a credential, also in clear text.
    pub fn is_monitoring_address(&self, address: IpAddr) -> bool {
        self.live.load_full().metrics.contain(address)
    }

    /// Whether a client at this address may read the metrics without a credential over TLS: a monitoring address, or
    /// this host itself unless the node exists for one copy.
    pub fn may_read_metrics(&self, address: IpAddr) -> bool {
        self.is_monitoring_address(address) || (address.to_canonical().is_loopback() && !self.serves_one_copy)
    }

    /// Whether a principal may see what others do on this node: its credential allows it to read every export as a whole.
    pub fn may_see_all(&self, access: &Access) -> bool {
        let live = self.live.load_full();
        let reads = |export: &str| access.actions_below(export, false, &RelPath::root()).contains(Actions::FOR_READ);
        !access.is_anonymous() && !live.served.is_empty() && live.served.iter().all(|s| reads(&s.export.name))
    }

    /// Sizes and free space of the exports that lie on this host: those that a principal may see, or all.
    pub fn export_spaces(&self, access: Option<&Access>) -> Vec<ExportSpace> {
        let live = self.live.load_full();
        let policy = self.policy();
        let local = live.served.iter().filter(|served| served.export.remote_store.is_none());
        let visible = local.filter(|served| access.is_none_or(|access| access.may_see(&served.export.name)));
        let spaces = visible.filter_map(|served| {
            let name = &served.export.name;
            let space = served.store.space(&RelPath::root()).ok()??;
            let is_for = |issuer: &&Issuer| match (&issuer.export, &issuer.exports) {
                (Some(export), _) => export == name,
                (None, Some(exports)) => exports.contains(name),
                (None, None) => true,
            };
            Some(ExportSpace {
                export: name.clone(),
                is_writable: served.export.writable,
                device: space.device,
                total_bytes: space.total_bytes,
                free_bytes: space.free_bytes,
                communities: policy.issuers.iter().filter(is_for).map(|issuer| issuer.name.clone()).collect(),
            })
        });
        spaces.collect()
    }

    /// Expiry of the site's certificate, seconds since 1970; none without a certificate.
    pub fn certificate_ends(&self) -> Option<i64> {
        self.live.load_full().certificate_ends
    }

    /// Whether payload may be sent unencrypted.
    pub fn allows_plain(&self) -> bool {
        self.live.load_full().plain
    }

    /// The addresses that accept streams besides the address that the node listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let with_port =
            |at: &SocketAddr| SocketAddr::new(at.ip(), if at.port() == 0 { self.address.port() } else { at.port() });
        self.live.load_full().advertise.iter().map(with_port).collect()
    }

    /// The movers of this node, if it has any.
    pub fn movers(&self) -> Option<Arc<ConfiguredMovers>> {
        self.live.load_full().movers.clone()
    }

    /// The movers that clients of XRootD's protocol are sent to, if there are any.
    pub fn root_movers(&self) -> Option<Arc<RootMovers>> {
        self.live.load_full().root_movers.clone()
    }

    /// The history of paths that earlier transfers recorded.
    pub fn history(&self) -> History {
        History::new(self.state.path())
    }

    /// The path shares of this node's transfers.
    pub fn path_shares(&self) -> PathShares {
        self.path_shares.clone()
    }

    /// A source that a principal may read.
    ///
    /// # Errors
    /// The source does not exist, or the principal may not read it.
    pub fn source(&self, access: &Access, place: &NodePlace) -> Result<SourceRoot, Refusal> {
        if let NodePlace::Zero(size) = place {
            let store = Arc::new(DisklessStore::Zero(size.0));
            return Ok(SourceRoot { store, path: RelPath::root(), name: ends::zero_name() });
        }
        let resolved = self.resolve(access, Action::Read, place)?;
        let named = match place {
            NodePlace::Path { path, .. } => path.name(),
            _ => None,
        };
        let name = named.or_else(|| Name::new(resolved.export.as_bytes()).ok());
        let name = name.ok_or_else(|| Refusal::new(Fault::Bug, "the export has no usable name"))?;
        Ok(SourceRoot { store: resolved.store, path: resolved.path, name })
    }

    /// A target that a principal may write to, for the transfer of this order.
    ///
    /// # Errors
    /// The principal may not write there, or its key is not for this transfer.
    pub fn target(&self, access: &Access, order: &Open, tag: &str) -> Result<TargetPlace, Refusal> {
        let place = &order.places[0];
        let path = match place {
            NodePlace::Path { path, .. } => Some(path),
            _ => None,
        };
        let job = model::id::Uuid::from_bytes(order.job).to_string();
        if access.grant().is_some_and(|grant| !grant.allows_transfer(&job, path, order.options.delete.is_allowed())) {
            let reason = "the access key is for another job, another target of it, or a job that removes nothing";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        if *place == NodePlace::Null {
            return Ok(TargetPlace::new(Arc::new(DisklessStore::Null), RelPath::root()));
        }
        let resolved = self.resolve(access, Action::Create, place)?;
        let may_replace = self.resolve(access, Action::Modify, place).map(drop);
        if order.options.dry_run {
            return Ok(TargetPlace { may_replace, ..TargetPlace::new(resolved.store, resolved.path) });
        }
        if order.options.owner && may_replace.is_err() {
            let reason = "a key that may only create cannot say who owns what it creates (--owner)";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        let opening = self.record_leftovers(&resolved, tag);
        journal::sweep(self.state.path(), journal::KEPT_FOR);
        let journals = Journals::new(self.state.path(), &resolved.dir);
        let journals = Some(if may_replace.is_ok() { journals } else { journals.of(access.holder()) });
        Ok(TargetPlace {
            store: resolved.store,
            path: resolved.path,
            may_replace,
            before_unfinished_file: opening,
            journals,
        })
    }
}
