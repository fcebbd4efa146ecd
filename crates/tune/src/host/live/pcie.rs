//! The payload sizes that a NIC and its slot agreed on, from the configuration space (PCI Express Base Specification, 7.5.3).

use std::fs;
use std::io::Read;
use std::path::Path;

use super::unknown;
use crate::host::{HostError, HostResult};

/// The bytes of the space that users other than root can read.
const HEAD_BYTES: usize = 64;
/// The size of the whole space, with the extension of PCI Express.
const BYTES_MAX: u64 = 4_096;
/// The most capabilities: they are in the first 256 bytes, at multiples of four, after the head.
const CAPABILITIES_MAX: usize = 48;
const PCI_EXPRESS: u8 = 0x10;

/// The payload sizes of a device, supported and set, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payloads {
    supported: u32,
    set: u32,
    read_request: u32,
}

/// `max_read_request_bytes`; or `payload_reduced`: whether packets are smaller than device and slot support.
pub(super) fn read(nics: &Path, nic: &str, what: &str) -> HostResult<String> {
    let device = nics.join(nic).join("device");
    match what {
        "max_read_request_bytes" => Ok(payloads(&space(&device)?)?.read_request.to_string()),
        "payload_reduced" => {
            let own = payloads(&space(&device)?)?;
            // The bridge above; a device that is part of the processor has none.
            let supported = match space(&device.join("..")).and_then(|bytes| payloads(&bytes)) {
                Ok(bridge) => own.supported.min(bridge.supported),
                Err(HostError::Absent) => own.supported,
                Err(why) => return Err(why),
            };
            Ok(if own.set < supported { "yes" } else { "no" }.to_owned())
        }
        _ => unknown(what),
    }
}

fn space(device: &Path) -> HostResult<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(device.join("config"))?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn payloads(space: &[u8]) -> HostResult<Payloads> {
    let at = express_capability(space)?;
    let number = |at: usize| Some(u16::from_le_bytes(*space.get(at..)?.first_chunk()?));
    let invalid = || HostError::Failed("its configuration space is invalid".into());
    let capabilities = number(at + 4).ok_or_else(invalid)?;
    let control = number(at + 8).ok_or_else(invalid)?;
    // 128, 256, ... 4096; the last two of eight codes are reserved.
    let bytes = |code: u16| if code & 7 <= 5 { Ok(128u32 << (code & 7)) } else { Err(invalid()) };
    Ok(Payloads { supported: bytes(capabilities)?, set: bytes(control >> 5)?, read_request: bytes(control >> 12)? })
}

/// The offset of the PCI Express capability.
fn express_capability(space: &[u8]) -> HostResult<usize> {
    if space.len() <= HEAD_BYTES {
        return Err(HostError::Denied);
    }
    let byte = |at: usize| space.get(at).copied().unwrap_or(0);
    // A bit of the status says whether there is a list.
    if byte(6) & 0x10 == 0 {
        return Err(HostError::Absent);
    }
    let mut at = usize::from(byte(0x34) & 0xfc);
    for _ in 0..CAPABILITIES_MAX {
        match (at, byte(at)) {
            (0, _) => break,
            (at, PCI_EXPRESS) => return Ok(at),
            (here, _) => at = usize::from(byte(here + 1) & 0xfc),
        }
    }
    Err(HostError::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_space(capabilities: u16, control: u16) -> Vec<u8> {
        let mut space = vec![0u8; 256];
        (space[6], space[0x34]) = (0x10, 0x40);
        (space[0x40], space[0x41]) = (0x01, 0x60);
        space[0x60] = PCI_EXPRESS;
        space[0x64..0x66].copy_from_slice(&capabilities.to_le_bytes());
        space[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        space
    }

    #[test]
    fn agreed_payload_sizes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let slot = dir.path().join("slot/nic");
        std::fs::create_dir_all(&slot).unwrap();
        std::fs::create_dir_all(dir.path().join("net/ens1")).unwrap();
        std::os::unix::fs::symlink(&slot, dir.path().join("net/ens1/device")).unwrap();
        let says = |what: &str| read(&dir.path().join("net"), "ens1", what);
        assert_eq!(says("payload_reduced"), Err(HostError::Absent), "no PCI device");
        // Supports 512 bytes, set to 256; reads 4096 at once.
        std::fs::write(slot.join("config"), config_space(2, 0x5000 | 1 << 5)).unwrap();
        assert_eq!((says("max_read_request_bytes"), says("payload_reduced")), (Ok("4096".into()), Ok("yes".into())));
        // The bridge above supports no more.
        std::fs::write(slot.join("../config"), config_space(1, 0)).unwrap();
        assert_eq!(says("payload_reduced"), Ok("no".into()));
        std::fs::write(slot.join("config"), &config_space(2, 0)[..64]).unwrap();
        assert_eq!(says("payload_reduced"), Err(HostError::Denied), "the part that users other than root see");
    }

    #[test]
    fn an_invalid_configuration_space_is_an_error() {
        let mut endless = config_space(0, 0);
        endless[0x41] = 0x40;
        assert_eq!(payloads(&endless), Err(HostError::Absent), "a list that loops");
        assert!(matches!(payloads(&config_space(7, 0)), Err(HostError::Failed(_))));
        let mut cut = config_space(0, 0);
        cut.truncate(0x66);
        assert!(matches!(payloads(&cut), Err(HostError::Failed(_))));
        assert_eq!(payloads(&[0xff; 256]), Err(HostError::Absent), "a device that was removed");
    }
}
