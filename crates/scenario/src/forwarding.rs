//! A forwarding configuration: the virtual networks (VRFs) of a scenario's sites, with the prefixes at each site and the next hop of each
//! prefix. A file of its own (TOML), beside the scenario; `docs/design/forwarding.md` describes it.
//!
//! Does not know: whether packets arrive; `plan` follows them.

mod prefix;

use std::fmt::Write as _;

use crate::Scenario;
use crate::problem::{Problem, instead};
use crate::read::site_of;
use crate::source::{Entry, Table, Value};

pub use prefix::Prefix;

const VRF_REMEDY: &str = "write a table with a header, like [vrf.ska]";
const SITE_REMEDY: &str = "write a table with a header, like [vrf.ska.site.perth]";
const PREFIX_REMEDY: &str = "write a prefix in quotes, or a list of prefixes, like [\"10.1.0.0/16\", \"fd00:1::/48\"]";
const ROUTE_REMEDY: &str = "write next hops by prefix, like route = { \"10.2.0.0/16\" = \"london\" }";
const NEXT_REMEDY: &str = "write a site, a path, \"discard\", or { next = \"london\", vrf = \"lhcone\" }";
/// Packets for a prefix with this next hop are dropped on purpose.
const DISCARD: &str = "discard";
/// The most next hops: each prefix is followed from each member.
const ENTRIES_MAX: usize = 100_000;

/// A forwarding configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forwarding {
    /// In the order of the file.
    pub vrfs: Vec<Vrf>,
}

/// A virtual network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vrf {
    /// As in the file.
    pub name: String,
    /// Other virtual networks that its members reach, by number. Packets that get into any other leak.
    pub reaches: Vec<usize>,
    /// Sites that have a table for its packets, in the order of the file.
    pub sites: Vec<VrfSite>,
}

/// What a site knows of a virtual network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VrfSite {
    /// The site, by its number in the scenario.
    pub site: usize,
    /// The prefixes that are attached to it. A site with one is a member.
    pub prefixes: Vec<Prefix>,
    /// Next hops, by prefix. The longest prefix that contains an address counts.
    pub routes: Vec<ForwardingRoute>,
}

/// An entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingRoute {
    /// The addresses that it is for.
    pub prefix: Prefix,
    /// What happens to their packets.
    pub next: NextHop,
}

/// What a site does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Drops it.
    Discard,
    /// Sends it on.
    Forward {
        /// The path, by its number in the scenario; none if the packet stays at the site, and changes only its virtual network.
        over: Option<usize>,
        /// The virtual network that the packet gets into; none for its own.
        vrf: Option<usize>,
    },
}

impl Forwarding {
    /// Reads a configuration for the sites and paths of a scenario.
    ///
    /// # Errors
    /// The text is not TOML, or makes no sense for this scenario: the line, the fault and the remedy.
    pub fn read(text: &str, scenario: &Scenario) -> Result<Forwarding, Problem> {
        let root = Table::parse(text)?;
        root.only(&["vrf"], "a forwarding configuration")?;
        let Some(vrfs) = root.get("vrf") else {
            return Err(Problem::new(1, "there is no virtual network", VRF_REMEDY));
        };
        let reader = ForwardingReader { scenario, tables: &vrfs.table(VRF_REMEDY)?.entries };
        let vrfs = reader.tables.iter().map(|entry| reader.vrf(entry)).collect::<Result<Vec<Vrf>, Problem>>()?;
        let entries: usize = vrfs.iter().flat_map(|vrf| &vrf.sites).map(|site| site.routes.len()).sum();
        if entries > ENTRIES_MAX {
            return Err(Problem::new(1, format!("more than {ENTRIES_MAX} next hops"), "describe fewer"));
        }
        Ok(Forwarding { vrfs })
    }

    /// The configuration as a file.
    pub fn write(&self, scenario: &Scenario) -> String {
        let mut out = String::new();
        let quoted = |names: Vec<String>| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        for vrf in &self.vrfs {
            let _ = writeln!(out, "[vrf.{}]", vrf.name);
            let reaches = vrf.reaches.iter().map(|other| self.vrfs[*other].name.clone()).collect::<Vec<_>>();
            if !reaches.is_empty() {
                let _ = writeln!(out, "reaches = [{}]", quoted(reaches));
            }
            for at in &vrf.sites {
                let _ = writeln!(out, "\n[vrf.{}.site.{}]", vrf.name, scenario.sites[at.site].name);
                if !at.prefixes.is_empty() {
                    let _ = writeln!(out, "prefix = [{}]", quoted(at.prefixes.iter().map(Prefix::to_string).collect()));
                }
                let routes =
                    at.routes.iter().map(|route| format!("\"{}\" = {}", route.prefix, self.next(route, scenario)));
                let routes = routes.collect::<Vec<_>>().join(", ");
                if !routes.is_empty() {
                    let _ = writeln!(out, "route = {{ {routes} }}");
                }
            }
            out.push('\n');
        }
        out
    }

    fn next(&self, route: &ForwardingRoute, scenario: &Scenario) -> String {
        let NextHop::Forward { over, vrf } = route.next else { return format!("{DISCARD:?}") };
        let over = over.map(|path| scenario.paths[path].name.as_str());
        match (over, vrf.map(|vrf| &self.vrfs[vrf].name)) {
            (Some(path), None) => format!("{path:?}"),
            (over, vrf) => {
                let words = [("next", over.map(str::to_owned)), ("vrf", vrf.cloned())];
                let words = words.into_iter().filter_map(|(key, value)| Some(format!("{key} = {:?}", value?)));
                format!("{{ {} }}", words.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Reads virtual networks that name each other.
struct ForwardingReader<'a> {
    scenario: &'a Scenario,
    /// The tables of all virtual networks.
    tables: &'a [Entry],
}

impl ForwardingReader<'_> {
    fn vrf(&self, entry: &Entry) -> Result<Vrf, Problem> {
        let table = entry.table(VRF_REMEDY)?;
        table.only(&["reaches", "site"], "a virtual network")?;
        let reaches = match table.get("reaches") {
            Some(entry) => {
                let items = entry.list("write a list of virtual networks, like reaches = [\"lhcone\"]")?;
                items
                    .iter()
                    .map(|item| self.number(item, item.text("write a name in quotes")?))
                    .collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        };
        let sites = table.get("site").ok_or_else(|| {
            entry.problem(format!("{} has no site", entry.key), format!("add one, like [vrf.{}.site.perth]", entry.key))
        })?;
        let mut vrf = Vrf { name: entry.key.clone(), reaches, sites: Vec::new() };
        for entry in &sites.table(SITE_REMEDY)?.entries {
            let site = self.site(entry)?;
            let attached_before = |prefix: &Prefix| vrf.sites.iter().find(|other| other.prefixes.contains(prefix));
            if let Some((prefix, other)) =
                site.prefixes.iter().find_map(|prefix| Some((prefix, attached_before(prefix)?)))
            {
                let name = &self.scenario.sites[other.site].name;
                let what = format!("{prefix} is attached to {name} and to {}", entry.key);
                return Err(entry.problem(what, "attach each prefix to one site"));
            }
            vrf.sites.push(site);
        }
        Ok(vrf)
    }

    /// The number of a virtual network by its name.
    fn number(&self, entry: &Entry, name: &str) -> Result<usize, Problem> {
        let names = self.tables.iter().map(|vrf| vrf.key.as_str());
        let unknown = || entry.problem(format!("there is no virtual network {name:?}"), instead(name, names.clone()));
        self.tables.iter().position(|vrf| vrf.key == name).ok_or_else(unknown)
    }

    fn site(&self, entry: &Entry) -> Result<VrfSite, Problem> {
        let site = site_of(entry, &entry.key, self.scenario)?;
        let table = entry.table(SITE_REMEDY)?;
        table.only(&["prefix", "route"], "a site of a virtual network")?;
        let prefixes = match table.get("prefix").map(|entry| (&entry.value, entry)) {
            Some((Value::List(items), _)) => items.iter().map(prefix).collect::<Result<_, _>>()?,
            Some((_, entry)) => vec![prefix(entry)?],
            None => Vec::new(),
        };
        let mut routes: Vec<ForwardingRoute> = Vec::new();
        for entry in
            table.get("route").map_or(Ok([].as_slice()), |entry| Ok(entry.table(ROUTE_REMEDY)?.entries.as_slice()))?
        {
            let prefix = parse(entry, &entry.key)?;
            if routes.iter().any(|known| known.prefix == prefix) {
                return Err(entry.problem(format!("{prefix} has two next hops"), "write it once"));
            }
            routes.push(ForwardingRoute { prefix, next: self.next_hop(entry, site)? });
        }
        Ok(VrfSite { site, prefixes, routes })
    }

    fn next_hop(&self, entry: &Entry, site: usize) -> Result<NextHop, Problem> {
        let Value::Table(table) = &entry.value else {
            let name = entry.text(NEXT_REMEDY)?;
            if name == DISCARD {
                return Ok(NextHop::Discard);
            }
            return Ok(NextHop::Forward { over: Some(self.path(entry, name, site)?), vrf: None });
        };
        table.only(&["next", "vrf"], "a next hop")?;
        let over = table.get("next").map(|next| self.path(next, next.text(NEXT_REMEDY)?, site)).transpose()?;
        let vrf = table.get("vrf").map(|vrf| self.number(vrf, vrf.text(NEXT_REMEDY)?)).transpose()?;
        if over.is_none() && vrf.is_none() {
            return Err(entry.problem(format!("{} leads nowhere", entry.key), NEXT_REMEDY));
        }
        Ok(NextHop::Forward { over, vrf })
    }

    /// The path of a next hop: by its name, or the only path to a neighbour.
    fn path(&self, entry: &Entry, name: &str, site: usize) -> Result<usize, Problem> {
        let here = &self.scenario.sites[site].name;
        let other_end = |path: usize| {
            let [a, b] = self.scenario.paths[path].ends.map(|end| end.site);
            if a == site { Some(b) } else { (b == site).then_some(a) }
        };
        if let Some(path) = self.scenario.path(name) {
            let remedy = format!("name a path of {here}, or a neighbour");
            return other_end(path)
                .map(|_| path)
                .ok_or_else(|| entry.problem(format!("{name} does not begin at {here}"), remedy));
        }
        let neighbours = (0..self.scenario.paths.len()).filter_map(|path| Some((path, other_end(path)?)));
        let mut to_name = neighbours.clone().filter(|(_, other)| self.scenario.sites[*other].name == name);
        match (to_name.next(), to_name.next()) {
            (Some((path, _)), None) => Ok(path),
            (Some((one, _)), Some((other, _))) => {
                let [one, other] = [one, other].map(|path| &self.scenario.paths[path].name);
                Err(entry.problem(format!("{one} and {other} both lead from {here} to {name}"), "name the path"))
            }
            (None, _) => {
                let names: Vec<&str> = neighbours.map(|(_, other)| self.scenario.sites[other].name.as_str()).collect();
                Err(entry.problem(format!("no path leads from {here} to {name:?}"), instead(name, names)))
            }
        }
    }
}

fn prefix(entry: &Entry) -> Result<Prefix, Problem> {
    parse(entry, entry.text(PREFIX_REMEDY)?)
}

fn parse(entry: &Entry, text: &str) -> Result<Prefix, Problem> {
    text.parse().map_err(|remedy: String| entry.problem(format!("{text:?} is not a prefix"), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: &str =
        "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\n[path.b-c]\n[path.second]\nsites = [\"b/eth1\", \"c\"]\n";

    fn read(text: &str) -> Result<Forwarding, Problem> {
        let sites = SITES.replace("[site.b]\n", "[site.b]\n[site.b.interface.eth1]\n");
        Forwarding::read(text, &Scenario::read(&sites).unwrap())
    }

    #[test]
    fn a_configuration_is_read_and_written() {
        let text = "[vrf.x]\nreaches = [\"y\"]\n\n[vrf.x.site.a]\nprefix = [\"10.1.0.0/16\", \"fd00::/8\"]\nroute = { \"0.0.0.0/0\" = \"a-b\" }\n\n\
                    [vrf.x.site.b]\nroute = { \"10.0.0.0/8\" = { next = \"second\", vrf = \"y\" }, \"10.3.0.0/16\" = \"discard\", \"10.4.0.0/16\" = { vrf = \"y\" } }\n\n\
                    [vrf.y]\n\n[vrf.y.site.c]\nprefix = [\"10.2.0.0/16\"]\n\n";
        let read = read(text).unwrap();
        let scenario = Scenario::read(&SITES.replace("[site.b]\n", "[site.b]\n[site.b.interface.eth1]\n")).unwrap();
        assert_eq!(read.write(&scenario), text);
        assert_eq!(read.vrfs[0].sites[0].routes[0].next, NextHop::Forward { over: Some(0), vrf: None });
    }

    #[test]
    fn a_configuration_that_makes_no_sense_is_refused_with_its_line() {
        let a = "[vrf.x.site.a]\n";
        let cases = [
            ("".to_owned(), 1, "no virtual network", "[vrf.ska]"),
            ("[vrf.x]\n".to_owned(), 1, "x has no site", "[vrf.x.site.perth]"),
            ("[vrf.x.site.moon]\n".to_owned(), 1, "no site \"moon\"", "a, b, c"),
            (format!("{a}prefix = 10\n"), 2, "prefix cannot be 10", "in quotes"),
            (format!("{a}prefix = '10.1.2.3/16'\n"), 2, "not a prefix", "10.1.0.0/16"),
            (format!("{a}prefix = '10.1.0.0'\n"), 2, "not a prefix", "/16"),
            (format!("{a}route = {{ '10.0.0.0/8' = 'c' }}\n"), 2, "no path leads from a to \"c\"", "b"),
            (format!("{a}route = {{ '10.0.0.0/8' = 'b-c' }}\n"), 2, "b-c does not begin at a", "neighbour"),
            (
                "[vrf.x.site.b]\nroute = { '10.0.0.0/8' = 'c' }\n".to_owned(),
                2,
                "b-c and second both lead",
                "name the path",
            ),
            (format!("{a}route = {{ '10.0.0.0/8' = {{ vrf = 'z' }} }}\n"), 2, "no virtual network \"z\"", "x"),
            (format!("{a}route = {{ '10.0.0.0/8' = {{ }} }}\n"), 2, "leads nowhere", "discard"),
            (
                format!("{a}prefix = '10.1.0.0/16'\n[vrf.x.site.b]\nprefix = '10.1.0.0/16'\n"),
                3,
                "attached to a and to b",
                "one site",
            ),
            (format!("{a}table = 1\n"), 2, "no word \"table\"", "prefix"),
        ];
        for (text, line, what, remedy) in cases {
            let problem = read(&text).expect_err(&text);
            assert_eq!(problem.line, line, "{problem}\n{text}");
            assert!(problem.what.contains(what) && problem.remedy.contains(remedy), "{problem}\n{text}");
        }
    }
}
