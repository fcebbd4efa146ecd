//! The kernel's treatment of frames, written from its rules and the RFCs: completing checksums, segmenting in software, verifying.
//!
//! Does not know: the code under test.

/// `virtio_net_hdr`, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

pub fn offload(frame: &[u8]) -> Offload {
    let field = |at: usize| u16::from_ne_bytes([frame[at], frame[at + 1]]);
    Offload {
        flags: frame[0],
        gso_type: frame[1],
        hdr_len: field(2),
        gso_size: field(4),
        csum_start: field(6),
        csum_offset: field(8),
    }
}

impl Offload {
    pub fn before(&self, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![self.flags, self.gso_type];
        for field in [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset] {
            frame.extend_from_slice(&field.to_ne_bytes());
        }
        frame.extend_from_slice(packet);
        frame
    }
}

pub fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Ones' complement sum, word by word.
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    let mut total = start;
    for (at, byte) in bytes.iter().enumerate() {
        total += if at % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
        if total > 0xffff {
            total -= 0xffff;
        }
    }
    total as u16
}

/// Offset and protocol of the transport of a packet without fragments; hop-by-hop options are skipped.
pub fn transport(packet: &[u8]) -> (usize, u8) {
    match packet[0] >> 4 {
        4 => (usize::from(packet[0] & 15) * 4, packet[9]),
        _ if packet[6] == 0 => (48 + usize::from(packet[41]) * 8, packet[40]),
        _ => (40, packet[6]),
    }
}

/// The sum of the pseudo header of a packet.
pub fn pseudo(packet: &[u8]) -> u16 {
    let (at, protocol) = transport(packet);
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let rest = [0, protocol, ((packet.len() - at) >> 8) as u8, (packet.len() - at) as u8];
    sum(&rest, u32::from(sum(addresses, 0)))
}

/// Whether lengths are right and all checksums verify. UDP must have one.
pub fn verifies(packet: &[u8]) -> bool {
    let (at, protocol) = transport(packet);
    let v4 = packet[0] >> 4 == 4;
    if v4 && (sum(&packet[..at], 0) != 0xffff || usize::from(get16(packet, 2)) != packet.len()) {
        return false;
    }
    if !v4 && usize::from(get16(packet, 4)) + 40 != packet.len() {
        return false;
    }
    if protocol == 17 && (usize::from(get16(packet, at + 4)) != packet.len() - at || get16(packet, at + 6) == 0) {
        return false;
    }
    let start = if protocol == 1 { 0 } else { pseudo(packet) };
    sum(&packet[at..], u32::from(start)) == 0xffff
}

/// Completes the checksum if that is still to be done, as a network card does.
fn completed(offload: Offload, mut packet: Vec<u8>) -> Vec<u8> {
    if offload.flags & 1 != 0 {
        let start = usize::from(offload.csum_start);
        let check = !sum(&packet[start..], 0);
        put16(&mut packet, start + usize::from(offload.csum_offset), if check == 0 { 0xffff } else { check });
    }
    packet
}

/// The packets on the wire that a frame stands for: software segmentation, then checksums.
pub fn on_the_wire(frame: &[u8]) -> Vec<Vec<u8>> {
    let (offload, packet) = (offload(frame), &frame[10..]);
    if offload.gso_type == 0 {
        assert_eq!(offload.gso_size, 0);
        return vec![completed(offload, packet.to_vec())];
    }
    let (at, protocol) = transport(packet);
    assert_eq!(usize::from(offload.csum_start), at);
    let headers = at + if protocol == 6 { usize::from(packet[at + 12] >> 4) * 4 } else { 8 };
    let mss = usize::from(offload.gso_size);
    let payload = &packet[headers..];
    assert!(payload.len() > mss, "one segment is not a row");
    let mut wire = Vec::new();
    for (index, piece) in payload.chunks(mss).enumerate() {
        let mut segment = [&packet[..headers], piece].concat();
        let length = segment.len();
        if packet[0] >> 4 == 4 {
            put16(&mut segment, 2, length as u16);
            put16(&mut segment, 4, get16(packet, 4).wrapping_add(index as u16));
            put16(&mut segment, 10, 0);
            let check = !sum(&segment[..at], 0);
            put16(&mut segment, 10, check);
        } else {
            put16(&mut segment, 4, (length - 40) as u16);
        }
        // The pseudo header's sum counts the old length; the new one is put in its place.
        let check_at = at + usize::from(offload.csum_offset);
        let (old, new) = (!((packet.len() - at) as u16), (length - at) as u16);
        let check = sum(&new.to_be_bytes(), u32::from(sum(&old.to_be_bytes(), u32::from(get16(packet, check_at)))));
        put16(&mut segment, check_at, check);
        if protocol == 6 {
            let seq = u32::from_be_bytes(packet[at + 4..at + 8].try_into().unwrap());
            segment[at + 4..at + 8].copy_from_slice(&seq.wrapping_add((index * mss) as u32).to_be_bytes());
            if index > 0 {
                segment[at + 13] &= !0x80;
            }
            if (index + 1) * mss < payload.len() {
                segment[at + 13] &= !0x09;
            }
        } else {
            put16(&mut segment, at + 4, new);
        }
        wire.push(completed(offload, segment));
    }
    wire
}
