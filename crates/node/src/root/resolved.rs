//! Places that a principal may use, and the facts of what is there.

use std::sync::Arc;

use authn::Principal;
use model::{Kind, RelPath};
use store::Stat;
use xroot::ErrorCode;
use xroot::entry::{EntryFacts, entry_flags};

use super::failure::{RootOutcome, refuse};
use crate::access::ResolvedPath;

/// A place on this node: an export, and a path in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExportPath {
    pub export: String,
    pub path: Vec<u8>,
}

/// A place that a principal may use.
pub(super) struct Resolved {
    pub principal: Arc<Principal>,
    pub place: ExportPath,
    pub path: RelPath,
    pub at: ResolvedPath,
}

/// The export and the path in it that a path names; none for the root.
///
/// # Errors
/// The name of the export is not text.
pub(super) fn export_and_path(path: &RelPath) -> RootOutcome<Option<(String, RelPath)>> {
    let first = path.as_bytes().split(|b| *b == b'/').next().unwrap_or_default();
    if first.is_empty() {
        return Ok(None);
    }
    let nowhere = || refuse(ErrorCode::NotFound, "there is no export of that name");
    let below = RelPath::parse(first).ok().and_then(|first| path.below(&first)).ok_or_else(nowhere)?;
    let export = String::from_utf8(first.to_vec()).map_err(|_| nowhere())?;
    Ok(Some((export, below)))
}

impl Resolved {
    /// The facts of the entry; of a link that stays inside the store, those of its target.
    ///
    /// # Errors
    /// There is no such entry.
    pub(super) fn stat(&self) -> RootOutcome<Stat> {
        let (store, path) = (&self.at.store, &self.at.path);
        let stat = store.stat(path)?;
        if stat.meta.kind != Kind::Symlink {
            return Ok(stat);
        }
        if store.is_dir(path) {
            return Ok(Stat { meta: model::Meta { kind: Kind::Dir, ..stat.meta }, ..stat });
        }
        Ok(store.open(path).and_then(|source| source.stat()).unwrap_or(stat))
    }

    /// The directory of the entry, or the next one above it that exists.
    pub(super) fn existing_dir(&self) -> RelPath {
        let mut dir = self.at.path.clone();
        while !dir.is_root() && !self.at.store.is_dir(&dir) {
            dir = dir.parent();
        }
        dir
    }
}

/// The facts of an entry as the protocol has them.
pub(super) fn facts(stat: &Stat, is_offline: bool) -> EntryFacts {
    let kind = match stat.meta.kind {
        Kind::Dir => entry_flags::DIRECTORY | entry_flags::EXECUTABLE,
        Kind::File if stat.meta.mode & 0o111 != 0 => entry_flags::EXECUTABLE,
        Kind::File => 0,
        _ => entry_flags::OTHER,
    };
    let offline = if is_offline { entry_flags::OFFLINE } else { 0 };
    EntryFacts {
        id: stat.identity.0.rotate_left(32) ^ stat.identity.1,
        size: stat.meta.size,
        flags: kind | offline | entry_flags::READABLE | entry_flags::WRITABLE,
        mtime: stat.meta.mtime.seconds,
        mode: Some(stat.meta.mode & 0o7777),
    }
}
