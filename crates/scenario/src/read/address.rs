//! Addresses of interfaces: read from a scenario, or given by the lab.
//!
//! Does not know: the addresses of other interfaces (see `check`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::problem::Problem;
use super::super::source::{Entry, Value};

/// The least MTU of a link with IPv6.
pub(super) const MTU_MIN_V6: u16 = 1_280;

const REMEDY: &str = "write it with its prefix, like \"10.1.0.1/24\", or one IPv4 and one IPv6 address in a list";

/// The interface that an address is for. Both numbers count from 1.
#[derive(Clone, Copy)]
pub(super) struct InterfaceNumbers {
    /// The number of the site in the file.
    pub site: usize,
    /// `eth0` is 1.
    pub interface: usize,
}

type V4 = Option<(Ipv4Addr, u8)>;
type V6 = Option<(Ipv6Addr, u8)>;

/// The addresses of an interface, with prefix lengths: one of each family if none are written.
pub(super) fn read(entry: Option<&Entry>, numbers: InterfaceNumbers) -> Result<(V4, V6), Problem> {
    let Some(entry) = entry else { return Ok(assigned(numbers)) };
    let items = match &entry.value {
        Value::List(items) if items.is_empty() => return Err(entry.wrong(REMEDY)),
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(entry),
    };
    let (mut v4, mut v6) = (None, None);
    for item in items {
        let is_second = match address(item)? {
            (IpAddr::V4(address), prefix) => v4.replace((address, prefix)).is_some(),
            (IpAddr::V6(address), prefix) => v6.replace((address, prefix)).is_some(),
        };
        if is_second {
            return Err(item.problem("two addresses of one family", "give each its own interface"));
        }
    }
    Ok((v4, v6))
}

/// The addresses that the lab assigns. All interfaces of a site share its network; labs share no address space, so these are never the same.
fn assigned(numbers: InterfaceNumbers) -> (V4, V6) {
    // Both fit: the counts of sites and interfaces have limits.
    let (site, interface) = (numbers.site as u16, numbers.interface as u16);
    let v4 = Ipv4Addr::new(10, 77, site as u8, interface as u8);
    let v6 = Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6700, site, 0, 0, 0, interface);
    (Some((v4, 24)), Some((v6, 64)))
}

fn address(item: &Entry) -> Result<(IpAddr, u8), Problem> {
    let text = item.text(REMEDY)?;
    let (address, prefix) = text.split_once('/').ok_or_else(|| item.wrong(REMEDY))?;
    let address: IpAddr = address.parse().map_err(|_| item.wrong(REMEDY))?;
    let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse().ok().filter(|prefix| (1..=bits).contains(prefix)).ok_or_else(|| {
        item.problem(
            format!("{text} has no prefix length that fits"),
            format!("write /1 to /{bits} behind the address"),
        )
    })?;
    let unfit = match address {
        IpAddr::V4(v4) => unfit_v4(v4, prefix),
        IpAddr::V6(v6) => unfit_v6(v6, prefix),
    };
    match unfit {
        None => Ok((address, prefix)),
        Some(why) => Err(item.problem(
            format!("{text} cannot be an interface's address: it is {why}"),
            "write the address of one host, like \"10.1.0.1/24\" or \"fd00:1::1/64\", or leave it out to be given one",
        )),
    }
}

fn unfit_v4(address: Ipv4Addr, prefix: u8) -> Option<&'static str> {
    let host = address.to_bits() & u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    // Networks of one or two addresses have no broadcast address.
    let network = prefix < 31;
    match address.octets()[0] {
        127 => Some("a loopback address"),
        224..=239 => Some("a multicast address"),
        0 | 240..=255 => Some("reserved"),
        _ if network && host == 0 => Some("the address of the network itself"),
        _ if network && host == u32::MAX >> prefix => Some("the broadcast address of its network"),
        _ => None,
    }
}

fn unfit_v6(address: Ipv6Addr, prefix: u8) -> Option<&'static str> {
    let host = address.to_bits() & u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
    match address {
        _ if address.is_unspecified() => Some("no address at all"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        _ if address.is_unicast_link_local() => Some("a link-local address, which no path leads to"),
        _ if address.to_ipv4_mapped().is_some() => Some("an IPv4 address"),
        _ if prefix < 127 && host == 0 => Some("the address of the network itself"),
        _ => None,
    }
}
