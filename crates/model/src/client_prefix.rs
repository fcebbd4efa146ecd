//! The network that is taken for one client.

use std::net::IpAddr;

/// The network that limits take for one client: an IPv4 address, or the 64 bits of an IPv6 network, since a site has the other 64
/// to choose from (RFC 4291, section 2.5.4).
pub fn client_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => {
            let mut segments = ip.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client_and_a_mapped_address_is_ipv4() {
        let prefix = |address: &str| client_prefix(address.parse().unwrap()).to_string();
        assert_eq!(prefix("192.0.2.1"), "192.0.2.1");
        assert_eq!(prefix("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(prefix("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
