//! Processes at the sites of a lab: found by their network, ended in order.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Of the environment of all that `longhaul lab` starts at a site: the lab's directory.
pub const MARK: &str = "LONGHAUL_LAB_DIR";

/// How long a process may take to end when it is asked to.
pub const GRACE: Duration = Duration::from_secs(2);

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

/// Signals a process if it is meant. Its number may have become another's since it was found: what it is is asked again
/// once it is held.
fn signal(pid: u32, signal: Signal, is_meant: &impl Fn(u32) -> bool) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(held) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if is_meant(pid) {
        // Gone already is what is wanted.
        let _ = pidfd_send_signal(&held, signal);
    }
}

/// Asks processes to end, then ends them. How many there were.
fn end_all(grace: Duration, is_meant: impl Fn(u32) -> bool) -> usize {
    let look = || pids().filter(|pid| is_meant(*pid)).collect::<Vec<_>>();
    let first = look();
    first.iter().for_each(|pid| signal(*pid, Signal::TERM, &is_meant));
    let deadline = Instant::now() + grace;
    let mut left = look();
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        left = look();
    }
    // Until they are gone, and what they started meanwhile: a control group with processes in it cannot be removed.
    let deadline = Instant::now() + GRACE;
    while !left.is_empty() && Instant::now() < deadline {
        left.iter().for_each(|pid| signal(*pid, Signal::KILL, &is_meant));
        std::thread::sleep(Duration::from_millis(10));
        left = look();
    }
    first.len()
}

/// Ends the processes in these networks, which may take so long where they are asked to. How many there were.
pub fn end(numbers: &[u64], grace: Duration) -> usize {
    end_all(grace, |pid| network_of(pid).is_some_and(|number| numbers.contains(&number)))
}

/// Ends what a lab that was killed has left at its sites: processes that carry its mark and are in a network of their
/// own. Numbers of networks are used again, so those alone would say nothing.
pub fn end_strays(dir: &Path) -> usize {
    let mark = [MARK.as_bytes(), b"=", dir.as_os_str().as_bytes()].concat();
    let own = network_of(std::process::id());
    end_all(GRACE, |pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        network_of(pid) != own && environment.split(|byte| *byte == 0).any(|one| one == mark)
    })
}
