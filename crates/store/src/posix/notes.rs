//! Notes that this program leaves on files and directories: extended attributes of its own, which travel with a rename and with
//! nothing else.

use std::os::fd::AsFd;

use model::name::RelPath;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::by_descriptor::by_descriptor;
use super::error;
use crate::Result;

/// What the names of all notes begin with.
pub(super) const NOTES: &str = "user.longhaul.";
/// Bytes of a note that are read; file systems of old keep 4 KiB of all attributes together.
const NOTE_BYTES_MAX: usize = 64 << 10;

/// The attribute of a note.
pub(super) fn attribute(name: &str) -> String {
    format!("{NOTES}{name}")
}

/// A note on an entry that is open with `O_PATH`; none where there is none, or can be none.
pub(super) fn read(fd: &impl AsFd, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
    let mut note = vec![0; NOTE_BYTES_MAX];
    match rustix::fs::getxattr(by_descriptor(fd), attribute(name), &mut note[..]) {
        Ok(got) => {
            note.truncate(got);
            Ok(Some(note))
        }
        // Of links and devices nobody keeps attributes of users (xattr(7)).
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::LOOP) => Ok(None),
        Err(e) => Err(error("read a note on", path, e)),
    }
}

/// Leaves a note there; an empty one is taken away.
pub(super) fn write(fd: &impl AsFd, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
    let (at, attribute) = (by_descriptor(fd), attribute(name));
    let written = match note {
        [] => match rustix::fs::removexattr(at, attribute) {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        },
        note => rustix::fs::setxattr(at, attribute, note, XattrFlags::empty()),
    };
    written.map_err(|e| error("leave a note on", path, e))
}
