//! The interrupts of a NIC: those of its queues, and the processors that take them.

use std::collections::BTreeSet;
use std::path::Path;

use super::{list, near, pci};
use crate::host::{Host, HostError, HostResult};

/// Words in the names of interrupts that belong to no queue: events, commands, faults, the mailbox of a virtual function, a change of the
/// link, RDMA (mlx5, ice, i40e, iavf, virtio, ena, gve, mana, hns3, irdma).
const NON_QUEUE_WORDS: [&str; 17] = [
    "async", "misc", "mbx", "mailbox", "config", "control", "mgmnt", "mgmt", "cmd", "pages", "hwc", "link", "err",
    "aeq", "ceq", "fdir", "other",
];

/// The interrupts of a NIC's queues.
fn queue_irqs(host: &dyn Host, nic: &str) -> HostResult<Vec<String>> {
    let numbers = host.list(&pci::device(nic).join("msi_irqs"))?;
    let mut named = Vec::new();
    for irq in numbers {
        let name = name(host, &irq)?;
        named.push((irq, name));
    }
    named.retain(|(_, name)| is_queue(name, nic));
    // If there are several, the one with only the NIC's name is for events (igb, ixgbe).
    if named.len() > 1 {
        named.retain(|(_, name)| name != nic);
    }
    if named.is_empty() { Err(HostError::Absent) } else { Ok(named.into_iter().map(|(irq, _)| irq).collect()) }
}

/// The file that says which processors may take an interrupt.
fn affinity(irq: &str) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

/// For each interrupt of a NIC's queues, the processors that may take it.
fn allowed_cpus(host: &dyn Host, nic: &str) -> HostResult<Vec<Vec<u32>>> {
    let cpus = |irq: &String| host.read(Path::new(&affinity(irq))).and_then(|text| list(&text));
    queue_irqs(host, nic)?.iter().map(cpus).collect()
}

/// The processors that should take a NIC's interrupts: of those near it, one thread of each core, and of more than two cores the first
/// half. The other half is for programs, which share the cache and are not interrupted.
fn cpus_for_interrupts(host: &dyn Host, nic: &str) -> HostResult<Vec<u32>> {
    let mut cores = near::local(host, nic)?;
    cores.retain(|cpu| {
        let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        // A processor with unknown siblings counts as a core.
        let siblings = host.read(Path::new(&siblings)).and_then(|text| list(&text)).unwrap_or_default();
        siblings.iter().all(|sibling| sibling >= cpu)
    });
    let most = if cores.len() > 2 { cores.len().div_ceil(2) } else { cores.len() };
    cores.truncate(most);
    if cores.is_empty() { Err(HostError::Failed(format!("no processor is near {nic}"))) } else { Ok(cores) }
}

/// The affinity file and the processor for each interrupt of a NIC's queues: one processor each, repeated if there are more queues than
/// processors.
pub(crate) fn plan(host: &dyn Host, nic: &str) -> HostResult<Vec<(String, u32)>> {
    let cores = cpus_for_interrupts(host, nic)?;
    Ok(queue_irqs(host, nic)?.iter().map(|irq| affinity(irq)).zip(cores.into_iter().cycle()).collect())
}

/// Whether an interrupt of this name may belong to a queue. The NIC's own name is ignored: it may be `uplink0`.
fn is_queue(name: &str, nic: &str) -> bool {
    let without_nic = name.replace(nic, "").to_ascii_lowercase();
    !name.is_empty() && !NON_QUEUE_WORDS.iter().any(|word| without_nic.contains(word))
}

/// The name of an interrupt's handler, as in `/proc/interrupts`, which is too long on hosts with many processors; empty if there is no
/// handler.
fn name(host: &dyn Host, irq: &str) -> HostResult<String> {
    match host.read(&Path::new("/sys/kernel/irq").join(irq).join("actions")) {
        // In mlx5's names the device follows: mlx5_comp0@pci:0000:81:00.0.
        Ok(names) => Ok(names.split('@').next().unwrap_or_default().to_owned()),
        Err(HostError::Absent) => {
            Err(HostError::Failed(format!("whether interrupt {irq} belongs to a queue is not known")))
        }
        Err(why) => Err(why),
    }
}

/// Whether each queue's interrupt is bound to one processor, and to different ones as long as there are enough.
pub(super) fn pinned(host: &dyn Host, nic: &str) -> HostResult<bool> {
    let all = allowed_cpus(host, nic)?;
    if all.iter().any(|cpus| cpus.len() != 1) {
        return Ok(false);
    }
    let different: BTreeSet<u32> = all.iter().flatten().copied().collect();
    Ok(different.len() >= all.len().min(cpus_for_interrupts(host, nic)?.len()))
}

/// Whether all interrupts are taken near the NIC.
pub(super) fn local(host: &dyn Host, nic: &str) -> HostResult<bool> {
    let near = near::local(host, nic)?;
    Ok(allowed_cpus(host, nic)?.iter().flatten().all(|cpu| near.contains(cpu)))
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

    fn is_pinned(of: &[(u32, &str, &str)]) -> HostResult<bool> {
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
    fn the_plan_leaves_processors_to_programs() {
        let names = ["mlx5_comp0", "mlx5_comp1", "mlx5_comp2", "mlx5_async0"];
        let of: Vec<_> = (60..).zip(names).map(|(irq, name)| (irq, name, "0-3")).collect();
        let dir = host(&of);
        let planned = || plan(&crate::host::Recorded::new(dir.path()), "ens1").unwrap();
        let on =
            |cpus: [u32; 3]| (60..).zip(cpus).map(|(irq, cpu)| (affinity(&irq.to_string()), cpu)).collect::<Vec<_>>();
        assert_eq!(planned(), on([0, 1, 0]), "two of the four cores near it, and none for other interrupts");
        // Two threads of one core are not two cores.
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let at = dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!(planned(), on([0, 1, 0]));
        std::fs::write(dir.path().join("sys/class/net/ens1/device/local_cpulist"), "2-9\n").unwrap();
        assert_eq!(planned(), on([4, 5, 6]), "on its own node");
    }

    #[test]
    fn interrupts_of_no_queue_do_not_count() {
        let of_mlx5 = [
            (60, "mlx5_async0@pci:0000:81:00.0\n", "0-3"),
            (61, "mlx5_comp0@pci:0000:81:00.0\n", "0"),
            (62, "mlx5_comp1@pci:0000:81:00.0\n", "1"),
            (63, "\n", "0-3"),
        ];
        assert_eq!(is_pinned(&of_mlx5), Ok(true));
        assert_eq!(is_pinned(&[(60, "ens1", "0-3"), (61, "ens1-TxRx-0", "0"), (62, "ens1-TxRx-1", "1")]), Ok(true));
        assert_eq!(is_pinned(&[(60, "ens1", "0-3")]), Ok(false), "a single interrupt is that of the queue");
        assert_eq!(is_pinned(&of_mlx5[..1]), Err(HostError::Absent));
        assert!(is_queue("uplink0-TxRx-0", "uplink0") && !is_queue("uplink0-link", "uplink0"));
        let dir = host(&[(60, "ens1", "0")]);
        std::fs::remove_dir_all(dir.path().join("sys/kernel")).unwrap();
        assert!(matches!(pinned(&crate::host::Recorded::new(dir.path()), "ens1"), Err(HostError::Failed(_))));
    }
}
