//! Fields at offsets, and the offload header. A missing field reads as none and is not written, so that no bytes can make the callers
//! panic.
//!
//! Does not know: what the fields of a packet mean.

use std::ops::Range;

use super::OFFLOAD_HEADER;

/// The checksum is still to be completed: its field holds the folded sum of the pseudo header.
pub const NEEDS_CSUM: u8 = 1;

/// No segmentation: the packet is as long as it looks.
pub const GSO_NONE: u8 = 0;
/// A row of TCP segments over IPv4.
pub const GSO_TCP4: u8 = 1;
/// A row of TCP segments over IPv6.
pub const GSO_TCP6: u8 = 4;
/// A row of UDP datagrams, over either IP version.
pub const GSO_UDP: u8 = 5;
/// Set beside a TCP type if only the first segment says "congestion window reduced".
pub const GSO_ECN: u8 = 0x80;

/// The offload header. Offsets in it count from the start of the packet.
#[derive(Clone, Copy)]
pub struct Offload {
    pub flags: u8,
    pub gso_type: u8,
    /// How much of the packet was contiguous in the kernel: not the length of its headers.
    pub hdr_len: u16,
    /// Payload of a segment, in bytes.
    pub gso_size: u16,
    /// The offset where the checksummed area begins.
    pub csum_start: u16,
    /// The offset of the checksum in that area.
    pub csum_offset: u16,
}

impl Offload {
    pub fn read(frame: &[u8]) -> Option<Offload> {
        let &[flags, gso_type, h0, h1, s0, s1, c0, c1, o0, o1] = frame.first_chunk::<OFFLOAD_HEADER>()?;
        Some(Offload {
            flags,
            gso_type,
            hdr_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([s0, s1]),
            csum_start: u16::from_ne_bytes([c0, c1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
        })
    }

    pub fn write(self, frame: &mut [u8]) {
        let Some(target) = frame.first_chunk_mut::<OFFLOAD_HEADER>() else { return };
        let [h0, h1] = self.hdr_len.to_ne_bytes();
        let [s0, s1] = self.gso_size.to_ne_bytes();
        let [c0, c1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        *target = [self.flags, self.gso_type, h0, h1, s0, s1, c0, c1, o0, o1];
    }

    /// Whether the checksum is still to be completed.
    pub fn needs_csum(self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// The kind of row, without its ECN bit.
    pub fn kind(self) -> u8 {
        self.gso_type & !GSO_ECN
    }
}

/// The part of `bytes` in `range`; empty if it is not all there.
pub fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    bytes.get(range).unwrap_or_default()
}

/// A big-endian 16-bit field.
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A big-endian 32-bit field.
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a field.
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(target) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
        *target = field;
    }
}
