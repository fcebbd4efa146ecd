//! Facts of entries, and changes of the tree.

use auth::Action;
use model::{Kind, RelPath};
use store::{AttributeSelection, WantedMetadata};
use xroot::entry::{EntryFacts, SpaceFacts, entry_flags};
use xroot::place::FileOrPath;
use xroot::{ErrorCode, RootAnswer, RootPath};

use super::connection::RootConnection;
use super::failure::{RootOutcome, refuse};
use super::resolved::{Resolved, export_and_path, facts};
use crate::access::RENAME_STAYS;

/// The facts of the root, which holds the exports.
fn root_facts() -> EntryFacts {
    let flags = entry_flags::DIRECTORY | entry_flags::EXECUTABLE | entry_flags::READABLE;
    EntryFacts { id: 1, size: 0, flags, mtime: 0, mode: Some(0o555) }
}

fn text(text: impl std::fmt::Display) -> RootAnswer {
    RootAnswer::Ok(format!("{text}\0").into_bytes())
}

impl RootConnection {
    /// The facts of an entry, or the space of its file system.
    pub(super) fn stat(&mut self, of: &FileOrPath, of_file_system: bool) -> RootOutcome<RootAnswer> {
        let place = match of {
            FileOrPath::File(file) => return Ok(text(self.session()?.files.get(*file)?.facts())),
            FileOrPath::Path(place) => place,
        };
        if of_file_system {
            return self.space_facts(place).map(text);
        }
        if export_and_path(&place.path)?.is_none() {
            return Ok(text(root_facts()));
        }
        let resolved = self.resolve(Action::Stat, place, "stat")?;
        let stat = resolved.stat()?;
        let is_offline = stat.meta.kind == Kind::File && self.is_on_tape_only(&resolved);
        Ok(text(facts(&stat, is_offline)))
    }

    fn space_facts(&self, place: &RootPath) -> RootOutcome<SpaceFacts> {
        let resolved = self.resolve(Action::Stat, place, "statvfs")?;
        let space = resolved.at.store.space(&resolved.existing_dir())?;
        let space = space.unwrap_or(store::Space { free_bytes: u64::MAX >> 1, total_bytes: u64::MAX >> 1, device: 0 });
        let used = space.total_bytes.saturating_sub(space.free_bytes) as f64 / space.total_bytes.max(1) as f64;
        let is_writable = self.service.services.access.is_writable(&resolved.place.export) == Some(true);
        Ok(SpaceFacts { is_writable, free_bytes: space.free_bytes, used_percent: (used * 100.0) as u8 })
    }

    /// Whether a file is on tape, and not on disk.
    fn is_on_tape_only(&self, resolved: &Resolved) -> bool {
        let Some(tape) = self.service.services.access.tape(&resolved.place.export) else { return false };
        let path = resolved.path.to_string();
        let localities = tape.localities(std::slice::from_ref(&path)).unwrap_or_default();
        matches!(localities.get(&path), Some(Ok(locality)) if locality == "TAPE")
    }

    /// Makes a directory.
    pub(super) fn make_directory(&mut self, place: &RootPath, with_parents: bool) -> RootOutcome<RootAnswer> {
        let resolved = self.resolve(Action::MakeDir, place, "mkdir")?;
        let (store, path) = (&resolved.at.store, &resolved.at.path);
        match store.stat(path) {
            Ok(_) if with_parents && store.is_dir(path) => return Ok(RootAnswer::Ok(Vec::new())),
            Ok(_) => return Err(refuse(ErrorCode::Exists, format!("/{} exists already", place.path))),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        if with_parents {
            store::make_dirs(&**store, &path.parent())?;
        } else if !store.is_dir(&path.parent()) {
            let reason = format!("the parent directory of /{} does not exist; make it too (-p)", place.path);
            return Err(refuse(ErrorCode::NotFound, reason));
        }
        store.make_dir(path)?;
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Removes a file, or an empty directory.
    pub(super) fn remove(&mut self, place: &RootPath, is_dir: bool) -> RootOutcome<RootAnswer> {
        let resolved = self.resolve(Action::Remove, place, if is_dir { "rmdir" } else { "rm" })?;
        let (store, path) = (&resolved.at.store, &resolved.at.path);
        if path.is_root() {
            let reason = "the root of an export, or of the part that a credential opens, cannot be removed";
            return Err(refuse(ErrorCode::NotAuthorized, reason));
        }
        let _name_lock = self.service.services.unfinished.lock_name(&resolved.at);
        let kind = store.stat(path)?.meta.kind;
        match (kind == Kind::Dir, is_dir) {
            (true, false) => return Err(refuse(ErrorCode::IsDirectory, format!("/{} is a directory", place.path))),
            (false, true) => return Err(refuse(ErrorCode::NotFile, format!("/{} is no directory", place.path))),
            _ => {}
        }
        store.remove(path)?;
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Renames an entry. As everywhere on a node, a rename stays within one export.
    pub(super) fn rename(&mut self, from: &RootPath, to: &RootPath) -> RootOutcome<RootAnswer> {
        let source = self.resolve(Action::Rename, from, "mv")?;
        let target = self.resolve(Action::Rename, to, "mv")?;
        if source.at.path.is_root() || target.at.path.is_root() {
            return Err(refuse(ErrorCode::NotAuthorized, "the root of an export stays where it is"));
        }
        if !source.at.shares_root(&target.at) {
            return Err(refuse(ErrorCode::Unsupported, RENAME_STAYS));
        }
        if target.at.path.starts_with(&source.at.path) && target.at.path != source.at.path {
            return Err(refuse(ErrorCode::ArgInvalid, "the target lies within the source"));
        }
        let _name_locks = self.service.services.unfinished.lock_names(&source.at, &target.at);
        let store = &source.at.store;
        store.stat(&source.at.path)?;
        let is_there = match store.stat(&target.at.path) {
            Ok(_) => {
                self.resolve(Action::Overwrite, to, "mv")?;
                true
            }
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        store.rename(&source.at.path, &target.at.path, is_there)?;
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Sets the mode of an entry.
    pub(super) fn change_mode(&mut self, place: &RootPath, mode: u16) -> RootOutcome<RootAnswer> {
        let resolved = self.resolve(Action::Modify, place, "chmod")?;
        let (store, path) = (&resolved.at.store, &resolved.at.path);
        let stat = store.stat(path)?;
        let mode = u32::from(mode & 0o777);
        if stat.meta.kind == Kind::Dir {
            store.finish_dir(path, mode, stat.meta.mtime)?;
        } else {
            let asked = AttributeSelection::default();
            store.refresh(path, &WantedMetadata { mode, mtime: stat.meta.mtime, asked, attributes: None })?;
        }
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// This node has all of its files itself.
    pub(super) fn locate(&mut self, place: &RootPath) -> RootOutcome<RootAnswer> {
        // `*` in front of a path asks for all servers that have it; there is one.
        let all = RelPath::parse(b"*").ok().and_then(|star| place.path.below(&star));
        let asked = RootPath::new(all.unwrap_or_else(|| place.path.clone()));
        let is_writable = if export_and_path(&asked.path)?.is_none() {
            true
        } else {
            let resolved = self.resolve(Action::Stat, &asked, "locate")?;
            resolved.at.store.stat(&resolved.at.path)?;
            self.service.services.access.is_writable(&resolved.place.export) == Some(true)
        };
        let at = self.conn.socket().local_addr()?;
        let host = match at.ip().to_canonical() {
            std::net::IpAddr::V4(v4) => v4.to_string(),
            std::net::IpAddr::V6(v6) => format!("[{v6}]"),
        };
        Ok(text(format_args!("S{}{host}:{}", if is_writable { 'w' } else { 'r' }, at.port())))
    }
}
