//! The slot of a device: lanes, speed, payload.

use std::path::{Path, PathBuf};

use crate::host::{Host, HostError, HostResult};

/// The PCI device of a NIC.
pub(super) fn device(nic: &str) -> PathBuf {
    Path::new("/sys/class/net").join(nic).join("device")
}

/// Transfers per second of a lane, from the kernel's text (`16.0 GT/s PCIe`), and the part of them that is data: 8 of 10 up to generation
/// 2, 128 of 130 from generation 3 on (PCI Express Base Specification).
fn lane(text: &str) -> Option<(f64, f64)> {
    let transfers: f64 = text.split_whitespace().next()?.parse().ok()?;
    let data = if transfers < 8.0 { 0.8 } else { 128.0 / 130.0 };
    (transfers > 0.0).then_some((transfers * 1e9, data))
}

/// A link at its present speed, or at the best speed of one of its ends.
#[derive(Clone, Copy)]
struct PcieLink {
    /// Transfers per second and lane.
    transfers: f64,
    /// The part of the transfers that is data.
    data: f64,
    lanes: f64,
}

fn link(host: &dyn Host, at: &Path, which: &str) -> HostResult<PcieLink> {
    let speed = host.read(&at.join(format!("{which}_link_speed")))?;
    let width = host.read(&at.join(format!("{which}_link_width")))?;
    let lanes: f64 = width.parse().map_err(|_| HostError::Failed(format!("a slot of {width:?} lanes")))?;
    let (transfers, data) = lane(&speed).ok_or_else(|| HostError::Failed(format!("a slot of {speed:?}")))?;
    if lanes > 0.0 && lanes <= 64.0 {
        Ok(PcieLink { transfers, data, lanes })
    } else {
        Err(HostError::Failed(format!("a slot of {width} lanes")))
    }
}

/// The bandwidth of the slot in each direction, bit/s, including packet headers.
pub(super) fn bandwidth(host: &dyn Host, nic: &str) -> HostResult<String> {
    let link = link(host, &device(nic), "current")?;
    Ok(format!("{:.0}", link.transfers * link.lanes * link.data))
}

/// Whether the link has fewer lanes, or is slower, than both of its ends support.
pub(super) fn downtrained(host: &dyn Host, nic: &str) -> HostResult<bool> {
    let card = device(nic);
    let current = link(host, &card, "current")?;
    let mut best = link(host, &card, "max")?;
    match link(host, &card.join(".."), "max") {
        Ok(slot) => {
            best.transfers = best.transfers.min(slot.transfers);
            best.lanes = best.lanes.min(slot.lanes);
        }
        // A device that is part of the processor has no slot.
        Err(HostError::Absent) => {}
        Err(why) => return Err(why),
    }
    Ok(current.transfers < best.transfers || current.lanes < best.lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_lost_lanes_is_downtrained() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("sys/class/net/ens1/device");
        std::fs::create_dir_all(&at).unwrap();
        let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
        write("current_link_speed", "16.0 GT/s PCIe\n");
        write("max_link_speed", "16.0 GT/s PCIe\n");
        write("current_link_width", "8\n");
        write("max_link_width", "16\n");
        let host = crate::host::Recorded::new(dir.path());
        // Generation 4, 8 lanes: 126 Gbit/s.
        assert_eq!(bandwidth(&host, "ens1"), Ok("126030769231".into()));
        assert_eq!(downtrained(&host, "ens1"), Ok(true));
        write("current_link_width", "16\n");
        assert_eq!((bandwidth(&host, "ens1"), downtrained(&host, "ens1")), (Ok("252061538462".into()), Ok(false)));
        for absurd in ["0", "255", "-4", "many"] {
            write("current_link_width", absurd);
            assert!(matches!(bandwidth(&host, "ens1"), Err(HostError::Failed(_))), "{absurd}");
        }
        assert_eq!(bandwidth(&host, "ens2"), Err(HostError::Absent));
    }

    #[test]
    fn a_card_is_compared_with_the_most_of_its_slot() {
        let dir = tempfile::tempdir().unwrap();
        let slot = dir.path().join("sys/devices/pci0000:80/0000:80:01.0");
        std::fs::create_dir_all(slot.join("0000:81:00.0")).unwrap();
        std::fs::create_dir_all(dir.path().join("sys/class/net/ens1")).unwrap();
        let link = "../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0";
        std::os::unix::fs::symlink(link, dir.path().join("sys/class/net/ens1/device")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(slot.join(name), text).unwrap();
        for (which, speed, width) in [("current", "8.0", "8"), ("max", "32.0", "16")] {
            write(&format!("0000:81:00.0/{which}_link_speed"), &format!("{speed} GT/s PCIe\n"));
            write(&format!("0000:81:00.0/{which}_link_width"), width);
        }
        let host = crate::host::Recorded::new(dir.path());
        assert_eq!(downtrained(&host, "ens1"), Ok(true));
        write("max_link_speed", "8.0 GT/s PCIe\n");
        write("max_link_width", "8\n");
        assert_eq!(downtrained(&host, "ens1"), Ok(false), "the slot does not support more");
        write("max_link_width", "16\n");
        assert_eq!(downtrained(&host, "ens1"), Ok(true), "lanes are missing");
        write("max_link_speed", "Unknown\n");
        assert!(matches!(downtrained(&host, "ens1"), Err(HostError::Failed(_))));
    }
}
