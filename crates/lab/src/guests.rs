//! Processes at the sites of a lab: found by their network, ended in order.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Of the environment of all that is started at a site: the lab's directory.
pub const MARK: &str = "LONGHAUL_LAB_DIR";

/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

fn network_of(pid: u32) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// All processes but this one.
fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
}

/// The processes in these networks, this one left out.
pub fn in_networks(numbers: &[u64]) -> Vec<u32> {
    let there = |pid: &u32| network_of(*pid).is_some_and(|number| numbers.contains(&number));
    pids().filter(there).collect()
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        // Gone already is what is wanted.
        let _ = kill_process(pid, signal);
    }
}

/// Asks processes to end, then ends them. How many there were.
fn end_all(look: impl Fn() -> Vec<u32>) -> usize {
    let first = look();
    signal(&first, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    let mut left = look();
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        left = look();
    }
    // Until they are gone, and what they started meanwhile: a control group with processes in it cannot be removed.
    let deadline = Instant::now() + GRACE;
    while !left.is_empty() && Instant::now() < deadline {
        signal(&left, Signal::KILL);
        std::thread::sleep(Duration::from_millis(10));
        left = look();
    }
    first.len()
}

/// Ends the processes in these networks. How many there were.
pub fn end(numbers: &[u64]) -> usize {
    end_all(|| in_networks(numbers))
}

/// Ends what a lab that was killed has left at its sites: processes that carry its mark and are in a network of their
/// own. Numbers of networks are used again, so those alone would say nothing.
pub fn end_strays(dir: &Path) -> usize {
    let mark = [MARK.as_bytes(), b"=", dir.as_os_str().as_bytes()].concat();
    let own = network_of(std::process::id());
    let is_stray = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        network_of(*pid) != own && environment.split(|byte| *byte == 0).any(|one| one == mark)
    };
    end_all(|| pids().filter(is_stray).collect())
}
