//! The directories above an entry, up to the root of the host.

use std::os::fd::OwnedFd;

use model::name::RelPath;
use rustix::fs::{Mode, OFlags};

use super::{DEPTH_MAX, Posix, facts};
use crate::Lineage;

impl Posix {
    /// [`crate::Store::lineage`].
    pub(super) fn lineage_of(&self, path: &RelPath) -> Lineage {
        let open = |path: &RelPath| self.open_at(path, OFlags::PATH, Mode::empty()).ok();
        let itself = open(path).and_then(|fd| Some((identity(&fd)?, fd)));
        let mut nearest = path.clone();
        let above = match &itself {
            // A file has no `..`: the walk starts at its directory.
            Some((_, fd)) => ancestors(fd).or_else(|| ancestors_with(&open(&path.parent())?)),
            None => loop {
                if nearest.is_root() {
                    break None;
                }
                nearest = nearest.parent();
                if let Some(fd) = open(&nearest) {
                    break ancestors_with(&fd);
                }
            },
        };
        Lineage { itself: itself.map(|(identity, _)| identity), above: above.unwrap_or_default() }
    }
}

/// Device and inode of an open entry.
fn identity(fd: &OwnedFd) -> Option<(u64, u64)> {
    rustix::fs::fstat(fd).ok().map(|stat| facts(&stat).identity)
}

/// The directories above an open one, innermost first, up to the host's root, beyond the root of the store too; only their
/// identities are read. None where it is not a directory.
fn ancestors(fd: &OwnedFd) -> Option<Vec<(u64, u64)>> {
    let up = |fd: &OwnedFd| rustix::fs::openat(fd, c"..", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).ok();
    let (mut below, mut next) = (identity(fd)?, up(fd)?);
    let mut above = Vec::new();
    while let Some(there) = identity(&next).filter(|there| *there != below && above.len() < DEPTH_MAX) {
        above.push(there);
        below = there;
        match up(&next) {
            Some(parent) => next = parent,
            None => break,
        }
    }
    Some(above)
}

/// As [`ancestors`], with the open directory itself first.
fn ancestors_with(fd: &OwnedFd) -> Option<Vec<(u64, u64)>> {
    let mut above = ancestors(fd)?;
    above.insert(0, identity(fd)?);
    Some(above)
}
