//! Listing a directory entry by entry, so that a million entries take no memory.

use std::os::fd::OwnedFd;

use model::name::{Name, RelPath};
use rustix::fs::{AtFlags, Dir};

use super::{error, facts};
use crate::{Entries, Error, Result};

/// The entries of an open directory, each with its facts.
pub(super) fn entries(fd: OwnedFd, path: &RelPath) -> Result<Entries> {
    let dir = Dir::read_from(&fd).map_err(|e| error("list", path, e))?;
    let path = path.clone();
    let entries = dir.filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => return Some(Err(error("list", &path, e))),
        };
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            return None;
        }
        let name = match Name::new(bytes) {
            Ok(name) => name,
            Err(e) => return Some(Err(Error::io("list", &path, std::io::Error::other(e)))),
        };
        let stat = rustix::fs::statat(&fd, bytes, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map(|s| facts(&s)).map_err(|e| error("examine", &path.join(&name), e));
        Some(Ok((name, stat)))
    });
    Ok(Box::new(entries))
}
