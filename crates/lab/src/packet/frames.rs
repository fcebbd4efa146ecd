//! Frames for tests: as the kernel would pass them, with a payload that identifies the packet.
//!
//! Does not know: checksums, which no code on the path reads.

use std::net::IpAddr;

use super::field::{GSO_TCP4, GSO_TCP6, GSO_UDP, NEEDS_CSUM, Offload, put};
use super::{OFFLOAD_HEADER, Shape};

/// A packet, or a super-packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub from: IpAddr,
    pub to: IpAddr,
    pub tcp: bool,
    pub ports: (u16, u16),
    pub ttl: u8,
    /// Transport payload of each segment, bytes.
    pub mss: u16,
    /// Transport payload, bytes.
    pub payload: usize,
    /// The first payload bytes of each segment.
    pub number: u32,
}

impl Packet {
    /// A UDP packet over IPv4 or IPv6, with `payload` bytes of payload.
    #[allow(clippy::unwrap_used)] // A test with an invalid address fails.
    pub fn udp(from: &str, to: &str, payload: usize) -> Packet {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        Packet { from, to, tcp: false, ports: (40_000, 443), ttl: 64, mss: 1_472, payload, number: 0 }
    }

    fn transport(&self) -> Vec<u8> {
        let mut body = vec![0; if self.tcp { 20 } else { 8 }];
        put(&mut body, 0, self.ports.0.to_be_bytes());
        put(&mut body, 2, self.ports.1.to_be_bytes());
        if self.tcp {
            put(&mut body, 12, [0x50, 0x10]);
        } else {
            put(&mut body, 4, (8 + self.payload as u16).to_be_bytes());
        }
        let header = body.len();
        body.resize(header + self.payload, 0x5a);
        for segment in (0..self.payload).step_by(usize::from(self.mss).max(1)) {
            put(&mut body, header + segment, self.number.to_be_bytes());
        }
        body
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let body = self.transport();
        let protocol = if self.tcp { 6 } else { 17 };
        let mut header = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, self.ttl, protocol, 0, 0];
                put(&mut header, 2, (20 + body.len() as u16).to_be_bytes());
                header.extend([from.octets(), to.octets()].concat());
                header
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, self.ttl];
                put(&mut header, 4, (body.len() as u16).to_be_bytes());
                header.extend([from.octets(), to.octets()].concat());
                header
            }
            _ => panic!("two families"),
        };
        let is_row = self.payload > usize::from(self.mss);
        let kind = match (self.tcp, self.from.is_ipv4()) {
            (false, _) => GSO_UDP,
            (true, true) => GSO_TCP4,
            (true, false) => GSO_TCP6,
        };
        let offload = Offload {
            flags: NEEDS_CSUM,
            gso_type: if is_row { kind } else { 0 },
            hdr_len: 64,
            gso_size: if is_row { self.mss } else { 0 },
            csum_start: header.len() as u16,
            csum_offset: if self.tcp { 16 } else { 6 },
        };
        let mut frame = vec![0; OFFLOAD_HEADER];
        offload.write(&mut frame);
        frame.append(&mut header);
        frame.extend(body);
        frame
    }
}

/// The shape of a super-packet of UDP segments over IPv4, by their number and the IP bytes of each.
#[allow(clippy::unwrap_used)] // For tests only.
pub fn super_packet(segments: u16, bytes: u16) -> Shape {
    let mss = bytes - 28;
    let packet = Packet { mss, ..Packet::udp("10.0.0.1", "10.0.0.2", usize::from(segments) * usize::from(mss)) };
    let shape = Shape::of(&packet.frame()).unwrap();
    assert_eq!((shape.segments(), shape.largest()), (segments, u32::from(bytes)));
    shape
}
