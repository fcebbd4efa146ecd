//! Scenarios that make no sense: each is refused with the wrong line and the remedy.
//!
//! Does not know: how they are read. The last line of each is the wrong one, or the one that `<-` marks.

use scenario::Scenario;

/// Two sites and a path, to which the wrong words are added.
const PAIR: &str = "[site.a]\n[site.b]\n[path.a-b]\nrtt = '20ms'\n";

/// Asserts that each text is refused, with these parts of the fault and of the remedy.
fn refused(cases: &[(&str, &str, &str)]) {
    for (text, what, remedy) in cases {
        let marked = text.lines().position(|line| line.contains("# <-"));
        let line = marked.map_or(text.lines().count(), |at| at + 1);
        let problem = match Scenario::read(text) {
            Ok(_) => panic!("this was accepted:\n{text}"),
            Err(problem) => problem,
        };
        assert_eq!(problem.line, line, "{problem}\n{text}");
        assert!(problem.what.contains(what), "{problem}\nshould say {what:?} of\n{text}");
        assert!(problem.remedy.contains(remedy), "{problem}\nshould advise {remedy:?} on\n{text}");
    }
}

/// The same for words added to a path between two sites.
fn refused_on_a_path(cases: &[(&str, &str, &str)]) {
    let texts: Vec<String> = cases.iter().map(|(text, ..)| format!("{PAIR}{text}")).collect();
    let cases = texts.iter().zip(cases).map(|(text, (_, what, remedy))| (text.as_str(), *what, *remedy));
    refused(&cases.collect::<Vec<_>>());
}

#[test]
fn a_text_that_is_no_scenario_is_refused() {
    refused(&[
        ("[site.a]\n[path.a-b # <-\n[site.b]\n", "not TOML", "quotes"),
        ("[site.a]\nmtu = 1500 # fine\nmtu = 1500\n", "duplicate key", "write it once"),
        ("[site.a]\n[site.b]\n[path.a-b]\nrate = 1Gbit/s\n", "not TOML", "in quotes"),
        ("\n", "no site", "[site.canberra]"),
        ("seed = 1 # <-\n\n", "no site", "[site.canberra]"),
        ("[site.a]\n[sites.b]\n", "\"sites\"", "did you mean \"site\"?"),
        ("seed = -1\n", "seed cannot be -1", "whole number from 0"),
        ("site = 3\n", "site cannot be 3", "[site.canberra]"),
        ("memory = '2'\n", "no unit", "40MB"),
        ("memory = 2000\n", "memory cannot be 2000", "in quotes"),
        ("[site]\na = 1", "a cannot be 1", "[site.canberra]"),
    ]);
}

#[test]
fn invalid_names_are_refused() {
    refused(&[
        ("[site.Paris]\n", "\"Paris\" cannot be the name of a site", "a-z"),
        ("[site.a_b]\n", "cannot be the name of a site", "a-z"),
        ("[site.-a]\n", "cannot be the name of a site", "at both ends"),
        ("[site.a-]\n", "cannot be the name of a site", "at both ends"),
        ("[site.'']\n", "cannot be the name of a site", "1 to 32"),
        ("[site.abcdefghijklmnopqrstuvwxyz0123456]\n", "cannot be the name of a site", "1 to 32"),
        ("[site.localhost]\n", "every site has that name for itself", "another name"),
        ("[site.10]\n", "reads like an address", "letter"),
        ("[site.a]\n[site.a.interface.eth0]\n", "first interface", "[site.a] itself"),
        ("[site.a]\n[site.a.interface.lo]\n", "name of an interface", "like eth1"),
        ("[site.a]\n[site.a.interface.all]\n", "name of an interface", "like eth1"),
        ("[site.a]\n[site.a.interface.Eth1]\n", "name of an interface", "a-z and 0-9"),
        ("[site.a]\n[site.a.interface.abcdefghij012345]\n", "name of an interface", "1 to 15"),
        ("[site.a]\n[site.b]\n[path.'a b'] # <-\nsites = ['a', 'b']\n", "name of a path", "1 to 70"),
        ("[site.a]\n[site.b]\n[path.a] # <-\nsites = ['a', 'b']\n", "name of a site already", "another name"),
    ]);
}

#[test]
fn invalid_words_of_a_site_are_refused() {
    refused(&[
        ("[site.a]\nmtv = 1500\n", "\"mtv\"", "did you mean \"mtu\"?"),
        ("[site.a]\nrate = '1Gbit/s'\n", "\"rate\"", "write one of: mtu, profile"),
        ("[site.a]\nmtu = 67\n", "mtu cannot be 67", "from 68 to 65535"),
        ("[site.a]\nmtu = 65536\n", "mtu cannot be 65536", "from 68 to 65535"),
        ("[site.a]\nmtu = '1500'\n", "mtu cannot be \"1500\"", "without quotes"),
        ("[site.a]\n[site.b]\n[path.a-b] # <-\nmtu = 1279\n", "IPv6 needs 1280", "raise the mtu"),
        ("[site.a]\nmtu = 1279\n", "too small for IPv6", "give an IPv4 address alone"),
        ("[site.a]\naddress = 'fd00::1/64'\nmtu = 1279\n", "too small for IPv6", "1280 or more"),
        ("[site.a]\nmtu = 1200 # <-\naddress = '10.0.0.1/24'\n[site.a.interface.eth1]\n", "too small for IPv6", "1280"),
        ("[site.a]\nprofile = 'stok'\n", "profile cannot be \"stok\"", "did you mean \"stock\"?"),
        ("[site.a]\nprofile = true\n", "profile cannot be true", "\"dtn\" or \"stock\""),
        ("[site.a]\ncpu_share = 0\n", "cpu_share cannot be 0", "above 0"),
        ("[site.a]\ncpu_share = -0.5\n", "cpu_share cannot be -0.5", "above 0"),
        ("[site.a]\ncpu_share = inf\n", "cpu_share cannot be inf", "above 0"),
        ("[site.a]\nfirewall = 22\n", "firewall cannot be 22", "open = [22, 2811]"),
        ("[site.a]\nfirewall = { open = [22,\n65536] }\n", "open cannot be 65536", "from 1 to 65535"),
        ("[site.a]\nfirewall = { open = [0] }\n", "open cannot be 0", "from 1 to 65535"),
        ("[site.a]\nfirewall = { ports = [22] }\n", "\"ports\"", "open"),
        ("[site.a]\nsysctl = { 'kernel.hostname' = 'x' }\n", "not a setting of a site's network", "net."),
        ("[site.a]\nsysctl = { 'net.ipv4./../x' = 'x' }\n", "not a setting of a site's network", "net."),
        ("[site.a]\nsysctl = { 'net.ipv4.ip_forward' = true }\n", "cannot be true", "string or a whole number"),
        ("[site.a]\nuplink = { rtt = '1ms' }\n", "an uplink has no word \"rtt\"", ""),
        ("[site.a]\nuplink = { rate = '0Gbit/s' }\n", "rate is zero", "down = true"),
        ("[site.a]\nuplink = { withdrawn = true }\n", "an uplink cannot be withdrawn", "withdraw a path"),
        ("[site.a]\nuplink = { queue = '1MB' }\n", "a queue without a rate", "add a rate"),
        ("[site.a]\n[site.a.interface]\neth1 = 1500\n", "eth1 cannot be 1500", "[site.a.interface.eth1]"),
        ("[site.a]\n[site.a.interface.eth1]\nprofile = 'dtn'\n", "an interface has no word", "mtu, address"),
    ]);
}

#[test]
fn invalid_addresses_are_refused() {
    let case = |address: &str| format!("[site.a]\naddress = {address}\n");
    let unfit = [
        ("'10.0.0.1'", "10.0.0.1", "10.1.0.1/24"),
        ("'10.0.0.300/24'", "10.0.0.300", "10.1.0.1/24"),
        ("24", "cannot be 24", "10.1.0.1/24"),
        ("[]", "a list", "10.1.0.1/24"),
        ("'10.0.0.1/33'", "prefix length", "/1 to /32"),
        ("'10.0.0.1/0'", "prefix length", "/1 to /32"),
        ("'fd00::1/129'", "prefix length", "/1 to /128"),
        ("'10.0.0.0/24'", "the network itself", "one host"),
        ("'10.0.0.255/24'", "broadcast", "one host"),
        ("'127.0.0.1/8'", "loopback", "one host"),
        ("'224.0.0.1/24'", "multicast", "one host"),
        ("'0.0.0.1/24'", "reserved", "one host"),
        ("'255.255.255.255/32'", "reserved", "one host"),
        ("'::/64'", "no address", "one host"),
        ("'::1/64'", "loopback", "one host"),
        ("'ff02::1/64'", "multicast", "one host"),
        ("'fe80::1/64'", "link-local", "one host"),
        ("'fd00::/64'", "the network itself", "one host"),
        ("['10.0.0.1/24', '10.1.0.1/24']", "one family", "its own interface"),
    ];
    let texts = unfit.map(|(address, ..)| case(address));
    let cases: Vec<_> =
        texts.iter().zip(unfit).map(|(text, (_, what, remedy))| (text.as_str(), what, remedy)).collect();
    refused(&cases);
    for fine in ["'10.0.0.0/31'", "'10.0.0.1/32'", "['fd00::/127', '10.0.0.1/24']"] {
        assert_eq!(Scenario::read(&case(fine)).err(), None);
    }
    refused(&[
        (
            "[site.a]\naddress = '10.0.0.1/24'\n[site.b]\naddress = '10.0.0.1/24'\n",
            "10.0.0.1/24 of a/eth0 and 10.0.0.1/24 of b/eth0 overlap",
            "a network of its own",
        ),
        (
            "[site.a]\naddress = '10.0.0.1/8'\n[site.b]\naddress = '10.9.0.1/24'\n",
            "10.0.0.1/8 of a/eth0 and 10.9.0.1/24 of b/eth0 overlap",
            "a network of its own",
        ),
        (
            "[site.a]\naddress = 'fd00::1/48'\n[site.b]\naddress = 'fd00:0:0:9::1/64'\n",
            "fd00::1/48 of a/eth0 and fd00:0:0:9::1/64 of b/eth0 overlap",
            "a network of its own",
        ),
        (
            "[site.a]\n[site.b]\naddress = '10.77.1.9/24'\n",
            "10.77.1.1/24 of a/eth0 and 10.77.1.9/24 of b/eth0 overlap",
            "10.77.0.0/16",
        ),
        (
            "[site.a]\naddress = '10.0.0.1/24'\n[site.a.interface.eth1]\naddress = '10.0.0.1/25'\n",
            "the same address",
            "its own",
        ),
        (
            "[site.a]\naddress = '10.0.0.1/24'\n[site.b]\naddress = 'fd00::1/64'\n[path.a-b]\n",
            "no address family in common",
            "both an IPv4 address",
        ),
        ("[site.a]\naddress = '10.79.1.1/24'\n", "10.79.1.1/24 of a/eth0 overlaps with", "10.78.0.0/15"),
        ("[site.a]\naddress = '10.0.0.1/8'\n", "10.0.0.1/8 of a/eth0 overlaps with", "10.78.0.0/15"),
        ("[site.a]\naddress = 'fd4c:6f6e:6702:1::1/64'\n", "overlaps with", "fd4c:6f6e:6702::/48"),
    ]);
}

#[test]
fn invalid_ends_of_a_path_are_refused() {
    refused(&[
        (
            "[site.paris]\n[site.canberra]\n[path.canbera-paris]\n",
            "not that of two sites",
            "did you mean \"canberra\"?",
        ),
        ("[site.a]\n[path.a-b]\n", "not that of two sites", "no site \"b\": add [site.b], or name its two sites"),
        ("[site.a]\n[site.b]\n[path.short]\n", "not that of two sites", "sites = ["),
        ("[site.a]\n[site.b]\n[site.a-b]\n[site.b-a]\n[path.a-b-a]\n", "more than one way", "sites = ["),
        ("[site.a]\n[site.b]\n[path.a-a]\n", "from a to itself", "sites = ["),
        ("[site.a]\n[site.b]\n[path.a-b]\nsites = ['a', 'a']\n", "from a to itself", "sites = ["),
        ("[site.a]\n[site.paris]\n[path.x]\nsites = ['a', 'pariss']\n", "no site \"pariss\"", "\"paris\"?"),
        ("[site.a]\n[site.b]\n[path.x]\nsites = ['a', 'b/eth1']\n", "b has no interface \"eth1\"", "eth0"),
        ("[site.a]\n[site.b]\n[path.x]\nsites = ['a']\n", "two sites", "[\"canberra\", \"paris/eth1\"]"),
        ("[site.a]\n[site.b]\n[path.x]\nsites = 'a-b'\n", "sites cannot be \"a-b\"", "two sites"),
        ("[site.a]\n[site.b]\n[path.a-b]\n[path.b-a]\n", "both join b/eth0 and a/eth0", "ecmp"),
        ("[site.a]\n[site.b]\n[path]\na-b = 3\n", "a-b cannot be 3", "[path.canberra-paris]"),
    ]);
}

#[test]
fn invalid_words_of_a_path_are_refused() {
    refused_on_a_path(&[
        ("rat = '1Gbit/s'", "a path has no word \"rat\"", "did you mean \"rate\"?"),
        ("delay = '1ms'", "no word \"delay\"", "rtt for both directions"),
        ("via = ['a']", "no word \"via\"", ""),
        ("ab = { rtt = '1ms' }", "no word \"rtt\"", ""),
        ("ab = { hops = 3 }", "no word \"hops\"", ""),
        ("[path.a-b.ba]\nlos = '1%'", "no word \"los\"", "did you mean \"loss\"?"),
        ("ab = '1ms'", "ab cannot be \"1ms\"", "ab = {"),
        ("jitter = 3", "jitter cannot be 3", "with its unit"),
        ("jitter = '3'", "jitter cannot be \"3\"", "250ms"),
        ("jitter = '-3ms'", "jitter cannot be \"-3ms\"", "250ms"),
        ("reorder_by = '2h'", "reorder_by cannot be \"2h\"", "one hour"),
        ("jitter = '11ms'", "11ms is more than the delay of 10ms", "longer rtt"),
        ("rate = 1000", "rate cannot be 1000", "with its unit"),
        ("rate = '1000'", "rate cannot be \"1000\"", "with its unit"),
        ("rate = '-1Gbit/s'", "rate cannot be", "with its unit"),
        ("rate = 0", "rate is zero", "down = true"),
        ("rate = '0Mbit/s'", "rate is zero", "leave it out for no bottleneck"),
        ("rate = '999bit/s'", "rate cannot be", "from 1kbit/s to 1Pbit/s"),
        ("rate = '1.1Pbit/s'", "rate cannot be", "from 1kbit/s to 1Pbit/s"),
        ("rate = '1kbit/s'\nqueue = '1MB'", "more than one hour", "smaller"),
        ("policer = { rate = '1kbit/s', burst = '1MB' }", "more than one hour", "smaller"),
        ("rate = 1979-05-27", "the date", "with its unit"),
        ("queue = '4MB'", "a queue without a rate", "add a rate"),
        ("rate = '1Gbit/s'\nqueue = 4", "queue cannot be 4", "50ms"),
        ("rate = '1Gbit/s'\nqueue = '4'", "no unit", "50ms"),
        ("rate = '1Gbit/s'\nqueue = '0ms'", "queue is zero", "50ms"),
        ("rate = '1Gbit/s'\nqueue = 'deep'", "queue cannot be \"deep\"", "50ms"),
        ("policer = '0Mbit/s'", "policer is zero", "no policer"),
        ("policer = { burst = '1MB' }", "no rate", "burst = "),
        ("policer = { rate = '1Mbit/s', brst = '1MB' }", "\"brst\"", "did you mean \"burst\"?"),
        ("policer = { rate = '1Mbit/s', burst = 5 }", "burst cannot be 5", "unit"),
        ("cross_traffic = '1Mbit/s'", "without a rate", "add a rate"),
        // Cross traffic waits in the queue; a policer has none.
        ("policer = '9Mbit/s'\ncross_traffic = '1Mbit/s'", "without a rate", "add a rate"),
        ("loss = '101%'", "a probability", "\"100%\""),
        ("loss = 1", "may mean 1 % or all", "\"100%\""),
        ("loss = 1.5", "a probability", "fraction"),
        ("loss = -0.1", "a probability", "fraction"),
        ("loss = nan", "a probability", "fraction"),
        ("loss = '0.1'", "loss cannot be \"0.1\"", "\"0.01%\""),
        ("loss = true", "loss cannot be true", "\"0.01%\""),
        ("loss = { every = 0 }", "every cannot be 0", "from 1"),
        ("loss = { evry = 5 }", "\"evry\"", "did you mean \"every\"?"),
        ("loss = { every = 5, list = [1] }", "one pattern", "every = 20000"),
        ("loss = { burst = [0.1] }", "two probabilities: into a burst, and back", "burst = ["),
        ("loss = { burst = [0.1,\n2.0] }", "a probability", "fraction"),
        ("loss = { list = [0] }", "list cannot be 0", "from 1"),
        ("duplicate = '200%'", "a probability", "\"100%\""),
        ("hops = 31", "hops cannot be 31", "from 0 to 30"),
        ("mtu = 60", "mtu cannot be 60", "from 68"),
        ("mtu_black_hole = 60", "mtu_black_hole cannot be 60", "from 68"),
        ("mtu_black_hole = true", "mtu_black_hole cannot be true", "from 68"),
        ("down = 1", "down cannot be 1", "true or false"),
    ]);
}

#[test]
fn invalid_members_of_a_path_are_refused() {
    refused_on_a_path(&[
        ("ecmp = 0", "ecmp cannot be 0", "from 1 to 64"),
        ("ecmp = 65", "ecmp cannot be 65", "from 1 to 64"),
        ("[path.a-b.member.1]", "without ecmp", "ecmp = 4"),
        ("ecmp = 2\n[path.a-b.member.3]", "no member \"3\"", "from 1 to 2"),
        ("ecmp = 2\n[path.a-b.member.0]", "no member \"0\"", "from 1 to 2"),
        ("ecmp = 2\n[path.a-b.member.one]", "no member \"one\"", "from 1 to 2"),
        ("ecmp = 2\n[path.a-b.member.1]\nhops = 3", "no word \"hops\"", "write one of"),
        ("ecmp = 2\n[path.a-b.member.1]\ndelay = '1ms'", "no word \"delay\"", "rtt"),
        ("ecmp = 2\n[path.a-b.member.1]\nab = { via = ['a'] }", "a member cannot", "path's own"),
        ("ecmp = 2\njitter = '5ms' # <-\n[path.a-b.member.2]\nrtt = '2ms'", "5ms is more than", "smaller jitter"),
        ("ecmp = 2\n[path.a-b.member.2.ba]\nqueue = '1MB'", "a queue without a rate", "add a rate"),
    ]);
}

#[test]
fn invalid_directions_over_other_sites_are_refused() {
    let sites = "[site.a]\n[site.b]\n[site.c]\n[path.a-c]\n[path.b-c]\n[path.a-b]\n";
    let cases = [
        ("ab = { via = ['d'] }", "no site \"d\"", "write one of: a, b, c"),
        ("ab = { via = 'c' }", "via cannot be \"c\"", "[\"singapore\"]"),
        ("ab = { via = ['b'] }", "b is an end", "in between"),
        ("ab = { via = ['c', 'c'] }", "via names c twice", "once"),
        ("ab = { via = ['c'], loss = '1%' }", "loss does nothing", "paths that it goes over"),
        ("ab = { via = ['c'] }\nba = { via = ['c'] }\nrtt = '1ms'", "rtt does nothing", "paths that it goes over"),
        ("ab = { via = ['c'] }\necmp = 2\n[path.a-b.member.1.ab]\nloss = '1%'", "loss does nothing", "leave it out"),
        ("[site.d]\n[path.a-b.ab]\nvia = ['d']", "no paths lead from a to d", "add a path between a and d"),
    ];
    let texts = cases.map(|(text, ..)| format!("{sites}{text}\n"));
    refused(
        &texts.iter().zip(cases).map(|(text, (_, what, remedy))| (text.as_str(), what, remedy)).collect::<Vec<_>>(),
    );
    // Two directions that would each go over the other: no paths carry them in the end.
    let circle =
        "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nab = { via = ['c'] } # <-\n[path.a-c]\nab = { via = ['b'] }\n";
    refused(&[(circle, "no paths lead from a to c", "another site")]);
}

#[test]
fn invalid_events_are_refused() {
    let event = "[[event]]\nat = '1s'\n";
    let set = "set = { down = true }\n";
    let path = "path = 'a-b'\n";
    let cases = [
        (format!("[[event]] # <-\n{path}{set}"), "no time", "at = \"30s\""),
        (format!("[[event]]\n{path}{set}at = '30'"), "at cannot be \"30\"", "90s"),
        (format!("[[event]]\n{path}{set}at = 30"), "at cannot be 30", "in quotes"),
        (format!("{event}{set}path = 'a-c'"), "no path \"a-c\"", "\"a-b\""),
        (format!("{event}{set}site = 'c'"), "no site \"c\"", "a, b"),
        (format!("{event}{path}{set}site = 'a'"), "a path or a site", "two events"),
        (format!("[[event]] # <-\nat = '1s'\n{set}"), "about nothing", "path = "),
        (format!("[[event]] # <-\nat = '1s'\n{path}"), "changes nothing", "set = "),
        (format!("{event}{path}set = {{}}"), "nothing is to change", "down = true"),
        (format!("{event}{path}set = 'down'"), "set cannot be \"down\"", "down = true"),
        (format!("{event}{path}set = {{ hops = 3 }}"), "a change has no word \"hops\"", ""),
        (format!("{event}{path}set = {{ dwn = true }}"), "a change has no word \"dwn\"", "\"down\"?"),
        (format!("{event}{path}set = {{ rate = '0Mbit/s' }}"), "rate is zero", "down = true"),
        (format!("{event}{path}direction = 'ab'\nset = {{ rtt = '1ms' }}"), "both directions", "delay"),
        (format!("{event}{path}{set}direction = 'up'"), "direction cannot be \"up\"", "\"ab\" or \"ba\""),
        (format!("{event}{path}{set}member = 2"), "no member 2, but 1", "ecmp"),
        (format!("{event}{path}{set}member = 0"), "member cannot be 0", "from 1"),
        (format!("{event}{path}{set}for = '0s'"), "for is zero", "leave it out"),
        (format!("{event}{path}{set}fro = '1s'"), "an event has no word \"fro\"", "\"for\"?"),
        (format!("{event}site = 'a'\n{set}member = 1"), "uplink changes as a whole", "name a path"),
        (format!("{event}site = 'a'\n{set}"), "a has no uplink", "uplink = {} in [site.a]"),
    ];
    let cases: Vec<_> = cases.iter().map(|(text, what, remedy)| (text.as_str(), *what, *remedy)).collect();
    refused_on_a_path(&cases);
    refused_on_a_path(&[("[event] # <-\nat = '1s'\n", "event cannot be a table", "[[event]]")]);
}

#[test]
fn too_large_scenarios_are_refused() {
    let sites: String = (0..65).map(|n| format!("[site.s{n}]\n")).collect();
    let problem = Scenario::read(&sites).and_then(Scenario::for_lab).unwrap_err();
    assert_eq!(problem.what, "more than 64 sites: this scenario is for planning alone");
    let sites: String = (0..4097).map(|n| format!("[site.s{n}]\n")).collect();
    refused(&[(&sites, "more than 4096 sites", "fewer")]);
    let interfaces: String = (1..9).map(|n| format!("[site.a.interface.eth{n}]\n")).collect();
    refused(&[(&format!("[site.a]\n{interfaces}"), "more than 8 interfaces", "eth0, counts as well")]);
    let sites: String = (0..24).map(|n| format!("[site.s{n}]\n")).collect();
    let pairs = (0..24).flat_map(|a| (0..a).map(move |b| (a, b)));
    let paths: String = pairs.take(251).map(|(a, b)| format!("[path.s{a}-s{b}]\n")).collect();
    refused(&[(&format!("{sites}{paths}"), "more than 250 paths", "fewer")]);
}

#[test]
fn facts_and_flows_that_make_no_sense_are_refused() {
    let flow = "[flow.f] # <-\n";
    refused_on_a_path(&[
        ("distance = '460'", "distance cannot be", "4600km"),
        ("distance = '-3km'", "distance cannot be", "4600km"),
        ("since = 2030\nuntil = 2024", "until = 2024 is before since = 2030", "in this order"),
        ("since = 24", "since cannot be 24", "from 1970"),
        ("mark = '0%'", "mark is zero", "80%"),
        ("mark = '120%'", "mark is a probability", "100%"),
        ("shared_risk = 3", "shared_risk cannot be 3", "in quotes"),
        (&format!("{flow}to = 'b'\nrate = '1Gbit/s'"), "f has no from", "from = "),
        (&format!("{flow}from = 'a'\nrate = '1Gbit/s'"), "f has no to", "to = "),
        (&format!("{flow}from = 'a'\nto = 'b'"), "f has no rate", "sum = "),
        ("[flow.f]\nfrom = 'a'\nto = 'b'\nrate = 20", "rate cannot be 20", "with its unit"),
        ("[flow.f]\nfrom = 'a'\nto = 'b'\nrate = '-1Gbit/s'", "rate cannot be", "2Gbit/s"),
        ("[flow.f]\nfrom = 'a'\nto = 'b'\nrate = '1Gbit/s'\nsum = '2Gbit/s'", "both", "of each pair"),
        ("[flow.f]\nrate = '1Gbit/s'\nto = 'b'\nfrom = 'c'", "no site or group \"c\"", "a, b"),
        (&format!("{flow}from = 'a'\nto = 'a'\nrate = '1Gbit/s'"), "from a to itself", "another site"),
        ("[demand]\ngrowth = 0.4", "growth cannot be 0.4", "40%"),
        ("[demand]\nburst = 0.5", "burst cannot be 0.5", "from 1 to 100"),
    ]);
}

#[test]
fn work_and_costs_that_make_no_sense_are_refused() {
    let work = "[site.c]\n[work.w]\nfrom = 'a'\nto = ['b', 'c']\nbytes = '1TB'\nfile = '1GB'\n";
    let cases = [
        ("[work.w] # <-\nfrom = 'a'\nto = 'b'\nfile = '1GB'".to_owned(), "w has no bytes", "3PB"),
        (format!("{work}copies = 3"), "copies cannot be 3", "from 1 to 2"),
        (format!("{work}priority = 6"), "priority cannot be 6", "from 1 to 5"),
        (format!("{work}failures = '100%'"), "all attempts fail", "below 100%"),
        (format!("{work}sizes = 'log'"), "sizes cannot be \"log\"", "equal"),
        (format!("{work}relays = {{ b = ['c'], c = ['b'] }}"), "the relays form a cycle", "from a source"),
        (format!("{work}relays = {{ a = ['c'], b = ['c'] }}"), "c is fed by more than one relay", "one relay only"),
        (format!("{work}[simulate]\nduration = '0s'"), "duration is zero", "1d"),
        (format!("{work}[simulate]\nscheduler = 'fifo'"), "scheduler cannot be", "hub, none"),
        ("[cost.c] # <-\ncount = 3".to_owned(), "c costs nothing", "50kEUR"),
        ("[cost.c]\nonce = '50k'".to_owned(), "once cannot be \"50k\"", "50kEUR"),
        ("[cost.c] # <-\nonce = '1EUR'\nper_year = '1USD'".to_owned(), "prices in EUR and in USD", "two costs"),
        ("[cost.c]\nonce = '1EUR'\nspread = '130%'".to_owned(), "spread is a probability", "100%"),
        ("scale = 0".to_owned(), "scale cannot be 0", "from 1"),
    ];
    // A key of the root stands before the first table.
    for (text, what, remedy) in &cases {
        let whole = if text.starts_with("scale") { format!("{text} # <-\n{PAIR}") } else { format!("{PAIR}{text}") };
        refused(&[(&whole, what, remedy)]);
    }
}

#[test]
fn caches_and_paths_on_demand_that_make_no_sense_are_refused() {
    const WORK: &str = "[work.w]\nfrom = 'a'\nto = 'b'\nbytes = '1TB'\nfile = '1GB'\n";
    let cases = [
        ("cache = '1TB'", "cache needs the number of different files", "objects = 100000"),
        ("objects = 0", "objects cannot be 0", "from 1"),
        ("objects = 9\npopularity = 'high'", "popularity cannot be", "Zipf"),
        ("objects = 9\nsizes = 'lognormal'", "sizes does not go with objects", "leave one"),
        ("on_demand = true", "no link has wavelengths", "wavelengths = 2 in [simulate]"),
    ];
    for (words, what, remedy) in cases {
        refused(&[(&format!("{PAIR}{WORK}{words}\n"), what, remedy)]);
    }
    refused(&[("[simulate]\nsetup = '1s'\n", "setup does nothing without wavelengths", "wavelengths = 2")]);
}

#[test]
fn replica_scenarios_that_contradict_themselves_are_refused() {
    const REPLICAS: &str = "[replicas.r]\nfrom = 'a'\nto = 'b'\n";
    let texts: Vec<(String, &str, &str)> = [
        ("", "r has no sum", "sum = \"100Gbit/s\""),
        ("sum = '100'", "sum cannot be", "unit"),
        ("sum = '1Gbit/s'\nhold = '2d'", "nobody holds the data of a", "via = { a = "),
        ("sum = '1Gbit/s'\nvia = { b = 'a' }", "b is no source", "sites of from"),
        ("sum = '1Gbit/s'\npassed_on = true", "passed on to nobody", "copies = 2"),
        ("sum = '1Gbit/s'\norder = 'in-turn'\nfull = 'b'", "full does not go with", "leave one"),
        ("sum = '1Gbit/s'\ncopies = 2", "copies cannot be 2", "from 1 to 1"),
    ]
    .map(|(words, what, remedy)| (format!("{PAIR}{REPLICAS}{words}\n"), what, remedy))
    .into();
    for (text, what, remedy) in &texts {
        let marked =
            if *what == "r has no sum" { text.replace("[replicas.r]", "[replicas.r] # <-") } else { text.clone() };
        refused(&[(&marked, what, remedy)]);
    }
}
