//! Paths of open entries in procfs, for system calls that take no descriptor.

use std::os::fd::{AsFd, AsRawFd};

/// The path of an open entry, for calls that take no `O_PATH` descriptor.
pub(super) fn by_descriptor(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}
