//! The addresses that a node serves, and those that it dials for a third-party copy. Does not know names, nor how to resolve them.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use super::nat64;
use crate::access::Denied;

/// The addresses that are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Only these are served, if there are any.
    pub allow: Vec<IpNet>,
    /// These are refused, even if allowed.
    pub refuse: Vec<IpNet>,
}

impl Addresses {
    /// Whether an address is served.
    pub fn admit(&self, address: IpAddr) -> bool {
        !is_in(&self.refuse, address) && (self.allow.is_empty() || is_in(&self.allow, address))
    }
}

/// The addresses that third-party copies may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThirdParty {
    /// Whether copies may also go to this machine and to link-local addresses.
    pub local: bool,
    /// Whether copies may also go to loopback addresses, though not to link-local ones: a client of a node that listens on loopback
    /// alone can reach the other loopback services anyway, but not the machine's neighbours, such as a cloud's metadata service. The
    /// node sets this, not the file.
    pub loopback: bool,
    /// Whether copies may also go to private networks.
    pub private: bool,
    /// If there are any, copies go to these addresses alone, even where they are local or private.
    pub allow: Vec<IpNet>,
    /// Copies go to none of these, even if allowed.
    pub refuse: Vec<IpNet>,
    /// Whether anonymous clients may order copies: any client of the node could then have it connect to hosts that only the node reaches.
    pub for_anonymous: bool,
    /// NAT64 prefixes of this site's gateways, besides those that RFC 6052 and RFC 8215 name: an IPv6 address behind such a prefix
    /// stands for the IPv4 address that it embeds.
    pub nat64: Vec<Ipv6Net>,
    /// The most streams of one copy.
    pub max_streams: u16,
}

impl Default for ThirdParty {
    fn default() -> ThirdParty {
        ThirdParty {
            local: false,
            loopback: false,
            private: true,
            allow: Vec::new(),
            refuse: Vec::new(),
            for_anonymous: false,
            nat64: Vec::new(),
            max_streams: 16,
        }
    }
}

impl ThirdParty {
    /// Checks an address before it is dialled. The caller checks each address that a name resolves to, and dials exactly that address.
    /// `is_own` says whether an address belongs to this machine.
    ///
    /// # Errors
    /// [`Denied::ForbiddenAddress`], with the reason.
    pub fn check(&self, address: IpAddr, is_own: &dyn Fn(IpAddr) -> bool) -> Result<(), Denied> {
        let refuse = |why| Err(Denied::ForbiddenAddress { address, why });
        let embedded = nat64::embedded(address, &self.nat64);
        let all = || std::iter::once(address.to_canonical()).chain(embedded.iter().copied());
        if all().any(|address| is_in(&self.refuse, address)) {
            return refuse("which its operator refuses");
        }
        if all().any(is_not_unicast) {
            return refuse("which is not a unicast address");
        }
        if is_in(&self.allow, address) {
            return Ok(());
        }
        if !self.allow.is_empty() {
            return refuse("which is not among those allowed");
        }
        // Only the address itself, not an embedded one: 127.0.0.1 behind a gateway is another machine.
        let is_own_loopback = self.loopback && address.to_canonical().is_loopback();
        if !self.local && !is_own_loopback && all().any(|address| is_local(address) || is_own(address)) {
            return refuse("which is this machine or one of its links");
        }
        if !self.private && all().any(is_private) {
            return refuse("which is in a private network");
        }
        Ok(())
    }
}

/// Whether an address lies in one of the prefixes; an IPv4-mapped IPv6 address is compared as IPv4.
pub(super) fn is_in(prefixes: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    prefixes.iter().any(|prefix| prefix.contains(&address))
}

/// Whether an address is public: a unicast address that is neither private nor limited to one link.
pub fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    !is_not_unicast(address) && !is_local(address) && !is_private(address)
}

/// Whether it is a multicast, broadcast or reserved address.
fn is_not_unicast(address: IpAddr) -> bool {
    address.is_multicast() || matches!(address, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] >= 240)
}

/// Whether it is this machine or on one of its links. The unspecified address reaches this machine too.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_unicast_link_local() || is_site_local(v6),
        }
}

/// fec0::/10, given up by RFC 3879.
fn is_site_local(v6: Ipv6Addr) -> bool {
    v6.segments()[0] & 0xffc0 == 0xfec0
}

/// RFC 1918, RFC 6598 (carriers), RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || matches!(v4.octets(), [100, 64..=127, ..]),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_prefix::prefix;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_private_or_local_address_is_not_public() {
        assert!(["192.0.2.1", "2001:db8::1"].into_iter().all(|address| is_public(ip(address))));
        let others =
            ["10.1.2.3", "100.64.0.1", "127.0.0.1", "::ffff:192.168.1.1", "169.254.1.1", "fe80::1", "fd00::1", "::"];
        assert!(!others.into_iter().any(|address| is_public(ip(address))));
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| prefix(text).unwrap()).collect()
    }

    /// Checks an address on a machine whose own address is 203.0.113.9.
    fn check(rules: &ThirdParty, address: &str) -> Result<(), Denied> {
        rules.check(ip(address), &|ip| ip == IpAddr::from([203, 0, 113, 9]))
    }

    #[test]
    fn a_mapped_address_is_compared_as_ipv4() {
        let addresses =
            Addresses { allow: nets(&["::ffff:192.0.2.0/120", "2001:db8::1"]), refuse: nets(&["192.0.2.7"]) };
        for (address, served) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.7", false),
            ("192.0.3.1", false),
            ("2001:db8::1", true),
            ("2001:db8::2", false),
        ] {
            assert_eq!(addresses.admit(ip(address)), served, "{address}");
        }
        assert!(Addresses::default().admit(ip("203.0.113.1")));
        assert_eq!(prefix("192.0.2.0/33"), None);
        assert_eq!(prefix("example.org"), None);
    }

    #[test]
    fn local_and_private_addresses_are_dialled_only_where_the_policy_permits_it() {
        let refused = |policy: &ThirdParty, text: &str| check(policy, text).is_err();
        let strict = ThirdParty { private: false, ..ThirdParty::default() };
        for local in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "fe80::1",
            "fec0::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "203.0.113.9",
            "::ffff:203.0.113.9",
            "64:ff9b::203.0.113.9",
            "64:ff9b:1::127.0.0.1",
            "64:ff9b:1:7f00:0:100::",
            "64:ff9b:1::7f:0:100:0",
        ] {
            assert!(refused(&ThirdParty::default(), local), "{local}");
            assert!(!refused(&ThirdParty { local: true, ..ThirdParty::default() }, local), "{local}");
        }
        for private in
            ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]
        {
            assert!(!refused(&ThirdParty::default(), private), "{private}");
            assert!(refused(&strict, private), "{private}");
        }
        for public in ["192.0.2.1", "2001:db8::1", "172.32.0.1"] {
            assert!(!refused(&strict, public), "{public}");
        }
        for nobody in ["224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:224.0.0.1"] {
            assert!(refused(&ThirdParty { local: true, ..ThirdParty::default() }, nobody), "{nobody}");
        }
    }

    #[test]
    fn permitting_loopback_does_not_permit_links() {
        let here = ThirdParty { loopback: true, ..ThirdParty::default() };
        for (address, dialled) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.1", true),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("2002:a9fe:a9fe::", false),
        ] {
            assert_eq!(check(&here, address).is_ok(), dialled, "{address}");
        }
        let shut = ThirdParty { refuse: nets(&["127.0.0.0/8"]), ..here };
        assert!(check(&shut, "127.0.0.1").is_err(), "a refused address stays refused");
        let link = ThirdParty { allow: nets(&["169.254.0.0/16"]), ..ThirdParty::default() };
        assert!(check(&link, "169.254.1.1").is_ok(), "an explicitly allowed address is dialled");
    }

    #[test]
    fn explicit_prefixes_decide_before_everything_else() {
        let only = ThirdParty {
            allow: nets(&["10.1.0.0/16", "127.0.0.1"]),
            refuse: nets(&["10.1.2.3"]),
            ..ThirdParty::default()
        };
        for (address, dialled) in [("10.1.0.1", true), ("127.0.0.1", true), ("10.1.2.3", false), ("192.0.2.1", false)] {
            assert_eq!(check(&only, address).is_ok(), dialled, "{address}");
        }
    }

    #[test]
    fn addresses_behind_a_gateway_of_the_site_are_checked() {
        let address = "2001:db8:64::10.0.0.1";
        let rules = ThirdParty { private: false, ..ThirdParty::default() };
        assert!(check(&rules, address).is_ok(), "no gateway is configured");
        let net = |text: &str| text.parse::<Ipv6Net>().unwrap();
        let rules = ThirdParty { nat64: vec![net("2001:db8:64::/96")], ..rules };
        assert!(check(&rules, address).is_err());
        assert!(check(&rules, "2001:db8:64::192.0.2.1").is_ok());
        assert!(check(&rules, "2001:db8:65::10.0.0.1").is_ok());
    }
}
