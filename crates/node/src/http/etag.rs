//! Entity tags of files (RFC 9110, section 8.8.3).

use store::Stat;
use web::conditions::ETag;

/// The tag of a file's content, from its inode, size and time of change.
pub(crate) fn etag(stat: &Stat) -> ETag {
    ETag::of_file(stat.identity.1, stat.meta.size, stat.meta.mtime)
}
