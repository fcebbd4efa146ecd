//! Locality of a device: its memory node, and the processors of that node.

use std::path::Path;

use super::{list, number_in, pci, processor};
use crate::host::{Host, HostError, HostResult};

/// Whether the host has several memory nodes; a kernel without NUMA support lists none.
fn has_nodes(of: &dyn Host) -> HostResult<bool> {
    match processor::nodes(of) {
        Ok(nodes) => Ok(nodes > 1),
        Err(HostError::Absent) => Ok(false),
        Err(why) => Err(why),
    }
}

/// The memory node of a device. A host of one node has no other, and some hosts of several do not report it.
pub(super) fn node(of: &dyn Host, device: &Path) -> HostResult<i64> {
    match number_in(of, &device.join("numa_node"))? {
        node if node >= 0 => Ok(node),
        _ if !has_nodes(of)? => Ok(0),
        _ => Err(nowhere(device)),
    }
}

fn nowhere(device: &Path) -> HostError {
    HostError::Failed(format!("the host does not say on which memory node {} is", device.display()))
}

/// The processors near a NIC; on a host of one node, all.
pub(super) fn local(of: &dyn Host, nic: &str) -> HostResult<Vec<u32>> {
    let device = pci::device(nic);
    match node(of, &device) {
        Ok(_) => {}
        Err(HostError::Absent) if !has_nodes(of)? => {}
        Err(HostError::Absent) => return Err(nowhere(&device)),
        Err(why) => return Err(why),
    }
    match of.read(&device.join("local_cpulist")) {
        Ok(text) => list(&text),
        Err(HostError::Absent) => list(&of.read(Path::new("/sys/devices/system/cpu/online"))?),
        Err(why) => Err(why),
    }
}
