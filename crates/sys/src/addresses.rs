//! Tells whether an address belongs to this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether packets to an address stay on this host. For an address of one of its own interfaces, the kernel chooses the same address as the
/// source. Sends nothing. An address without a route is not the host's own.
pub fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The port does not matter: connecting a UDP socket only chooses the route.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    chosen.is_ok_and(|local| local.ip().to_canonical() == address || local.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_own_and_documentation_addresses_are_not() {
        for own in ["127.0.0.1", "127.8.9.1", "::ffff:127.0.0.1", "0.0.0.0"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "2001:db8::1"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }
}
