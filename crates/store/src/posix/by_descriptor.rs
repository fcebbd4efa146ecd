//! Calls that have no form for an open entry reach it by a path of procfs.

use std::os::fd::{AsFd, AsRawFd};

/// The way to an open entry that calls without a form for `O_PATH` descriptors can take.
pub(super) fn by_descriptor(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}
