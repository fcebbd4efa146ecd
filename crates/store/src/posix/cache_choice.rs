//! Chooses whether a large file is written through the page cache or past it.
//!
//! Through the cache a write waits for memory only, and the next reader finds the file there. But it costs more processor time, and
//! data that does not fit evicts pages of other programs and then waits for the device all the same. So a file goes through the cache
//! while there is plenty of memory for it, and past it otherwise. All writes of a file take the same path: with mixed writes the kernel
//! would have to keep both views of a page in step, which open(2) warns against.

/// A file larger than 1/4 of the available memory goes past the cache.
const FILE_SHARE: u64 = 4;
/// A large file goes past the cache while more than 1/8 of the available memory is dirty: the device is behind already.
const DIRTY_SHARE: u64 = 8;

/// Whether a file of this size goes past the page cache now.
pub(super) fn past_the_cache(size: u64) -> bool {
    std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| decide(&text, size))
}

/// Decides by the kernel's numbers (proc_meminfo(5)). Where they cannot be read, the file goes through the cache, which always works.
fn decide(meminfo: &str, size: u64) -> bool {
    let kib = |name: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let Some(available) = kib("MemAvailable").map(|kib| kib << 10) else { return false };
    let waiting = (kib("Dirty").unwrap_or(0) + kib("Writeback").unwrap_or(0)) << 10;
    size > available / FILE_SHARE || waiting > available / DIRTY_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_decides() {
        let meminfo = |dirty: u64| {
            format!("MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\nDirty: {dirty} kB\nWriteback:  0 kB\n")
        };
        assert!(!decide(&meminfo(0), 1 << 30));
        assert!(decide(&meminfo(0), 5 << 30), "more than a quarter of what is available");
        assert!(decide(&meminfo(3 << 20), 1 << 30), "3 GiB wait for the device");
        assert!(!decide("", 1 << 40));
    }
}
