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

/// The smallest allocation that the C library maps on its own, and unmaps when it is freed: smaller than a block.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: i32 = 512 << 10;

/// Sets up the C library's allocator for a process whose threads and large blocks come and go with its jobs.
///
/// - As many arenas as processors, two at least. By default there are eight for each processor, and each keeps what its threads have freed: a
///   node grew by 50 KiB with each job, and stays level since.
/// - Blocks are always mapped. By default the first block that is freed raises the threshold to its own size; later blocks then lie between
///   the small allocations of jobs, and their memory does not return to the system: in `make bench` the resident memory of a node
///   that received 100,000 small files again and again rose to 102 MiB, and is at most 76 MiB since.
pub fn set_up_allocator() {
    #[cfg(target_env = "gnu")]
    {
        let arenas = i32::try_from(processors().max(2)).unwrap_or(i32::MAX);
        // SAFETY: mallopt(3) takes two numbers, and refuses what it does not know.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, arenas);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}

/// Processors that this process may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    #[cfg(target_env = "gnu")]
    #[test]
    fn blocks_are_mapped_whatever_was_freed_before() {
        super::set_up_allocator();
        drop(Vec::<u8>::with_capacity(4 << 20));
        let block = Vec::<u8>::with_capacity(1 << 20);
        // SAFETY: the C library's allocator has returned the pointer.
        let bytes = unsafe { libc::malloc_usable_size(block.as_ptr().cast_mut().cast()) };
        assert!(bytes > (1 << 20) + 1024, "{bytes}: not whole pages");
    }

    #[test]
    fn the_descriptor_limit_is_never_lowered() {
        let first = super::raise_descriptor_limit();
        assert!(super::raise_descriptor_limit() >= first.min(1024));
    }
}
