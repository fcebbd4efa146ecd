//! A router's answers to packets that it cannot send on (RFC 792, RFC 1191, RFC 4443).
//!
//! Does not know: when a packet cannot be sent on, or how often a router may say so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cut::cut;
use super::field::{part, put};
use super::shape::{Fragment, ICMP4, ICMP6, Shape, is_extension};
use super::sum::{plus, sum};
use super::{HEADERS_MAX, OFFLOAD_HEADER, addresses};

const TTL: u8 = 64;
const ICMP_HEADER: usize = 8;
/// The longest answers, in bytes: what every host can receive.
const ANSWER4_MAX: usize = 576;
const ANSWER6_MAX: usize = 1_280;

/// An answer: type, code, and the last four bytes of the ICMP header.
type IcmpMessage = (u8, u8, [u8; 4]);

/// The answer to a packet whose TTL or hop limit ended at `router`: a frame of its own, without offloads. None if there must be no answer,
/// or if the router speaks another IP version than the packet.
pub fn time_exceeded(frame: &[u8], shape: &Shape, router: IpAddr) -> Option<Vec<u8>> {
    answer(frame, shape, router, (11, 0, [0; 4]), (3, 0, [0; 4]))
}

/// As [`time_exceeded`], for a packet whose segments exceed `mtu`, the IP bytes that fit the next link.
pub fn too_big(frame: &[u8], shape: &Shape, router: IpAddr, mtu: u16) -> Option<Vec<u8>> {
    let [high, low] = mtu.to_be_bytes();
    answer(frame, shape, router, (3, 4, [0, 0, high, low]), (2, 0, [0, 0, high, low]))
}

/// As [`time_exceeded`], for a packet to whose destination no route leads.
pub fn unreachable(frame: &[u8], shape: &Shape, router: IpAddr) -> Option<Vec<u8>> {
    answer(frame, shape, router, (3, 0, [0; 4]), (1, 0, [0; 4]))
}

fn answer(frame: &[u8], shape: &Shape, router: IpAddr, v4: IcmpMessage, v6: IcmpMessage) -> Option<Vec<u8>> {
    let (source, destination) = addresses(frame)?;
    if shape.fragment == Fragment::Later || is_error(frame, shape) {
        return None;
    }
    match (router, source, destination) {
        (IpAddr::V4(router), IpAddr::V4(source), IpAddr::V4(destination)) => {
            let is_answerable = is_one_host4(source) && !destination.is_multicast() && !destination.is_broadcast();
            is_answerable.then(|| answer4(quoted(frame, shape, ANSWER4_MAX - 20), router, source, v4))
        }
        (IpAddr::V6(router), IpAddr::V6(source), IpAddr::V6(destination)) => {
            // A sender to many destinations can use only the MTU of the path.
            let is_answerable = is_one_host6(source) && (!destination.is_multicast() || v6.0 == 2);
            is_answerable.then(|| answer6(quoted(frame, shape, ANSWER6_MAX - 40), router, source, v6))
        }
        _ => None,
    }
}

/// Whether the packet is an ICMP error, or may be one.
fn is_error(frame: &[u8], shape: &Shape) -> bool {
    let kind = frame.get(OFFLOAD_HEADER + usize::from(shape.transport_at));
    match (shape.protocol, shape.is_v6) {
        (ICMP4, false) => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        // Redirects count as errors: RFC 4443, section 2.4 (e.2).
        (ICMP6, true) => kind.is_none_or(|kind| *kind < 128 || *kind == 137),
        (protocol, true) => is_extension(protocol),
        _ => false,
    }
}

fn is_one_host4(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}

fn is_one_host6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

/// An ICMP message without its header filled in: 8 bytes and the beginning of the packet's first segment, `length_max`
/// bytes in all.
fn quoted(frame: &[u8], shape: &Shape, length_max: usize) -> Vec<u8> {
    let mut headers = [0; HEADERS_MAX];
    let (length, payload) = cut(frame, shape, 0..1, &mut headers);
    let mut message = vec![0; ICMP_HEADER];
    message.extend_from_slice(part(&headers, OFFLOAD_HEADER..length));
    let room = length_max.saturating_sub(message.len()).min(payload.len());
    message.extend_from_slice(part(frame, payload.start..payload.start + room));
    // The frame may have more bytes behind the packet: they are not quoted.
    message.truncate(ICMP_HEADER + shape.largest() as usize);
    message
}

/// Fills in the header of a message; `pseudo` is the sum of its pseudo header.
fn finish(message: &mut [u8], (kind, code, rest): IcmpMessage, pseudo: u16) {
    put(message, 0, [kind, code, 0, 0]);
    put(message, 4, rest);
    let check = !plus(sum(message), pseudo);
    put(message, 2, check.to_be_bytes());
}

fn answer4(mut message: Vec<u8>, router: Ipv4Addr, target: Ipv4Addr, what: IcmpMessage) -> Vec<u8> {
    finish(&mut message, what, 0);
    let length = (20 + message.len()) as u16;
    let mut header = [0; 20];
    put(&mut header, 0, [0x45, 0]);
    put(&mut header, 2, length.to_be_bytes());
    put(&mut header, 8, [TTL, ICMP4]);
    put(&mut header, 12, router.octets());
    put(&mut header, 16, target.octets());
    let check = !sum(&header);
    put(&mut header, 10, check.to_be_bytes());
    [&[0; OFFLOAD_HEADER], &header[..], &message].concat()
}

fn answer6(mut message: Vec<u8>, router: Ipv6Addr, target: Ipv6Addr, what: IcmpMessage) -> Vec<u8> {
    let length = message.len() as u16;
    let addresses = plus(sum(&router.octets()), sum(&target.octets()));
    finish(&mut message, what, plus(addresses, plus(length, u16::from(ICMP6))));
    let mut header = [0; 40];
    put(&mut header, 0, [0x60]);
    put(&mut header, 4, length.to_be_bytes());
    put(&mut header, 6, [ICMP6, TTL]);
    put(&mut header, 8, router.octets());
    put(&mut header, 24, target.octets());
    [&[0; OFFLOAD_HEADER], &header[..], &message].concat()
}
