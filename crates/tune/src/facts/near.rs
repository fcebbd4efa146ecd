//! Locality of a device: its memory node, and the processors of that node.

use std::path::Path;

use super::{list, number_in, pci, processor};
use crate::host::{Host, HostError, HostResult};

/// Whether the host has several memory nodes; a kernel without NUMA support lists none.
fn has_nodes(host: &dyn Host) -> HostResult<bool> {
    match processor::nodes(host) {
        Ok(nodes) => Ok(nodes > 1),
        Err(HostError::Absent) => Ok(false),
        Err(why) => Err(why),
    }
}

/// The memory node of a device. A device whose host has a single node is on that node; some hosts with several nodes do not report it.
pub(super) fn node(host: &dyn Host, device: &Path) -> HostResult<i64> {
    match number_in(host, &device.join("numa_node"))? {
        node if node >= 0 => Ok(node),
        _ if !has_nodes(host)? => Ok(0),
        _ => Err(node_unknown(device)),
    }
}

fn node_unknown(device: &Path) -> HostError {
    HostError::Failed(format!("the host does not report the memory node of {}", device.display()))
}

/// The processors on the memory node of a NIC; on a host with a single node, all.
pub(super) fn local(host: &dyn Host, nic: &str) -> HostResult<Vec<u32>> {
    let device = pci::device(nic);
    match node(host, &device) {
        Ok(_) => {}
        Err(HostError::Absent) if !has_nodes(host)? => {}
        Err(HostError::Absent) => return Err(node_unknown(&device)),
        Err(why) => return Err(why),
    }
    match host.read(&device.join("local_cpulist")) {
        Ok(text) => list(&text),
        Err(HostError::Absent) => list(&host.read(Path::new("/sys/devices/system/cpu/online"))?),
        Err(why) => Err(why),
    }
}
