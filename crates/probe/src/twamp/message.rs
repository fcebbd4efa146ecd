//! The messages of TWAMP-Control, unauthenticated: octets in, fields out (RFC 4656, section 3; RFC 5357, section 3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The mode without authentication.
pub const UNAUTHENTICATED: u32 = 1;

pub const GREETING: usize = 64;
pub const SET_UP: usize = 164;
pub const SERVER_START: usize = 48;
pub const REQUEST: usize = 112;
pub const ACCEPT: usize = 48;
pub const SHORT: usize = 32;

/// The first octet of a command.
pub const START_SESSIONS: u8 = 2;
pub const STOP_SESSIONS: u8 = 3;
pub const REQUEST_TW_SESSION: u8 = 5;

/// Why something is not accepted (RFC 4656, section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    Ok = 0,
    Failure = 1,
    NotSupported = 3,
    TemporaryLimit = 5,
}

impl Accept {
    /// The meaning of a code, in words.
    pub fn describe(code: u8) -> &'static str {
        match code {
            0 => "accepted",
            1 => "it fails without a reason",
            2 => "it has an internal error",
            3 => "it does not support the request",
            4 => "it lacks the resources, permanently",
            5 => "it lacks the resources for now",
            _ => "it answers with an unknown code",
        }
    }
}

/// A request for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub sender: (IpAddr, u16),
    pub receiver: (IpAddr, u16),
    /// Octets of padding after the 14 octets of a test packet.
    pub padding: u32,
    /// How long packets are answered after the end, in NTP's seconds and fraction.
    pub timeout: u64,
}

fn be32(octets: &[u8], at: usize) -> u32 {
    octets.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn be16(octets: &[u8], at: usize) -> u16 {
    octets.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_be_bytes)
}

fn put(octets: &mut [u8], at: usize, value: &[u8]) {
    octets[at..at + value.len()].copy_from_slice(value);
}

/// A greeting with these modes. The challenge and the salt stay zero: they serve authentication only.
pub fn greeting(modes: u32) -> [u8; GREETING] {
    let mut octets = [0; GREETING];
    put(&mut octets, 12, &modes.to_be_bytes());
    // Count: a power of two, 1,024 at least.
    put(&mut octets, 48, &1_024u32.to_be_bytes());
    octets
}

/// The modes of a greeting. Only the lowest three are modes of the control connection; the others announce further features.
pub fn modes(greeting: &[u8; GREETING]) -> u32 {
    be32(greeting, 12)
}

/// The answer to a greeting, which chooses a mode.
pub fn set_up(mode: u32) -> [u8; SET_UP] {
    let mut octets = [0; SET_UP];
    put(&mut octets, 0, &mode.to_be_bytes());
    octets
}

pub fn mode(set_up: &[u8; SET_UP]) -> u32 {
    be32(set_up, 0)
}

pub fn server_start(accept: Accept, start_time: u64) -> [u8; SERVER_START] {
    let mut octets = [0; SERVER_START];
    octets[15] = accept as u8;
    put(&mut octets, 32, &start_time.to_be_bytes());
    octets
}

impl Request {
    pub fn write(&self) -> [u8; REQUEST] {
        let mut octets = [0; REQUEST];
        octets[0] = REQUEST_TW_SESSION;
        octets[1] = if self.sender.0.is_ipv4() { 4 } else { 6 };
        put(&mut octets, 12, &self.sender.1.to_be_bytes());
        put(&mut octets, 14, &self.receiver.1.to_be_bytes());
        for (at, address) in [(16, self.sender.0), (32, self.receiver.0)] {
            match address {
                IpAddr::V4(address) => put(&mut octets, at, &address.octets()),
                IpAddr::V6(address) => put(&mut octets, at, &address.octets()),
            }
        }
        put(&mut octets, 64, &self.padding.to_be_bytes());
        put(&mut octets, 76, &self.timeout.to_be_bytes());
        octets
    }

    /// Reads a request; none where its version of IP is neither 4 nor 6.
    pub fn read(octets: &[u8; REQUEST]) -> Option<Request> {
        let address = |at: usize| match octets[1] & 15 {
            4 => Some(IpAddr::V4(Ipv4Addr::from(be32(octets, at)))),
            6 => octets.get(at..at + 16)?.try_into().ok().map(|b: [u8; 16]| IpAddr::V6(Ipv6Addr::from(b))),
            _ => None,
        };
        let timeout = octets[76..84].try_into().map_or(0, u64::from_be_bytes);
        Some(Request {
            sender: (address(16)?, be16(octets, 12)),
            receiver: (address(32)?, be16(octets, 14)),
            padding: be32(octets, 64),
            timeout,
        })
    }
}

/// The answer to a request: whether the session is accepted, the port for its packets, and its id.
pub fn accept_session(accept: Accept, port: u16, sid: [u8; 16]) -> [u8; ACCEPT] {
    let mut octets = [0; ACCEPT];
    octets[0] = accept as u8;
    put(&mut octets, 2, &port.to_be_bytes());
    put(&mut octets, 4, &sid);
    octets
}

pub fn accepted_port(accept: &[u8; ACCEPT]) -> u16 {
    be16(accept, 2)
}

/// A command or an answer of 32 octets.
pub fn short(first: u8) -> [u8; SHORT] {
    let mut octets = [0; SHORT];
    octets[0] = first;
    octets
}

/// The command that ends sessions.
pub fn stop_sessions(sessions: u32) -> [u8; SHORT] {
    let mut octets = short(STOP_SESSIONS);
    put(&mut octets, 4, &sessions.to_be_bytes());
    octets
}
