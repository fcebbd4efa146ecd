//! The names that a site can look up: all sites, their further interfaces, and the routers in between.

use std::fmt::Write;
use std::net::IpAddr;

use crate::scenario::Scenario;
use crate::topology::router_addresses;

/// A host's /etc/nsswitch.conf, with hosts looked up in files alone.
pub fn nsswitch(text: &str) -> String {
    let others = text.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    others.chain(["hosts: files"]).map(|line| format!("{line}\n")).collect()
}

/// The text of /etc/hosts.
pub fn hosts(scenario: &Scenario) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for site in &scenario.sites {
        for (number, interface) in site.interfaces.iter().enumerate() {
            let v4 = interface.v4.map(|(address, _)| IpAddr::from(address));
            let v6 = interface.v6.map(|(address, _)| IpAddr::from(address));
            let own = format!("{}-{}", site.name, interface.name);
            let names = if number == 0 { format!("{} {own}", site.name) } else { own };
            for address in [v4, v6].into_iter().flatten() {
                let _ = writeln!(text, "{address} {names}");
            }
        }
    }
    for (number, path) in scenario.paths.iter().enumerate() {
        for hop in 1..=path.hops {
            let (v4, v6) = router_addresses(number, hop);
            let _ = writeln!(text, "{v4} {0}-hop{hop}\n{v6} {0}-hop{hop}", path.name);
        }
    }
    text
}
