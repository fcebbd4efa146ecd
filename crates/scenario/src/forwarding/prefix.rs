//! Prefixes of addresses: `10.1.0.0/16`, `fd00:1::/48`.
//!
//! Does not know: who has which.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The bits, from the highest on; those behind the length are 0.
    bits: u128,
    length: u8,
    is_v6: bool,
}

impl Prefix {
    /// The prefix of an address.
    pub fn of(address: IpAddr, length: u8) -> Prefix {
        let (bits, is_v6) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
            IpAddr::V6(address) => (address.to_bits(), true),
        };
        let length = length.min(if is_v6 { 128 } else { 32 });
        let behind = u128::MAX.checked_shr(length.into()).unwrap_or(0);
        Prefix { bits: bits & !behind, length, is_v6 }
    }

    /// The number of its fixed bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether all addresses of `other` are also its own.
    pub fn contains(&self, other: &Prefix) -> bool {
        let is_within = self.is_v6 == other.is_v6 && self.length <= other.length;
        is_within && (self.bits ^ other.bits).leading_zeros() >= u32::from(self.length)
    }

    /// Its two halves; none for a single address.
    pub fn halves(&self) -> Option<[Prefix; 2]> {
        let most = if self.is_v6 { 128 } else { 32 };
        let half = |bits: u128| Prefix { bits, length: self.length + 1, ..*self };
        (self.length < most).then(|| [half(self.bits), half(self.bits | 1 << (127 - self.length))])
    }

    fn address(&self) -> IpAddr {
        match self.is_v6 {
            true => Ipv6Addr::from_bits(self.bits).into(),
            false => Ipv4Addr::from_bits((self.bits >> 96) as u32).into(),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length)
    }
}

impl FromStr for Prefix {
    /// The remedy.
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        const REMEDY: &str = "write address and length, like 10.1.0.0/16 or fd00:1::/48";
        let (address, length) = text.split_once('/').ok_or(REMEDY)?;
        let address: IpAddr = address.parse().map_err(|_| REMEDY)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.parse().ok().filter(|length| *length <= most);
        let prefix = Prefix::of(address, length.ok_or_else(|| format!("write a length from /0 to /{most}"))?);
        if prefix.address() == address {
            Ok(prefix)
        } else {
            Err(format!("write {prefix}, or the host with its own length"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_contains_the_longer_ones_of_its_family() {
        assert!(
            prefix("10.0.0.0/8").contains(&prefix("10.1.0.0/16"))
                && prefix("0.0.0.0/0").contains(&prefix("10.0.0.0/8"))
        );
        assert!(!prefix("10.1.0.0/16").contains(&prefix("10.0.0.0/8")));
        assert!(!prefix("::/0").contains(&prefix("10.0.0.0/8")) && prefix("::/0").contains(&prefix("fd00::/8")));
        assert_eq!(prefix("10.0.0.0/8").halves().unwrap().map(|half| half.to_string()), ["10.0.0.0/9", "10.128.0.0/9"]);
        assert_eq!(prefix("::1/128").halves(), None);
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_the_remedy() {
        for (text, remedy) in
            [("10.1.2.3/16", "10.1.0.0/16"), ("10.0.0.0/33", "/32"), ("10.0.0.0", "/16"), ("x/8", "address")]
        {
            let refused = text.parse::<Prefix>().expect_err(text);
            assert!(refused.contains(remedy), "{text}: {refused}");
        }
    }
}
