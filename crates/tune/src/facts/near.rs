//! What lies next to a device: its memory node, and the processors there.

use std::path::Path;

use super::{list, number_in, pci, processor};
use crate::host::{Host, Known, Unread};

/// Whether the host has several memory nodes; a kernel that knows of none does not list them.
fn has_nodes(of: &dyn Host) -> Known<bool> {
    match processor::nodes(of) {
        Ok(nodes) => Ok(nodes > 1),
        Err(Unread::Absent) => Ok(false),
        Err(why) => Err(why),
    }
}

/// The memory node of a device; a host of one node has no other, and some hosts of several do not say.
pub(super) fn node(of: &dyn Host, device: &Path) -> Known<i64> {
    match number_in(of, &device.join("numa_node"))? {
        node if node >= 0 => Ok(node),
        _ if !has_nodes(of)? => Ok(0),
        _ => Err(nowhere(device)),
    }
}

fn nowhere(device: &Path) -> Unread {
    Unread::Failed(format!("the host does not say on which memory node {} is", device.display()))
}

/// Processors next to a NIC. A host of one node has nothing else.
pub(super) fn local(of: &dyn Host, nic: &str) -> Known<Vec<u32>> {
    let device = pci::device(nic);
    match node(of, &device) {
        Ok(_) => {}
        Err(Unread::Absent) if !has_nodes(of)? => {}
        Err(Unread::Absent) => return Err(nowhere(&device)),
        Err(why) => return Err(why),
    }
    match of.read(&device.join("local_cpulist")) {
        Ok(text) => list(&text),
        Err(Unread::Absent) => list(&of.read(Path::new("/sys/devices/system/cpu/online"))?),
        Err(why) => Err(why),
    }
}
