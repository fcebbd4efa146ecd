//! Network cards: their links, queues, interrupts, places.

use std::path::{Path, PathBuf};

use super::{list, pci, unknown, yes};
use crate::host::{Host, Known, Unread};

/// Counters of what a NIC had no room for, in its statistics; not all have all of them.
const DROPS: [&str; 4] = ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

fn at(nic: &str) -> PathBuf {
    Path::new("/sys/class/net").join(nic)
}

/// A fact of a NIC.
pub(super) fn fact(of: &dyn Host, name: &str, nic: &str) -> Known<String> {
    match name {
        "link_speed_bit_s" => speed(of, nic),
        "pcie_bandwidth_bit_s" => pci::bandwidth(of, nic),
        "nic_pcie_downtrained" => pci::downtrained(of, nic).and_then(yes),
        // In the configuration space, which is not text, and of which others than root see a quarter.
        "nic_pcie_max_read_request_bytes" => of.ethtool(nic, "pcie.max_read_request_bytes"),
        "nic_pcie_payload_reduced" => of.ethtool(nic, "pcie.payload_reduced"),
        "nic_rps_active" => {
            masks(of, nic, "rx-", "rps_cpus").map(|masks| masks.iter().any(|mask| !mask.is_empty())).and_then(yes)
        }
        "nic_xps_local" => xps_local(of, nic).and_then(yes),
        "nic_vlan_mtu_min" => vlan_mtu(of, nic),
        "nic_tx_checksum" => tx_checksum(of, nic).and_then(yes),
        "nic_drops" => drops(of, nic),
        "nic_irqs_pinned" => irqs(of, nic).map(|irqs| irqs.iter().all(|cpus| cpus.len() == 1)).and_then(yes),
        "nic_irqs_local" => irqs_local(of, nic).and_then(yes),
        "nic_nvme_same_node" => nvme_local(of, nic).and_then(yes),
        "nic_fq_flow_rate_max_bit_s" => of.netlink(nic, "qdisc.fq_maxrate_bit_s"),
        "nic_pause_frames" => of.ethtool(nic, "stat.pause_frames"),
        "nic_rss_spread" => of.ethtool(nic, "rss.spread"),
        "nic_ntuple_rules" => of.ethtool(nic, "ntuple.rules"),
        "nic_optical_rx_dbm" => of.ethtool(nic, "module.rx_dbm"),
        "nic_hwtstamp_on" => of.ethtool(nic, "timestamping.on"),
        _ => unknown(name),
    }
}

/// Whether a NIC has something.
pub(super) fn has(of: &dyn Host, what: &str, nic: &str) -> Known<bool> {
    match what {
        "mlx5" => of.ethtool(nic, "driver").map(|driver| driver.starts_with("mlx5")),
        "multiqueue" => Ok(queue_names(of, nic, "tx-")?.len() > 1),
        "irqs_pinned" => irqs(of, nic).map(|irqs| irqs.iter().all(|cpus| cpus.len() == 1)),
        _ => unknown(what),
    }
}

fn speed(of: &dyn Host, nic: &str) -> Known<String> {
    let mbit = of.read(&at(nic).join("speed"))?;
    match mbit.parse::<i64>() {
        Ok(mbit) if mbit > 0 => match mbit.checked_mul(1_000_000) {
            Some(speed) => Ok(speed.to_string()),
            None => Err(Unread::Failed(format!("a speed of {mbit} Mbit/s"))),
        },
        Ok(_) => Err(Unread::Failed("the link is down, or the driver does not say".into())),
        Err(_) => Err(Unread::Failed(format!("a speed of {mbit:?}"))),
    }
}

/// A number in a file.
fn number<T: std::str::FromStr>(of: &dyn Host, path: &Path) -> Known<T> {
    let text = of.read(path)?;
    text.parse().map_err(|_| Unread::Failed(format!("{} says {text:?}", path.display())))
}

fn queue_names(of: &dyn Host, nic: &str, kind: &str) -> Known<Vec<String>> {
    Ok(of.list(&at(nic).join("queues"))?.into_iter().filter(|name| name.starts_with(kind)).collect())
}

/// Processors in a file of each queue.
fn masks(of: &dyn Host, nic: &str, kind: &str, what: &str) -> Known<Vec<Vec<u32>>> {
    let mask = |queue: &String| of_mask(&of.read(&at(nic).join("queues").join(queue).join(what))?);
    queue_names(of, nic, kind)?.iter().map(mask).collect()
}

/// Processors of a mask like `0000,000000ff`: 32 bits a group, the last group first.
fn of_mask(mask: &str) -> Known<Vec<u32>> {
    let mut cpus = Vec::new();
    for (group, text) in mask.rsplit(',').enumerate() {
        let bits =
            u32::from_str_radix(text, 16).map_err(|_| Unread::Failed(format!("{mask:?} is no mask of processors")))?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| group as u32 * 32 + bit));
    }
    Ok(cpus)
}

/// Processors next to a NIC. A host of one node has nothing else.
fn local(of: &dyn Host, nic: &str) -> Known<Vec<u32>> {
    match of.read(&pci::device(nic).join("local_cpulist")) {
        Ok(text) => list(&text),
        Err(Unread::Absent) => list(&of.read(Path::new("/sys/devices/system/cpu/online"))?),
        Err(why) => Err(why),
    }
}

/// Queues that a NIC can have and that processors next to it can serve.
pub(super) fn queues(of: &dyn Host, nic: &str) -> Known<f64> {
    let most = of.ethtool(nic, "channels.combined.max")?;
    let most: u32 = most.parse().map_err(|_| Unread::Failed(format!("{most:?} channels")))?;
    Ok(f64::from(most).min(local(of, nic)?.len() as f64))
}

fn xps_local(of: &dyn Host, nic: &str) -> Known<bool> {
    let near = local(of, nic)?;
    let masks = masks(of, nic, "tx-", "xps_cpus")?;
    Ok(masks.iter().all(|mask| !mask.is_empty() && mask.iter().all(|cpu| near.contains(cpu))))
}

/// The least MTU of the VLANs on a NIC.
fn vlan_mtu(of: &dyn Host, nic: &str) -> Known<String> {
    let above = of.list(&at(nic))?.into_iter().filter_map(|name| name.strip_prefix("upper_").map(str::to_owned));
    let mtu = |vlan: String| number::<u32>(of, &at(&vlan).join("mtu"));
    let mtus: Vec<u32> = above.map(mtu).collect::<Known<_>>()?;
    mtus.iter().min().map(u32::to_string).ok_or(Unread::Absent)
}

fn tx_checksum(of: &dyn Host, nic: &str) -> Known<bool> {
    let kinds = ["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];
    let states: Vec<Known<String>> = kinds.iter().map(|kind| of.ethtool(nic, &format!("feature.{kind}"))).collect();
    match states.iter().find_map(|state| state.as_ref().ok()) {
        Some(_) => Ok(states.iter().flatten().any(|state| state.starts_with("on"))),
        None => states.into_iter().next().unwrap_or(Err(Unread::Absent)).map(|_| false),
    }
}

fn drops(of: &dyn Host, nic: &str) -> Known<String> {
    let statistics = at(nic).join("statistics");
    let there = DROPS
        .iter()
        .map(|name| number::<u64>(of, &statistics.join(name)))
        .filter(|count| *count != Err(Unread::Absent));
    let counts: Vec<u64> = there.collect::<Known<_>>()?;
    match counts.is_empty() {
        true => Err(Unread::Absent),
        false => Ok(counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count)).to_string()),
    }
}

/// For each interrupt of a NIC, the processors that may take it.
fn irqs(of: &dyn Host, nic: &str) -> Known<Vec<Vec<u32>>> {
    let numbers = of.list(&pci::device(nic).join("msi_irqs"))?;
    let cpus = |irq: &String| {
        of.read(&Path::new("/proc/irq").join(irq).join("smp_affinity_list")).and_then(|text| list(&text))
    };
    let all: Vec<Vec<u32>> = numbers.iter().map(cpus).collect::<Known<_>>()?;
    if all.is_empty() { Err(Unread::Absent) } else { Ok(all) }
}

fn irqs_local(of: &dyn Host, nic: &str) -> Known<bool> {
    let near = local(of, nic)?;
    Ok(irqs(of, nic)?.iter().flatten().all(|cpu| near.contains(cpu)))
}

/// Whether all NVMe drives are on the NIC's memory node.
fn nvme_local(of: &dyn Host, nic: &str) -> Known<bool> {
    let node = of.read(&pci::device(nic).join("numa_node"))?;
    let drives = of.list(Path::new("/sys/class/nvme"))?;
    let of_drive = |drive: &String| of.read(&Path::new("/sys/class/nvme").join(drive).join("device/numa_node"));
    let nodes: Vec<String> = drives.iter().map(of_drive).collect::<Known<_>>()?;
    if nodes.is_empty() { Err(Unread::Absent) } else { Ok(nodes.iter().all(|its| *its == node)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_processors() {
        assert_eq!(of_mask("1,80000001"), Ok(vec![0, 31, 32]));
        assert_eq!(of_mask("0000,00000000"), Ok(vec![]));
        assert!(of_mask("nonsense").is_err() && of_mask("").is_err());
    }

    #[test]
    fn a_card_next_to_the_other_socket() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write("sys/class/net/ens1/device/local_cpulist", "8-15\n");
        write("sys/class/net/ens1/device/numa_node", "1\n");
        write("sys/class/nvme/nvme0/device/numa_node", "0\n");
        for (irq, cpus) in [(90, "8"), (91, "9")] {
            write(&format!("sys/class/net/ens1/device/msi_irqs/{irq}"), "msix\n");
            write(&format!("proc/irq/{irq}/smp_affinity_list"), cpus);
        }
        for queue in 0..2 {
            write(&format!("sys/class/net/ens1/queues/tx-{queue}/xps_cpus"), "0000ff00\n");
            write(&format!("sys/class/net/ens1/queues/rx-{queue}/rps_cpus"), "00000000\n");
        }
        write("sys/class/net/ens1/statistics/rx_dropped", "7\n");
        write("sys/class/net/ens1/statistics/rx_missed_errors", "18446744073709551615\n");
        write("sys/class/net/ens1/speed", "-1\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name, "ens1");
        assert_eq!((says("nic_irqs_pinned"), says("nic_irqs_local")), (Ok("yes".into()), Ok("yes".into())));
        assert_eq!((says("nic_xps_local"), says("nic_rps_active")), (Ok("yes".into()), Ok("no".into())));
        assert_eq!(says("nic_nvme_same_node"), Ok("no".into()));
        assert_eq!(says("nic_drops"), Ok(u64::MAX.to_string()), "absurd, and no overflow");
        assert!(matches!(says("link_speed_bit_s"), Err(Unread::Failed(_))), "-1 is no speed");
        assert_eq!(says("nic_vlan_mtu_min"), Err(Unread::Absent));
        write("proc/irq/91/smp_affinity_list", "0-3\n");
        assert_eq!((says("nic_irqs_pinned"), says("nic_irqs_local")), (Ok("no".into()), Ok("no".into())));
    }
}
