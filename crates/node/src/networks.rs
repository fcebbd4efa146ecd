//! Networks in an operator's notation: `192.0.2.0/24`, `2001:db8::/32`, or one address.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of networks; the empty set contains no address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// A network, or one address.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

impl Networks {
    /// Reads the words of an option.
    ///
    /// # Errors
    /// A word is not a network; the text names it and the form of one.
    pub fn parse<T: AsRef<str>>(option: &str, words: &[T]) -> Result<Networks, String> {
        let read = |word: &T| {
            let word = word.as_ref();
            network(word).ok_or_else(|| {
                format!("{option} {word}: {word} is not a network; write it like 192.0.2.0/24 or 2001:db8::/32")
            })
        };
        Ok(Networks(words.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Whether an address lies in one of the networks.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let networks = Networks::parse("--metrics", &["192.0.2.0/24", "2001:db8::7"]).unwrap();
        let contains = |text: &str| networks.contain(text.parse().unwrap());
        assert!(contains("192.0.2.200") && contains("::ffff:192.0.2.200") && contains("2001:db8::7"));
        assert!(!contains("192.0.3.1") && !contains("2001:db8::8") && !contains("127.0.0.1"));
        assert!(!Networks::default().contain([127, 0, 0, 1].into()));
        let refused = Networks::parse("--metrics", &["monitor"]).unwrap_err();
        assert!(refused.starts_with("--metrics monitor:") && refused.contains("192.0.2.0/24"), "{refused}");
    }
}
