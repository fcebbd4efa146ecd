//! Processes at the sites of a lab: found by their network, ended in order.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

fn network_of(pid: u32) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// The processes in these networks, this one left out.
pub fn in_networks(numbers: &[u64]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let there = |pid: &u32| network_of(*pid).is_some_and(|number| numbers.contains(&number));
    pids.filter(|pid| *pid != std::process::id()).filter(there).collect()
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        // Gone already is what is wanted.
        let _ = kill_process(pid, signal);
    }
}

/// Asks the processes in these networks to end, then ends them. How many there were.
pub fn end(numbers: &[u64]) -> usize {
    let first = in_networks(numbers);
    signal(&first, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    let mut left = in_networks(numbers);
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        left = in_networks(numbers);
    }
    signal(&left, Signal::KILL);
    first.len()
}
