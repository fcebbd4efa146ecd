//! Scratch places: directories of this node that exist for one exercise, each with a quota, a lifetime and a key of its own. They are in
//! the export `exercise`, and whoever may write to that export as a whole may order them.
//!
//! A place ends when its lifetime is over, when it is removed, and when the node stops: its key is not valid from that moment on, and
//! `expiry` cancels what was ordered with the key and removes the directory. Nothing about places is written to the state directory.
//! Directories that a process of the node could not remove are removed by the next one.
//!
//! What this module does not know, apart from `expiry`: transfers, HTTP, the policy.

pub(crate) mod expiry;
mod file_maker;
mod file_queue;
mod no_room;
mod scratch_sink;
mod scratch_store;
mod table;
mod usage;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{Access, AccessKey, Actions, Fingerprint, Grant, Rights};
use model::id::Uuid;
use model::name::{Name, RelPath};
use model::units::Bytes;
use model::v1::node::{ScratchFiles, ScratchOrder, ScratchPlace};
use model::{Fault, Refusal, Timestamp};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use store::Store;
use store::posix::{Links, Posix};

use self::file_queue::FileOrder;
use self::scratch_store::ScratchStore;
pub(crate) use self::table::Orderer;
use self::table::{EndedPlace, LIFETIME_S_MAX, LivePlace, PLACES_MAX, ScratchTable};
use self::usage::PlaceUsage;
use crate::clock::{now, unix_seconds};
use crate::config::ExerciseConfig;
use crate::exports::{Export, ExportError, ServedExport};

/// The name of the export that holds the scratch places.
pub const EXPORT: &str = "exercise";

/// The answer to a principal that may not order scratch places.
const NO_RIGHT: &str = "scratch places are for those who may write to the whole export \"exercise\" of this node; its operator \
                                   gives a key with that right by: longhaul grant --export exercise --write";

/// The answer of a node that offers no scratch places.
pub(crate) const NOT_OFFERED: &str =
    "this node offers no scratch places; its operator offers them by: longhaul serve --exercise DIR";

/// Why a request about a scratch place is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScratchRefused {
    /// The holder has no such place.
    #[error("there is no scratch place {0} here: it has ended, or another principal ordered it")]
    Unknown(Uuid),
    /// The lifetime is not allowed.
    #[error("a scratch place exists for 1 to {LIFETIME_S_MAX} s, not for {0} s; renew it before that time is over")]
    Lifetime(u32),
    /// The id belongs to another place.
    #[error("the id {0} belongs to a scratch place of another principal or with another quota; choose another id")]
    IdTaken(Uuid),
    /// The place has ended, and its directory is still there.
    #[error("the files of the scratch place {0} are being removed; order it again later, or choose another id")]
    Ending(Uuid),
    /// There are as many places as there may be.
    #[error("this node has {PLACES_MAX} scratch places, as many as it may have; order again when one has ended")]
    Full,
    /// The quota of the node does not suffice.
    #[error(
        "a scratch place of {} does not fit: {} of the {} for all such places are left; order a smaller one, or have the node's \
         operator raise serve --exercise DIR,quota=SIZE", Bytes(*.asked), Bytes(*.left), Bytes(*.all)
    )]
    NodeQuota {
        /// The ordered quota, bytes.
        asked: u64,
        /// The rest of the node's quota, bytes.
        left: u64,
        /// The node's quota, bytes.
        all: u64,
    },
    /// The quota of the place does not suffice.
    #[error(
        "{} of files do not fit into the scratch place: {} of its quota of {} are left; order it with a larger quota",
        Bytes(*.asked), Bytes(*.left), Bytes(*.quota)
    )]
    PlaceQuota {
        /// Bytes of the files.
        asked: u64,
        /// The rest of the quota, bytes.
        left: u64,
        /// The quota, bytes.
        quota: u64,
    },
    /// The paths of the files take too much memory.
    #[error("this node cannot keep account of so many files in its scratch places; order fewer files")]
    Paths,
    /// An order for files is invalid.
    #[error("{0}")]
    Files(String),
    /// The node stops.
    #[error("the node is stopping")]
    Stopping,
    /// The system gives no random numbers.
    #[error("the node's system gives no random numbers")]
    NoRandom,
    /// The directory cannot be made.
    #[error("the directory of the scratch place cannot be made")]
    Directory(#[source] store::Error),
}

/// The table, and the notice that something has ended.
pub(super) struct ScratchState {
    table: Mutex<ScratchTable>,
    ended: Condvar,
}

impl ScratchState {
    fn new(table: ScratchTable) -> Arc<ScratchState> {
        Arc::new(ScratchState { table: Mutex::new(table), ended: Condvar::new() })
    }

    /// Notes a change of the files of a place, if it has not ended.
    fn note_change(&self, id: &Uuid, note: impl FnOnce(&mut PlaceUsage)) {
        if let Some(place) = self.table.lock().living_mut(id) {
            note(&mut place.usage);
        }
    }
}

/// The scratch places of a node.
pub(crate) struct ScratchPlaces {
    state: Arc<ScratchState>,
    /// The directory, with the names of unfinished files and without a check of places.
    directory: Posix,
    /// The export, whose store checks quotas and lifetimes.
    served: ServedExport,
    /// The node's identity, for keys.
    node: Fingerprint,
    /// Locks the directory: two nodes would remove each other's places.
    _lock: OwnedFd,
}

/// The id that a name of a directory stands for; none if it is not the name of a scratch place.
fn id_of(name: &[u8]) -> Option<Uuid> {
    let text = std::str::from_utf8(name).ok()?;
    // A UUID has several forms. The name of a place has only this one.
    text.parse::<Uuid>().ok().filter(|id| id.to_string() == text)
}

/// The path of a place below the export.
fn root_of(id: &Uuid) -> RelPath {
    // No fallback: what is below this path is removed when the place ends.
    #[expect(clippy::expect_used, reason = "the text of a UUID is a legal name")]
    let name = Name::new(id.to_string().as_bytes()).expect("the text of a UUID is a legal name");
    RelPath::root().join(&name)
}

/// The path of a place at the node, as clients write it.
fn place_of(id: &Uuid) -> String {
    format!("/{EXPORT}/{id}")
}

/// The time after `left` has passed, as text.
fn text_after(left: Duration) -> String {
    let now = now();
    let nanos = u64::from(now.nanos) + u64::from(left.subsec_nanos());
    let seconds = now.seconds + (left.as_secs() + nanos / 1_000_000_000) as i64;
    web::date::rfc3339_us(Timestamp { seconds, nanos: (nanos % 1_000_000_000) as u32 })
}

/// Locks the directory for this process, as far as its file system has locks.
fn lock(config: &ExerciseConfig) -> Result<OwnedFd, ExportError> {
    let refused = |errno: Errno| {
        let source = store::Error::Io { doing: "open", path: config.dir.display().to_string(), source: errno.into() };
        ExportError::Directory { name: EXPORT.to_owned(), source }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&config.dir, flags, Mode::empty()).map_err(refused)?;
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(ExportError::InUse(config.dir.clone())),
        _ => Ok(fd),
    }
}

impl ScratchPlaces {
    /// Opens the directory of a node with this identity. What an earlier process has left behind is removed in the background.
    ///
    /// # Errors
    /// The directory cannot be opened, entered or listed, or another node uses it.
    pub fn open(config: &ExerciseConfig, node: Fingerprint) -> Result<ScratchPlaces, ExportError> {
        let cannot = |source| ExportError::Directory { name: EXPORT.to_owned(), source };
        let open = || Posix::open(&config.dir, Links::Refuse).map_err(cannot);
        let lock = lock(config)?;
        let directory = open()?;
        let mut left_behind = Vec::new();
        for entry in directory.list(&RelPath::root()).map_err(cannot)? {
            let (name, _) = entry.map_err(cannot)?;
            left_behind.extend(id_of(name.as_bytes()));
        }
        if !left_behind.is_empty() {
            let (dir, places) = (config.dir.display(), left_behind.len());
            tracing::warn!(%dir, places, "removing scratch places that an earlier process of this node left behind");
        }
        let free_bytes = directory.space(&RelPath::root()).map_err(cannot)?.map_or(u64::MAX, |space| space.free_bytes);
        let quota_bytes = config.quota_bytes.unwrap_or(free_bytes / 2);
        let state = ScratchState::new(ScratchTable::new(quota_bytes, &left_behind));
        let posix = Arc::new(open()?.without_privilege_bits().hiding_unfinished());
        let store = Arc::new(ScratchStore::new(posix, Arc::clone(&state)));
        let served = ServedExport { export: Export::here(EXPORT, config.dir.clone(), true), store, tape: None };
        Ok(ScratchPlaces { state, directory, served, node, _lock: lock })
    }

    /// Whether a principal may order scratch places: it may write to the whole export.
    pub fn may_order(access: &Access) -> bool {
        access.actions_below(EXPORT, true, &RelPath::root()).contains(Actions::FOR_MODIFY)
    }

    /// The export.
    pub fn served(&self) -> ServedExport {
        self.served.clone()
    }

    /// The grant of the key of a place.
    pub fn grant_of_key(&self, id: &[u8; 8], secret: &[u8; 32]) -> Option<Grant> {
        self.state.table.lock().grant_of_key(id, secret, Instant::now())
    }

    /// The grant of a place, if it has not ended.
    pub fn grant(&self, id: &str) -> Option<Grant> {
        self.state.table.lock().grant(id, Instant::now())
    }

    /// Makes a place, or renews the same place. Returns it, and whether it is new; a new one comes with its key.
    ///
    /// # Errors
    /// The order is invalid, its id is taken, there is no room, or the directory cannot be made.
    pub fn order(&self, orderer: Orderer, order: &ScratchOrder) -> Result<(ScratchPlace, bool), ScratchRefused> {
        let random = |_| ScratchRefused::NoRandom;
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let root = root_of(&order.id);
        let mut grant = Grant::new(id, &secret, EXPORT.to_owned(), &root, Rights::Write, unix_seconds());
        grant.name = format!("scratch place {} of {}", order.id, orderer.who);
        let holder = orderer.holder.clone();
        let is_new = self.state.table.lock().order(order, orderer, grant, Instant::now())?;
        if !is_new {
            return Ok((self.get(&holder, &order.id)?, false));
        }
        if let Err(error) = self.make_directory(&root) {
            self.state.table.lock().take_back(&order.id);
            return Err(ScratchRefused::Directory(error));
        }
        let key = AccessKey::new(id, secret, self.node).expose_text();
        Ok((ScratchPlace { key: Some(key), ..self.get(&holder, &order.id)? }, true))
    }

    fn make_directory(&self, root: &RelPath) -> store::Result<()> {
        // Whatever is there was not made by this node, and must not be removed with the place.
        if self.directory.stat(root).is_ok() {
            return Err(store::Error::io("make the directory", root, Errno::EXIST));
        }
        self.directory.make_dir(root)
    }

    /// Renews a place of a holder.
    ///
    /// # Errors
    /// The holder has no such place, or the lifetime is not allowed.
    pub fn renew(&self, holder: &str, id: &Uuid, lifetime_s: u32) -> Result<ScratchPlace, ScratchRefused> {
        self.state.table.lock().renew(holder, id, lifetime_s, Instant::now())?;
        self.get(holder, id)
    }

    /// A place of a holder.
    ///
    /// # Errors
    /// The holder has no such place.
    pub fn get(&self, holder: &str, id: &Uuid) -> Result<ScratchPlace, ScratchRefused> {
        let now = Instant::now();
        let mut table = self.state.table.lock();
        Ok(show(id, table.of(holder, id, now)?, now))
    }

    /// Ends a place of a holder, and returns it as it was. Its files are removed in the background.
    ///
    /// # Errors
    /// The holder has no such place.
    pub fn remove(&self, holder: &str, id: &Uuid) -> Result<ScratchPlace, ScratchRefused> {
        let place = self.get(holder, id)?;
        self.state.table.lock().remove(holder, id, Instant::now())?;
        self.state.ended.notify_all();
        Ok(place)
    }

    /// Has files made in a place of a holder, in the background.
    ///
    /// # Errors
    /// The holder has no such place, the order is invalid, or the files do not fit.
    pub fn make_files(&self, holder: &str, id: &Uuid, files: &ScratchFiles) -> Result<ScratchPlace, ScratchRefused> {
        let order = FileOrder::read(files)?;
        let must_start = self.state.table.lock().order_files(holder, id, order, Instant::now())?;
        if must_start {
            file_maker::start(&self.state, &self.served.store, *id);
        }
        self.get(holder, id)
    }

    /// Waits until a place is removed, for at most `within`.
    fn wait(&self, within: Duration) {
        let mut table = self.state.table.lock();
        self.state.ended.wait_for(&mut table, within);
    }

    /// The places that have ended since the last call.
    fn take_ended(&self) -> Vec<EndedPlace> {
        self.state.table.lock().take_ended(Instant::now())
    }
}

/// A place as its holder sees it.
fn show(id: &Uuid, place: &LivePlace, now: Instant) -> ScratchPlace {
    ScratchPlace {
        id: *id,
        place: place_of(id),
        key: None,
        expires: text_after(place.expires.saturating_duration_since(now)),
        quota_bytes: place.quota_bytes,
        used_bytes: place.usage.bytes(),
        files_made: place.files.made,
        bytes_made: place.files.bytes_made,
        files_ordered: place.files.ordered,
        error: place.files.error.clone(),
    }
}

/// The refusal of a principal that may not order scratch places.
pub(crate) fn no_right() -> Refusal {
    Refusal::new(Fault::Auth, NO_RIGHT)
}

#[cfg(test)]
mod tests;
