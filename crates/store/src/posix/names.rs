//! The names of unfinished files.

/// The name of an unfinished file, from its tag. The kernel does not check it again, so slashes and NULs of the tag become
/// underscores.
pub fn temporary_name(tag: &str) -> Vec<u8> {
    format!(".longhaul-{}.part", tag.replace(['/', '\0'], "_")).into_bytes()
}

/// Whether a name is that of an unfinished file.
pub fn is_temporary_name(name: &[u8]) -> bool {
    name.starts_with(b".longhaul-") && name.ends_with(b".part")
}
