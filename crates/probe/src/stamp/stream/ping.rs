//! ICMP echo (RFC 792, RFC 4443) as the packets of a stream, for a far end that answers only pings.
//!
//! ```text
//! 0 type · 1 code · 2 checksum · 4 identifier · 6 number · 8 session · 12 sequence · padding
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

const ECHO_V4: (u8, u8) = (8, 0);
const ECHO_V6: (u8, u8) = (128, 129);
const HEAD: usize = 16;

/// Opens the kernel's socket for ICMP echo, connected. `net.ipv4.ping_group_range` holds the groups that may open one.
pub(super) fn open(to: IpAddr) -> io::Result<UdpSocket> {
    let protocol = if to.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol)).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            io::Error::new(error.kind(), "this user may not ping: net.ipv4.ping_group_range leaves out its groups")
        }
        _ => error,
    })?;
    socket.connect(&SocketAddr::new(to, 0).into())?;
    Ok(UdpSocket::from(OwnedFd::from(socket)))
}

/// Writes a question over the front of `packet`, which has 16 octets or more.
pub(super) fn write(packet: &mut [u8], is_ipv6: bool, session: u32, sequence: u32) {
    let kind = if is_ipv6 { ECHO_V6.0 } else { ECHO_V4.0 };
    let mut head = [0; HEAD];
    head[0] = kind;
    head[6..8].copy_from_slice(&(sequence as u16).to_be_bytes());
    head[8..12].copy_from_slice(&session.to_be_bytes());
    head[12..16].copy_from_slice(&sequence.to_be_bytes());
    if let Some(front) = packet.get_mut(..HEAD) {
        front.copy_from_slice(&head);
    }
    // The kernel fills in the identifier and the checksum of either version.
}

/// The sequence number of an answer to this session; none where the packet is no such answer.
pub(super) fn read(packet: &[u8], is_ipv6: bool, session: u32) -> Option<u32> {
    let kind = if is_ipv6 { ECHO_V6.1 } else { ECHO_V4.1 };
    let word = |at: usize| packet.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    (packet.first() == Some(&kind) && word(8)? == session).then_some(())?;
    word(12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_echo_reply_of_the_session_is_read() {
        let mut packet = [7; 24];
        write(&mut packet, false, 0xdead_beef, 70_000);
        assert_eq!(read(&packet, false, 0xdead_beef), None, "the question itself, which a raw socket receives");
        packet[0] = 0;
        assert_eq!(read(&packet, false, 0xdead_beef), Some(70_000));
        assert_eq!(
            (read(&packet, false, 1), read(&packet, true, 0xdead_beef), read(&packet[..10], false, 1)),
            (None, None, None)
        );
    }
}
