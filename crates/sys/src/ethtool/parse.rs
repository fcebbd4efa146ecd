//! Parses answers of ethtool: plain functions of bytes, which never trust a count in the answer.

use std::io;

/// Bytes of a name in a set of strings (`ETH_GSTRING_LEN`).
pub(super) const NAME_BYTES: usize = 32;

/// The error for an answer that is shorter than its own counts, or than it must be.
pub(super) fn invalid_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the driver's answer is invalid")
}

/// The word at an index.
pub(super) fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let start = at.checked_mul(4).ok_or_else(invalid_answer)?;
    let word = bytes.get(start..).and_then(|rest| rest.first_chunk()).ok_or_else(invalid_answer)?;
    Ok(u32::from_ne_bytes(*word))
}

/// Text of a fixed field, up to its first zero.
pub(super) fn text(bytes: &[u8], start: usize, length: usize) -> io::Result<String> {
    let end = start.checked_add(length).ok_or_else(invalid_answer)?;
    let field = bytes.get(start..end).ok_or_else(invalid_answer)?;
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).trim().to_owned())
}

/// Names of a set: `struct ethtool_gstrings`.
pub(super) fn names(bytes: &[u8]) -> io::Result<Vec<String>> {
    let count = word(bytes, 2)? as usize;
    let all = bytes.get(12..).ok_or_else(invalid_answer)?;
    if count > all.len() / NAME_BYTES {
        return Err(invalid_answer());
    }
    (0..count).map(|at| text(all, at * NAME_BYTES, NAME_BYTES)).collect()
}

/// Counters: `struct ethtool_stats`.
pub(super) fn counters(bytes: &[u8]) -> io::Result<Vec<u64>> {
    let count = word(bytes, 1)? as usize;
    let all = bytes.get(8..).ok_or_else(invalid_answer)?;
    let all = all.get(..count.checked_mul(8).ok_or_else(invalid_answer)?).ok_or_else(invalid_answer)?;
    Ok(all.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk)).collect())
}

/// The state of a feature of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The feature is on.
    pub on: bool,
    /// The driver does not permit a change.
    pub fixed: bool,
}

/// Feature number `at` of `struct ethtool_gfeatures`: each block describes 32 features by four words: available, requested, active, never
/// changed.
pub(super) fn feature(bytes: &[u8], at: usize) -> io::Result<Feature> {
    let block = at / 32;
    let bit = at % 32;
    if block >= word(bytes, 1)? as usize {
        return Err(invalid_answer());
    }
    let is_set = |which: usize| Ok::<bool, io::Error>(word(bytes, 2 + 4 * block + which)? >> bit & 1 == 1);
    Ok(Feature { on: is_set(2)?, fixed: !is_set(0)? || is_set(3)? })
}

/// The queue of each entry of the table that spreads flows: `struct ethtool_rxfh_indir`.
pub(super) fn indirection_table(bytes: &[u8]) -> io::Result<Vec<u32>> {
    let count = word(bytes, 1)? as usize;
    if count > bytes.len() / 4 {
        return Err(invalid_answer());
    }
    (0..count).map(|at| word(bytes, 2 + at)).collect()
}

/// The driver of a NIC: `struct ethtool_drvinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// Its version; for most drivers that come with the kernel, the kernel's.
    pub version: String,
    /// The version of the firmware; empty where there is none.
    pub firmware: String,
    /// The address of the device on its bus.
    pub bus: String,
}

pub(super) fn driver(bytes: &[u8]) -> io::Result<Driver> {
    let field = |at: usize| text(bytes, 4 + at * 32, 32);
    Ok(Driver { name: field(0)?, version: field(1)?, firmware: field(2)?, bus: field(3)? })
}

/// The state of the link: the head of `struct ethtool_link_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its speed; none where the driver does not know it.
    pub speed_mbit_s: Option<u32>,
    /// Whether both ends may send at once; none where the driver does not know it.
    pub full_duplex: Option<bool>,
    /// Whether the speed is negotiated.
    pub negotiated: bool,
}

/// The bytes of the head are port, transceiver and the like; here duplex is the 8th and autoneg the 11th.
pub(super) fn link(bytes: &[u8]) -> io::Result<Link> {
    let byte = |at: usize| bytes.get(at).copied().ok_or_else(invalid_answer);
    // All ones is SPEED_UNKNOWN; values above 31 bits are no speed either.
    let speed = word(bytes, 1)?;
    Ok(Link {
        speed_mbit_s: (speed != 0 && speed <= i32::MAX as u32).then_some(speed),
        full_duplex: match byte(8)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        negotiated: byte(11)? == 1,
    })
}

/// The names of the bits that are set in a mask, from its lowest bit on.
pub(super) fn words<'a>(mask: u32, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

/// The optical power that a module receives, mW per lane, from its memory.
pub(super) fn light_mw(kind: u32, memory: &[u8]) -> Option<Vec<f64>> {
    /// Memory maps of linux/ethtool.h: SFP, and two versions of QSFP.
    const SFF_8472: u32 = 2;
    const SFF_8636: u32 = 3;
    const SFF_8436: u32 = 4;
    // In units of 0.1 uW, high byte first.
    let lane = |at: usize| {
        let [high, low] = *memory.get(at..)?.first_chunk::<2>()?;
        Some(f64::from(u16::from_be_bytes([high, low])) * 1e-4)
    };
    match kind {
        // Byte 92: bit 6, the module measures; bit 5, its values are calibrated. The second half begins at 256.
        SFF_8472 if memory.get(92)? & 0x60 == 0x60 => Some(vec![lane(256 + 104)?]),
        // Bytes 34 to 41: four lanes. A copper cable has zeros in all of them.
        SFF_8636 | SFF_8436 => {
            let lanes: Vec<f64> = (0..4).map(|at| lane(34 + 2 * at)).collect::<Option<_>>()?;
            lanes.iter().any(|mw| *mw > 0.0).then_some(lanes)
        }
        _ => None,
    }
}
