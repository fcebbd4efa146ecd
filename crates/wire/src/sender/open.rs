//! The directories that the receiver still keeps open: those being offered, and those with unsettled entries below them.
//!
//! The receiver keeps a directory until all entries below it are settled, long after the directory itself is. The sender offers no more
//! directories than the receiver can keep, so that a tree of more directories than files does not exceed the receiver's bound.

use std::collections::HashMap;

use crate::limits::DIRS_OPEN_MAX;

#[derive(Debug)]
struct OpenDir {
    parent: u64,
    /// Entries in it that are not settled, or are directories still open; and itself, until it is settled.
    pending: u64,
    is_left: bool,
}

/// The open directories of a job.
#[derive(Debug, Default)]
pub(super) struct OpenDirs {
    /// From the source root to the directory being offered.
    stack: Vec<u64>,
    open: HashMap<u64, OpenDir>,
}

impl OpenDirs {
    /// Whether one more may be opened.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < DIRS_OPEN_MAX
    }

    /// Adds an entry that is offered in the innermost directory. Returns that directory.
    pub(super) fn offered(&mut self, id: u64, is_dir: bool) -> u64 {
        let parent = self.stack.last().copied().unwrap_or(0);
        if let Some(dir) = self.open.get_mut(&parent) {
            dir.pending += 1;
        }
        if is_dir {
            self.stack.push(id);
            self.open.insert(id, OpenDir { parent, pending: 1, is_left: false });
        }
        parent
    }

    /// Leaves the innermost directory: all its entries have been offered. Returns it.
    pub(super) fn leave(&mut self) -> Option<u64> {
        let id = self.stack.pop()?;
        if let Some(dir) = self.open.get_mut(&id) {
            dir.is_left = true;
        }
        self.close_if_done(id);
        Some(id)
    }

    /// Notes that an entry of directory `parent` is settled.
    pub(super) fn settled(&mut self, id: u64, parent: u64) {
        // A directory stays pending in its parent until it closes.
        let counted = if self.open.contains_key(&id) { id } else { parent };
        if let Some(dir) = self.open.get_mut(&counted) {
            dir.pending = dir.pending.saturating_sub(1);
            self.close_if_done(counted);
        }
    }

    fn close_if_done(&mut self, mut id: u64) {
        while let Some(dir) = self.open.get(&id).filter(|d| d.is_left && d.pending == 0) {
            let parent = dir.parent;
            self.open.remove(&id);
            if let Some(above) = self.open.get_mut(&parent) {
                above.pending = above.pending.saturating_sub(1);
            }
            id = parent;
        }
    }
}
