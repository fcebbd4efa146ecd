//! Listing a directory entry by entry, so that a million entries take no memory.

use std::os::fd::OwnedFd;

use model::name::{Name, RelPath};
use rustix::fs::{AtFlags, Dir, DirEntry};

use super::{error, facts};
use crate::{Entries, Error, Result, Stat};

/// The entries of an open directory, each with its facts.
pub(super) fn entries(fd: OwnedFd, path: &RelPath) -> Result<Entries> {
    // Not `read_from`: that opens the directory a second time, which a directory that may be listed but not entered does not
    // allow, and which takes a second descriptor.
    let mut dir = Dir::new(fd).map_err(|e| error("list", path, e))?;
    let path = path.clone();
    Ok(Entries::new(std::iter::from_fn(move || {
        loop {
            let found = match dir.read()? {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => continue,
                Ok(entry) => examine(&dir, &path, &entry),
                Err(e) => Err(error("list", &path, e)),
            };
            return Some(found);
        }
    })))
}

fn examine(dir: &Dir, path: &RelPath, entry: &DirEntry) -> Result<(Name, Result<Stat>)> {
    let bytes = entry.file_name().to_bytes();
    let name = Name::new(bytes).map_err(|e| Error::io("list", path, std::io::Error::other(e)))?;
    let stat = dir.fd().and_then(|fd| rustix::fs::statat(fd, bytes, AtFlags::SYMLINK_NOFOLLOW));
    let stat = stat.map(|s| facts(&s)).map_err(|e| error("examine", &path.join(&name), e));
    Ok((name, stat))
}
