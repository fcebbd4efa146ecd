//! Processes at the sites of a lab: found by their network namespace, asked to end, and killed if they do not.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A variable in the environment of every process that `longhaul lab` starts at a site: the lab's directory.
pub const LAB_VARIABLE: &str = "LONGHAUL_LAB_DIR";

/// How long a process may take to end after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(2);

fn network_of(pid: u32) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// All processes except this one.
fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
}

/// Signals a process if `is_meant` holds. Its number may have been given to another process since it was found, so the condition is checked
/// again once the process is open.
fn signal(pid: u32, signal: Signal, is_meant: &impl Fn(u32) -> bool) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if is_meant(pid) {
        // A process that has already ended is fine.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// Asks processes to end, then kills them. Returns how many there were.
fn end_all(grace: Duration, is_meant: impl Fn(u32) -> bool) -> usize {
    let find = || pids().filter(|pid| is_meant(*pid)).collect::<Vec<_>>();
    let found = find();
    found.iter().for_each(|pid| signal(*pid, Signal::TERM, &is_meant));
    let deadline = Instant::now() + grace;
    let mut running = find();
    while !running.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        running = find();
    }
    // Waits until they have ended, with the processes that they started meanwhile: a control group with processes cannot be removed.
    let deadline = Instant::now() + GRACE;
    while !running.is_empty() && Instant::now() < deadline {
        running.iter().for_each(|pid| signal(*pid, Signal::KILL, &is_meant));
        std::thread::sleep(Duration::from_millis(10));
        running = find();
    }
    found.len()
}

/// Ends the processes in these networks after a grace period. Returns how many there were.
pub fn end(numbers: &[u64], grace: Duration) -> usize {
    end_all(grace, |pid| network_of(pid).is_some_and(|number| numbers.contains(&number)))
}

/// Ends the processes that a killed lab has left at its sites: those that have its variable and are in another network than this process.
/// Numbers of networks are used again, so they alone prove nothing.
pub fn end_leftovers(dir: &Path) -> usize {
    let variable = [LAB_VARIABLE.as_bytes(), b"=", dir.as_os_str().as_bytes()].concat();
    let own = network_of(std::process::id());
    end_all(GRACE, |pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        network_of(pid) != own && environment.split(|byte| *byte == 0).any(|one| one == variable)
    })
}
