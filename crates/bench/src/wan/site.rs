//! The two sites and their path as a scenario, and how a site gets its default congestion control.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use lab::{Lab, Scenario};
use socket2::SockRef;

use super::cell::Cell;

/// The path's name.
pub const PATH: &str = "a-b";

/// The bottleneck that all paths share.
#[derive(Clone, Debug)]
pub struct BottleneckSettings {
    /// The rate, Mbit/s.
    pub rate_mbit: u32,
    /// The size of its queue, as a scenario writes it.
    pub queue: String,
    /// The MTU of both sites, bytes.
    pub mtu: u16,
}

/// How a site's default congestion control is set. A network namespace accepts as its default only an algorithm that the host
/// allows to all users; a route can have any algorithm of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSetting {
    /// It is the host's default already.
    Inherited,
    /// By the site's `sysctl`.
    Sysctl,
    /// By its route (`congctl`, ip-route(8)).
    Route,
}

impl CongestionSetting {
    /// Chooses the setting on a host with this default and these allowed algorithms.
    pub fn of(wanted: &str, default: &str, allowed: &str) -> CongestionSetting {
        match (default.trim() == wanted, allowed.split_whitespace().any(|name| name == wanted)) {
            (true, _) => CongestionSetting::Inherited,
            (false, true) => CongestionSetting::Sysctl,
            (false, false) => CongestionSetting::Route,
        }
    }

    /// Chooses the setting on this host.
    pub fn here(wanted: &str) -> CongestionSetting {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        CongestionSetting::of(wanted, &read("tcp_congestion_control"), &read("tcp_allowed_congestion_control"))
    }

    /// The text for the report.
    pub fn description(self) -> &'static str {
        match self {
            CongestionSetting::Inherited => "the host's default",
            CongestionSetting::Sysctl => "by the site's sysctl",
            CongestionSetting::Route => "by the site's route, as the host does not allow it as a default",
        }
    }
}

impl BottleneckSettings {
    /// A cell's path as a scenario. Segments are lost in the direction of the data.
    pub fn scenario(&self, cell: Cell, seed: u32, congestion: &str) -> String {
        let BottleneckSettings { rate_mbit, queue, mtu } = self;
        let settings = match CongestionSetting::here(congestion) {
            CongestionSetting::Sysctl => {
                format!("sysctl = {{ \"net.ipv4.tcp_congestion_control\" = \"{congestion}\" }}\n")
            }
            CongestionSetting::Inherited | CongestionSetting::Route => String::new(),
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

    /// Parses the scenario of a cell.
    ///
    /// # Errors
    /// The settings are not those of a scenario.
    pub fn read(&self, cell: Cell, seed: u32, congestion: &str) -> Result<Scenario> {
        let text = self.scenario(cell, seed, congestion);
        Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))
    }
}

/// An IPv4 address of a site.
///
/// # Errors
/// The site has no interface with an IPv4 address.
pub fn address(lab: &Lab, site: &str) -> Result<String> {
    let site = lab.scenario().sites.iter().find(|one| one.name == site);
    let interface = site.and_then(|site| site.interfaces.first()).context("a site has no interface")?;
    Ok(interface.v4.context("a site has no IPv4 address")?.0.to_string())
}

/// Sets the default of both sites by their routes, if only a route can have the algorithm.
///
/// # Errors
/// A route cannot be changed.
pub fn set_congestion(lab: &Lab, name: &str) -> Result<()> {
    if CongestionSetting::here(name) != CongestionSetting::Route {
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

/// The congestion control that a connection from `a` to `b` has by default.
///
/// # Errors
/// No connection between the sites can be made.
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
        let settings = BottleneckSettings { rate_mbit: 1_000, queue: "bdp".into(), mtu: 9000 };
        for cell in all() {
            let scenario = settings.read(cell, 7, "cubic").unwrap();
            let path = &scenario.paths[0];
            assert_eq!(!matches!(path.directions[0].members[0].loss, Loss::None), cell.loss_ppm > 0, "{cell}");
            assert!(matches!(path.directions[1].members[0].loss, Loss::None), "{cell}");
        }
        let wrong = BottleneckSettings { queue: "much".into(), ..settings };
        assert!(wrong.read(all()[0], 7, "cubic").is_err());
    }

    #[test]
    fn a_default_is_set_in_the_way_that_the_host_permits() {
        assert_eq!(CongestionSetting::of("cubic", "cubic\n", "reno cubic\n"), CongestionSetting::Inherited);
        assert_eq!(CongestionSetting::of("bbr", "cubic\n", "reno cubic bbr\n"), CongestionSetting::Sysctl);
        assert_eq!(CongestionSetting::of("cubic", "bbr\n", "reno bbr\n"), CongestionSetting::Route);
    }
}
