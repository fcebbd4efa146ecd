//! A directory of a store as the root of another one, and the opening of paths below a root: the kernel refuses paths that lead
//! out of it.

use std::os::fd::OwnedFd;

use model::name::RelPath;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Posix, error};
use crate::{PathRules, Result};

impl Posix {
    /// The store below a directory of this one. No path leads out of it, not even by a link that stays inside this store.
    ///
    /// # Errors
    /// The directory cannot be opened or made, or lies outside of this store.
    pub fn below(&self, path: &RelPath, rules: PathRules) -> Result<Posix> {
        let is_dir = OFlags::PATH | OFlags::DIRECTORY;
        let (root, holds_entry) = match rules {
            PathRules::Freely => (self.open_at(path, is_dir, Mode::empty()), false),
            PathRules::FreelyThenNoLink => (self.open_at(path, is_dir, Mode::empty()), true),
            PathRules::Strictly { make } => (self.walk(path, make, is_dir | OFlags::NOFOLLOW), false),
            PathRules::StrictlyThenNoLink { make } => (self.walk(path, make, is_dir), true),
        };
        let root = root.map_err(|e| error("open the directory", path, e))?;
        Ok(Posix { root, holds_entry, ..*self })
    }

    /// Opens a directory component by component, each of them below the one before it; `last` has the flags for the last component.
    fn walk(&self, path: &RelPath, make: bool, last: OFlags) -> rustix::io::Result<OwnedFd> {
        let is_dir = OFlags::PATH | OFlags::DIRECTORY;
        let mut dir = self.open_at(&RelPath::root(), is_dir, Mode::empty())?;
        let mut names = path.as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_none() { last } else { is_dir };
            dir = match open_below(&dir, name, flags, Mode::empty(), self.resolve) {
                Err(Errno::NOENT) if make => {
                    // Another process may have made it meanwhile: the second opening decides.
                    let _ = rustix::fs::mkdirat(&dir, name, Mode::RWXU | Mode::from_raw_mode(0o055));
                    open_below(&dir, name, flags, Mode::empty(), self.resolve)?
                }
                other => other?,
            };
        }
        Ok(dir)
    }
}

/// Opens what a path below a directory leads to.
pub(super) fn open_below(
    dir: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    loop {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve) {
            // The kernel returns EAGAIN when an entry was renamed during the walk; the walk starts again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}
