//! Limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open descriptors to the hard one and returns the limit in force. A node holds a descriptor for each stream and
/// open file; the usual soft limit of 1,024 was made for `select`.
pub fn raise_descriptor_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: now.maximum, maximum: now.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => now.maximum.unwrap_or(u64::MAX),
        Err(_) => now.current.unwrap_or(u64::MAX),
    }
}

/// Limits the arenas of the C library's allocator to the number of processors, two at least. By default there are eight for each processor,
/// and each keeps what its threads have freed: a node, whose threads come and go with its jobs, grew by 50 KiB with each job, and stays level
/// since.
pub fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    {
        let arenas = i32::try_from(processors().max(2)).unwrap_or(i32::MAX);
        // SAFETY: mallopt(3) takes two numbers, and refuses what it does not know.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
}

/// Processors that this process may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptor_limit_is_never_lowered() {
        let first = super::raise_descriptor_limit();
        assert!(super::raise_descriptor_limit() >= first.min(1024));
    }
}
