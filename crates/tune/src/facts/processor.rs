//! Processors: their clock, sleep states, memory nodes, boot parameters.

use std::path::Path;

use super::{number_in, switch, yes_or_no};
use crate::host::{Host, HostError, HostResult};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// A fact of the processors; none where it has no such name.
pub(super) fn fact(host: &dyn Host, name: &str) -> Option<HostResult<String>> {
    Some(match name {
        "cpu_frequency_capped" => capped(host).and_then(yes_or_no),
        "cpu_turbo" => turbo(host).and_then(yes_or_no),
        "cpu_max_hz" => max_hz(host),
        "idle_exit_latency_us" => latency(host),
        "numa_nodes_per_socket" => per_socket(host),
        "iommu_mode" => iommu(host),
        "cpu_mitigations" => mitigations(host),
        _ => return None,
    })
}

/// The processors by number.
fn cpus(host: &dyn Host) -> HostResult<Vec<String>> {
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    Ok(host.list(Path::new(CPUS))?.into_iter().filter(is_cpu).collect())
}

/// For each processor, the largest frequency that is set and the largest possible, kHz.
fn frequencies(host: &dyn Host) -> HostResult<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    for cpu in cpus(host)? {
        let at = Path::new(CPUS).join(cpu).join("cpufreq");
        match (number_in(host, &at.join("scaling_max_freq")), number_in(host, &at.join("cpuinfo_max_freq"))) {
            (Ok(set_khz), Ok(possible_khz)) => all.push((set_khz, possible_khz)),
            (Err(HostError::Absent), _) | (_, Err(HostError::Absent)) => {}
            (Err(why), _) | (_, Err(why)) => return Err(why),
        }
    }
    if all.is_empty() { Err(HostError::Absent) } else { Ok(all) }
}

fn capped(host: &dyn Host) -> HostResult<bool> {
    Ok(frequencies(host)?.iter().any(|(set_khz, possible_khz)| set_khz < possible_khz))
}

/// The largest possible frequency of the slowest processor.
fn max_hz(host: &dyn Host) -> HostResult<String> {
    let khz = frequencies(host)?.iter().map(|(_, possible_khz)| *possible_khz).min().unwrap_or(0);
    khz.checked_mul(1_000).map(|hz| hz.to_string()).ok_or_else(|| HostError::Failed(format!("a clock of {khz} kHz")))
}

/// Whether processors may run faster than their nominal clock; two drivers report the opposite.
fn turbo(host: &dyn Host) -> HostResult<bool> {
    match host.read(&Path::new(CPUS).join("intel_pstate/no_turbo")) {
        Ok(off) => switch(&off).map(|off| !off),
        Err(HostError::Absent) => switch(&host.read(&Path::new(CPUS).join("cpufreq/boost"))?),
        Err(why) => Err(why),
    }
}

/// The exit latency of the deepest sleep state that is allowed.
fn latency(host: &dyn Host) -> HostResult<String> {
    let at = Path::new(CPUS).join("cpu0/cpuidle");
    let mut longest: Option<u64> = None;
    for state in host.list(&at)? {
        let at = at.join(state);
        match host.read(&at.join("disable")) {
            Ok(off) if switch(&off)? => continue,
            Ok(_) | Err(HostError::Absent) => {}
            Err(why) => return Err(why),
        }
        longest = longest.max(Some(number_in(host, &at.join("latency"))?));
    }
    longest.map(|us| us.to_string()).ok_or(HostError::Absent)
}

/// Memory nodes.
pub(super) fn nodes(host: &dyn Host) -> HostResult<usize> {
    let is_node = |name: &&String| {
        name.strip_prefix("node").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    Ok(host.list(Path::new(NODES))?.iter().filter(is_node).count().max(1))
}

fn per_socket(host: &dyn Host) -> HostResult<String> {
    let mut sockets = std::collections::BTreeSet::new();
    for cpu in cpus(host)? {
        match host.read(&Path::new(CPUS).join(cpu).join("topology/physical_package_id")) {
            Ok(socket) => drop(sockets.insert(socket)),
            // A processor that is offline has no socket.
            Err(HostError::Absent) => {}
            Err(why) => return Err(why),
        }
    }
    match (nodes(host)?, sockets.len()) {
        (_, 0) => Err(HostError::Absent),
        (nodes, sockets) if nodes % sockets == 0 => Ok((nodes / sockets).to_string()),
        // Nodes span sockets: memory is interleaved.
        (nodes, sockets) => Ok(format!("{:.2}", nodes as f64 / sockets as f64)),
    }
}

/// The kernel's command line, as words.
fn command_line(host: &dyn Host) -> HostResult<Vec<String>> {
    Ok(host.read(Path::new("/proc/cmdline"))?.split_whitespace().map(str::to_owned).collect())
}

/// `off`, `pt` (devices of the host use memory directly), or `translated`.
fn iommu(host: &dyn Host) -> HostResult<String> {
    let groups = match host.list(Path::new("/sys/kernel/iommu_groups")) {
        Err(HostError::Absent) => Vec::new(),
        listed => listed?,
    };
    if groups.is_empty() {
        return Ok("off".into());
    }
    let words = command_line(host)?;
    let direct = ["iommu=pt", "iommu.passthrough=1"];
    if words.iter().any(|word| direct.contains(&word.as_str())) {
        return Ok("pt".into());
    }
    // The kernel's default may be direct as well: the type of each group tells.
    let kind = |group: &String| host.read(&Path::new("/sys/kernel/iommu_groups").join(group).join("type"));
    let all_direct = groups.iter().all(|group| kind(group).is_ok_and(|kind| kind == "identity"));
    Ok(if all_direct { "pt" } else { "translated" }.into())
}

/// The boot parameter `mitigations=…`, or the default.
fn mitigations(host: &dyn Host) -> HostResult<String> {
    let words = command_line(host)?;
    let value = words.iter().find_map(|word| word.strip_prefix("mitigations="));
    Ok(value.unwrap_or("auto").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_two_sockets_with_two_nodes_each_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        for cpu in 0..4 {
            write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), &format!("{}\n", cpu / 2));
            write(&format!("sys/devices/system/node/node{cpu}/cpulist"), &format!("{cpu}\n"));
            write(
                &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq"),
                if cpu == 3 { "2000000" } else { "3500000" },
            );
            write(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), "3500000");
        }
        write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        for (state, latency, off) in [(0, 0, 0), (1, 2, 0), (2, 170, 1)] {
            write(&format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}/latency"), &latency.to_string());
            write(&format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}/disable"), &off.to_string());
        }
        write("proc/cmdline", "quiet mitigations=off iommu=pt\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name).unwrap();
        assert_eq!(says("numa_nodes_per_socket"), Ok("2".into()));
        assert_eq!((says("cpu_frequency_capped"), says("cpu_max_hz")), (Ok("yes".into()), Ok("3500000000".into())));
        assert_eq!((says("cpu_turbo"), says("idle_exit_latency_us")), (Ok("no".into()), Ok("2".into())));
        assert_eq!(
            (says("iommu_mode"), says("cpu_mitigations")),
            (Ok("off".into()), Ok("off".into())),
            "no groups: off"
        );
        write("sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
        assert_eq!(says("iommu_mode"), Ok("pt".into()));
    }
}
