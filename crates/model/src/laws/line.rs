//! Packets on an Ethernet line: the share of a line's rate that is payload, packets per second, the time that a packet takes.
//!
//! Units: sizes in bytes, rates in bit/s, times in seconds. A packet is an IP packet, at most one MTU. What it does not
//! know: VLAN tags (4 bytes more), tunnels, and lines other than Ethernet.

/// Bytes that each Ethernet frame takes on the line in addition to its packet: 8 of preamble and start delimiter, 14 of header, 4 of frame
/// check sequence, 12 of gap (IEEE 802.3).
pub const ETHERNET_BYTES: f64 = 8.0 + 14.0 + 4.0 + 12.0;
/// The smallest packet that Ethernet carries without padding, bytes (IEEE 802.3).
pub const ETHERNET_PACKET_BYTES_MIN: f64 = 46.0;
/// The headers of TCP over IPv4, bytes: 20 (RFC 791), 20 (RFC 9293), and 12 for time stamps (RFC 7323).
pub const TCP_IPV4_BYTES: f64 = 20.0 + 20.0 + 12.0;
/// The headers of TCP over IPv6, bytes: 40 (RFC 8200), 20 (RFC 9293), and 12 for time stamps (RFC 7323).
pub const TCP_IPV6_BYTES: f64 = 40.0 + 20.0 + 12.0;
/// The headers of UDP over IPv4, bytes: 20 (RFC 791) and 8 (RFC 768).
pub const UDP_IPV4_BYTES: f64 = 20.0 + 8.0;

/// The payload of a full packet, bytes: `MTU - headers`; 0 where the headers do not fit. For TCP this is the MSS
/// as Linux counts it, without the options.
pub fn payload_bytes(mtu_bytes: f64, header_bytes: f64) -> f64 {
    (mtu_bytes - header_bytes).max(0.0)
}

/// The bytes that a packet takes on the line: `max(packet, 46) + 38` (IEEE 802.3).
pub fn wire_bytes(packet_bytes: f64) -> f64 {
    packet_bytes.max(ETHERNET_PACKET_BYTES_MIN) + ETHERNET_BYTES
}

/// The share of a line's rate that is payload, when all packets are full: `(MTU - headers) / (MTU + 38)`.
pub fn efficiency(mtu_bytes: f64, header_bytes: f64) -> f64 {
    payload_bytes(mtu_bytes, header_bytes) / wire_bytes(mtu_bytes)
}

/// Packets of one size that fill a line, packets per second: `B / (8 * wire bytes)`, as RFC 2544 counts frames.
pub fn packets_per_s(rate_bit_s: f64, packet_bytes: f64) -> f64 {
    rate_bit_s / (wire_bytes(packet_bytes) * 8.0)
}

/// The time to put bytes on a line, seconds: `8 * L / B`. For a packet with its headers and gap, `L` is
/// [`wire_bytes`]; on a full line this is also the time available to handle each packet.
pub fn serialisation_s(bytes: f64, rate_bit_s: f64) -> f64 {
    bytes * 8.0 / rate_bit_s
}
