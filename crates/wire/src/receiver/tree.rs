//! The offered tree: directories that open and close, and the entries that are settled in them.

use model::{Algorithm, Refusal};
use std::collections::{BTreeMap, HashSet};

use model::entry::Attributes;
use model::fault::Fault;
use model::name::{Name, PATH_BYTES_MAX, RelPath};

use super::extras::Extras;
use super::{Action, Dir, DirState, EntryKind, FileReceive, FileState, Receiver, Unsettled, Wanted, name_key};
use crate::error::WireError;
use crate::frame::{Entry, Offered, Outcome, UNKNOWN_SIZE};
use crate::ledger::Ledger;
use crate::limits;
use crate::limits::MISSES_NAMED_MAX;

/// The number of failed files that are remembered, so that a later link to one of them fails too. Beyond it all later links fail.
const FAILED_FILES_MAX: usize = 1 << 20;

impl Receiver {
    pub(super) fn handle_entry(&mut self, entry: Entry) -> Result<(), WireError> {
        match entry {
            Entry::Leave(id) => {
                let dir =
                    self.dirs.get_mut(&id).ok_or(WireError::Unexpected("a directory that is not open was left"))?;
                if std::mem::replace(&mut dir.is_left, true) {
                    return Err(WireError::Unexpected("a directory was left twice"));
                }
                self.finish_dir_if_done(id);
                Ok(())
            }
            Entry::New { id, parent, name, what, attributes } => {
                self.handle_new_entry(id, parent, name, what, attributes)
            }
        }
    }

    fn handle_new_entry(
        &mut self,
        id: u64,
        parent: u64,
        name: Name,
        what: Offered,
        attributes: Option<Box<Attributes>>,
    ) -> Result<(), WireError> {
        if id != self.next_id || self.scan_end.is_some() {
            return Err(WireError::Unexpected("entries are not numbered 1, 2, 3 …"));
        }
        self.next_id += 1;
        self.check_bounds()?;
        let (path, display_path, parent_failed) = self.place(parent, &name, &what)?;
        let too_long = path.as_bytes().len() > PATH_BYTES_MAX;
        let kind = match what {
            Offered::Dir { .. } => EntryKind::Dir,
            Offered::File { .. } => EntryKind::File,
            Offered::Symlink { .. } | Offered::HardLink { .. } => EntryKind::Link,
            _ => EntryKind::Other,
        };
        self.unread += u64::from(matches!(what, Offered::Failed(_)));
        if let Some(offered) = self.dirs.get_mut(&parent).and_then(|above| above.offered.as_mut()) {
            offered.insert(name_key(&name));
        }
        self.unsettled.insert(id, Unsettled { parent, name, file: None, links: Vec::new(), kind });
        if let Offered::Dir { mode, mtime } = what {
            let state = if parent_failed || too_long { DirState::Failed } else { DirState::Making };
            // The path of a failed directory is not used.
            let path = if state == DirState::Failed { RelPath::root() } else { path.clone() };
            let offered = (self.extras == Extras::Noting).then(HashSet::new);
            let attributes = attributes.clone();
            let dir =
                Dir { path, display_path, parent, mode, mtime, pending: 0, is_left: false, state, attributes, offered };
            self.dirs.insert(id, dir);
        }
        let mut inline = false;
        if let Offered::File { size, .. } = what {
            // Counted for every file, wanted or not: the sender counts the same way.
            inline = limits::fits_inline(&mut self.inline_bytes, size);
            self.files_offered += 1;
            self.bytes_offered = self.bytes_offered.saturating_add(if size == UNKNOWN_SIZE { 0 } else { size });
        }
        let refusal = if parent_failed {
            Some(Refusal::new(Fault::Storage, "the directory that it belongs in could not be made"))
        } else if too_long {
            Some(Refusal::new(
                Fault::Storage,
                format!("the path is longer than the {PATH_BYTES_MAX} bytes that Linux allows"),
            ))
        } else {
            None
        };
        match refusal {
            Some(refusal) => self.settled(id, Outcome::Failed(refusal)),
            None => self.act(id, path, what, inline, attributes)?,
        }
        Ok(())
    }

    /// Checks the bounds on entries in flight and open directories. A directory that is being finished does not count: the sender may know
    /// that all its entries are settled.
    fn check_bounds(&self) -> Result<(), WireError> {
        // Outcomes that have not been sent count too: a peer that never reads must not grow their list.
        let entries = self.unsettled.len() + self.outcomes.len();
        let dirs = self.dirs.len() - self.dirs_finishing;
        let breach =
            |what, got: usize, limit: usize| Err(WireError::TooLarge { what, got: got as u64, limit: limit as u64 });
        if entries >= limits::ENTRIES_IN_FLIGHT_MAX {
            breach("number of entries in flight", entries + 1, limits::ENTRIES_IN_FLIGHT_MAX)
        } else if dirs > limits::DIRS_OPEN_MAX {
            breach("number of open directories", dirs, limits::DIRS_OPEN_MAX)
        } else {
            Ok(())
        }
    }

    /// The place of an entry: its path in the store, its path in messages, and whether its directory failed.
    fn place(&mut self, parent: u64, name: &Name, what: &Offered) -> Result<(RelPath, RelPath, bool), WireError> {
        if parent == 0 {
            let inside = self.target.into || self.target.is_dir && !matches!(what, Offered::Dir { .. });
            let path = if inside { self.target.path.join(name) } else { self.target.path.clone() };
            return Ok((path, RelPath::root().join(name), false));
        }
        let dir = self.dirs.get_mut(&parent).filter(|d| !d.is_left);
        let dir = dir.ok_or(WireError::Unexpected("an entry is in a directory that is not open"))?;
        dir.pending += 1;
        // All entries below a path that is too long fail, and paths grow no further: a peer may nest directories without end.
        let endless = dir.display_path.as_bytes().len() > PATH_BYTES_MAX;
        let display_path = if endless { dir.display_path.clone() } else { dir.display_path.join(name) };
        Ok((dir.path.join(name), display_path, dir.state == DirState::Failed))
    }

    fn act(
        &mut self,
        id: u64,
        path: RelPath,
        what: Offered,
        inline: bool,
        attributes: Option<Box<Attributes>>,
    ) -> Result<(), WireError> {
        match what {
            Offered::Dir { .. } => self.actions.push_back(Action::MakeDir { id, path }),
            Offered::File { mode, mtime, size } => {
                let below = path.below(&self.target.path);
                let expected = below.and_then(|below| self.expected.remove(&below)).unwrap_or_default();
                if size != UNKNOWN_SIZE
                    && let Err(refusal) = expected.check_bytes(size)
                {
                    self.settled(id, Outcome::Failed(refusal));
                    return Ok(());
                }
                let compare_by = expected.digest.map_or(Algorithm::Crc32c, |digest| digest.algorithm());
                let wanted = Wanted { id, path: path.clone(), size, mode, mtime, attributes, compare_by };
                if let Some(entry) = self.unsettled.get_mut(&id) {
                    entry.file = Some(FileReceive {
                        path,
                        size,
                        inline,
                        compared: false,
                        ledger: Ledger::default(),
                        claims: BTreeMap::new(),
                        ended: None,
                        expected,
                        marked_whole: false,
                        state: FileState::Judging,
                    });
                }
                self.actions.push_back(Action::Judge(wanted));
            }
            Offered::Symlink { mtime, target } => {
                self.actions.push_back(Action::Symlink { id, path, target, mtime, attributes });
            }
            Offered::HardLink { to, path: source_path } => self.hard_link(id, path, to, &source_path)?,
            Offered::Special => {
                if self.specials.len() < MISSES_NAMED_MAX {
                    let display_path = self.display_path(id);
                    self.specials.push(display_path);
                }
                self.totals.special += 1;
                self.settled(id, Outcome::Done);
            }
            Offered::Failed(refusal) => self.settled(id, Outcome::Failed(refusal)),
        }
        Ok(())
    }

    fn hard_link(&mut self, id: u64, path: RelPath, to: u64, source_path: &RelPath) -> Result<(), WireError> {
        // A link must be to a file that was offered before: links that wait for links could form a chain of any length.
        match self.unsettled.get_mut(&to) {
            Some(entry) if entry.file.is_some() => {
                entry.links.push((id, path));
                return Ok(());
            }
            None if self.failed_files.contains(&to) || self.failed_files.len() >= FAILED_FILES_MAX => {
                // The entry of that name at the target is not the offered file.
                let refusal = Refusal::new(Fault::Storage, "the file that it is another name of did not arrive");
                self.settled(id, Outcome::Failed(refusal));
                return Ok(());
            }
            None if to < id => {}
            _ => return Err(WireError::Unexpected("a hard link is not to a file that was offered before")),
        }
        // The file is in place already, at its path below the root.
        let root = self.target.path.clone();
        let root_is_file = source_path.is_root();
        let to = if self.target.into || root_is_file && self.target.is_dir {
            self.rooted_path(id, source_path)
        } else {
            root.join_path(source_path)
        };
        self.actions.push_back(Action::HardLink { id, path, to });
        Ok(())
    }

    /// The path of another entry of the same source root, where roots keep their names.
    fn rooted_path(&self, id: u64, below: &RelPath) -> RelPath {
        let display_path = self.display_path(id);
        let first = display_path.as_bytes().split(|b| *b == b'/').next().and_then(|n| Name::new(n).ok());
        match first {
            Some(name) => self.target.path.join(&name).join_path(below),
            None => self.target.path.join_path(below),
        }
    }

    /// The path of an entry in messages: the source root's name, and the path below the root.
    pub(super) fn display_path(&self, id: u64) -> RelPath {
        let Some(entry) = self.unsettled.get(&id) else { return RelPath::root() };
        match self.dirs.get(&entry.parent) {
            Some(dir) => dir.display_path.join(&entry.name),
            None => RelPath::root().join(&entry.name),
        }
    }

    /// Reports that a directory was made, or could not be.
    pub fn dir_made(&mut self, id: u64, result: Result<(), Refusal>) {
        let Some(dir) = self.dirs.get_mut(&id) else { return };
        dir.state = if result.is_ok() { DirState::Open } else { DirState::Failed };
        self.settled(id, result.map_or_else(Outcome::Failed, |()| Outcome::Done));
        self.finish_dir_if_done(id);
    }

    /// Reports that a directory has its final mode and time, or could not be finished.
    pub fn dir_finished(&mut self, id: u64, result: Result<(), Refusal>) {
        let Some(dir) = self.dirs.remove(&id) else { return };
        self.dirs_finishing -= usize::from(dir.state == DirState::Finishing);
        if let Err(refusal) = result {
            self.note_failure(dir.display_path, refusal);
        }
        self.child_done(dir.parent);
    }

    fn child_done(&mut self, parent: u64) {
        if let Some(dir) = self.dirs.get_mut(&parent) {
            dir.pending -= 1;
            self.finish_dir_if_done(parent);
        }
    }

    /// Finishes a directory that was left and has nothing pending. A failed directory closes at once, and then perhaps the one above it: in
    /// a loop, because a peer may nest directories deeper than any call stack.
    fn finish_dir_if_done(&mut self, mut id: u64) {
        while let Some(dir) = self.dirs.get_mut(&id).filter(|d| d.is_left && d.pending == 0) {
            match dir.state {
                DirState::Open => {
                    dir.state = DirState::Finishing;
                    self.dirs_finishing += 1;
                    let (path, mode, mtime) = (dir.path.clone(), dir.mode, dir.mtime);
                    let attributes = dir.attributes.take();
                    if let Some(offered) = dir.offered.take() {
                        let display_path = dir.display_path.clone();
                        self.actions.push_back(Action::NoteExtras { path: path.clone(), display_path, offered });
                    }
                    return self.actions.push_back(Action::FinishDir { id, path, mode, mtime, attributes });
                }
                DirState::Making | DirState::Finishing => return,
                DirState::Failed => {
                    let parent = dir.parent;
                    self.dirs.remove(&id);
                    let Some(above) = self.dirs.get_mut(&parent) else { return };
                    above.pending -= 1;
                    id = parent;
                }
            }
        }
    }

    /// Settles an entry: counts it, reports it to the sender, and releases the links that waited for it.
    pub fn settled(&mut self, id: u64, outcome: Outcome) {
        let display_path = self.display_path(id);
        let Some(entry) = self.unsettled.remove(&id) else { return };
        let size = entry.file.as_ref().map_or(0, |f| if f.size == UNKNOWN_SIZE { 0 } else { f.size });
        if entry.kind == EntryKind::File {
            self.files_settled += 1;
            self.settled_files.settled(|| display_path.clone(), size, &outcome);
        }
        match (&outcome, entry.kind) {
            (Outcome::Done, EntryKind::Dir) => self.totals.directories += 1,
            (Outcome::Done, EntryKind::File) => {
                self.totals.files += 1;
                self.totals.bytes = self.totals.bytes.saturating_add(size);
            }
            (Outcome::Done, EntryKind::Link) => self.totals.links += 1,
            (Outcome::Skipped, kind) => {
                self.files_in_place += u64::from(kind == EntryKind::File);
                self.totals.skipped += 1;
                self.totals.skipped_bytes = self.totals.skipped_bytes.saturating_add(size);
                self.bytes_arrived = self.bytes_arrived.saturating_add(size);
            }
            (Outcome::Failed(refusal), kind) => {
                if kind == EntryKind::File && self.failed_files.len() < FAILED_FILES_MAX {
                    self.failed_files.insert(id);
                }
                self.totals.failed += 1;
                self.note_miss(display_path, refusal.clone());
            }
            (Outcome::Done, EntryKind::Other) => {}
        }
        let in_place = !matches!(outcome, Outcome::Failed(_));
        self.outcomes.push((id, outcome));
        for (link, path) in entry.links {
            match &entry.file {
                Some(file) if in_place => {
                    let to = file.path.clone();
                    self.actions.push_back(Action::HardLink { id: link, path, to });
                }
                _ => {
                    let refusal = Refusal::new(Fault::Storage, "the file that it is another name of did not arrive");
                    self.settled(link, Outcome::Failed(refusal));
                }
            }
        }
        // A directory stays pending in its parent until it is finished.
        if entry.kind != EntryKind::Dir {
            self.child_done(entry.parent);
        }
    }
}
