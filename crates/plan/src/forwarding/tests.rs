//! Configurations with known faults, and random faults in correct ones.

use proptest::prelude::*;

use super::*;

/// Six sites in a ring, with two chords.
fn ring() -> Scenario {
    let mut text: String = (0..6).map(|site| format!("[site.s{site}]\n")).collect();
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)] {
        text += &format!("[path.p{a}{b}]\nsites = [\"s{a}\", \"s{b}\"]\nrtt = \"{}ms\"\n", 10 + a + 2 * b);
    }
    Scenario::read(&text).unwrap()
}

fn two_networks(scenario: &Scenario, network: &Network) -> Forwarding {
    let of = |name: &str, members: &[usize]| shortest(scenario, network, name, members).vrfs;
    Forwarding { vrfs: [of("lhcone", &[0, 2, 4]), of("ska", &[1, 3, 5])].concat() }
}

fn faults(text: &str) -> Vec<String> {
    let scenario =
        Scenario::read("[site.a]\n[site.b]\n[site.c]\n[path.a-b]\n[path.b-c]\n[path.a-c]\nuntil = 2030\n").unwrap();
    let network = Network::new(&scenario, Some(2031));
    let forwarding = Forwarding::read(text, &scenario).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    verify(&network, &forwarding).faults.iter().map(|fault| fault.show(&network, &forwarding)).collect()
}

const A: &str = "[vrf.x.site.a]\nprefix = \"10.1.0.0/16\"\n";
const C: &str = "[vrf.x.site.c]\nprefix = \"10.3.0.0/16\"\nroute = { \"10.0.0.0/8\" = \"b\" }\n";
const B: &str = "[vrf.x.site.b]\nroute = { \"10.1.0.0/16\" = \"a\", \"10.3.0.0/16\" = \"c\" }\n";

#[test]
fn a_configuration_of_shortest_routes_has_no_fault() {
    let scenario = ring();
    let network = Network::new(&scenario, None);
    let verification = verify(&network, &two_networks(&scenario, &network));
    // Three members of each of two networks, six sites with a prefix of each family.
    assert_eq!((verification.faults, verification.followed), (Vec::new(), 6 * 12));
}

#[test]
fn faults_are_named_with_site_prefix_and_path() {
    let whole = format!("{A}route = {{ \"10.3.0.0/16\" = \"b\" }}\n{B}{C}");
    assert_eq!(faults(&whole), Vec::<String>::new());
    assert_eq!(
        faults(&whole.replace(", \"10.3.0.0/16\" = \"c\"", "")),
        ["x: packets of a for 10.3.0.0/16 (c) are lost at b (a → b): add or correct its next hop there"]
    );
    assert_eq!(
        faults(&whole.replace("\"10.3.0.0/16\" = \"c\"", "\"10.3.0.0/16\" = \"a\"")),
        [
            "x: packets of a for 10.3.0.0/16 (c) come back to a (a → b → a): correct the next hop of one site of the loop"
        ]
    );
    let into_y = whole.replace("\"10.3.0.0/16\" = \"c\"", "\"10.3.0.0/16\" = { next = \"c\", vrf = \"y\" }");
    let y = "[vrf.y.site.c]\nprefix = \"10.3.0.0/16\"\n";
    assert_eq!(
        faults(&format!("{into_y}{y}")),
        [
            "x: packets of a for 10.3.0.0/16 (c) get into y at b (a → b): correct the next hop there, or add y to reaches of x"
        ]
    );
    // The link from a to c is gone in 2031.
    assert!(
        faults(&whole.replace("{ \"10.3.0.0/16\" = \"b\" }", "{ \"10.3.0.0/16\" = \"c\" }"))[0]
            .contains("lost at a (a)")
    );
}

#[test]
fn a_part_of_a_prefix_that_takes_another_way_is_a_fault_of_its_own() {
    let whole = format!("{A}route = {{ \"10.3.0.0/16\" = \"b\", \"10.3.7.0/24\" = \"discard\" }}\n{B}{C}");
    assert_eq!(
        faults(&whole),
        ["x: packets of a for 10.3.7.0/24 (c) are lost at a (a): add or correct its next hop there"]
    );
    // Both halves have routes of their own, so nothing is left for the discarded whole.
    let halves = "{ \"10.3.0.0/16\" = \"discard\", \"10.3.0.0/17\" = \"b\", \"10.3.128.0/17\" = \"b\" }";
    assert_eq!(faults(&format!("{A}route = {halves}\n{B}{C}")), Vec::<String>::new());
}

#[test]
fn packets_for_nobody_may_be_dropped_but_not_turn_in_a_circle() {
    let dropped = format!("{A}route = {{ \"0.0.0.0/0\" = \"b\" }}\n{B}{C}");
    assert_eq!(faults(&dropped), Vec::<String>::new(), "0.0.0.0/0 ends at b");
    let circle = dropped.replace("[vrf.x.site.b]\nroute = {", "[vrf.x.site.b]\nroute = { \"0.0.0.0/0\" = \"a\",");
    let found = faults(&circle);
    assert_eq!(found.len(), 2, "0.0.0.0/0, and the other addresses of 10.0.0.0/8: {found:?}");
    assert!(found[0].starts_with("x: packets of a for 0.0.0.0/0 come back to a (a → b → a)"), "{found:?}");
    assert!(found[1].starts_with("x: packets of a and c for 10.0.0.0/8 come back to a"), "{found:?}");
}

#[test]
fn a_network_that_is_reached_must_be_reached_whole() {
    let x = format!("[vrf.x]\nreaches = [\"y\"]\n{A}");
    let y = "[vrf.y.site.b]\nprefix = \"10.2.0.0/16\"\n";
    let reached = format!("{x}route = {{ \"10.2.0.0/16\" = {{ next = \"b\", vrf = \"y\" }} }}\n{y}");
    assert_eq!(faults(&reached), Vec::<String>::new());
    assert!(faults(&format!("{x}{y}"))[0].contains("10.2.0.0/16 (b) are lost at a (a)"));
}

/// A random fault in a random entry that packets use.
#[derive(Clone, Copy, Debug)]
enum InjectedFault {
    Remove,
    SendBack,
    Leak,
}

proptest! {
    #[test]
    fn a_random_fault_is_found_and_named(
        which in any::<prop::sample::Index>(),
        damage in prop::sample::select(vec![InjectedFault::Remove, InjectedFault::SendBack, InjectedFault::Leak])
    ) {
        let scenario = ring();
        let network = Network::new(&scenario, None);
        let mut forwarding = two_networks(&scenario, &network);
        // Entries of hops that some packet takes: those of members themselves.
        let mut used = Vec::new();
        for (vrf, of) in forwarding.vrfs.iter().enumerate() {
            for (at, site) in of.sites.iter().enumerate().filter(|(_, site)| !site.prefixes.is_empty()) {
                used.extend((0..site.routes.len()).map(|route| (vrf, at, route)));
            }
        }
        let (vrf, at, route) = used[which.index(used.len())];
        let here = forwarding.vrfs[vrf].sites[at].clone();
        let ForwardingRoute { prefix, next } = here.routes[route];
        let NextHop::Forward { over: Some(over), .. } = next else { panic!("{next:?}") };
        let link = network.links_of_path(over).find(|link| network.links[*link].from == here.site).unwrap();
        let neighbour = network.links[link].to;
        let sites = &mut forwarding.vrfs[vrf].sites;
        match damage {
            InjectedFault::Remove => drop(sites[at].routes.remove(route)),
            InjectedFault::SendBack => {
                let Some(other) = sites.iter_mut().find(|site| site.site == neighbour) else { return Ok(()) };
                other.routes.retain(|route| route.prefix != prefix);
                other.routes.push(ForwardingRoute { prefix, next: NextHop::Forward { over: Some(over), vrf: None } });
            }
            InjectedFault::Leak => {
                sites[at].routes[route].next = NextHop::Forward { over: Some(over), vrf: Some(1 - vrf) };
            }
        }
        let found = verify(&network, &forwarding).faults;
        let is_named = |fault: &ForwardingFault| {
            let kind = match damage {
                InjectedFault::Remove => ForwardingFaultKind::Lost,
                InjectedFault::SendBack => ForwardingFaultKind::Loop,
                InjectedFault::Leak => ForwardingFaultKind::Leak(1 - vrf),
            };
            let is_here = fault.path.contains(&here.site);
            (fault.kind, fault.vrf, fault.prefix) == (kind, vrf, prefix) && is_here
        };
        // A prefix that is attached to the neighbour itself has arrived there, whatever its table says.
        let arrives = matches!(damage, InjectedFault::SendBack) && owner(&forwarding.vrfs[vrf], &prefix) == Some(neighbour);
        prop_assert!(arrives || found.iter().any(is_named), "{damage:?} at {} for {prefix}: {found:?}", here.site);
    }
}
