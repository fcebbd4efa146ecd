//! Network cards: their links, queues, interrupts and locality.

use std::path::{Path, PathBuf};

use super::near::{local, node};
use super::{interrupts, number_in, pci, storage, unknown, yes_or_no};
use crate::host::{Host, HostError, HostResult};
use crate::subjects::speed_bit_s;

/// Counters of packets that a NIC had no room for; not every NIC has all of them.
const DROPS: [&str; 4] = ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

fn sysfs_directory(nic: &str) -> PathBuf {
    Path::new("/sys/class/net").join(nic)
}

/// A fact of a NIC, on a host of which these disks are audited.
pub(super) fn fact(host: &dyn Host, name: &str, nic: &str, disks: &[String]) -> HostResult<String> {
    match name {
        "link_speed_bit_s" => speed(host, nic),
        "pcie_bandwidth_bit_s" => pci::bandwidth(host, nic),
        "nic_pcie_downtrained" => pci::downtrained(host, nic).and_then(yes_or_no),
        // From the configuration space, which is not text, and of which only root may read more than a quarter.
        "nic_pcie_max_read_request_bytes" => host.ethtool(nic, "pcie.max_read_request_bytes"),
        "nic_pcie_payload_reduced" => host.ethtool(nic, "pcie.payload_reduced"),
        "nic_rps_active" => masks(host, nic, "rx-", "rps_cpus")
            .map(|masks| masks.iter().any(|mask| !mask.is_empty()))
            .and_then(yes_or_no),
        "nic_xps_local" => xps_local(host, nic).and_then(yes_or_no),
        "nic_vlan_mtu_min" => vlan_mtu(host, nic),
        "nic_tx_checksum" => tx_checksum(host, nic).and_then(yes_or_no),
        "nic_drops" => drops(host, nic),
        "nic_irqs_pinned" => interrupts::pinned(host, nic).and_then(yes_or_no),
        "nic_irqs_local" => interrupts::local(host, nic).and_then(yes_or_no),
        "nic_nvme_same_node" => nvme_local(host, nic, disks).and_then(yes_or_no),
        "nic_fq_flow_rate_max_bit_s" => host.netlink(nic, "qdisc.fq_maxrate_bit_s"),
        "nic_pause_frames" => host.ethtool(nic, "stat.pause_frames"),
        "nic_rss_spread" => host.ethtool(nic, "rss.spread"),
        "nic_ntuple_rules" => host.ethtool(nic, "ntuple.rules"),
        "nic_optical_rx_dbm" => host.ethtool(nic, "module.rx_dbm"),
        "nic_hwtstamp_on" => host.ethtool(nic, "timestamping.on"),
        _ => unknown(name),
    }
}

/// Whether a NIC has a feature.
pub(super) fn has(host: &dyn Host, what: &str, nic: &str) -> HostResult<bool> {
    match what {
        "mlx5" => host.ethtool(nic, "driver").map(|driver| driver.starts_with("mlx5")),
        "multiqueue" => Ok(queue_names(host, nic, "tx-")?.len() > 1),
        "mq" => mq(host, nic),
        "single_queue" => mq(host, nic).map(|mq| !mq),
        "irqs_pinned" => interrupts::pinned(host, nic),
        _ => unknown(what),
    }
}

/// Whether the queue discipline mq suits a NIC: it has several transmit queues, or mq is in use already.
fn mq(host: &dyn Host, nic: &str) -> HostResult<bool> {
    if queue_names(host, nic, "tx-")?.len() > 1 {
        return Ok(true);
    }
    match host.netlink(nic, "qdisc") {
        Ok(root) => Ok(root == "mq"),
        Err(HostError::Absent) => Ok(false),
        Err(why) => Err(why),
    }
}

fn speed(host: &dyn Host, nic: &str) -> HostResult<String> {
    let mbit = host.read(&sysfs_directory(nic).join("speed"))?;
    match (mbit.parse::<i64>(), speed_bit_s(&mbit)) {
        (_, Some(speed)) => Ok(speed.to_string()),
        (Ok(..=0), None) => Err(HostError::Failed("the link is down, or the driver does not report it".into())),
        (_, None) => Err(HostError::Failed(format!("a speed of {mbit:?} Mbit/s"))),
    }
}

fn queue_names(host: &dyn Host, nic: &str, kind: &str) -> HostResult<Vec<String>> {
    Ok(host.list(&sysfs_directory(nic).join("queues"))?.into_iter().filter(|name| name.starts_with(kind)).collect())
}

/// The processors in a file of each queue.
fn masks(host: &dyn Host, nic: &str, kind: &str, what: &str) -> HostResult<Vec<Vec<u32>>> {
    let mask = |queue: &String| of_mask(&host.read(&sysfs_directory(nic).join("queues").join(queue).join(what))?);
    queue_names(host, nic, kind)?.iter().map(mask).collect()
}

/// The processors of a mask like `0000,000000ff`: 32 bits a group, the last group first.
fn of_mask(mask: &str) -> HostResult<Vec<u32>> {
    let mut cpus = Vec::new();
    for (group, text) in mask.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(text, 16)
            .map_err(|_| HostError::Failed(format!("{mask:?} is not a mask of processors")))?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| group as u32 * 32 + bit));
    }
    Ok(cpus)
}

/// The number of queues that a NIC supports and that processors near it can serve.
pub(super) fn queues(host: &dyn Host, nic: &str) -> HostResult<f64> {
    let most = host.ethtool(nic, "channels.combined.max")?;
    let most: u32 = most.parse().map_err(|_| HostError::Failed(format!("{most:?} channels")))?;
    Ok(f64::from(most).min(local(host, nic)?.len() as f64))
}

fn xps_local(host: &dyn Host, nic: &str) -> HostResult<bool> {
    let near = local(host, nic)?;
    let masks = masks(host, nic, "tx-", "xps_cpus")?;
    Ok(masks.iter().all(|mask| !mask.is_empty() && mask.iter().all(|cpu| near.contains(cpu))))
}

/// The least MTU of the VLANs on a NIC.
fn vlan_mtu(host: &dyn Host, nic: &str) -> HostResult<String> {
    let mut least: Option<u32> = None;
    for name in host.list(&sysfs_directory(nic))? {
        let Some(above) = name.strip_prefix("upper_") else { continue };
        if is_vlan(host, above)? {
            let mtu = number_in(host, &sysfs_directory(above).join("mtu"))?;
            least = Some(least.map_or(mtu, |least| least.min(mtu)));
        }
    }
    least.map(|mtu| mtu.to_string()).ok_or(HostError::Absent)
}

/// Whether an interface is a VLAN: bridges, bonds and others are above NICs as well.
fn is_vlan(host: &dyn Host, name: &str) -> HostResult<bool> {
    match host.read(&sysfs_directory(name).join("uevent")) {
        Ok(text) => Ok(text.lines().any(|line| line == "DEVTYPE=vlan")),
        Err(HostError::Absent) => Err(HostError::Failed(format!("the kind of interface {name} is not known"))),
        Err(why) => Err(why),
    }
}

/// Whether the NIC computes all checksums that it can: with one feature for everything, or with one each for IPv4 and IPv6. A driver that
/// lacks the one for IPv6 reports it as off and fixed.
fn tx_checksum(host: &dyn Host, nic: &str) -> HostResult<bool> {
    let state = |kind: &str| host.ethtool(nic, &format!("feature.tx-checksum-{kind}"));
    let states = ["ip-generic", "ipv4", "ipv6"].map(state);
    if states.iter().all(|state| *state == Err(HostError::Absent)) {
        return Err(HostError::Absent);
    }
    let is_on = |state: &HostResult<String>| match state {
        Ok(state) => Ok(state.starts_with("on")),
        Err(HostError::Absent) => Ok(false),
        Err(why) => Err(why.clone()),
    };
    let [all, four, six] = &states;
    if is_on(all)? {
        return Ok(true);
    }
    let is_fixed = || host.ethtool(nic, "feature.tx-checksum-ipv6.fixed").is_ok_and(|is| is == "yes");
    Ok(is_on(four)? && (is_on(six)? || is_fixed()))
}

fn drops(host: &dyn Host, nic: &str) -> HostResult<String> {
    let statistics = sysfs_directory(nic).join("statistics");
    let present = DROPS
        .iter()
        .map(|name| number_in::<u64>(host, &statistics.join(name)))
        .filter(|count| *count != Err(HostError::Absent));
    let counts: Vec<u64> = present.collect::<HostResult<_>>()?;
    if counts.is_empty() {
        Err(HostError::Absent)
    } else {
        Ok(counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count)).to_string())
    }
}

/// Whether the audited NVMe drives are on the NIC's memory node; all drives, if no disk is named.
fn nvme_local(host: &dyn Host, nic: &str, disks: &[String]) -> HostResult<bool> {
    let own = node(host, &pci::device(nic))?;
    let all = Path::new("/sys/class/nvme");
    let drives = if disks.is_empty() { host.list(all)? } else { storage::nvme_under(host, disks)? };
    let nodes = drives.iter().map(|drive| node(host, &all.join(drive).join("device")));
    let nodes: Vec<i64> = nodes.collect::<HostResult<_>>()?;
    if nodes.is_empty() { Err(HostError::Absent) } else { Ok(nodes.iter().all(|its| *its == own)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    #[test]
    fn masks_of_processors_are_parsed() {
        assert_eq!(of_mask("1,80000001"), Ok(vec![0, 31, 32]));
        assert_eq!(of_mask("0000,00000000"), Ok(vec![]));
        assert!(of_mask("nonsense").is_err() && of_mask("").is_err());
    }

    #[test]
    fn a_card_on_another_node_than_the_drives_is_found() {
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
            write(&format!("sys/kernel/irq/{irq}/actions"), "ens1-TxRx\n");
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
        let says = |name: &str| fact(&host, name, "ens1", &[]);
        assert_eq!((says("nic_irqs_pinned"), says("nic_irqs_local")), (Ok("yes".into()), Ok("yes".into())));
        assert_eq!((says("nic_xps_local"), says("nic_rps_active")), (Ok("yes".into()), Ok("no".into())));
        assert_eq!(says("nic_nvme_same_node"), Ok("no".into()));
        assert_eq!(says("nic_drops"), Ok(u64::MAX.to_string()), "the sum does not overflow");
        assert!(matches!(says("link_speed_bit_s"), Err(HostError::Failed(_))), "-1 is not a speed");
        assert_eq!(says("nic_vlan_mtu_min"), Err(HostError::Absent));
        write("proc/irq/91/smp_affinity_list", "0-3\n");
        assert_eq!((says("nic_irqs_pinned"), says("nic_irqs_local")), (Ok("no".into()), Ok("no".into())));
    }

    fn says(files: &[(&str, &str)], name: &str, disks: &[&str]) -> HostResult<String> {
        let disks: Vec<String> = disks.iter().map(|disk| (*disk).to_owned()).collect();
        fact(&crate::host::Recorded::new(tree(files).path()), name, "ens1", &disks)
    }

    #[test]
    fn a_node_that_the_host_does_not_report_is_unknown() {
        const NODES: [(&str, &str); 2] =
            [("sys/devices/system/node/node0/cpulist", "0-7"), ("sys/devices/system/node/node1/cpulist", "8-15")];
        let of = |nic: &'static str, drive: &'static str| {
            [("sys/class/net/ens1/device/numa_node", nic), ("sys/class/nvme/nvme0/device/numa_node", drive)]
        };
        let same = |files: &[(&str, &str)]| says(files, "nic_nvme_same_node", &[]);
        assert_eq!(same(&[NODES, of("1", "1")].concat()), Ok("yes".into()));
        for (nic, drive) in [("-1", "-1"), ("-1", "0"), ("0", "-1")] {
            let unknown = same(&[NODES, of(nic, drive)].concat());
            assert!(matches!(unknown, Err(HostError::Failed(_))), "{nic} {drive}: {unknown:?}");
            assert_eq!(same(&[NODES[..1].to_vec(), of(nic, drive).to_vec()].concat()), Ok("yes".into()), "one node");
        }
        assert!(matches!(same(&[NODES, of("far", "far")].concat()), Err(HostError::Failed(_))));
        let near = |nodes: &[(&str, &str)]| {
            let files = [
                nodes,
                &[("sys/class/net/ens1/device/numa_node", "-1"), ("sys/class/net/ens1/device/local_cpulist", "0-15")],
            ];
            local(&crate::host::Recorded::new(tree(&files.concat()).path()), "ens1").map(|cpus| cpus.len())
        };
        assert_eq!(near(&NODES[..1]), Ok(16));
        assert!(matches!(near(&NODES), Err(HostError::Failed(_))), "the kernel lists all processors as local");
    }

    #[test]
    fn only_audited_drives_count() {
        let files = [
            ("sys/class/net/ens1/device/numa_node", "1"),
            ("sys/class/nvme/nvme0/device/numa_node", "0"),
            ("sys/class/nvme/nvme1/device/numa_node", "1"),
            ("sys/block/md0/slaves/nvme1n1/size", "1"),
            ("sys/block/dm-0/slaves/md0/size", "1"),
            ("sys/block/sda/size", "1"),
        ];
        let same = |disks: &[&str]| says(&files, "nic_nvme_same_node", disks);
        assert_eq!((same(&[]), same(&["nvme0n1"])), (Ok("no".into()), Ok("no".into())));
        for disks in [&["nvme1n1"][..], &["md0"], &["dm-0", "sda"]] {
            assert_eq!(same(disks), Ok("yes".into()), "{disks:?}");
        }
        assert_eq!(same(&["sda"]), Err(HostError::Absent));
    }

    #[test]
    fn only_vlans_of_a_nic_count() {
        let bond = [
            ("sys/class/net/ens1/upper_bond0", ""),
            ("sys/class/net/bond0/uevent", "DEVTYPE=bond\nINTERFACE=bond0\n"),
            ("sys/class/net/bond0/mtu", "1500\n"),
        ];
        assert_eq!(says(&bond, "nic_vlan_mtu_min", &[]), Err(HostError::Absent));
        let vlan = [
            ("sys/class/net/ens1/upper_v7", ""),
            ("sys/class/net/v7/uevent", "DEVTYPE=vlan\nINTERFACE=v7\n"),
            ("sys/class/net/v7/mtu", "8000\n"),
        ];
        assert_eq!(says(&[bond, vlan].concat(), "nic_vlan_mtu_min", &[]), Ok("8000".into()));
        let unread = says(&vlan[..1], "nic_vlan_mtu_min", &[]);
        assert!(matches!(unread, Err(HostError::Failed(_))), "{unread:?}");
    }

    #[test]
    fn checksums_of_both_protocols_must_be_on() {
        let sums = |generic: &str, four: &str, six: &str, fixed: &str| {
            let files = [
                ("ethtool/ens1/feature.tx-checksum-ip-generic", generic),
                ("ethtool/ens1/feature.tx-checksum-ipv4", four),
                ("ethtool/ens1/feature.tx-checksum-ipv6", six),
                ("ethtool/ens1/feature.tx-checksum-ipv6.fixed", fixed),
            ];
            says(&files, "nic_tx_checksum", &[]).unwrap()
        };
        assert_eq!((sums("on", "off", "off", "yes"), sums("off", "on", "on", "no")), ("yes".into(), "yes".into()));
        assert_eq!(sums("off", "off", "on", "no"), "no", "half of the traffic");
        assert_eq!((sums("off", "on", "off", "no"), sums("off", "on", "off", "yes")), ("no".into(), "yes".into()));
        assert_eq!(says(&[], "nic_tx_checksum", &[]), Err(HostError::Absent));
    }

    #[test]
    fn impossible_link_speeds_are_errors() {
        let speed = |mbit: &str| says(&[("sys/class/net/ens1/speed", mbit)], "link_speed_bit_s", &[]);
        assert_eq!(speed("800000\n"), Ok("800000000000".into()));
        for absurd in ["4294967295\n", "-1\n", "0\n", "fast\n", "10000001\n"] {
            assert!(matches!(speed(absurd), Err(HostError::Failed(_))), "{absurd}");
        }
    }

    #[test]
    fn mq_suits_nics_with_several_queues() {
        let is = |queues: &[(&str, &str)], root: &str| {
            let dir = tree(&[queues, &[("netlink/ens1/qdisc", root)]].concat());
            let host = crate::host::Recorded::new(dir.path());
            assert_eq!(has(&host, "mq", "ens1").map(|mq| !mq), has(&host, "single_queue", "ens1"));
            has(&host, "mq", "ens1")
        };
        let queues = [("sys/class/net/ens1/queues/tx-0/x", ""), ("sys/class/net/ens1/queues/tx-1/x", "")];
        assert_eq!((is(&queues, "fq"), is(&queues, "mq")), (Ok(true), Ok(true)));
        assert_eq!((is(&queues[..1], "fq"), is(&queues[..1], "mq")), (Ok(false), Ok(true)));
    }
}
