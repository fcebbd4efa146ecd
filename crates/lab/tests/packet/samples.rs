//! Rows of segments: the super-packet that a kernel would pass, and each segment made from scratch.
//!
//! Does not know: how a super-packet is cut.

use proptest::collection::vec;
use proptest::prelude::*;

use super::kernel::{Offload, pseudo, put16, sum, transport};

/// A row of TCP segments or UDP datagrams.
#[derive(Clone, Debug)]
pub struct Row {
    pub v6: bool,
    pub tcp: bool,
    /// IPv4 options in words; for IPv6, a hop-by-hop header if any.
    pub ip_options: u8,
    /// In words.
    pub tcp_options: u8,
    pub addresses: [u8; 32],
    pub ports: (u16, u16),
    pub id: u16,
    pub seq: u32,
    pub tcp_flags: u8,
    pub ttl: u8,
    pub mss: u16,
    pub payload: Vec<u8>,
}

impl Row {
    pub fn segments(&self) -> u16 {
        self.payload.len().div_ceil(usize::from(self.mss)) as u16
    }

    /// A packet with this payload; its transport checksum is 0.
    fn packet(&self, id: u16, seq: u32, tcp_flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut body = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        if self.tcp {
            body.extend_from_slice(&seq.to_be_bytes());
            body.extend_from_slice(&[1, 2, 3, 4, (5 + self.tcp_options) << 4, tcp_flags, 5, 6, 0, 0, 0, 0]);
            body.extend(vec![1; usize::from(self.tcp_options) * 4]);
        } else {
            body.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
            body.extend_from_slice(&[0, 0]);
        }
        body.extend_from_slice(payload);
        self.ip(id, if self.tcp { 6 } else { 17 }, &body)
    }

    /// An IP packet of these addresses.
    pub fn ip(&self, id: u16, protocol: u8, body: &[u8]) -> Vec<u8> {
        if self.v6 {
            let extension = if self.ip_options > 0 { vec![protocol, 0, 1, 4, 0, 0, 0, 0] } else { Vec::new() };
            let next = if self.ip_options > 0 { 0 } else { protocol };
            let mut packet = vec![0x60, 1, 2, 3, 0, 0, next, self.ttl];
            put16(&mut packet, 4, (extension.len() + body.len()) as u16);
            packet.extend_from_slice(&self.addresses);
            return [packet, extension, body.to_vec()].concat();
        }
        let length = 20 + usize::from(self.ip_options) * 4;
        let mut packet = vec![0; length];
        packet[0] = 0x45 + self.ip_options;
        put16(&mut packet, 2, (length + body.len()) as u16);
        put16(&mut packet, 4, id);
        packet[6] = 0x40;
        (packet[8], packet[9]) = (self.ttl, protocol);
        packet[12..20].copy_from_slice(&self.addresses[..8]);
        packet[20..].fill(1);
        let check = !sum(&packet, 0);
        put16(&mut packet, 10, check);
        packet.extend_from_slice(body);
        packet
    }

    /// Where the checksum is in the transport header.
    pub fn check_at(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    /// The super-packet, as the kernel passes it.
    pub fn frame(&self) -> Vec<u8> {
        let mut packet = self.packet(self.id, self.seq, self.tcp_flags, &self.payload);
        let (at, _) = transport(&packet);
        let partial = pseudo(&packet);
        put16(&mut packet, at + self.check_at(), partial);
        let mut offload =
            Offload { flags: 1, csum_start: at as u16, csum_offset: self.check_at() as u16, ..Offload::default() };
        offload.hdr_len = packet.len().min(7_777) as u16;
        if self.segments() > 1 {
            offload.gso_size = self.mss;
            offload.gso_type = match (self.tcp, self.v6) {
                (false, _) => 5,
                (true, false) => 1,
                (true, true) => 4,
            };
            if self.tcp && self.tcp_flags & 0x80 != 0 {
                offload.gso_type |= 0x80;
            }
        }
        offload.before(&packet)
    }

    /// One segment as it is on the wire.
    pub fn segment(&self, index: u16) -> Vec<u8> {
        let first = usize::from(index) * usize::from(self.mss);
        let last = self.payload.len().min(first + usize::from(self.mss));
        let mut flags = self.tcp_flags;
        if index > 0 {
            flags &= 0x7f;
        }
        if index + 1 < self.segments() {
            flags &= 0xf6;
        }
        let seq = self.seq.wrapping_add(first as u32);
        let mut packet = self.packet(self.id.wrapping_add(index), seq, flags, &self.payload[first..last]);
        let (at, _) = transport(&packet);
        let check = !sum(&packet[at..], u32::from(pseudo(&packet)));
        put16(&mut packet, at + self.check_at(), if check == 0 { 0xffff } else { check });
        packet
    }
}

/// Rows of `segments` segments. The addresses are such that a router answers.
pub fn rows(segments: std::ops::Range<usize>) -> impl Strategy<Value = Row> {
    let size = (1..1_500u16, segments).prop_flat_map(|(mss, segments)| {
        let payload_max = segments * usize::from(mss);
        (Just(mss), vec(any::<u8>(), payload_max + 1 - usize::from(mss)..=payload_max))
    });
    let ip = (any::<bool>(), 0..=10u8, any::<[u8; 32]>(), any::<u16>(), any::<u8>());
    let transport = (any::<bool>(), 0..=10u8, any::<(u16, u16)>(), any::<u32>(), any::<u8>());
    (ip, transport, size).prop_map(|(ip, transport, (mss, payload))| {
        let (v6, ip_options, mut addresses, id, ttl) = ip;
        let (tcp, tcp_options, ports, seq, tcp_flags) = transport;
        addresses[0] = if v6 { 0x20 } else { 10 };
        addresses[if v6 { 16 } else { 4 }] = if v6 { 0x20 } else { 10 };
        let ip_options = if ip_options > 5 { ip_options } else { 0 };
        Row { v6, tcp, ip_options, tcp_options, addresses, ports, id, seq, tcp_flags, ttl, mss, payload }
    })
}

/// A UDP row of plain headers, with `payload` bytes in datagrams of up to 500.
pub fn sample(v6: bool, payload: usize) -> Row {
    let mut addresses = [0x21; 32];
    addresses[31] = 7;
    Row {
        v6,
        tcp: false,
        ip_options: 0,
        tcp_options: 0,
        addresses,
        ports: (40_000, 443),
        id: 65_534,
        seq: u32::MAX - 900,
        tcp_flags: 0x99,
        ttl: 64,
        mss: 500,
        payload: (0..payload).map(|n| (n % 251) as u8).collect(),
    }
}

/// An ICMP echo request of these addresses, complete.
pub fn echo(row: &Row) -> Vec<u8> {
    let mut body = vec![if row.v6 { 128 } else { 8 }, 0, 0, 0, 1, 2, 3, 4];
    body.extend_from_slice(&row.payload[..row.payload.len().min(1_000)]);
    let mut packet = row.ip(row.id, if row.v6 { 58 } else { 1 }, &body);
    let (at, _) = transport(&packet);
    let start = if row.v6 { pseudo(&packet) } else { 0 };
    let check = !sum(&packet[at..], u32::from(start));
    put16(&mut packet, at + 2, check);
    packet
}
