//! The twin of a collaboration: what the hub knows of endpoints, links, marks, routes and queues, as the text of a scenario; and what would
//! happen if something were different.
//!
//! What the watch measured between two sites is a path of its own in the twin: transfers of this pair cross it besides the links.
//!
//! What a twin does not know: the network behind the described links. A link that fails has no detour in a twin.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::v1::hub::{Campaign, Collaboration, Link, WhatIf};
use model::{Fault, Refusal};

use crate::database::queues::Queue;
use crate::measurements::{MeasuredPath, MeasuredPaths};
use crate::topology::Topology;

/// The longest simulated time.
const DURATION_DAYS: u32 = 60;
/// The round-trip time of a pair that nobody has measured and whose sites have no location.
const RTT_UNKNOWN_S: f64 = 0.05;
/// Seconds that light takes for a kilometre of the Earth's surface and back: fibre is longer than the great circle by about a half.
const RTT_S_PER_KM: f64 = 1.5 * 2.0 * 5e-6;
const EARTH_RADIUS_KM: f64 = 6371.0;

/// Bytes that wait between two endpoints.
#[derive(Clone, Debug, PartialEq)]
struct Backlog {
    source: String,
    target: String,
    activity: String,
    priority: i64,
    files: u64,
    bytes: u64,
    /// Seconds from now.
    deadline_s: Option<f64>,
}

/// What is known of a collaboration at one moment.
#[derive(Clone, Debug)]
pub struct Twin {
    described: Collaboration,
    backlogs: Vec<Backlog>,
    measured: MeasuredPaths,
}

impl Twin {
    /// The twin of a collaboration with its queues and what was measured. `now` is in milliseconds since 1970.
    pub fn new(described: &Collaboration, queues: &[Queue], measured: MeasuredPaths, now: i64) -> Twin {
        let backlog = |queue: &Queue| Backlog {
            source: queue.key.source.clone(),
            target: queue.key.target.clone(),
            activity: format!("{}/{}", queue.key.community, queue.key.activity),
            priority: queue.key.priority,
            files: (queue.queued + queue.running).max(0) as u64,
            bytes: (queue.queued_bytes + queue.running_bytes).max(0) as u64,
            deadline_s: (queue.key.deadline > now).then(|| (queue.key.deadline - now) as f64 / 1e3),
        };
        let backlogs = queues.iter().map(backlog).filter(|backlog| backlog.bytes > 0).collect();
        Twin { described: described.clone(), backlogs, measured }
    }

    /// Changes the twin.
    ///
    /// # Errors
    /// The change names a link or an endpoint that is not described, or has a mark that cannot be.
    pub fn change(&mut self, change: &WhatIf) -> Result<(), Refusal> {
        for name in &change.cut {
            self.link(name)?.capacity_bit_s = 0;
        }
        for (name, mark) in &change.marks {
            if !(*mark > 0.0 && *mark <= 1.0) {
                return Err(Refusal::new(
                    Fault::Config,
                    format!("{mark} cannot be the mark of {name}: write a part from 0 to 1"),
                ));
            }
            self.link(name)?.mark = *mark;
        }
        for (name, capacity_bit_s) in &change.capacities_bit_s {
            self.link(name)?.capacity_bit_s = *capacity_bit_s;
        }
        for site in &change.add {
            self.add(&site.name, &site.like)?;
        }
        for campaign in &change.campaigns {
            self.add_campaign(campaign)?;
        }
        Ok(())
    }

    fn link(&mut self, name: &str) -> Result<&mut Link, Refusal> {
        let known = self.described.links.keys().cloned().collect::<Vec<_>>().join(", ");
        let unknown =
            || Refusal::new(Fault::Config, format!("there is no link {name}: the collaboration describes {known}"));
        self.described.links.get_mut(name).ok_or_else(unknown)
    }

    /// Adds an endpoint at a site of its own, with the limits and routes of another one.
    fn add(&mut self, name: &str, like: &str) -> Result<(), Refusal> {
        let Some(mut endpoint) = self.described.endpoints.get(like).cloned() else {
            return Err(Refusal::new(Fault::Config, format!("there is no endpoint {like} that {name} could be like")));
        };
        let old_site = std::mem::replace(&mut endpoint.site, name.to_owned());
        endpoint.urls = vec![format!("lh://{name}.example/")];
        endpoint.storage = None;
        let site = self.described.sites.get(&old_site).cloned().unwrap_or_default();
        self.described.sites.insert(name.to_owned(), site);
        self.described.endpoints.insert(name.to_owned(), endpoint);
        let is_of_old = |end: &str| end == old_site;
        let renamed = |end: &str| if is_of_old(end) { name.to_owned() } else { end.to_owned() };
        let of_old = self.described.routes.iter().filter(|route| is_of_old(&route.from) || is_of_old(&route.to));
        let added: Vec<_> = of_old
            .map(|route| {
                let mut route = route.clone();
                route.from = renamed(&route.from);
                route.to = renamed(&route.to);
                route
            })
            .collect();
        self.described.routes.extend(added);
        Ok(())
    }

    fn add_campaign(&mut self, campaign: &Campaign) -> Result<(), Refusal> {
        for end in [&campaign.source, &campaign.target] {
            if !self.described.endpoints.contains_key(end) {
                return Err(Refusal::new(Fault::Config, format!("there is no endpoint {end} for the campaign")));
            }
        }
        self.backlogs.push(Backlog {
            source: campaign.source.clone(),
            target: campaign.target.clone(),
            activity: "campaign".to_owned(),
            priority: 3,
            files: (campaign.bytes / campaign.file_bytes.max(1)).max(1),
            bytes: campaign.bytes,
            deadline_s: campaign.deadline_s,
        });
        Ok(())
    }

    /// The scenario as text.
    ///
    /// # Errors
    /// The changed description is not consistent.
    pub fn scenario(&self, now: i64) -> Result<String, Refusal> {
        let topology = Topology::at(self.described.clone(), now)
            .map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        let mut names = Names::default();
        let mut text = format!(
            "# A collaboration as its hub knows it: endpoints, links, marks, routes, and what waits.\n\
             # Each link connects two sites of its own, because the hub does not know what connects the links.\n\n\
             [simulate]\nduration = \"{DURATION_DAYS}d\"\nstep = \"30s\"\n\n"
        );
        let mut ends: Vec<&str> = self.described.endpoints.keys().map(String::as_str).collect();
        ends.extend(self.backlogs.iter().flat_map(|backlog| [backlog.source.as_str(), backlog.target.as_str()]));
        ends.sort_unstable();
        ends.dedup();
        ends.iter().for_each(|end| self.write_endpoint(&mut text, &mut names, end));
        for (name, link) in &self.described.links {
            write_link(&mut text, &mut names, name, link);
        }
        self.write_routes(&mut text, &names, &topology);
        for (number, backlog) in self.backlogs.iter().enumerate() {
            write_backlog(&mut text, &names, number, backlog);
        }
        Ok(text)
    }

    fn write_endpoint(&self, text: &mut String, names: &mut Names, end: &str) {
        let _ = writeln!(text, "[site.{}] # {end:?}", names.add(end));
        let Some(endpoint) = self.described.endpoints.get(end) else { return text.push('\n') };
        if !endpoint.site.is_empty() {
            let _ = writeln!(text, "group = {:?}", format!("site {}", endpoint.site));
        }
        if let Some([north, east]) = self.described.sites.get(&endpoint.site).and_then(|site| site.location) {
            let _ = writeln!(text, "position = [{north:?}, {east:?}]");
        }
        for (word, rate) in [("read_rate", endpoint.limits.out_bit_s), ("write_rate", endpoint.limits.in_bit_s)] {
            if let Some(rate) = rate.filter(|rate| *rate > 0) {
                let _ = writeln!(text, "{word} = \"{rate}bit/s\"");
            }
        }
        text.push('\n');
    }

    /// The routes of all pairs between which something waits.
    fn write_routes(&self, text: &mut String, names: &Names, topology: &Topology) {
        let mut pairs: Vec<(&str, &str)> =
            self.backlogs.iter().map(|backlog| (backlog.source.as_str(), backlog.target.as_str())).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for (number, (source, target)) in pairs.into_iter().filter(|(source, target)| source != target).enumerate() {
            let links = topology.links_of_pair(source, target);
            let measured = self.measured_between(source, target);
            let mut over: Vec<String> = links
                .iter()
                .map(|(link, reverse)| {
                    format!("{:?}", format!("{}{}", if *reverse { "!" } else { "" }, names.path(link)))
                })
                .collect();
            if let Some(path) = measured.and_then(|measured| measured_path(number, measured)) {
                text.push_str(&path);
                over.push(format!("\"m{number}\""));
            }
            let rtt_s = self.rtt_s(source, target);
            let _ = write!(
                text,
                "[route.r{number}]\nfrom = \"{}\"\nto = \"{}\"\nover = [{}]\nrtt = \"{:.1}ms\"\n\n",
                names.site(source),
                names.site(target),
                over.join(", "),
                rtt_s * 1e3
            );
        }
    }

    /// What was measured between the sites of two endpoints.
    fn measured_between(&self, source: &str, target: &str) -> Option<&MeasuredPath> {
        let site = |end: &str| self.described.endpoints.get(end).map(|endpoint| endpoint.site.as_str());
        self.measured.between(site(source)?, site(target)?)
    }

    /// The round-trip time between two endpoints: as measured, or else from the locations of their sites.
    fn rtt_s(&self, source: &str, target: &str) -> f64 {
        if let Some(rtt_s) = self.measured_between(source, target).and_then(|measured| measured.rtt_s) {
            return rtt_s;
        }
        let location = |end: &str| self.described.sites.get(&self.described.endpoints.get(end)?.site)?.location;
        match (location(source), location(target)) {
            (Some(from), Some(to)) => great_circle_km(from, to) * RTT_S_PER_KM,
            _ => RTT_UNKNOWN_S,
        }
    }
}

/// The distance on the surface of the Earth (haversine formula).
fn great_circle_km(from: [f64; 2], to: [f64; 2]) -> f64 {
    let [north, east] = [to[0] - from[0], to[1] - from[1]].map(|degrees| (degrees.to_radians() / 2.0).sin().powi(2));
    let half = north + from[0].to_radians().cos() * to[0].to_radians().cos() * east;
    2.0 * EARTH_RADIUS_KM * half.sqrt().min(1.0).asin()
}

fn write_link(text: &mut String, names: &mut Names, name: &str, link: &Link) {
    let path = names.add_path(name);
    let free = link.capacity_bit_s.saturating_sub(link.others_bit_s);
    let down = if free == 0 { "down = true\n".to_owned() } else { format!("rate = \"{free}bit/s\"\n") };
    let _ = write!(
        text,
        "[site.{path}-a]\n[site.{path}-b]\n[path.{path}] # {name:?}\nsites = [\"{path}-a\", \"{path}-b\"]\n{down}mark = {:?}\n\n",
        link.mark
    );
}

/// A path with the measured rate and loss between two endpoints; none if neither limits anything.
fn measured_path(number: usize, measured: &MeasuredPath) -> Option<String> {
    let rate = measured.rate_bit_s.filter(|rate| *rate >= 1.0).map(|rate| format!("rate = \"{rate:.0}bit/s\"\n"));
    let loss = measured.loss.filter(|loss| *loss > 0.0).map(|loss| format!("loss = \"{:.6}%\"\n", loss * 100.0));
    if rate.is_none() && loss.is_none() {
        return None;
    }
    Some(format!(
        "[site.m{number}-a]\n[site.m{number}-b]\n[path.m{number}] # measured from {:?} to {:?}\nsites = [\"m{number}-a\", \"m{number}-b\"]\n{}{}\n",
        measured.from,
        measured.to,
        rate.unwrap_or_default(),
        loss.unwrap_or_default()
    ))
}

fn write_backlog(text: &mut String, names: &Names, number: usize, backlog: &Backlog) {
    if backlog.source == backlog.target {
        return;
    }
    let _ = write!(
        text,
        "[work.q{number}]\nfrom = \"{}\"\nto = \"{}\"\nbytes = \"{}B\"\nfile = \"{}B\"\nactivity = {:?}\npriority = {}\n",
        names.site(&backlog.source),
        names.site(&backlog.target),
        backlog.bytes,
        (backlog.bytes / backlog.files.max(1)).max(1),
        backlog.activity,
        backlog.priority.clamp(1, 5)
    );
    if let Some(deadline_s) = backlog.deadline_s {
        let _ = writeln!(text, "deadline = \"{deadline_s:.0}s\"");
    }
    text.push('\n');
}

/// Names of endpoints and links as a scenario can have them: short, of letters, digits and hyphens, and unique.
#[derive(Debug, Default)]
struct Names {
    sites: BTreeMap<String, String>,
    paths: BTreeMap<String, String>,
}

impl Names {
    /// The longest beginning of a name that is kept; the name of a site has 32 characters at most.
    const PREFIX_CHARS: usize = 20;

    fn add(&mut self, end: &str) -> String {
        let name = format!("{}-{}", plain(end), self.sites.len());
        self.sites.insert(end.to_owned(), name.clone());
        name
    }

    fn add_path(&mut self, link: &str) -> String {
        let name = format!("l-{}-{}", plain(link), self.paths.len());
        self.paths.insert(link.to_owned(), name.clone());
        name
    }

    fn site(&self, end: &str) -> &str {
        self.sites.get(end).map_or("", String::as_str)
    }

    fn path(&self, link: &str) -> &str {
        self.paths.get(link).map_or("", String::as_str)
    }
}

/// The beginning of a name in lower case, with hyphens for all characters but letters and digits. If only digits or nothing is left,
/// an `x` is put before it.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = name.chars().take(Names::PREFIX_CHARS).map(letter).collect();
    let text = text.trim_matches('-');
    if text.is_empty() || text.bytes().all(|c| c.is_ascii_digit()) { format!("x{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use model::v1::hub::AddedEndpoint;
    use scenario::Scenario;

    use super::*;

    const DESCRIBED: &str = r#"
        [site.cern]
        location = [46.23, 6.05]
        [site.ska]
        location = [-31.95, 115.86]
        [endpoint.cern-dtn]
        site = "cern"
        urls = ["lh://dtn.cern.example"]
        limits = { out_bit_s = 20000000000 }
        [endpoint.ska-dtn]
        site = "ska"
        urls = ["lh://dtn.ska.example"]
        [link.ocean]
        capacity_bit_s = 10000000000
        mark = 0.5
        [[route]]
        from = "cern"
        to = "ska"
        links = ["ocean"]
    "#;

    fn twin() -> Twin {
        Twin::new(&toml::from_str(DESCRIBED).unwrap(), &[], MeasuredPaths::default(), 0)
    }

    fn campaign(target: &str) -> Campaign {
        let (source, target) = ("cern-dtn".to_owned(), target.to_owned());
        Campaign { source, target, bytes: 5_000_000_000_000, file_bytes: 10_000_000_000, deadline_s: None }
    }

    /// Hours until everything has arrived; none if it does not.
    fn hours(twin: &Twin) -> Option<f64> {
        let text = twin.scenario(0).unwrap();
        let scenario = Scenario::read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        let mut rounds = 0;
        let outcome = plan::simulate(&scenario, None, &mut |_| {
            rounds += 1;
            rounds < 20_000
        });
        outcome.complete.then(|| outcome.work.iter().map(|work| work.last_s).fold(0.0, f64::max) / 3600.0)
    }

    #[test]
    fn a_campaign_takes_the_time_of_its_bytes_below_the_mark() {
        let mut twin = twin();
        twin.change(&WhatIf { campaigns: vec![campaign("ska-dtn")], ..WhatIf::default() }).unwrap();
        // 5 TB at 5 Gbit/s.
        assert!((hours(&twin).unwrap() - 2.22).abs() < 0.05, "{:?}", hours(&twin));
        twin.change(&WhatIf { marks: [("ocean".into(), 0.25)].into(), ..WhatIf::default() }).unwrap();
        assert!((hours(&twin).unwrap() - 4.44).abs() < 0.05, "{:?}", hours(&twin));
    }

    #[test]
    fn a_pair_is_as_slow_as_it_was_measured() {
        let mut twin = twin();
        twin.change(&WhatIf { campaigns: vec![campaign("ska-dtn")], ..WhatIf::default() }).unwrap();
        let measured = |rate_bit_s| {
            let (from, to) = ("cern".to_owned(), "ska".to_owned());
            let path = MeasuredPath { from, to, rtt_s: Some(0.303), loss: Some(0.0), rate_bit_s };
            Twin { measured: [path].into_iter().collect(), ..twin.clone() }
        };
        assert!((hours(&measured(Some(2.5e9))).unwrap() - 4.44).abs() < 0.05, "half of what the link allows");
        assert!((hours(&measured(Some(9e9))).unwrap() - 2.22).abs() < 0.05, "the mark of the link is lower");
        let text = measured(None).scenario(0).unwrap();
        assert!(text.contains("rtt = \"303.0ms\""), "{text}");
        assert!(!text.contains("[path.m0]"), "nothing is lost, and no rate was measured: {text}");
    }

    #[test]
    fn nothing_passes_a_link_that_is_cut() {
        let mut twin = twin();
        twin.change(&WhatIf { campaigns: vec![campaign("ska-dtn")], cut: vec!["ocean".into()], ..WhatIf::default() })
            .unwrap();
        assert_eq!(hours(&twin), None);
    }

    #[test]
    fn an_added_endpoint_has_the_routes_of_the_one_that_it_is_like() {
        let mut twin = twin();
        let add = vec![AddedEndpoint { name: "perth".into(), like: "ska-dtn".into() }];
        twin.change(&WhatIf { add, campaigns: vec![campaign("perth")], ..WhatIf::default() }).unwrap();
        assert!((hours(&twin).unwrap() - 2.22).abs() < 0.05, "{:?}", hours(&twin));
    }

    #[test]
    fn a_change_of_something_that_is_not_described_is_refused() {
        let reason = |change: WhatIf| twin().change(&change).unwrap_err().reason;
        assert!(reason(WhatIf { cut: vec!["moon".into()], ..WhatIf::default() }).contains("describes ocean"));
        assert!(reason(WhatIf { marks: [("ocean".into(), 1.5)].into(), ..WhatIf::default() }).contains("0 to 1"));
        assert!(reason(WhatIf { campaigns: vec![campaign("moon")], ..WhatIf::default() }).contains("no endpoint moon"));
    }
}
