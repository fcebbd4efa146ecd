//! The resources of this process, under the names of Prometheus's own client libraries.

use std::fs;

/// The resources of this process; 0 where the system does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub descriptors: u64,
    pub descriptors_max: u64,
}

impl Process {
    /// The current values.
    pub fn now() -> Process {
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let pages = text("statm").split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        // The listing itself holds one descriptor.
        let open = fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count().saturating_sub(1));
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Process {
            cpu_seconds: ticks(&text("stat")) as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            resident_bytes: pages * rustix::param::page_size() as u64,
            descriptors: open as u64,
            descriptors_max: most.unwrap_or(u64::MAX),
        }
    }
}

/// Processor time in user and kernel mode, clock ticks (proc_pid_stat(5)). The second field is a name, which may hold any character.
fn ticks(stat: &str) -> u64 {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    field(14) + field(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_after_the_process_name() {
        assert_eq!(ticks("7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 120 30 5 6 20 0 9 0 1 2 3"), 150);
        assert_eq!(ticks("nonsense"), 0);
    }

    #[test]
    fn a_process_uses_processor_memory_and_descriptors() {
        let began = std::time::Instant::now();
        let mut now = Process::now();
        // It ends with the first tick that is counted.
        while now.cpu_seconds == 0.0 && began.elapsed() < std::time::Duration::from_secs(60) {
            now = Process::now();
        }
        assert!(now.cpu_seconds > 0.0, "{now:?}");
        assert!(
            now.resident_bytes > 1 << 20 && now.descriptors >= 3 && now.descriptors_max >= now.descriptors,
            "{now:?}"
        );
    }
}
