//! The host during a test: use of its processors, and the settings that bound a test.

use std::collections::BTreeMap;
use std::time::Instant;

use model::v1::probe::host::Use;
use sys::clock::{Processors, process_cpu};

/// Kernel settings that bound a connection or a socket.
const SETTINGS: [&str; 14] = [
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/core/netdev_max_backlog",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_allowed_congestion_control",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_no_metrics_save",
];

/// Measures the use of this host from the beginning of a test to its end.
#[derive(Debug)]
pub struct HostUsage {
    started: Instant,
    processors: Processors,
    own_cpu: std::time::Duration,
    held_back: Option<std::time::Duration>,
}

impl HostUsage {
    /// Reads the host's counters at the beginning of a test.
    pub fn begin() -> HostUsage {
        let held_back = sys::cgroup::throttled();
        HostUsage { started: Instant::now(), processors: Processors::read(), own_cpu: process_cpu(), held_back }
    }

    /// The use of the host since the beginning.
    pub fn read(&self) -> Use {
        let now = Processors::read();
        let processors = sys::limits::processors();
        // Processor time of the whole host, as in the other fields, even where this program may use a part of it only.
        let time = now.seconds_since(&self.processors);
        let settings = settings();
        let held_back = sys::cgroup::throttled().zip(self.held_back).map_or(0.0, |(now, then)| {
            let span = self.started.elapsed().as_secs_f64();
            // The kernel sums over processors: two that are throttled for a second count as two seconds.
            (now.saturating_sub(then).as_secs_f64() / span.max(1e-9)).min(1.0)
        });
        Use {
            software: concat!("longhaul/", env!("CARGO_PKG_VERSION")).into(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processors: processors as u32,
            busy: now.busy_since(&self.processors).unwrap_or_default(),
            own: if time > 0.0 { ((process_cpu() - self.own_cpu).as_secs_f64() / time).min(1.0) } else { 0.0 },
            steal: now.steal_since(&self.processors).unwrap_or_default(),
            held_back,
            congestion: settings.get("net.ipv4.tcp_congestion_control").cloned().unwrap_or_default(),
            settings,
        }
    }
}

/// Identifies the clock that this host reads: the first 32 bits of the kernel's boot id, which is the same in all containers of
/// a host; 0 where it cannot be read.
pub fn clock() -> u32 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// Whether a peer with this clock id ([`clock`]) reads the same clock as this host.
pub fn is_own_clock(theirs: u32) -> bool {
    theirs != 0 && theirs == clock()
}

/// The settings that this host has; some do not exist in a network namespace.
fn settings() -> BTreeMap<String, String> {
    let read = |path: &&str| {
        let text = std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
        Some((path.replace('/', "."), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SETTINGS.iter().filter_map(read).collect()
}

/// The last number of a setting, such as the largest buffer of `tcp_rmem`.
pub(crate) fn largest(of: &Use, setting: &str) -> u64 {
    let text = of.settings.get(setting).map_or("", String::as_str);
    text.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_describes_itself() {
        let watch = HostUsage::begin();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let seen = watch.read();
        assert!(seen.processors > 0 && !seen.kernel.is_empty() && (0.0..=1.0).contains(&seen.busy), "{seen:?}");
        assert!(largest(&seen, "net.ipv4.tcp_rmem") >= 4096, "{seen:?}");
        assert_eq!(largest(&seen, "no.such"), 0);
        assert!(is_own_clock(clock()) && !is_own_clock(0) && !is_own_clock(clock() ^ 1));
    }
}
