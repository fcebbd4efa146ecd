//! The order of a login, for both roles. A machine takes the messages of the other side and says what to do next; the caller reads,
//! writes and speaks TLS.

mod client;
mod server;

pub use client::{ClientLogin, ClientSettings, ClientStep, LoginError, TlsWish};
pub use server::{LoginPhase, ServerLogin};

/// Bytes of the first message of a client.
pub const HELLO_BYTES: usize = 20;
/// The first message of a client: numbers that no other protocol begins with.
pub const HELLO: [u8; HELLO_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc];

/// Whether the first bytes of a connection begin the protocol: yes, no, or none while more bytes are needed.
pub fn begins(first: &[u8]) -> Option<bool> {
    let known = first.len().min(HELLO_BYTES);
    if first[..known] != HELLO[..known] {
        return Some(false);
    }
    // Twelve zeros and a part of the numbers are enough, since a caller may look at fewer bytes than the message has.
    (known >= 16).then_some(true)
}

#[cfg(test)]
mod tests;
