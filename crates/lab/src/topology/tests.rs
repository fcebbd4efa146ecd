//! Routes over the scenarios that are shipped, and over small ones.

use super::*;
use crate::scenario::shipped;

fn read(text: &str) -> (Scenario, Topology) {
    let scenario = Scenario::read(text).unwrap_or_else(|problem| panic!("{problem}"));
    let topology = Topology::of(&scenario);
    (scenario, topology)
}

/// The links of the route between two interfaces, by their names: `path>` along `ab`, `path<` against it; uplinks `^` and
/// `v`.
fn links_between(
    (scenario, topology): &(Scenario, Topology),
    from: (&str, usize),
    to: (&str, usize),
) -> Option<String> {
    let port = |(site, interface): (&str, usize)| {
        let end = End { site: scenario.site(site).unwrap(), interface };
        topology.ports.iter().position(|port| *port == end).unwrap()
    };
    let end = topology.ports[port(to)];
    let route = topology.route(port(from), scenario.interface(end).v4.unwrap().0.into())?;
    assert_eq!(Some(route), topology.route(port(from), scenario.interface(end).v6.unwrap().0.into()));
    let route = &topology.routes[route];
    assert_eq!((route.from, route.to), (port(from), port(to)));
    let name = |link: usize| match topology.links[link].owner {
        Owner::Path { path, direction, .. } => format!("{}{}", scenario.paths[path].name, [">", "<"][direction]),
        Owner::Uplink { site, direction } => format!("{}{}", scenario.sites[site].name, ["^", "v"][direction]),
    };
    Some(route.legs.iter().map(|leg| name(leg.members[0])).collect::<Vec<_>>().join(" "))
}

#[test]
fn the_telescope_sends_by_the_least_rtt() {
    let ska = read(shipped("ska").unwrap().text);
    let links = |from, to| links_between(&ska, (from, 0), (to, 0)).unwrap();
    // 206 ms, and 315.5 ms over Canberra.
    assert_eq!(links("perth", "london"), "perth^ perth-singapore> singapore-london> londonv");
    assert_eq!(links("london", "perth"), "london^ singapore-london< perth-singapore< perthv");
    // Their own path takes 302 ms; over London it would be 266.4 ms. Two sites that a path joins use that path.
    assert_eq!(links("canberra", "paris"), "canberra^ canberra-paris> parisv");
    // 213.4 ms over Singapore and London.
    assert_eq!(links("perth", "paris"), "perth^ perth-singapore> singapore-london> london-paris> parisv");
    // 149 ms over London, 163.5 ms over Paris.
    assert_eq!(links("cape-town", "jodrell-bank"), "cape-town^ cape-town-london> jodrell-bank-london< jodrell-bankv");
    assert_eq!(links("singapore", "campus"), "singapore-london> london-campus> campusv", "Singapore has no uplink");
    let (scenario, topology) = &ska;
    let sites = scenario.sites.len();
    assert_eq!(topology.routes.len(), sites * (sites - 1), "from each to each other one");
}

#[test]
fn two_paths_are_chosen_by_interface() {
    let two = read(shipped("two-paths").unwrap().text);
    assert_eq!(links_between(&two, ("here", 0), ("there", 0)).unwrap(), "short>");
    assert_eq!(links_between(&two, ("here", 1), ("there", 1)).unwrap(), "long>");
    assert_eq!(links_between(&two, ("there", 1), ("here", 1)).unwrap(), "long<");
    assert_eq!(
        links_between(&two, ("here", 0), ("there", 1)).unwrap(),
        "short>",
        "no path joins these: the shorter one"
    );
    assert_eq!(links_between(&two, ("here", 0), ("here", 1)), None, "a site reaches itself without the network");
}

const TRIANGLE: &str = "[site.a]\n[site.b]\n[site.c]\n[path.a-c]\nrtt = \"10ms\"\nhops = 1\n";

/// As large as a scenario may be: a ring of sites and its chords, of many members each.
#[test]
fn the_largest_scenario_has_all_its_routes() {
    let mut text: String = (0..64).map(|n| format!("[site.s{n}]\n[site.s{n}.interface.eth1]\n")).collect();
    for (number, (step, interface)) in [(1, "eth0"), (7, "eth0"), (11, "eth1")].iter().enumerate() {
        for n in 0..64 {
            let other = (n + step) % 64;
            text += &format!("[path.p{number}-{n}]\nsites = [\"s{n}/{interface}\", \"s{other}/{interface}\"]\n");
            text += "rtt = \"10ms\"\necmp = 64\n";
        }
    }
    let (scenario, topology) = read(&text);
    assert_eq!((scenario.paths.len(), topology.links.len()), (192, 192 * 2 * 64));
    assert_eq!(topology.routes.len(), 128 * 126, "from each interface to each one of another site");
}

#[test]
fn equal_lengths_go_over_fewer_paths() {
    let world = read(&format!(
        "{TRIANGLE}[site.d]\n[path.c-d]\nrtt = \"10ms\"\n[path.b-d]\nrtt = \"5ms\"\n[path.b-c]\nrtt = \"15ms\""
    ));
    assert_eq!(links_between(&world, ("a", 0), ("b", 0)).unwrap(), "a-c> b-c<");
}

#[test]
fn routers_are_numbered_along_the_route() {
    let (scenario, topology) = read(&format!("{TRIANGLE}[path.b-c]\nrtt = \"30ms\"\nhops = 2\nmtu = 1400"));
    let (a, b) = (scenario.site("a").unwrap(), scenario.site("b").unwrap());
    let port = |site| topology.ports.iter().position(|end| end.site == site).unwrap();
    let to = scenario.sites[b].interfaces[0].v4.unwrap().0.into();
    let route = &topology.routes[topology.route(port(a), to).unwrap()];
    let found: Vec<_> = route.routers.iter().map(|router| (router.leg, router.v4, router.v6)).collect();
    let router = |leg, path, hop| (leg, router_addresses(path, hop).0, router_addresses(path, hop).1);
    assert_eq!(found, [router(0, 0, 1), router(1, 1, 2), router(1, 1, 1)], "numbered from the path's first end");
    let along: Vec<f64> = route.routers.iter().map(|router| (router.along * 6.0).round()).collect();
    assert_eq!((along, route.mtu), (vec![3.0, 2.0, 4.0], 1_400));
}

#[test]
fn a_target_is_its_links() {
    let (_, topology) = read(
        "[site.a]\nuplink = {}\n[site.b]\n[site.b.interface.eth1]\n[path.a-b]\nrtt = \"10ms\"\necmp = 2\n[path.x]\nsites = [\"a\", \"b/eth1\"]\nrtt = \"1ms\"",
    );
    let links = |target: Target| topology.targets(target).map(|link| topology.links[link].owner).collect::<Vec<_>>();
    let path = |path, direction, member| Target::Path { path, direction, member };
    let owner = |direction, member| Owner::Path { path: 0, direction, member };
    assert_eq!(links(path(0, None, None)), [owner(0, 0), owner(0, 1), owner(1, 0), owner(1, 1)]);
    assert_eq!(links(path(0, Some(1), None)), [owner(1, 0), owner(1, 1)]);
    assert_eq!(links(path(0, None, Some(1))), [owner(0, 1), owner(1, 1)]);
    assert_eq!(links(path(0, Some(0), Some(1))), [owner(0, 1)]);
    let uplink = |direction| Owner::Uplink { site: 0, direction };
    assert_eq!(links(Target::Uplink { site: 0 }), [uplink(0), uplink(1)]);
    assert_eq!(links(Target::Uplink { site: 1 }), []);
}

/// An uplink's queue in round trips is one of the site's longest path.
#[test]
fn an_uplink_has_the_rtt_of_the_longest_path() {
    let (_, topology) = read(
        "[site.a]\nuplink = {}\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"70ms\"\n[path.b-c]\nrtt = \"90ms\"",
    );
    let uplinks = topology.links.iter().filter(|link| matches!(link.owner, Owner::Uplink { .. }));
    assert_eq!(uplinks.map(|link| link.rtt).collect::<Vec<_>>(), [Duration::from_millis(70); 2]);
}
