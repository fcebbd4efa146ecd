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
