//! IPv4 addresses embedded in IPv6 addresses, to which a gateway would forward packets: NAT64 (RFC 6052, RFC 8215), 6to4
//! (RFC 3056), and the deprecated IPv4-compatible form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;

/// Lengths of prefixes behind which RFC 6052, section 2.2, puts an IPv4 address.
pub(super) const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// The well-known prefix, and the prefix within which each site chooses its own.
const WELL_KNOWN: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
const LOCAL_USE: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48);

/// All IPv4 addresses that an IPv6 address may stand for; `prefixes` are those of the site's own gateways.
pub(super) fn embedded(address: IpAddr, prefixes: &[Ipv6Net]) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = address.to_canonical() else { return Vec::new() };
    let octets = v6.octets();
    let mut found: Vec<Ipv4Addr> = Vec::new();
    if begins(v6, WELL_KNOWN) {
        found.push(behind(octets, 96));
    }
    // The length that a site chose within the local prefix is unknown: all lengths are tried.
    if begins(v6, LOCAL_USE) {
        found.extend(LENGTHS.iter().filter(|length| **length >= LOCAL_USE.1).map(|length| behind(octets, *length)));
    }
    found.extend(prefixes.iter().filter(|net| net.contains(&v6)).map(|net| behind(octets, net.prefix_len())));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => found.push(behind(octets, 96)),
        [0x2002, ..] => found.push(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        _ => {}
    }
    found.into_iter().map(IpAddr::V4).collect()
}

fn begins(address: Ipv6Addr, (prefix, length): (Ipv6Addr, u8)) -> bool {
    let rest = 128 - u32::from(length);
    address.to_bits() >> rest == prefix.to_bits() >> rest
}

/// The IPv4 address behind a prefix of `length` bits. The ninth octet is never part of it.
fn behind(octets: [u8; 16], length: u8) -> Ipv4Addr {
    let from = usize::from(length / 8);
    let mut at = (from..16).filter(|at| *at != 8).map(|at| octets[at]);
    let mut next = || at.next().unwrap_or(0);
    Ipv4Addr::new(next(), next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6052, section 2.4.
    #[test]
    fn the_examples_of_the_rfc_embed_their_address() {
        for (prefix, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let found = embedded(address.parse().unwrap(), &[prefix.parse().unwrap()]);
            assert_eq!(found, [IpAddr::from([192, 0, 2, 33])], "{prefix}");
        }
    }

    #[test]
    fn well_known_prefixes_and_6to4_embed_an_address() {
        let one = |address: &str| embedded(address.parse().unwrap(), &[]);
        let wanted = [IpAddr::from([127, 0, 0, 1])];
        assert_eq!((one("64:ff9b::7f00:1"), one("2002:7f00:1::")), (wanted.to_vec(), wanted.to_vec()));
        assert!(one("64:ff9b:1::7f00:1").contains(&wanted[0]) && one("64:ff9b:1:7f00:0:100::").contains(&wanted[0]));
        assert_eq!(one("::127.0.0.1"), wanted);
        assert!(one("2001:db8::7f00:1").is_empty() && one("192.0.2.1").is_empty() && one("::1").is_empty());
    }
}
