//! IP packets as a TUN device with offloads passes them: reading a packet's shape, cutting runs of segments out of a super-packet, damaging a
//! single segment, and the answers of a router. A super-packet is also called a *row* of segments.
//!
//! Does not know: devices, time, links, or why a packet is lost. No byte of a packet is trusted: a packet that cannot be understood passes
//! whole, as one segment.
//!
//! A frame is an offload header (`virtio_net_hdr`, 10 bytes, host endian) and an IP packet. Offsets named `*_at` count
//! from the start of the frame; lengths are in bytes.

mod answer;
mod cut;
mod damage;
mod field;
#[cfg(test)]
pub(crate) mod frames;
mod shape;
mod sum;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use answer::{time_exceeded, too_big, unreachable};
pub use cut::cut;
pub use damage::{Damage, damaged};
pub use shape::{Shape, Transport};

/// Length of the offload header in front of each packet, in bytes.
pub const OFFLOAD_HEADER: usize = 10;

/// The longest IP and transport headers that are cut, in bytes: 60 each, the most that IPv4 and TCP can have.
const CUT_HEADERS: usize = 60 + 60;

/// Room for the headers of a run, the offload header among them, in bytes.
pub const HEADERS_MAX: usize = OFFLOAD_HEADER + CUT_HEADERS;

/// The longest frame, in bytes: 64 KiB of payload behind the longest headers that are cut. Without extension headers
/// no IPv6 packet exceeds 40 + 65,535, and no IPv4 packet 65,535.
pub const FRAME_MAX: usize = OFFLOAD_HEADER + CUT_HEADERS + 65_536;

/// Source and destination of the packet in a frame; none if it is neither IPv4 nor IPv6.
pub fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let packet = frame.get(OFFLOAD_HEADER..)?;
    match packet.first()? >> 4 {
        4 => {
            let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = packet.first_chunk::<20>()?;
            Some((Ipv4Addr::new(s0, s1, s2, s3).into(), Ipv4Addr::new(d0, d1, d2, d3).into()))
        }
        6 => {
            let (source, rest) = packet.get(8..)?.split_first_chunk::<16>()?;
            Some((Ipv6Addr::from(*source).into(), Ipv6Addr::from(*rest.first_chunk::<16>()?).into()))
        }
        _ => None,
    }
}

/// Takes `n` off the TTL or hop limit of the packet in a frame, down to 0 at most. The checksum of an IPv4 header is updated: a
/// right one stays right, and a wrong one wrong.
pub fn age(frame: &mut [u8], n: u8) {
    let Some(packet) = frame.get_mut(OFFLOAD_HEADER..) else { return };
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            // TTL and protocol share a word of the checksum, which follows them.
            let Some([ttl, protocol, sum @ ..]) = packet.get_mut(8..12) else { return };
            let old = u16::from_be_bytes([*ttl, *protocol]);
            *ttl = ttl.saturating_sub(n);
            let new = u16::from_be_bytes([*ttl, *protocol]);
            if let Some(sum) = sum.first_chunk_mut::<2>() {
                *sum = sum::repaired(u16::from_be_bytes(*sum), old, new).to_be_bytes();
            }
        }
        Some(6) => {
            if let Some(hops) = packet.get_mut(7) {
                *hops = hops.saturating_sub(n);
            }
        }
        _ => {}
    }
}
