//! The two sites and their path as a scenario, and how a site gets its default congestion control.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use lab::{Lab, Scenario};
use socket2::SockRef;

use super::cell::Cell;

/// The path's name.
pub const PATH: &str = "a-b";

/// What all paths share.
#[derive(Clone, Debug)]
pub struct Way {
    /// Of the bottleneck, Mbit/s.
    pub rate_mbit: u32,
    /// What waits for it, as a scenario writes it.
    pub queue: String,
    /// Of both sites, bytes.
    pub mtu: u16,
}

/// How a site's default congestion control is set: a network of its own takes as default what the host allows to
/// everybody; anything else that the kernel has can be a route's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It is what the host has.
    Inherited,
    /// By the site's `sysctl`.
    Sysctl,
    /// By its route (`congctl`, ip-route(8)).
    Route,
}

impl Means {
    /// Of a host with this default and these allowed.
    pub fn of(wanted: &str, default: &str, allowed: &str) -> Means {
        match (default.trim() == wanted, allowed.split_whitespace().any(|name| name == wanted)) {
            (true, _) => Means::Inherited,
            (false, true) => Means::Sysctl,
            (false, false) => Means::Route,
        }
    }

    /// Of this host.
    pub fn here(wanted: &str) -> Means {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        Means::of(wanted, &read("tcp_congestion_control"), &read("tcp_allowed_congestion_control"))
    }

    /// In the page.
    pub fn shown(self) -> &'static str {
        match self {
            Means::Inherited => "the host's default",
            Means::Sysctl => "by the site's sysctl",
            Means::Route => "by the site's route, as the host does not allow it as a default",
        }
    }
}

impl Way {
    /// A cell's path as a scenario. What is lost is lost in the direction of the data.
    pub fn scenario(&self, cell: Cell, seed: u32, congestion: &str) -> String {
        let Way { rate_mbit, queue, mtu } = self;
        let settings = match Means::here(congestion) {
            Means::Sysctl => format!("sysctl = {{ \"net.ipv4.tcp_congestion_control\" = \"{congestion}\" }}\n"),
            Means::Inherited | Means::Route => String::new(),
        };
        let site = |name: &str| format!("[site.{name}]\nmtu = {mtu}\nprofile = \"dtn\"\n{settings}");
        let loss = if cell.loss_ppm == 0 { String::new() } else { format!("loss = \"{}%\"", cell.loss_percent()) };
        format!(
            "seed = {seed}\n{}{}[path.{PATH}]\nrtt = \"{}ms\"\nrate = \"{rate_mbit}Mbit/s\"\nqueue = \"{queue}\"\n\
             ab = {{ {loss} }}\n",
            site("a"),
            site("b"),
            cell.rtt_ms(),
        )
    }

    /// Read.
    pub fn read(&self, cell: Cell, seed: u32, congestion: &str) -> Result<Scenario> {
        let text = self.scenario(cell, seed, congestion);
        Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))
    }
}

/// An IPv4 address of a site.
pub fn address(lab: &Lab, site: &str) -> Result<String> {
    let site = lab.scenario().sites.iter().find(|one| one.name == site);
    let interface = site.and_then(|site| site.interfaces.first()).context("a site has no interface")?;
    Ok(interface.v4.context("a site has no IPv4 address")?.0.to_string())
}

/// Gives both sites their default where only a route can.
pub fn set_congestion(lab: &Lab, name: &str) -> Result<()> {
    if Means::here(name) != Means::Route {
        return Ok(());
    }
    for site in ["a", "b"] {
        let address = address(lab, site)?;
        let words = ["route", "change", "default", "dev", "eth0", "src", &address, "congctl", name];
        let status = lab.command(site, "ip")?.args(words).status().context("cannot run ip (iproute2)")?;
        ensure!(status.success(), "ip cannot give a site's route the congestion control {name}");
    }
    Ok(())
}

/// What a connection from `a` to `b` has that asks for nothing.
pub fn congestion(lab: &Lab) -> Result<String> {
    let listener = lab.site("b")?.within(|| TcpListener::bind("0.0.0.0:0"))??;
    let to: SocketAddr = format!("{}:{}", address(lab, "b")?, listener.local_addr()?.port()).parse()?;
    let stream = lab.site("a")?.within(|| TcpStream::connect(to))??;
    let name = SockRef::from(&stream).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use lab::scenario::Loss;

    use super::super::cell::all;
    use super::*;

    #[test]
    fn all_cells_are_scenarios() {
        let way = Way { rate_mbit: 1_000, queue: "bdp".into(), mtu: 9000 };
        for cell in all() {
            let scenario = way.read(cell, 7, "cubic").unwrap();
            let path = &scenario.paths[0];
            assert_eq!(!matches!(path.ways[0].members[0].loss, Loss::None), cell.loss_ppm > 0, "{cell}");
            assert!(matches!(path.ways[1].members[0].loss, Loss::None), "{cell}");
        }
        let wrong = Way { queue: "much".into(), ..way };
        assert!(wrong.read(all()[0], 7, "cubic").is_err());
    }

    #[test]
    fn defaults_are_set_as_the_host_lets_us() {
        assert_eq!(Means::of("cubic", "cubic\n", "reno cubic\n"), Means::Inherited);
        assert_eq!(Means::of("bbr", "cubic\n", "reno cubic bbr\n"), Means::Sysctl);
        assert_eq!(Means::of("cubic", "bbr\n", "reno bbr\n"), Means::Route);
    }
}
