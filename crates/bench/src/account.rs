//! The cost of a side: CPU seconds and peak memory of all its processes.
//!
//! Each side has a control group (v2) of its own if one can be made. Such a count is exact and includes the children of servers
//! that fork per connection. Otherwise a side is counted by /proc: `utime + stime + cutime + cstime` of a process
//! tree (proc_pid_stat(5)), in ticks of 10 ms, without children that no process waited for. Neither counts write-back by
//! kernel threads, which appears as load of others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

/// The control group of this run, in which each side has one.
#[derive(Debug)]
pub struct Accounts {
    base: Option<PathBuf>,
}

/// One side of a contestant.
#[derive(Debug)]
pub struct Side {
    /// Its control group, and the group that this process returns to.
    group: Option<(PathBuf, PathBuf)>,
    /// The processes that this process started for it.
    roots: Mutex<Vec<u32>>,
}

impl Accounts {
    /// Makes control groups where this machine permits it.
    pub fn open() -> Accounts {
        Accounts { base: make_base().ok() }
    }

    /// Counts by processes, even if control groups can be made. A group that this process enters would be charged for the
    /// threads of this process, and it accepts no real-time thread.
    pub fn by_processes() -> Accounts {
        Accounts { base: None }
    }

    /// The method of counting, for the report.
    pub fn method(&self) -> &'static str {
        match self.base {
            Some(_) => "control groups (cgroup v2, `cpu.stat`), one per side",
            None => "/proc/PID/stat of process trees, in ticks of 10 ms (no control group could be made)",
        }
    }

    /// Makes a new side.
    ///
    /// # Errors
    /// Its control group cannot be made.
    pub fn side(&self, name: &str) -> Result<Side> {
        let group = match &self.base {
            Some(base) => {
                let group = base.join(name);
                fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
                Some((group, base.join("self")))
            }
            None => None,
        };
        Ok(Side { group, roots: Mutex::default() })
    }
}

impl Drop for Accounts {
    fn drop(&mut self) {
        if let Some(base) = &self.base {
            let parent = base.parent().unwrap_or(base);
            let _ = fs::write(parent.join("cgroup.procs"), "0");
            let _ = fs::remove_dir(base.join("self"));
            let _ = fs::remove_dir(base);
        }
    }
}

/// Makes a group below that of this process, and in it a group `self` for this process. A child joins the group of its parent:
/// so this process moves into the group of a side to start a child, and back into `self`.
fn make_base() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>()).find(|f| f.get(2) == Some(&"cgroup2"));
    let mount = mount.and_then(|f| f.get(1).map(ToString::to_string)).context("no cgroup v2 is mounted")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = own.lines().find_map(|l| l.strip_prefix("0::/")).context("this process is in no group of cgroup v2")?;
    let base = Path::new(&mount).join(own).join(format!("longhaul-bench-{}", std::process::id()));
    let inner = base.join("self");
    fs::create_dir(&base)?;
    let entered = fs::create_dir(&inner).and_then(|()| fs::write(inner.join("cgroup.procs"), "0"));
    let readable = entered.map_err(Into::into).and_then(|()| usage_s(&inner));
    if let Err(error) = readable {
        drop(Accounts { base: Some(base) });
        return Err(error);
    }
    Ok(base)
}

fn usage_s(group: &Path) -> Result<f64> {
    let text = fs::read_to_string(group.join("cpu.stat"))?;
    parse_cpu_stat(&text).context("cpu.stat has no usage_usec")
}

fn parse_cpu_stat(text: &str) -> Option<f64> {
    text.lines().find_map(|l| l.strip_prefix("usage_usec "))?.trim().parse::<f64>().ok().map(|us| us / 1e6)
}

/// Fields of /proc/PID/stat: the parent, and CPU ticks of the process and of the children that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    own_ticks: u64,
    waited_ticks: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: number(11)? + number(12)?,
        waited_ticks: number(13)? + number(14)?,
    })
}

fn all_processes() -> BTreeMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Some processes and all their descendants.
fn tree(roots: &[u32], all: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let mut found: Vec<u32> = roots.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

impl Side {
    /// Moves this process into the side: processes that it starts from now on belong to the side.
    ///
    /// # Errors
    /// This process cannot be moved into the control group.
    pub fn enter(&self) -> Result<()> {
        match &self.group {
            Some((group, _)) => Ok(fs::write(group.join("cgroup.procs"), "0")?),
            None => Ok(()),
        }
    }

    /// Moves this process back after [`Side::enter`].
    ///
    /// # Errors
    /// This process cannot be moved back.
    pub fn leave(&self) -> Result<()> {
        match &self.group {
            Some((_, back)) => Ok(fs::write(back.join("cgroup.procs"), "0")?),
            None => Ok(()),
        }
    }

    /// Starts a process that belongs to the side.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        self.roots.lock().push(child.id());
        Ok(child)
    }

    fn tree(&self, all: &BTreeMap<u32, Stat>) -> Vec<u32> {
        tree(&self.roots.lock(), all)
    }

    /// CPU seconds so far of a side whose processes still run.
    ///
    /// # Errors
    /// The control group cannot be read.
    pub fn cpu_s(&self) -> Result<f64> {
        if let Some((group, _)) = &self.group {
            return usage_s(group);
        }
        let all = all_processes();
        let ticks = self.tree(&all).into_iter().filter_map(|pid| all.get(&pid));
        Ok(seconds(ticks.map(|stat| stat.own_ticks + stat.waited_ticks).sum()))
    }

    /// CPU seconds so far of a side whose processes end one after the other, while this process is in the side: the
    /// seconds of this process are subtracted.
    ///
    /// # Errors
    /// The control group or /proc/self/stat cannot be read.
    pub fn cpu_s_ended(&self) -> Result<f64> {
        if let Some((group, _)) = &self.group {
            let own = clock_gettime(ClockId::ProcessCPUTime);
            return Ok(usage_s(group)? - own.tv_sec as f64 - own.tv_nsec as f64 / 1e9);
        }
        let stat = parse_stat(&fs::read_to_string("/proc/self/stat")?).context("/proc/self/stat has another form")?;
        Ok(seconds(stat.waited_ticks))
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        match &self.group {
            Some((group, _)) => {
                let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                // This process may be in the group, but does not belong to the side.
                text.lines().filter_map(|l| l.parse().ok()).filter(|pid| *pid != std::process::id()).collect()
            }
            None => self.tree(&all_processes()),
        }
    }

    /// Kills all processes of the side.
    pub fn kill(&self) {
        for pid in self.pids() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.kill();
        let Some((group, _)) = &self.group else { return };
        // A group can be removed only when its processes have ended, which takes a moment.
        for _ in 0..100 {
            if fs::remove_dir(group).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// CPU seconds of the whole machine since it started that were neither idle nor stolen by the host (proc_stat(5)).
///
/// # Errors
/// /proc/stat cannot be read.
pub fn machine_busy_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    parse_busy_ticks(&text).map(seconds).context("/proc/stat has another form")
}

fn parse_busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().filter_map(|f| f.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are in user and nice already.
    Some(ticks.get(..3)?.iter().sum::<u64>() + ticks.get(5..7)?.iter().sum::<u64>())
}

/// Peak resident memory of processes, in MiB, since they started or [`reset_peak`] was called (`VmHWM`,
/// proc_pid_status(5)).
pub fn peak_mib(pids: &[u32]) -> f64 {
    let texts = pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
    texts.filter_map(|text| parse_peak_kib(&text)).sum::<f64>() / 1024.0
}

fn parse_peak_kib(status: &str) -> Option<f64> {
    status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// Resets the peak of processes that already run (proc_pid_clear_refs(5)).
pub fn reset_peak(pids: &[u32]) {
    for pid in pids {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(parse_cpu_stat("usage_usec 1500000\nuser_usec 1\n"), Some(1.5));
        let stat = "7 (a) b (c)) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0";
        assert_eq!(parse_stat(stat), Some(Stat { parent: 3, own_ticks: 30, waited_ticks: 70 }));
        assert_eq!(parse_stat("7 (short) S 1"), None);
        assert_eq!(parse_busy_ticks("cpu  1 2 4 100 200 8 16 32 64 0\ncpu0 9\n"), Some(31));
        assert_eq!(parse_peak_kib("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2048.0));
    }

    #[test]
    fn a_tree_has_all_descendants() {
        let stat = |parent| Stat { parent, own_ticks: 0, waited_ticks: 0 };
        let all = BTreeMap::from([(1, stat(0)), (5, stat(1)), (6, stat(5)), (7, stat(6)), (8, stat(1))]);
        assert_eq!(tree(&[5, 99], &all), [5, 6, 7]);
    }
}
