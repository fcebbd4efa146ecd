//! The described collaboration, checked and indexed: the endpoint of a URL, the shared resources between two endpoints, and what is
//! stopped.

mod downtimes;
mod resources;
mod storage;
mod urls;

use std::collections::{BTreeMap, HashMap};

use model::v1::hub::{Collaboration, Endpoint, EndpointKind, Route, Stopped};

use self::downtimes::{all_stops, check_downtimes, is_in_force};
use self::resources::resources;
pub use self::resources::{Resource, ResourceOf};
pub use self::storage::StoragePlace;
use self::urls::{authority, is_below, normalised, prefixes};

/// The most transfers of an endpoint at once in each direction, by default.
pub const TRANSFERS_DEFAULT: u32 = 20;

/// Why a description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct TopologyError {
    /// The part that is wrong, such as `endpoint cern`.
    pub what: String,
    /// What is wrong with it, and what is expected.
    pub why: String,
}

fn wrong(what: String, why: impl Into<String>) -> TopologyError {
    TopologyError { what, why: why.into() }
}

/// A checked collaboration, and its resources.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The collaboration as it was described.
    pub described: Collaboration,
    /// The shared resources.
    pub resources: Vec<Resource>,
    /// The storage of endpoints, by endpoint.
    pub storage: BTreeMap<String, StoragePlace>,
    /// The time at which downtimes are evaluated, milliseconds since 1970.
    at: i64,
    by_name: HashMap<ResourceOf, u32>,
    /// Normalised prefixes of URLs with their endpoints, the longer ones first.
    prefixes: Vec<(String, String)>,
}

impl Topology {
    /// Checks a description, and evaluates its downtimes now.
    ///
    /// # Errors
    /// The description refers to something that it does not define, or has an invalid value.
    pub fn new(described: Collaboration) -> Result<Topology, TopologyError> {
        Topology::at(described, crate::time::now())
    }

    /// Checks a description, and evaluates its downtimes at a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// The description refers to something that it does not define, or has an invalid value.
    pub fn at(described: Collaboration, at: i64) -> Result<Topology, TopologyError> {
        check(&described)?;
        let mut topology = Topology { prefixes: prefixes(&described)?, described, at, ..Topology::default() };
        for resource in resources(&topology.described) {
            topology.by_name.insert(resource.of.clone(), topology.resources.len() as u32);
            topology.resources.push(resource);
        }
        topology.storage = topology.storage_places()?;
        Ok(topology)
    }

    fn storage_places(&self) -> Result<BTreeMap<String, StoragePlace>, TopologyError> {
        let mut places: BTreeMap<String, StoragePlace> = BTreeMap::new();
        for (name, endpoint) in &self.described.endpoints {
            let Some(storage) = &endpoint.storage else { continue };
            let what = || format!("endpoint {name}");
            if self.endpoint(&storage.url).as_ref() != Some(name) {
                return Err(wrong(what(), "the url of its storage is not one of its urls, and not below one"));
            }
            let place = StoragePlace::new(name, endpoint, storage).map_err(|why| wrong(what(), why))?;
            // In a shared directory, the data of one endpoint would be unknown files of the other.
            if let Some(other) = places.values().find(|other| urls::overlap(&other.url, &place.url)) {
                let other = &other.endpoint;
                return Err(wrong(
                    what(),
                    format!(
                        "its storage and that of {other} lie within one another: each needs a directory of its own"
                    ),
                ));
            }
            places.insert(name.clone(), place);
        }
        Ok(places)
    }

    /// The endpoint of a URL: the described one with the longest prefix, otherwise `SCHEME://HOST[:PORT]`. `None` if it is not a URL of a
    /// scheme that the hub supports.
    pub fn endpoint(&self, url: &str) -> Option<String> {
        let normal = normalised(url)?;
        let described = self.prefixes.iter().find(|(prefix, _)| is_below(&normal, prefix));
        described.map(|(_, name)| name.clone()).or_else(|| Some(authority(&normal)?.to_owned()))
    }

    /// The description of an endpoint; `None` if only its URL is known.
    pub fn described_endpoint(&self, name: &str) -> Option<&Endpoint> {
        self.described.endpoints.get(name)
    }

    /// The kind of an endpoint. If only its URL is known, the scheme decides.
    pub fn kind(&self, name: &str) -> EndpointKind {
        match self.described_endpoint(name) {
            Some(endpoint) => endpoint.kind,
            None if name.starts_with("lh://") => EndpointKind::Node,
            None if name.starts_with("s3://") => EndpointKind::S3,
            None => EndpointKind::Webdav,
        }
    }

    /// The resources between two endpoints for a community, as indices.
    pub fn path(&self, source: &str, target: &str, community: &str) -> Vec<u32> {
        let mut path = Vec::new();
        let mut cross = |of: ResourceOf| path.extend(self.by_name.get(&of).copied());
        cross(ResourceOf::EndpointOut(source.to_owned()));
        for of in self.links_between(source, target) {
            cross(of);
        }
        cross(ResourceOf::EndpointIn(target.to_owned()));
        cross(ResourceOf::Community(community.to_owned()));
        path.sort_unstable();
        path.dedup();
        path
    }

    /// The links between two endpoints, and whether each is crossed in reverse. A link that is not duplex is never crossed in reverse: its
    /// two directions share one capacity.
    pub fn links_of_pair(&self, source: &str, target: &str) -> Vec<(String, bool)> {
        let links = self.links_between(source, target).into_iter();
        links
            .filter_map(|of| if let ResourceOf::Link { name, reverse } = of { Some((name, reverse)) } else { None })
            .collect()
    }

    fn links_between(&self, source: &str, target: &str) -> Vec<ResourceOf> {
        let site =
            |name: &str| self.described_endpoint(name).map(|endpoint| endpoint.site.as_str()).unwrap_or_default();
        let (from, to) = (site(source), site(target));
        let Some((route, reverse)) = self.route(from, to) else { return Vec::new() };
        let to_resource = |link: &String| {
            let (name, is_against) = parse_link(link);
            let duplex = self.described.links.get(name).is_some_and(|link| link.duplex);
            ResourceOf::Link { name: name.to_owned(), reverse: reverse != is_against && duplex }
        };
        route.links.iter().map(to_resource).collect()
    }

    /// The route between two sites, and whether it is crossed in reverse. Of several matching routes the most specific one counts.
    fn route(&self, from: &str, to: &str) -> Option<(&Route, bool)> {
        if from == to {
            return None;
        }
        let fits = |pattern: &str, site: &str| pattern == "*" || pattern == site;
        let specificity = |route: &Route| u8::from(route.from != "*") + u8::from(route.to != "*");
        let candidates = self.described.routes.iter().flat_map(|route| {
            let forward = (fits(&route.from, from) && fits(&route.to, to)).then_some((route, false));
            let reverse = (fits(&route.from, to) && fits(&route.to, from)).then_some((route, true));
            forward.into_iter().chain(reverse)
        });
        candidates.max_by_key(|(route, reverse)| (specificity(route), !reverse))
    }

    /// The first stop that forbids new transfers between two endpoints for a community, with the name of the stopped part.
    pub fn stopped(&self, source: &str, target: &str, community: &str) -> Option<(String, &Stopped)> {
        self.stops(source, target, community).next()
    }

    /// Whether running transfers between two endpoints for a community must pause: a part is stopped, and not only closed to new transfers.
    pub fn is_paused(&self, source: &str, target: &str, community: &str) -> bool {
        self.stops(source, target, community).any(|(_, stopped)| !stopped.drain && !stopped.refuse)
    }

    /// Whether all jobs from or to an endpoint are refused.
    pub fn refuses(&self, endpoint: &str) -> bool {
        self.stops(endpoint, endpoint, "").any(|(_, stopped)| stopped.refuse)
    }

    /// Whether an endpoint, its site or everything is stopped.
    pub fn is_stopped(&self, endpoint: &str) -> bool {
        self.stops(endpoint, endpoint, "").next().is_some()
    }

    /// When the next downtime begins or ends, if there is one: the topology must be rebuilt then.
    pub fn next_change(&self) -> Option<i64> {
        let times = all_stops(&self.described).flat_map(|(_, stopped)| [&stopped.from, &stopped.until]);
        times.filter_map(|text| crate::time::parse(text)).filter(|time| *time > self.at).min()
    }

    /// All stops between two endpoints for a community, each with the name of the stopped part.
    pub fn stops(&self, source: &str, target: &str, community: &str) -> impl Iterator<Item = (String, &Stopped)> {
        let everything = self.described.stopped.as_ref().map(|stopped| ("everything".to_owned(), stopped));
        let endpoints = [source.to_owned(), target.to_owned()].into_iter().flat_map(|name| {
            let endpoint = self.described_endpoint(&name);
            let of_endpoint = endpoint.and_then(|it| Some((format!("endpoint {name}"), it.stopped.as_ref()?)));
            let of_site = endpoint.and_then(|it| {
                let stopped = self.described.sites.get(&it.site)?.stopped.as_ref()?;
                Some((format!("site {}", it.site), stopped))
            });
            of_endpoint.into_iter().chain(of_site)
        });
        let links = self.links_between(source, target).into_iter().filter_map(|of| match of {
            ResourceOf::Link { name, .. } => {
                Some((format!("link {name}"), self.described.links.get(&name)?.stopped.as_ref()?))
            }
            _ => None,
        });
        let of_community = self.described.communities.get(community);
        let of_community = of_community.and_then(|it| Some((format!("community {community}"), it.stopped.as_ref()?)));
        let all = everything.into_iter().chain(endpoints).chain(links).chain(of_community);
        all.filter(|(_, stopped)| is_in_force(stopped, self.at))
    }

    /// The share of a community, and of an activity within it.
    pub fn shares(&self, community: &str, activity: &str) -> (f64, f64) {
        let described = self.described.communities.get(community);
        let share = described.and_then(|it| it.share).unwrap_or(1.0);
        (share, described.and_then(|it| it.activities.get(activity)?.share).unwrap_or(1.0))
    }

    /// The most transfers of an endpoint at once: out and in.
    pub fn transfers_max(&self, name: &str) -> (u32, u32) {
        let limits = self.described_endpoint(name).map(|endpoint| &endpoint.limits);
        let or_default = |limit: Option<u32>| limit.unwrap_or(TRANSFERS_DEFAULT);
        (or_default(limits.and_then(|it| it.out_transfers)), or_default(limits.and_then(|it| it.in_transfers)))
    }
}

impl Topology {
    /// The most bytes that may be on their way to an endpoint, if that is bounded.
    pub fn space_bytes(&self, name: &str) -> Option<i64> {
        let space = self.described_endpoint(name)?.limits.space_bytes?;
        Some(i64::try_from(space).unwrap_or(i64::MAX))
    }

    /// The most files that may be opened at an endpoint per second, if that is bounded.
    pub fn files_s(&self, name: &str) -> Option<f64> {
        self.described_endpoint(name)?.limits.files_s.map(f64::from)
    }
}

/// Parses a link of a route: its name, and whether the route crosses it against its own direction, written `!NAME`.
fn parse_link(link: &str) -> (&str, bool) {
    link.strip_prefix('!').map_or((link, false), |name| (name, true))
}

fn check(described: &Collaboration) -> Result<(), TopologyError> {
    let names = [
        ("site", described.sites.keys().collect::<Vec<_>>()),
        ("endpoint", described.endpoints.keys().collect()),
        ("link", described.links.keys().collect()),
        ("community", described.communities.keys().collect()),
    ];
    for (kind, names) in names {
        for name in names {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > 128 || !name.chars().all(is_plain) {
                return Err(wrong(
                    format!("{kind} {name:?}"),
                    "a name has letters, digits, `-`, `_` and `.`, at most 128",
                ));
            }
        }
    }
    described.endpoints.iter().try_for_each(|(name, endpoint)| check_endpoint(described, name, endpoint))?;
    check_downtimes(described)?;
    for (name, link) in &described.links {
        if !(0.0..=1.0).contains(&link.mark) {
            return Err(wrong(format!("link {name}"), "its mark must be a part of its capacity, from 0 to 1"));
        }
    }
    for Route { from, to, links } in &described.routes {
        let what = || format!("route {from} to {to}");
        for site in [from, to].into_iter().filter(|site| *site != "*") {
            if !described.sites.contains_key(site) {
                return Err(wrong(what(), format!("there is no site {site}")));
            }
        }
        if let Some(link) =
            links.iter().map(|link| parse_link(link).0).find(|link| !described.links.contains_key(*link))
        {
            return Err(wrong(what(), format!("there is no link {link}")));
        }
    }
    let mut vos = std::collections::BTreeSet::new();
    for (name, community) in &described.communities {
        if let Some(vo) = community.vos.iter().find(|vo| !vos.insert(*vo)) {
            return Err(wrong(
                format!("community {name}"),
                format!("the VO {vo} belongs to another community already"),
            ));
        }
        let shares = community.share.iter().chain(community.activities.values().filter_map(|it| it.share.as_ref()));
        if shares.into_iter().any(|share| !(share.is_finite() && *share > 0.0)) {
            return Err(wrong(format!("community {name}"), "a share must be a number larger than 0"));
        }
    }
    Ok(())
}

fn check_endpoint(described: &Collaboration, name: &str, endpoint: &Endpoint) -> Result<(), TopologyError> {
    let what = || format!("endpoint {name}");
    if !endpoint.site.is_empty() && !described.sites.contains_key(&endpoint.site) {
        return Err(wrong(what(), format!("there is no site {}", endpoint.site)));
    }
    if endpoint.urls.is_empty() {
        return Err(wrong(what(), "it has no URLs: set urls = [\"lh://HOST/\"]"));
    }
    let is_node = |gateway: &String| described.endpoints.get(gateway).is_some_and(|it| it.kind == EndpointKind::Node);
    match &endpoint.gateway {
        Some(gateway) if !is_node(gateway) => {
            Err(wrong(what(), format!("its gateway {gateway} is not an endpoint of kind node")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        [site.cern]
        [site.ska]
        [site.ral]
        [endpoint.cern-dtn]
        site = "cern"
        urls = ["lh://dtn.cern.example/"]
        [endpoint.ska-dtn]
        site = "ska"
        urls = ["lh://dtn.ska.example"]
        limits = { in_bit_s = 8000, in_transfers = 3 }
        [endpoint.ska-cold]
        site = "ska"
        urls = ["lh://dtn.ska.example/cold"]
        [endpoint.ral-dav]
        site = "ral"
        kind = "webdav"
        urls = ["davs://dav.ral.example/store"]
        [link.ocean]
        capacity_bit_s = 1000000000
        mark = 0.8
        [link.shared]
        capacity_bit_s = 800
        duplex = false
        [[route]]
        from = "cern"
        to = "ska"
        links = ["ocean", "shared"]
        [[route]]
        from = "*"
        to = "*"
        links = ["shared"]
        [community.astro]
        share = 3.0
        cap_bit_s = 80
        activity.production.share = 4.0
    "#;

    fn topology() -> Topology {
        Topology::new(toml::from_str(TOML).unwrap()).unwrap()
    }

    fn names(topology: &Topology, path: &[u32]) -> Vec<String> {
        path.iter().map(|at| topology.resources[*at as usize].of.name()).collect()
    }

    #[test]
    fn a_url_belongs_to_the_endpoint_with_the_longest_prefix() {
        let topology = topology();
        for (url, endpoint) in [
            ("lh://dtn.cern.example/data/f", Some("cern-dtn")),
            ("lh://DTN.ska.example:7411/data/f", Some("ska-dtn")),
            ("lh://dtn.ska.example/cold/f", Some("ska-cold")),
            ("lh://dtn.ska.example/coldest/f", Some("ska-dtn")),
            ("https://dav.ral.example:443/store/f?authz=x", Some("ral-dav")),
            ("davs://dav.ral.example/elsewhere/f", Some("https://dav.ral.example")),
            ("https://other.example:8443/f", Some("https://other.example:8443")),
            ("gsiftp://old.example/f", None),
            ("https:///f", None),
            ("https://u:p@host/f", None),
            ("/data/f", None),
            ("https://a b/f", None),
        ] {
            assert_eq!(topology.endpoint(url).as_deref(), endpoint, "{url}");
        }
        assert_eq!(topology.kind("ral-dav"), EndpointKind::Webdav);
        assert_eq!(topology.kind("lh://h"), EndpointKind::Node);
        assert_eq!(topology.kind("s3://bucket"), EndpointKind::S3);
    }

    #[test]
    fn a_path_crosses_endpoints_links_and_caps() {
        let topology = topology();
        let path = topology.path("cern-dtn", "ska-dtn", "astro");
        assert_eq!(names(&topology, &path), ["link ocean", "link shared", "endpoint ska-dtn, in", "community astro"]);
        let back = topology.path("ska-dtn", "cern-dtn", "other");
        assert_eq!(names(&topology, &back), ["link ocean, reverse", "link shared"]);
        let other = topology.path("ral-dav", "cern-dtn", "other");
        assert_eq!(names(&topology, &other), ["link shared"], "any two sites");
        assert!(topology.path("ska-cold", "ska-cold", "other").is_empty(), "nothing lies between a site and itself");
        assert_eq!(topology.resources[path[0] as usize].capacity, 125e6);
        let mut described: Collaboration = toml::from_str(TOML).unwrap();
        described.routes[0].links[0] = "!ocean".into();
        let against = Topology::new(described).unwrap();
        assert_eq!(names(&against, &against.path("cern-dtn", "ska-dtn", "astro"))[0], "link ocean, reverse");
        assert_eq!(topology.transfers_max("ska-dtn"), (20, 3));
        assert_eq!(topology.shares("astro", "production"), (3.0, 4.0));
        assert_eq!(topology.shares("unknown", "production"), (1.0, 1.0));
    }

    #[test]
    fn storage_has_urls_and_attributes() {
        let toml = "[site.x]\n[endpoint.a]\nsite = \"x\"\nurls = [\"lh://h/\"]\n[endpoint.a.storage]\nurl = \"lh://h/data/\"\n\
                    attributes = { region = \"eu\", tier = 1, scratch = true }";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let place = &topology.storage["a"];
        let words: Vec<_> = place.attributes.iter().map(|(word, value)| format!("{word}={value}")).collect();
        assert_eq!(words, ["region=eu", "scratch=true", "site=x", "tier=1"]);
        assert_eq!(place.number("tier"), Some(1.0));
        assert_eq!(place.to_free(i64::MAX), None, "nothing bounds it");
        let bounded = StoragePlace { capacity_bytes: Some(1_000), ..place.clone() };
        assert_eq!((bounded.to_free(900), bounded.to_free(901)), (None, Some(101)));
        assert_eq!(StoragePlace { greedy: true, ..place.clone() }.to_free(1), Some(i64::MAX));
        let name = "s:a b/f%1".parse().unwrap();
        assert_eq!(place.url_of(&name, None), "lh://h/data/s/a%20b/f%251");
        assert_eq!(place.url_of(&name, Some("old/f")), "lh://h/data/old/f");
    }

    #[test]
    fn the_stopped_part_is_named() {
        let mut described: Collaboration = toml::from_str(TOML).unwrap();
        let stopped = Stopped { reason: "power".into(), ..Stopped::default() };
        described.sites.get_mut("ska").unwrap().stopped = Some(stopped.clone());
        described.links.get_mut("shared").unwrap().stopped = Some(stopped.clone());
        let topology = Topology::new(described.clone()).unwrap();
        let what = |source, target| topology.stopped(source, target, "astro").map(|(what, _)| what);
        assert_eq!(what("cern-dtn", "ska-dtn").as_deref(), Some("site ska"));
        assert_eq!(what("cern-dtn", "ral-dav").as_deref(), Some("link shared"));
        described.stopped = Some(stopped);
        let all = Topology::new(described).unwrap();
        assert_eq!(all.stopped("https://a", "https://b", "x").map(|(what, _)| what).as_deref(), Some("everything"));
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        for (toml, error) in [
            ("[endpoint.a]\nsite = \"x\"\nurls = [\"lh://h\"]", "endpoint a: there is no site x"),
            ("[endpoint.a]", "endpoint a: it has no URLs"),
            ("[endpoint.a]\nurls = [\"ftp://h\"]", "is not a URL of an endpoint"),
            ("[endpoint.a]\nurls = [\"lh://h\"]\n[endpoint.b]\nurls = [\"lh://H:7411\"]", "is a URL of a too"),
            ("[endpoint.a]\nurls = [\"lh://h\"]\ngateway = \"b\"", "its gateway b is not an endpoint of kind node"),
            ("[link.l]\ncapacity_bit_s = 1\nmark = 1.5", "link l: its mark"),
            ("[endpoint.a]\nurls = [\"lh://h/x\"]\nstorage = { url = \"lh://h/y\" }", "the url of its storage"),
            (
                "[endpoint.a]\nurls = [\"lh://h\"]\nstorage = { url = \"lh://h/d\", naming = \"md5\" }",
                "endpoint a: \"md5\" is not a valid naming",
            ),
            ("[[route]]\nfrom = \"a\"\nto = \"*\"\nlinks = []", "there is no site a"),
            ("[[route]]\nfrom = \"*\"\nto = \"*\"\nlinks = [\"l\"]", "there is no link l"),
            ("[community.c]\nshare = 0.0", "a share must be a number"),
            ("[site.\"a b\"]", "a name has letters"),
        ] {
            let text = Topology::new(toml::from_str(toml).unwrap()).unwrap_err().to_string();
            assert!(text.contains(error), "{toml}: {text}");
        }
    }

    #[test]
    fn each_storage_has_a_directory_of_its_own() {
        let described = |second: &str| {
            let text = format!(
                "[site.a]\n[endpoint.one]\nsite = \"a\"\nurls = [\"davs://h/\"]\nstorage = {{ url = \"davs://h/data\" }}\n\
                 [endpoint.two]\nsite = \"a\"\nurls = [\"{second}\"]\nstorage = {{ url = \"{second}\" }}\n"
            );
            Topology::at(toml::from_str(&text).unwrap(), 0)
        };
        assert!(described("davs://h/other").is_ok());
        let error = described("davs://h/data/two").unwrap_err().to_string();
        assert!(error.contains("one") && error.contains("a directory of its own"), "{error}");
    }
}
