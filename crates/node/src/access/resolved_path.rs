//! Resolves a place that a client names to a store and a path in it, for every protocol of the node. No path in that store leads out
//! of the part that the credential is for.

use model::Refusal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use auth::access::{GrantedPath, PathKind};
use auth::{Access, Action, Denied};
use model::fault::Fault;
use model::locator::NodePlace;
use model::name::RelPath;
use rustix::io::Errno;
use store::Store;

use super::{AccessControl, refusal, storage_refusal};
use crate::locks::{self, SubmittedLocks};

/// The reason for the refusal of a rename that leaves its export or the part of it that a credential opens.
pub(crate) const RENAME_STAYS: &str =
    "a rename stays within one export, and within what one key, token or rule opens; copy and remove instead";

/// A path that a principal may use: a store, a path in it, and the location of the store.
#[derive(Clone)]
pub(crate) struct ResolvedPath {
    pub store: Arc<dyn Store>,
    pub path: RelPath,
    pub dir: PathBuf,
    pub export: String,
    /// The export lies on a remote server.
    pub is_remote: bool,
    /// The path below the export that the store is rooted at: no path in the store leads out of it.
    pub root: RelPath,
}

impl ResolvedPath {
    #[cfg(test)]
    pub fn of_test(store: Arc<dyn Store>, path: RelPath, dir: PathBuf) -> ResolvedPath {
        ResolvedPath { store, path, dir, export: "data".into(), is_remote: false, root: RelPath::root() }
    }

    /// Whether a rename from here to `other` is one step: both lie in one export, and below the path that one permission opens. Only
    /// then are the two paths relative to the same store.
    pub fn shares_root(&self, other: &ResolvedPath) -> bool {
        self.export == other.export && self.root == other.root
    }
}

/// Checks that clients may use a path: it is not the name of an unfinished file, nor below one. The store checks this as well; this
/// check is made before anything is fetched from another server.
///
/// # Errors
/// The path names an unfinished file: missing for an action that reads, refused for one that changes, whatever the
/// credential.
pub(crate) fn check_name(action: Action, path: &RelPath) -> Result<(), Refusal> {
    if !path.as_bytes().split(|b| *b == b'/').any(store::posix::is_temporary_name) {
        return Ok(());
    }
    let refusal = refusal(&store::Error::Unfinished(path.to_string()));
    Err(if action.changes() { refusal } else { Refusal { fault: Fault::Missing, ..refusal } })
}

/// A store, and a path in it.
type StorePath = (Arc<dyn Store>, RelPath);

impl AccessControl {
    /// Resolves a place to a store and a path in it, if the action is allowed there.
    ///
    /// # Errors
    /// The credential does not allow the action, the export or path does not exist, or the path of the credential is a link.
    pub fn resolve(&self, access: &Access, action: Action, place: &NodePlace) -> Result<ResolvedPath, Refusal> {
        self.resolve_with(access, action, place, &SubmittedLocks::none())
    }

    /// Resolves a place as [`AccessControl::resolve`] does, for a principal that submits locks.
    ///
    /// # Errors
    /// As for [`AccessControl::resolve`].
    pub fn resolve_with(
        &self,
        access: &Access,
        action: Action,
        place: &NodePlace,
        submitted: &SubmittedLocks,
    ) -> Result<ResolvedPath, Refusal> {
        let NodePlace::Path { export, path } = place else {
            let what = match place {
                NodePlace::Exports => "the node as a whole".to_owned(),
                other => other.to_string(),
            };
            let reason = format!("{what} cannot be used for this; name a path: lh://HOST/EXPORT/PATH");
            return Err(Refusal::new(Fault::Config, reason));
        };
        let live = self.live.load_full();
        let served = live.export(export).filter(|_| access.may_see(export));
        let served = served.ok_or_else(|| refusal(&Denied::NoExport(export.clone())))?;
        access.allow(action, export, served.export.writable, path).map_err(|e| refusal(&e))?;
        check_name(action, path)?;
        let granted = access.confining_path(action, export, path);
        let creates = action.changes() && !matches!(action, Action::Remove | Action::Overwrite);
        let store = if action.changes() {
            // Guarded before anything is opened: opening may create directories of the path.
            locks::guarded(&self.locks, Arc::clone(&served.store), export, submitted)
        } else {
            Arc::clone(&served.store)
        };
        let (store, below) = open(&store, export, &granted, path, creates)?;
        let levels = path.as_bytes().len() - below.as_bytes().len();
        // The store is rooted at the part of the path in front of `below`.
        let rooted = path.as_bytes()[..levels].strip_suffix(b"/").unwrap_or(&path.as_bytes()[..levels]);
        Ok(ResolvedPath {
            store,
            path: below,
            dir: served.export.dir.join(OsStr::from_bytes(rooted)),
            export: export.clone(),
            is_remote: served.export.remote_store.is_some(),
            root: granted.entry.unwrap_or(granted.prefix),
        })
    }
}

/// The store of a granted path, and the rest of `path` in it. With `creates`, missing directories are created.
fn open(
    served: &Arc<dyn Store>,
    export: &str,
    granted: &GrantedPath,
    path: &RelPath,
    creates: bool,
) -> Result<StorePath, Refusal> {
    let outside = || Refusal::new(Fault::Auth, "the access key is not for that path");
    let below = path.below(&granted.prefix).ok_or_else(outside)?;
    let (store, below) = if granted.prefix.is_root() {
        (Arc::clone(served), below)
    } else {
        open_prefix(served, export, granted, &below, creates)?
    };
    let Some(target) = &granted.entry else { return Ok((store, below)) };
    // The one target of a transfer lies below the granted path of the principal that ordered it, and is opened as for that principal.
    let target = target.below(&granted.prefix).filter(|target| below.starts_with(target)).ok_or_else(outside)?;
    if target.is_root() {
        return Ok((store, below));
    }
    if creates {
        store::make_dirs(&*store, &target.parent()).map_err(|e| refusal(&e))?;
    }
    let (entry, at) = store::granted_entry(&store, &target, false, false).map_err(storage_refusal)?;
    let rest = below.below(&target).ok_or_else(outside)?;
    Ok((entry, at.join_path(&rest)))
}

/// The store at the path of a credential: a directory, which is created if `creates` is set, or the one entry.
fn open_prefix(
    store: &Arc<dyn Store>,
    export: &str,
    granted: &GrantedPath,
    below: &RelPath,
    creates: bool,
) -> Result<StorePath, Refusal> {
    let prefix = &granted.prefix;
    // The path of an entry that does not exist yet is a directory as soon as something is to lie below it.
    let creates_dir = creates && (granted.kind != PathKind::Entry || !below.is_root());
    let error = match store::granted_dir(store, prefix, creates_dir) {
        Ok(dir) => return Ok((dir, below.clone())),
        Err(error) => error,
    };
    let may_be_created = error.is_not_found() && granted.kind == PathKind::Entry;
    if !may_be_created && !is_no_dir(&error) {
        return Err(storage_refusal(error));
    }
    let (entry, at) = store::granted_entry(store, prefix, true, creates).map_err(storage_refusal)?;
    if entry.stat(&at).is_ok_and(|entry| entry.meta.kind == model::Kind::Symlink) {
        let reason = format!(
            "{}/{prefix} is a symbolic link, and what a key, a token or a rule is for is never one: name the path that it leads to",
            export
        );
        return Err(Refusal::new(Fault::Auth, reason));
    }
    Ok((entry, at.join_path(below)))
}

/// Whether the error says that the entry is not a directory.
fn is_no_dir(error: &store::Error) -> bool {
    match error {
        store::Error::Kind { .. } => true,
        store::Error::Io { source, .. } => source.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()),
        _ => false,
    }
}
