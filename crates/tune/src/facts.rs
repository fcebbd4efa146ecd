//! Facts that rules ask for by name and that no single file holds: each is computed from several.
//!
//! A fact that this host does not have is [`HostError::Absent`]; a fact that cannot be read is unknown, with the reason.
//! No fact is guessed. The value of a yes-or-no fact is `yes` or `no`.

mod host;
mod interrupts;
mod kernel;
mod near;
mod nic;
mod pci;
mod processor;
mod storage;

use std::path::Path;

use crate::host::{Host, HostError, HostResult};
use crate::subjects::Subject;

pub(crate) use host::{is_physical, settings};
pub(crate) use interrupts::plan as irq_plan;
pub(crate) use kernel::kernel;

/// The fact that a plan of interrupts makes true.
pub(crate) const IRQS_PINNED: &str = "nic_irqs_pinned";

/// A fact by its name, on a host of which these disks are audited.
pub(crate) fn fact(host: &dyn Host, name: &str, subject: Subject<'_>, disks: &[String]) -> HostResult<String> {
    if let Some(nic) = subject.nic_name() {
        return nic::fact(host, name, nic, disks);
    }
    if let Some(disk) = subject.disk_name() {
        return storage::fact(host, name, disk);
    }
    let found = host::fact(host, name).or_else(|| processor::fact(host, name)).or_else(|| kernel::fact(host, name));
    found.unwrap_or_else(|| unknown(name))
}

/// The error for a name without a reader: a mistake in the table, which a test rules out.
fn unknown<T>(name: &str) -> HostResult<T> {
    Err(HostError::Failed(format!("this release does not know how to find out {name}")))
}

/// A number that a rule's value refers to.
pub(crate) fn number(host: &dyn Host, name: &str, subject: Subject<'_>) -> HostResult<f64> {
    let parsed = |text: String| {
        let number = text.parse::<u32>().map(f64::from);
        number.map_err(|_| HostError::Failed(format!("{text:?} is not a number of 32 bits")))
    };
    let nic = || subject.nic_name().ok_or(HostError::Absent);
    match name {
        "ring_rx_max" => parsed(host.ethtool(nic()?, "ring.rx.max")?),
        "ring_tx_max" => parsed(host.ethtool(nic()?, "ring.tx.max")?),
        // Below this an interface does not support it, whatever is set (ip-link(8)).
        "big_tcp" => Ok(parsed(host.netlink(nic()?, "tso_max_size")?)?.min(185_000.0)),
        "queues_min" => Ok(nic::queues(host, nic()?)?.min(8.0)),
        "queues_max" => Ok(nic::queues(host, nic()?)?.clamp(1.0, 16.0)),
        "page_bytes" => host.page_bytes().map(f64::from),
        "conntrack_twice" => Ok(parsed(host.read(Path::new("/proc/sys/net/netfilter/nf_conntrack_count"))?)? * 2.0),
        "request_kb" => {
            let disk = subject.disk_name().ok_or(HostError::Absent)?;
            let most = host.read(&Path::new("/sys/block").join(disk).join("queue/max_hw_sectors_kb"))?;
            Ok(parsed(most)?.min(4_096.0))
        }
        _ => unknown(name),
    }
}

/// Whether a host, a NIC or a disk has something.
pub(crate) fn has(host: &dyn Host, what: &str, subject: Subject<'_>) -> HostResult<bool> {
    // A rule of the host that depends on a NIC uses the fastest one, like all such rules.
    let nic = || match subject {
        Subject::Host(nic) => nic.map(|nic| nic.name.as_str()).ok_or(HostError::Absent),
        other => other.nic_name().ok_or(HostError::Absent),
    };
    match what {
        "nvme" if subject.disk_name().is_none() => storage::any_nvme(host),
        "nvme" | "ssd" | "hdd" | "md_raid" | "xfs" => storage::has(host, what, subject.disk_name()),
        "mlx5" | "multiqueue" | "mq" | "single_queue" | "irqs_pinned" => nic::has(host, what, nic()?),
        "numa" => Ok(processor::nodes(host)? > 1),
        "fq" | "conntrack" | "ktls" | "hugepages_user" => kernel::has(host, what),
        _ => unknown(what),
    }
}

/// The value of a file of the kernel. `{cpu}` in its path stands for all processors: the result is the first value that is not as wanted,
/// or the first of all.
pub(crate) fn file(host: &dyn Host, path: &str, is_wanted: &dyn Fn(&str) -> bool) -> HostResult<String> {
    if !path.contains("{cpu}") {
        return host.read(Path::new(path));
    }
    let all = of_cpus(host, path)?;
    let (_, value) = all.iter().find(|(_, value)| !is_wanted(value)).or(all.first()).ok_or(HostError::Absent)?;
    Ok(value.clone())
}

/// The file of each processor, with its value.
pub(crate) fn of_cpus(host: &dyn Host, path: &str) -> HostResult<Vec<(String, String)>> {
    let (before, after) = path.split_once("{cpu}").ok_or(HostError::Absent)?;
    let before = before.strip_suffix("cpu").unwrap_or(before);
    let mut values = Vec::new();
    for name in host.list(Path::new(before))? {
        let is_cpu =
            name.strip_prefix("cpu").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
        if is_cpu {
            let path = format!("{before}{name}{after}");
            match host.read(Path::new(&path)) {
                Ok(value) => values.push((path, value)),
                // A processor that is offline has no frequency.
                Err(HostError::Absent) => {}
                Err(why) => return Err(why),
            }
        }
    }
    Ok(values)
}

/// A truth value in words.
fn yes_or_no(is: bool) -> HostResult<String> {
    Ok(if is { "yes" } else { "no" }.to_owned())
}

/// A number in a file.
fn number_in<T: std::str::FromStr>(host: &dyn Host, path: &Path) -> HostResult<T> {
    let text = host.read(path)?;
    text.parse().map_err(|_| HostError::Failed(format!("{} has {text:?}, which is not a number", path.display())))
}

/// A switch of the kernel.
fn switch(text: &str) -> HostResult<bool> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(HostError::Failed(format!("{text:?} is neither 0 nor 1"))),
    }
}

/// The most processors of any host.
const CPUS_MAX: usize = 65_536;

/// The processors of a list like `0-3,8,10-11`; there is always at least one.
fn list(text: &str) -> HostResult<Vec<u32>> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let range = from.trim().parse::<u32>().ok()?..=to.trim().parse::<u32>().ok()?;
        (range.start() <= range.end() && (*range.end() as usize) < CPUS_MAX).then_some(range)
    };
    let no_list = || HostError::Failed(format!("{text:?} is not a list of processors"));
    let ranges: Vec<_> = text.split(',').map(range).collect::<Option<_>>().ok_or_else(no_list)?;
    let mut cpus = Vec::new();
    for range in ranges {
        cpus.extend(range);
        // Ranges may be repeated.
        if cpus.len() > CPUS_MAX {
            return Err(HostError::Failed(format!("a list of more than {CPUS_MAX} processors")));
        }
    }
    Ok(cpus)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        }
        dir
    }

    #[test]
    fn lists_of_processors_are_parsed() {
        assert_eq!(list("0-3,8,10-11"), Ok(vec![0, 1, 2, 3, 8, 10, 11]));
        for absurd in ["", "0-4294967295", "3-0", "0,x", "-1"] {
            assert!(list(absurd).is_err(), "{absurd}");
        }
        let over_and_over = vec!["0-65535"; 100_000].join(",");
        assert!(list(&over_and_over).is_err_and(|why| why.to_string().len() < 100));
    }

    #[test]
    fn the_first_processor_that_is_not_as_wanted_counts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |cpu: u32| dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
        for (cpu, governor) in [(0, "performance"), (1, "performance"), (2, "powersave")] {
            std::fs::create_dir_all(at(cpu)).unwrap();
            std::fs::write(at(cpu).join("scaling_governor"), governor).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
        let host = crate::host::Recorded::new(dir.path());
        let path = "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor";
        let governor = || file(&host, path, &|value| value == "performance");
        assert_eq!(governor(), Ok("powersave".into()));
        std::fs::write(at(2).join("scaling_governor"), "performance").unwrap();
        assert_eq!(governor(), Ok("performance".into()));
        std::fs::write(at(0).join("scaling_governor"), "powersave").unwrap();
        assert_eq!(governor(), Ok("powersave".into()), "the others do not outvote it");
    }

    /// Every fact and name that the table refers to is known here.
    #[test]
    fn every_fact_of_the_table_has_a_reader() {
        use crate::rule::{Condition, Read, Value, Want, rules};
        use crate::subjects::Nic;
        let dir = tempfile::tempdir().unwrap();
        let host = crate::host::Recorded::new(dir.path());
        let nic = Nic { name: "eth0".into(), ..Nic::default() };
        let is_unknown = |why: &HostError| matches!(why, HostError::Failed(text) if text.contains("does not know how"));
        for rule in rules().unwrap() {
            let subject = match (rule.read.is_of_nic(), rule.read.is_of_disk()) {
                (true, _) => Subject::Nic(&nic),
                (_, true) => Subject::Disk("sda"),
                _ => Subject::Host(None),
            };
            if let Read::Fact(name) = &rule.read {
                assert!(
                    fact(&host, name, subject, &[]).err().is_none_or(|why| !is_unknown(&why)),
                    "{}: {name}",
                    rule.id
                );
            }
            for condition in &rule.when {
                if let Condition::Has(what) = condition {
                    assert!(has(&host, what, subject).err().is_none_or(|why| !is_unknown(&why)), "{}: {what}", rule.id);
                }
            }
            if let Want::Is(Value::Word(name)) | Want::AtLeast(Value::Word(name)) | Want::AtMost(Value::Word(name)) =
                &rule.want
                && crate::target::NAMED.contains(&name.as_str())
            {
                assert!(number(&host, name, subject).err().is_none_or(|why| !is_unknown(&why)), "{}: {name}", rule.id);
            }
        }
    }
}
