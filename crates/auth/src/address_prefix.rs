//! Prefixes of addresses, as operators and the caveats of macaroons write them.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Parses a prefix: `192.0.2.0/24`, `2001:db8::/32`, or one address.
pub(crate) fn prefix(text: &str) -> Option<IpNet> {
    let net = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    match net {
        // ::ffff:192.0.2.0/120 is 192.0.2.0/24: addresses of clients are compared as IPv4.
        IpNet::V6(v6) => match v6.addr().to_ipv4_mapped() {
            Some(v4) if v6.prefix_len() >= 96 => Ipv4Net::new(v4, v6.prefix_len() - 96).ok().map(IpNet::V4),
            _ => Some(net),
        },
        IpNet::V4(_) => Some(net),
    }
}
