//! The scenarios that are shipped with the program.
//!
//! Does not know: their content; they are read like any other.

/// A scenario that is shipped with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description, one line.
    pub what: &'static str,
    /// The text of its file, comments included: also a start for new scenarios.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal: $what:literal,)*) => {
        &[$(Shipped {
            name: $name,
            what: $what,
            text: include_str!(concat!("../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All shipped scenarios, the simple ones first.
pub const SHIPPED: &[Shipped] = shipped![
    "lan": "two hosts in one building: 0.2 ms, 10 Gbit/s",
    "europe": "London to Paris: 7.5 ms, 10 Gbit/s",
    "transatlantic": "London to Canada: 90 ms, 1 Gbit/s",
    "cape-town-london": "Cape Town to London: 142 ms, 1 Gbit/s",
    "canberra-paris": "Canberra to Paris: 303 ms, 1 Gbit/s",
    "lossy-canberra": "Canberra to Paris, where one segment in 22,000 is lost",
    "two-paths": "two sites with two paths between them: 20 ms and 60 ms, 100 Mbit/s each",
    "campus": "a campus behind a firewall and a shallow uplink, and a data transfer node outside",
    "ska": "two telescopes, six centres and the cables between them; flows, work and costs",
    "lhc": "the high-luminosity LHC: CERN, thirteen tier 1 centres, demand by experiment",
    "osg-tail": "a campaign whose slow site takes most of the time",
    "sanren": "South Africa's network and its links abroad; own fibre against a service",
    "srcnet-v0.1": "nine nodes of the SKA's regional centres and their challenge of 24 hours",
    "telescopes": "two telescopes push to five centres: in parallel or in turn, replicas, relays, marks",
    "selfish": "ten sites share a link, and one of them opens more streams than the others",
    "named-data": "a site reads named data with a cache beside it",
    "on-demand": "transfers over optical paths on demand, one of which is cut and restored",
];

/// A shipped scenario by its name.
pub fn shipped(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}
