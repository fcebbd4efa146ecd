//! Notes of this program on files and directories: extended attributes of its own. They stay with an entry when it is renamed, and are
//! not copied.

use std::os::fd::AsFd;

use model::name::RelPath;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::by_descriptor::by_descriptor;
use super::error;
use crate::Result;

/// The prefix of the names of all notes.
pub(super) const NOTES: &str = "user.longhaul.";
/// The most bytes of a note; older file systems keep 4 KiB of all attributes together.
const NOTE_BYTES_MAX: usize = 64 << 10;

/// The attribute of a note.
pub(super) fn attribute(name: &str) -> String {
    format!("{NOTES}{name}")
}

/// A note on an entry that is open with `O_PATH`; `None` where it has none, or cannot have one.
pub(super) fn read(fd: &impl AsFd, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
    let mut note = vec![0; NOTE_BYTES_MAX];
    match rustix::fs::getxattr(by_descriptor(fd), attribute(name), &mut note[..]) {
        Ok(got) => {
            note.truncate(got);
            Ok(Some(note))
        }
        // Links and devices have no user attributes (xattr(7)).
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::LOOP) => Ok(None),
        Err(e) => Err(error("read a note on", path, e)),
    }
}

/// Sets a note on an entry; an empty note removes it.
pub(super) fn write(fd: &impl AsFd, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
    let at = by_descriptor(fd);
    let attribute = attribute(name);
    let written = match note {
        [] => match rustix::fs::removexattr(at, attribute) {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        },
        note => rustix::fs::setxattr(at, attribute, note, XattrFlags::empty()),
    };
    written.map_err(|e| error("leave a note on", path, e))
}
