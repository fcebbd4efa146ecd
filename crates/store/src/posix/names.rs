//! The names of files that are not finished.

/// The name of a file that is not finished. It is used beside the final name without another check by the kernel, so
/// a tag can say no path: its slashes and NULs become underscores.
pub fn temporary_name(tag: &str) -> Vec<u8> {
    format!(".longhaul-{}.part", tag.replace(['/', '\0'], "_")).into_bytes()
}

/// Whether a name is that of a file that is not finished.
pub fn is_temporary_name(name: &[u8]) -> bool {
    name.starts_with(b".longhaul-") && name.ends_with(b".part")
}
