//! What a device's slot gives: lanes, speed, payload.

use std::path::{Path, PathBuf};

use crate::host::{Host, Known, Unread};

/// The device below a NIC.
pub(super) fn device(nic: &str) -> PathBuf {
    Path::new("/sys/class/net").join(nic).join("device")
}

/// Transfers per second of a lane, as the kernel writes it (`16.0 GT/s PCIe`), and the part of them that is data: 8 of 10
/// up to generation 2, 128 of 130 from 3 on (PCI Express Base Specification).
fn lane(text: &str) -> Option<(f64, f64)> {
    let transfers: f64 = text.split_whitespace().next()?.parse().ok()?;
    let data = if transfers < 8.0 { 0.8 } else { 128.0 / 130.0 };
    (transfers > 0.0).then_some((transfers * 1e9, data))
}

fn link(of: &dyn Host, nic: &str, which: &str) -> Known<(f64, f64)> {
    let at = device(nic);
    let speed = of.read(&at.join(format!("{which}_link_speed")))?;
    let width = of.read(&at.join(format!("{which}_link_width")))?;
    let lanes: f64 = width.parse().map_err(|_| Unread::Failed(format!("a slot of {width:?} lanes")))?;
    let (transfers, data) = lane(&speed).ok_or_else(|| Unread::Failed(format!("a slot of {speed:?}")))?;
    match lanes > 0.0 && lanes <= 64.0 {
        true => Ok((transfers * lanes, data)),
        false => Err(Unread::Failed(format!("a slot of {width} lanes"))),
    }
}

/// What the slot carries in each direction, bit/s, before packets' heads.
pub(super) fn bandwidth(of: &dyn Host, nic: &str) -> Known<String> {
    let (raw, data) = link(of, nic, "current")?;
    Ok(format!("{:.0}", raw * data))
}

/// Whether the link runs with fewer lanes, or slower, than both ends can.
pub(super) fn downtrained(of: &dyn Host, nic: &str) -> Known<bool> {
    Ok(link(of, nic, "current")?.0 < link(of, nic, "max")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_lost_lanes() {
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
            assert!(matches!(bandwidth(&host, "ens1"), Err(Unread::Failed(_))), "{absurd}");
        }
        assert_eq!(bandwidth(&host, "ens2"), Err(Unread::Absent));
    }
}
