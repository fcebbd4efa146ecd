//! Checks that need the whole scenario: addresses, parallel paths, directions over other sites.
//!
//! Does not know: TOML. The contents of a single table were checked when it was read.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::problem::Problem;
use super::read::{LAB_SITES_MAX, ScenarioLines};
use super::{End, Interface, Path, Scenario};

/// Checks a scenario.
pub(super) fn scenario(scenario: &Scenario, lines: &ScenarioLines) -> Result<(), Problem> {
    let is_for_lab = scenario.sites.len() <= LAB_SITES_MAX;
    if is_for_lab {
        addresses(scenario, lines)?;
    }
    let has_via = scenario.paths.iter().flat_map(|path| &path.directions).any(|direction| !direction.via.is_empty());
    let reachability = if has_via { Reachability::of(scenario) } else { Reachability(Vec::new()) };
    for (number, path) in scenario.paths.iter().enumerate() {
        let line = lines.paths[number].header;
        if is_for_lab {
            no_parallel_path(scenario, number, line)?;
            common_family(scenario, path, line)?;
        }
        for direction in 0..2 {
            check_via(scenario, &reachability, number, direction, lines.paths[number].via[direction])?;
        }
    }
    Ok(())
}

/// Every address belongs to one interface, and every network to one site.
fn addresses(scenario: &Scenario, lines: &ScenarioLines) -> Result<(), Problem> {
    let ends: Vec<End> = (0..scenario.sites.len())
        .flat_map(|site| (0..scenario.sites[site].interfaces.len()).map(move |interface| End { site, interface }))
        .collect();
    for (at, later) in ends.iter().enumerate() {
        for earlier in &ends[..at] {
            let Some((one, other)) = conflicting_addresses(scenario, *earlier, *later) else { continue };
            let line_of = |end: &End| lines.addresses[end.site][end.interface];
            let what = format!("{one} of {} and {other} of {}", show(scenario, *earlier), show(scenario, *later));
            let (what, remedy) = if earlier.site == later.site {
                (format!("{what} are the same address"), "give each interface its own")
            } else {
                (
                    format!("{what} overlap"),
                    "give each site a network of its own; 10.77.0.0/16 and fd4c:6f6e:6700::/48 are assigned by the lab",
                )
            };
            return Err(Problem::new(line_of(earlier).max(line_of(later)), what, remedy));
        }
    }
    for end in ends {
        if let Some(address) = overlap_with_routers(scenario.interface(end)) {
            let what = format!("{address} of {} overlaps with the addresses of routers", show(scenario, end));
            let remedy = "keep clear of 10.78.0.0/15, fd4c:6f6e:6701::/48 and fd4c:6f6e:6702::/48";
            return Err(Problem::new(lines.addresses[end.site][end.interface], what, remedy));
        }
    }
    Ok(())
}

/// The part of an interface's network that overlaps with the addresses of the lab's own routers: 10.78.0.0/15, and the two IPv6
/// networks that follow the one from which sites are given addresses.
fn overlap_with_routers(interface: &Interface) -> Option<String> {
    const V4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 78, 0, 0), 15);
    const V6: [(Ipv6Addr, u8); 2] = [
        (Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6701, 0, 0, 0, 0, 0), 48),
        (Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6702, 0, 0, 0, 0, 0), 48),
    ];
    if let Some((address, bits)) = interface.v4
        && same_network(as_u128(address), as_u128(V4.0), bits.min(V4.1))
    {
        return Some(format!("{address}/{bits}"));
    }
    let (address, bits) = interface.v6?;
    let overlaps =
        |(router, length): (Ipv6Addr, u8)| same_network(address.to_bits(), router.to_bits(), bits.min(length));
    V6.into_iter().any(overlaps).then(|| format!("{address}/{bits}"))
}

/// An IPv4 address in the highest bits, where an IPv6 address begins.
fn as_u128(address: Ipv4Addr) -> u128 {
    u128::from(address.to_bits()) << 96
}

/// The addresses of two interfaces that cannot both exist.
fn conflicting_addresses(scenario: &Scenario, a: End, b: End) -> Option<(String, String)> {
    let (one, other) = (scenario.interface(a), scenario.interface(b));
    let same_site = a.site == b.site;
    if let (Some((x, x_bits)), Some((y, y_bits))) = (one.v4, other.v4)
        && (x == y || !same_site && same_network(as_u128(x), as_u128(y), x_bits.min(y_bits)))
    {
        return Some((format!("{x}/{x_bits}"), format!("{y}/{y_bits}")));
    }
    if let (Some((x, x_bits)), Some((y, y_bits))) = (one.v6, other.v6)
        && (x == y || !same_site && same_network(x.to_bits(), y.to_bits(), x_bits.min(y_bits)))
    {
        return Some((format!("{x}/{x_bits}"), format!("{y}/{y_bits}")));
    }
    None
}

/// Whether two addresses begin with the same bits.
fn same_network(x: u128, y: u128, bits: u8) -> bool {
    (x ^ y).leading_zeros() >= u32::from(bits)
}

fn show(scenario: &Scenario, end: End) -> String {
    format!("{}/{}", scenario.sites[end.site].name, scenario.interface(end).name)
}

/// Between two interfaces there is one path, so that a packet's addresses determine its path.
fn no_parallel_path(scenario: &Scenario, number: usize, line: usize) -> Result<(), Problem> {
    let path = &scenario.paths[number];
    let [a, b] = path.ends;
    let parallel = scenario.paths[..number].iter().find(|other| other.ends == [a, b] || other.ends == [b, a]);
    match parallel {
        None => Ok(()),
        Some(parallel) => Err(Problem::new(
            line,
            format!(
                "{} and {} both join {} and {}",
                parallel.name,
                path.name,
                show(scenario, path.ends[0]),
                show(scenario, path.ends[1])
            ),
            "give each an interface of its own, or write one path with ecmp",
        )),
    }
}

/// RFC 8200, section 5.
const IPV6_MTU_MIN: u16 = 1280;

/// The ends must have an address family in common.
fn common_family(scenario: &Scenario, path: &Path, line: usize) -> Result<(), Problem> {
    let [a, b] = path.ends.map(|end| scenario.interface(end));
    let both_v6 = a.v6.is_some() && b.v6.is_some();
    if let Some(mtu) = path.mtu.filter(|mtu| both_v6 && *mtu < IPV6_MTU_MIN) {
        let what = format!("path {} has an MTU of {mtu}, and IPv6 needs {IPV6_MTU_MIN}", path.name);
        return Err(Problem::new(line, what, "raise the mtu, or give both ends an IPv4 address alone"));
    }
    let shared = |a: &Interface, b: &Interface| a.v4.is_some() && b.v4.is_some() || a.v6.is_some() && b.v6.is_some();
    if shared(a, b) {
        return Ok(());
    }
    let [a, b] = path.ends.map(|end| show(scenario, end));
    let what = format!("{a} and {b} have no address family in common");
    Err(Problem::new(line, what, "give both an IPv4 address, or both an IPv6 address"))
}

/// Which sites can be reached from which. A direction over other sites does not count: such directions could refer to each other in a
/// circle.
struct Reachability(Vec<Vec<bool>>);

impl Reachability {
    fn of(scenario: &Scenario) -> Reachability {
        Reachability((0..scenario.sites.len()).map(|site| reachable(scenario, site)).collect())
    }
}

fn reachable(scenario: &Scenario, from: usize) -> Vec<bool> {
    let mut found = vec![false; scenario.sites.len()];
    found[from] = true;
    let mut open = vec![from];
    while let Some(site) = open.pop() {
        for path in &scenario.paths {
            for (direction, path_direction) in path.directions.iter().enumerate() {
                let (start, end) = (path.ends[direction].site, path.ends[1 - direction].site);
                if start == site && path_direction.via.is_empty() && !found[end] {
                    found[end] = true;
                    open.push(end);
                }
            }
        }
    }
    found
}

/// Between the sites that a direction goes over, there must be paths.
fn check_via(
    scenario: &Scenario,
    reachability: &Reachability,
    number: usize,
    direction: usize,
    line: usize,
) -> Result<(), Problem> {
    let path = &scenario.paths[number];
    let via = &path.directions[direction].via;
    let (from, to) = (path.ends[direction].site, path.ends[1 - direction].site);
    if via.is_empty() {
        return Ok(());
    }
    let stops: Vec<usize> = [from].into_iter().chain(via.iter().copied()).chain([to]).collect();
    match stops.windows(2).find(|leg| !reachability.0[leg[0]][leg[1]]) {
        None => Ok(()),
        Some(leg) => {
            let [a, b] = [leg[0], leg[1]].map(|site| &scenario.sites[site].name);
            let what = format!("{} goes over other sites, but no paths lead from {a} to {b}", path.name);
            Err(Problem::new(line, what, format!("add a path between {a} and {b}, or go over another site")))
        }
    }
}
