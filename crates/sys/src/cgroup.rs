//! Control groups of this process: how long a quota of processor time has throttled it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of the control groups for processors, from the text of `/proc/self/mounts`, and whether they are of version 2.
pub fn cpu_root(mounts: &str) -> Option<(PathBuf, bool)> {
    let lines = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let v1 = lines().find(|words| {
        words.get(2) == Some(&"cgroup") && words.get(3).is_some_and(|words| words.split(',').any(|word| word == "cpu"))
    });
    if let Some(words) = v1 {
        return Some((PathBuf::from(words[1]), false));
    }
    let v2 = lines().find(|words| words.get(2) == Some(&"cgroup2"))?;
    Some((PathBuf::from(v2[1]), true))
}

/// The group of this process below the root, from the text of `/proc/self/cgroup`.
fn own_group(groups: &str, is_v2: bool) -> Option<&str> {
    let is_cpu_group = |line: &&str| {
        let controllers = line.split(':').nth(1).unwrap_or_default();
        if is_v2 { line.starts_with("0::") } else { controllers.split(',').any(|one| one == "cpu") }
    };
    groups.lines().find(is_cpu_group)?.splitn(3, ':').nth(2)
}

/// The throttled time in the text of `cpu.stat`.
fn throttled_in(stat: &str) -> Option<Duration> {
    let number = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    number("throttled_usec ").map(Duration::from_micros).or_else(|| number("throttled_time ").map(Duration::from_nanos))
}

/// How long the quota of the process's control group has throttled it so far, summed over processors; none where there is
/// no such group.
pub fn throttled() -> Option<Duration> {
    let (root, is_v2) = cpu_root(&fs::read_to_string("/proc/self/mounts").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = Path::new(own_group(&groups, is_v2)?);
    let below = group.strip_prefix("/").unwrap_or(group);
    throttled_in(&fs::read_to_string(root.join(below).join("cpu.stat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let first =
            "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cpu_root(first), Some((PathBuf::from("/sys/fs/cgroup/cpu"), false)));
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(cpu_root(second), Some((PathBuf::from("/sys/fs/cgroup"), true)));
        assert_eq!(cpu_root("proc /proc proc rw 0 0\nshort\n"), None);
        let groups = "9:name=systemd:/a\n2:cpu,cpuacct:/b:c\n0::/d\n";
        let groups_of_both = (own_group(groups, false), own_group(groups, true), own_group("", true));
        assert_eq!(groups_of_both, (Some("/b:c"), Some("/d"), None));
        assert_eq!(
            throttled_in("nr_periods 5\nnr_throttled 3\nthrottled_time 1500\n"),
            Some(Duration::from_nanos(1_500))
        );
        assert_eq!(throttled_in("usage_usec 9\nthrottled_usec 7\n"), Some(Duration::from_micros(7)));
        assert_eq!(throttled_in("usage_usec 9\n"), None);
    }

    #[test]
    fn the_throttled_time_of_this_process_never_decreases() {
        let (before, after) = (throttled(), throttled());
        assert!(before <= after, "{before:?}, {after:?}");
    }
}
