//! Interrupts of a NIC: which are of its queues, and which processors take them.

use std::collections::BTreeSet;
use std::path::Path;

use super::{list, nic, pci};
use crate::host::{Host, Known, Unread};

/// Words in the names of interrupts that are of no queue: events, commands, faults, the mailbox of a virtual function, a
/// change of the link, RDMA (mlx5, ice, i40e, iavf, virtio, ena, gve, mana, hns3, irdma).
const OF_NO_QUEUE: [&str; 17] = [
    "async", "misc", "mbx", "mailbox", "config", "control", "mgmnt", "mgmt", "cmd", "pages", "hwc", "link", "err",
    "aeq", "ceq", "fdir", "other",
];

/// For each interrupt of a NIC's queues, the processors that may take it.
fn of_queues(of: &dyn Host, nic: &str) -> Known<Vec<Vec<u32>>> {
    let numbers = of.list(&pci::device(nic).join("msi_irqs"))?;
    let mut named = Vec::new();
    for irq in &numbers {
        named.push((irq, name(of, irq)?));
    }
    named.retain(|(_, name)| is_queue(name, nic));
    // Where there are several, the one with no more than the NIC's name is for the rest (igb, ixgbe).
    if named.len() > 1 {
        named.retain(|(_, name)| name != nic);
    }
    let cpus = |(irq, _): &(&String, String)| {
        of.read(&Path::new("/proc/irq").join(irq).join("smp_affinity_list")).and_then(|text| list(&text))
    };
    let all: Vec<Vec<u32>> = named.iter().map(cpus).collect::<Known<_>>()?;
    if all.is_empty() { Err(Unread::Absent) } else { Ok(all) }
}

/// Whether an interrupt of that name may be of a queue. What the NIC is called does not count: it may be `uplink0`.
fn is_queue(name: &str, nic: &str) -> bool {
    let of_its_own = name.replace(nic, "").to_ascii_lowercase();
    !name.is_empty() && !OF_NO_QUEUE.iter().any(|word| of_its_own.contains(word))
}

/// Who is told of an interrupt, as in `/proc/interrupts`, which is too long on hosts of many processors; nothing where
/// nobody is.
fn name(of: &dyn Host, irq: &str) -> Known<String> {
    match of.read(&Path::new("/sys/kernel/irq").join(irq).join("actions")) {
        // Those of mlx5 have the device behind them: mlx5_comp0@pci:0000:81:00.0.
        Ok(names) => Ok(names.split('@').next().unwrap_or_default().to_owned()),
        Err(Unread::Absent) => Err(Unread::Failed(format!("whether interrupt {irq} is of a queue is not known"))),
        Err(why) => Err(why),
    }
}

/// Whether each queue's interrupt is bound to one processor, and to another one as long as there are some next to the NIC.
pub(super) fn pinned(of: &dyn Host, nic: &str) -> Known<bool> {
    let all = of_queues(of, nic)?;
    if all.iter().any(|cpus| cpus.len() != 1) {
        return Ok(false);
    }
    let different: BTreeSet<u32> = all.iter().flatten().copied().collect();
    Ok(different.len() >= all.len().min(nic::local(of, nic)?.len()))
}

/// Whether all of them are taken next to the NIC.
pub(super) fn local(of: &dyn Host, nic: &str) -> Known<bool> {
    let near = nic::local(of, nic)?;
    Ok(of_queues(of, nic)?.iter().flatten().all(|cpu| near.contains(cpu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(of: &[(u32, &str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write("sys/class/net/ens1/device/local_cpulist", "0-3\n");
        write("sys/class/net/ens1/device/numa_node", "0\n");
        for (irq, name, cpus) in of {
            write(&format!("sys/class/net/ens1/device/msi_irqs/{irq}"), "msix\n");
            write(&format!("sys/kernel/irq/{irq}/actions"), name);
            write(&format!("proc/irq/{irq}/smp_affinity_list"), cpus);
        }
        dir
    }

    fn is_pinned(of: &[(u32, &str, &str)]) -> Known<bool> {
        pinned(&crate::host::Recorded::new(host(of).path()), "ens1")
    }

    #[test]
    fn each_queue_has_a_processor_of_its_own() {
        let on = |cpus: [&'static str; 4]| {
            let names = ["ice-ens1-TxRx-0", "ice-ens1-TxRx-1", "ice-ens1-TxRx-2", "ice-ens1-TxRx-3"];
            (60..).zip(names).zip(cpus).map(|((irq, name), cpus)| (irq, name, cpus)).collect::<Vec<_>>()
        };
        assert_eq!(is_pinned(&on(["0", "1", "2", "3"])), Ok(true));
        assert_eq!(is_pinned(&on(["0", "0", "0", "0"])), Ok(false), "one processor does all the work");
        assert_eq!(is_pinned(&on(["0", "1", "2", "0-3"])), Ok(false));
        let more = [on(["0", "1", "2", "3"]), vec![(70, "ice-ens1-TxRx-4", "3")]].concat();
        assert_eq!(is_pinned(&more), Ok(true), "there are no more processors");
    }

    #[test]
    fn what_is_of_no_queue_does_not_count() {
        let of_mlx5 = [
            (60, "mlx5_async0@pci:0000:81:00.0\n", "0-3"),
            (61, "mlx5_comp0@pci:0000:81:00.0\n", "0"),
            (62, "mlx5_comp1@pci:0000:81:00.0\n", "1"),
            (63, "\n", "0-3"),
        ];
        assert_eq!(is_pinned(&of_mlx5), Ok(true));
        assert_eq!(is_pinned(&[(60, "ens1", "0-3"), (61, "ens1-TxRx-0", "0"), (62, "ens1-TxRx-1", "1")]), Ok(true));
        assert_eq!(is_pinned(&[(60, "ens1", "0-3")]), Ok(false), "the only one is its queue's");
        assert_eq!(is_pinned(&of_mlx5[..1]), Err(Unread::Absent));
        assert!(is_queue("uplink0-TxRx-0", "uplink0") && !is_queue("uplink0-link", "uplink0"));
        let dir = host(&[(60, "ens1", "0")]);
        std::fs::remove_dir_all(dir.path().join("sys/kernel")).unwrap();
        assert!(matches!(pinned(&crate::host::Recorded::new(dir.path()), "ens1"), Err(Unread::Failed(_))));
    }
}
