//! Gives a finished entry its name, without replacing an existing one where that is not allowed.

use std::os::fd::OwnedFd;

use model::name::{Name, RelPath};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::{Posix, conflict};
use crate::Result;

impl Posix {
    /// Puts a finished temporary entry under its name.
    pub(super) fn put(dir: &OwnedFd, temporary: &[u8], name: &Name, replace: bool) -> rustix::io::Result<()> {
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(dir, temporary, dir, name.as_bytes(), flags) {
            // NFS, Lustre and old kernels do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if !replace => {
                Self::rename_by_link((dir, temporary), (dir, name.as_bytes()))
            }
            other => other,
        }
    }

    /// Renames unless the new name is taken, in two steps: a link refuses a taken name everywhere.
    pub(super) fn rename_by_link(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8])) -> rustix::io::Result<()> {
        rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?;
        rustix::fs::unlinkat(from.0, from.1, AtFlags::empty())
    }

    /// As [`Posix::rename_by_link`], for a directory, which cannot have a second name. Between the check and the rename only an
    /// empty directory can appear and be replaced.
    pub(super) fn rename_dir_after_check(from: (&OwnedFd, &Name), to: (&OwnedFd, &Name)) -> rustix::io::Result<()> {
        match Self::stat_kind(to.0, to.1) {
            Some(_) => Err(Errno::EXIST),
            None => rustix::fs::renameat(from.0, from.1.as_bytes(), to.0, to.1.as_bytes()),
        }
    }

    pub(super) fn put_or_remove(
        dir: &OwnedFd,
        temporary: &[u8],
        path: &RelPath,
        name: &Name,
        replace: bool,
    ) -> Result<()> {
        Self::put(dir, temporary, name, replace).map_err(|e| {
            let _ = rustix::fs::unlinkat(dir, temporary, AtFlags::empty());
            conflict(dir, path, name, e)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The replacement for RENAME_NOREPLACE is tested by itself, because file systems without that flag are rarely at hand.
    #[test]
    fn a_link_stands_in_for_a_rename_that_must_not_replace() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(temp.path()).unwrap());
        let put = |temporary: &[u8], name: &[u8]| Posix::rename_by_link((&dir, temporary), (&dir, name));
        std::fs::write(temp.path().join("part"), "new").unwrap();
        put(b"part", b"f").unwrap();
        assert!(!temp.path().join("part").exists());
        std::fs::write(temp.path().join("part"), "newer").unwrap();
        assert_eq!(put(b"part", b"f"), Err(Errno::EXIST));
        assert_eq!(std::fs::read(temp.path().join("f")).unwrap(), b"new");
        std::os::unix::fs::symlink("nowhere", temp.path().join("link")).unwrap();
        put(b"link", b"l").unwrap();
        assert_eq!(std::fs::read_link(temp.path().join("l")).unwrap(), Path::new("nowhere"));
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        std::fs::create_dir(temp.path().join("d")).unwrap();
        std::fs::create_dir(temp.path().join("e")).unwrap();
        let rename = |from: &str, to: &str| Posix::rename_dir_after_check((&dir, &name(from)), (&dir, &name(to)));
        assert_eq!((rename("d", "e"), rename("d", "f")), (Err(Errno::EXIST), Err(Errno::EXIST)));
        rename("d", "new").unwrap();
        assert!(temp.path().join("new").is_dir() && !temp.path().join("d").exists());
    }
}
