//! Reads from a frame everything that later decisions about its packet need.
//!
//! Does not know: those decisions. It reads headers only, and allocates nothing.

use std::ops::Range;

use super::field::{GSO_TCP4, GSO_TCP6, GSO_UDP, Offload, be16, be32, part};
use super::{CUT_HEADERS, OFFLOAD_HEADER};

pub(super) const ICMP4: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;

/// The most IPv6 extension headers that are skipped. Kernels send two at most of their own accord.
const EXTENSIONS_MAX: usize = 8;

/// The facts about a frame's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    flow: u64,
    /// IP bytes of the packet in the frame.
    pub(super) length: u32,
    transport: Transport,
    segments: u16,
    /// Transport payload of each segment but the last; without segmentation, all of it.
    pub(super) mss: u16,
    /// IP and transport headers, or IP headers alone where the transport is not understood.
    pub(super) headers: u16,
    /// IP headers.
    pub(super) transport_at: u16,
    /// The transport protocol, or the number of an extension header if the search ended there.
    pub(super) protocol: u8,
    ttl: u8,
    pub(super) is_v6: bool,
    pub(super) fragment: Fragment,
}

// A shape is kept for every packet in transit.
const _: () = assert!(size_of::<Shape>() <= 40);

/// The transport of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment, or a row of them.
    Tcp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
        /// The packet asks for a connection: SYN without ACK.
        syn: bool,
    },
    /// A UDP datagram, or a row of them.
    Udp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// ICMP over IPv4, or ICMPv6 over IPv6.
    Icmp,
    /// A fragment of any datagram. Only the first has ports, so none are read.
    Fragment,
    /// Anything else, and packets that are too short for their protocol.
    Other,
}

/// The part of a datagram that a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    Whole,
    First,
    Later,
}

/// The facts from the IP headers.
struct Network {
    length: usize,
    transport_at: usize,
    protocol: u8,
    ttl: u8,
    fragment: Fragment,
    addresses: u64,
}

impl Shape {
    /// The shape of a frame; none if its packet is neither IPv4 nor IPv6, or incomplete.
    pub fn of(frame: &[u8]) -> Option<Shape> {
        let offload = Offload::read(frame)?;
        let packet = frame.get(OFFLOAD_HEADER..)?;
        let is_v6 = packet.first()? >> 4 == 6;
        let network = if is_v6 { v6(packet)? } else { v4(packet)? };
        let whole = network.fragment == Fragment::Whole;
        let body = part(packet, network.transport_at..network.length);
        let (transport, header) = if whole { transport(network.protocol, is_v6, body) } else { fragment(body) };
        let headers = network.transport_at + header;
        let payload = network.length - headers;
        let mut shape = Shape {
            flow: flow(network.addresses, network.protocol, transport),
            length: network.length as u32,
            transport,
            segments: 1,
            mss: u16::try_from(payload).unwrap_or(u16::MAX),
            // Extension headers are at most 8 × 2,048 bytes, TCP's 60.
            headers: headers as u16,
            transport_at: network.transport_at as u16,
            protocol: network.protocol,
            ttl: network.ttl,
            is_v6,
            fragment: network.fragment,
        };
        if shape.is_row(offload, packet.len()) {
            shape.mss = offload.gso_size;
            // At most 65,535 bytes of payload, in segments of at least one byte.
            shape.segments = payload.div_ceil(usize::from(offload.gso_size)) as u16;
        }
        Some(shape)
    }

    /// Whether the offload header describes a row of segments that can be cut. Inconsistent rows are not judged here: the kernel takes them
    /// whole or refuses them.
    fn is_row(&self, offload: Offload, packet: usize) -> bool {
        let check = match (offload.kind(), self.transport, self.is_v6) {
            (GSO_TCP4, Transport::Tcp { .. }, false) | (GSO_TCP6, Transport::Tcp { .. }, true) => 16,
            (GSO_UDP, Transport::Udp { .. }, _) => 6,
            _ => return false,
        };
        offload.needs_csum()
            && offload.csum_start == self.transport_at
            && offload.csum_offset == check
            && offload.gso_size > 0
            && self.payload() > u32::from(offload.gso_size)
            && usize::from(self.headers) <= CUT_HEADERS
            && self.length as usize == packet
    }

    /// Transport payload of the packet in the frame, in bytes.
    fn payload(&self) -> u32 {
        self.length - u32::from(self.headers)
    }

    /// The number of packets on a wire: 1 without segmentation, and for packets that cannot be cut.
    pub fn segments(&self) -> u16 {
        self.segments
    }

    /// IP bytes of a range of segments, each with headers of its own; the last may be shorter than the others.
    pub fn bytes(&self, segments: Range<u16>) -> u32 {
        let payload = self.span(&segments);
        let count = segments.end.min(self.segments).saturating_sub(segments.start);
        (payload.end - payload.start) + u32::from(count) * u32::from(self.headers)
    }

    /// The bytes of the frame that its first `segments` segments need.
    pub fn frame_bytes(&self, segments: u16) -> usize {
        OFFLOAD_HEADER + usize::from(self.headers) + self.span(&(0..segments)).end as usize
    }

    /// IP bytes of the largest segment.
    pub fn largest(&self) -> u32 {
        if self.segments == 1 { self.length } else { u32::from(self.headers) + u32::from(self.mss) }
    }

    /// The range of some segments in the payload; never backwards, never beyond the end.
    pub(super) fn span(&self, segments: &Range<u16>) -> Range<u32> {
        let at = |segment: u16| match segment {
            _ if segment >= self.segments => self.payload(),
            _ => u32::from(segment) * u32::from(self.mss),
        };
        let start = at(segments.start);
        start..at(segments.end).max(start)
    }

    /// A hash that is the same for all packets of a flow in one direction: of the addresses, the protocol and, for unfragmented TCP and UDP,
    /// the ports. All its bits are well mixed.
    pub fn flow(&self) -> u64 {
        self.flow
    }

    /// TTL or hop limit.
    pub fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Its transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }
}

fn v4(packet: &[u8]) -> Option<Network> {
    let header = packet.first_chunk::<20>()?;
    let transport_at = usize::from(header[0] & 15) * 4;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || transport_at < 20 || length < transport_at || packet.len() < length {
        return None;
    }
    let offset = u16::from_be_bytes([header[6], header[7]]);
    Some(Network {
        length,
        transport_at,
        protocol: header[9],
        ttl: header[8],
        fragment: fragment_at(offset & 0x1fff, offset & 0x2000 != 0),
        addresses: u64::from(be32(header, 12)?) << 32 | u64::from(be32(header, 16)?),
    })
}

fn v6(packet: &[u8]) -> Option<Network> {
    let header = packet.first_chunk::<40>()?;
    let length = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let packet = packet.get(..length)?;
    let words = |at| Some(u64::from(be32(header, at)?) << 32 | u64::from(be32(header, at + 4)?));
    let mut network = Network {
        length,
        transport_at: 40,
        protocol: header[6],
        ttl: header[7],
        fragment: Fragment::Whole,
        addresses: mixed(mixed(words(8)?, words(16)?), mixed(words(24)?, words(32)?)),
    };
    for _ in 0..EXTENSIONS_MAX {
        let rest = part(packet, network.transport_at..length);
        let Some(&[next, units, o0, o1, ..]) = rest.first_chunk::<8>() else { break };
        let extension = match network.protocol {
            0 | 43 | 60 => 8 + usize::from(units) * 8,
            44 => 8,
            51 => 8 + usize::from(units) * 4,
            _ => break,
        };
        if extension > rest.len() {
            break;
        }
        if network.protocol == 44 {
            let offset = u16::from_be_bytes([o0, o1]);
            network.fragment = fragment_at(offset >> 3, offset & 1 != 0);
        }
        network.transport_at += extension;
        network.protocol = next;
        if network.fragment == Fragment::Later {
            break;
        }
    }
    Some(network)
}

/// Whether the search for the transport ended at an extension header.
pub(super) fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | 44 | 51 | 60)
}

fn fragment_at(offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

/// The transport of the body of an IP packet, and the length of its header.
fn transport(protocol: u8, is_v6: bool, body: &[u8]) -> (Transport, usize) {
    let ports = || Some((be16(body, 0)?, be16(body, 2)?));
    let found = match protocol {
        TCP => body.first_chunk::<20>().and_then(|header| {
            let (source, destination) = ports()?;
            let length = usize::from(header[12] >> 4) * 4;
            let tcp = Transport::Tcp { source, destination, syn: header[13] & 0x12 == 2 };
            (20..=body.len()).contains(&length).then_some((tcp, length))
        }),
        UDP if body.len() >= 8 => ports().map(|(source, destination)| (Transport::Udp { source, destination }, 8)),
        ICMP4 if !is_v6 && body.len() >= 8 => Some((Transport::Icmp, 8)),
        ICMP6 if is_v6 && body.len() >= 8 => Some((Transport::Icmp, 8)),
        _ => None,
    };
    found.unwrap_or((Transport::Other, 0))
}

/// As [`transport`], for a fragment. In a first fragment the first 8 bytes may be a header.
fn fragment(body: &[u8]) -> (Transport, usize) {
    (Transport::Fragment, if body.len() > 8 { 8 } else { 0 })
}

fn flow(addresses: u64, protocol: u8, transport: Transport) -> u64 {
    let ports = match transport {
        Transport::Tcp { source, destination, .. } | Transport::Udp { source, destination } => {
            u64::from(source) << 16 | u64::from(destination)
        }
        _ => 0,
    };
    mixed(addresses, u64::from(protocol) << 32 | ports)
}

/// Mixes two words into one whose bits all depend on all bits of both: a folded product with odd constants, and the end of MurmurHash3.
fn mixed(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    let mut word = product as u64 ^ (product >> 64) as u64 ^ a;
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}
