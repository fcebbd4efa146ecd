//! `longhaul plan`: shipped scenarios, numbers, pages, bad input, interruption, and the twin of a running hub.

use std::fs;
use std::time::Duration;

use model::fault::Exit;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, words};
use crate::hub::{Hub, Pair, pair};
use crate::node::{Node, Setup, signal};
use crate::wait::{LONG, until, until_some};

fn figure<'a>(document: &'a Value, name: &str) -> &'a Value {
    let figures = document["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name:?} in {document}"))
}

#[test]
fn demand_cost_and_links_of_shipped_scenarios_have_their_published_numbers() {
    let client = Client::new();
    let lhc = client.run(words!["plan", "demand", "lhc", "--with", "flexible", "--json"]).expect(0).json();
    assert_eq!(figure(&lhc, "demand in sum")["value"], 9600.0);
    assert!(figure(&lhc, "demand in sum")["formula"].as_str().unwrap().ends_with("* burst * overprovision"), "{lhc}");
    let ska =
        client.run(words!["plan", "cost", "ska", "--since", "2024", "--until", "2024", "--json"]).expect(0).json();
    let option_a = ska["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|figure| figure["name"].as_str().unwrap().starts_with("cost of A"))
        .unwrap();
    assert_eq!((&option_a["value"], &option_a["unit"]), (&1_040_000.0.into(), &"EUR".into()));
    let links = client.run(words!["plan", "links", "ska", "--failures", "--diverse", "cape-town", "canada", "--json"]);
    let links = links.expect(0).json();
    let load = links["links"].as_array().unwrap().iter().find(|link| link["name"] == "perth-singapore ab").unwrap();
    assert_eq!(load["load_bit_s"], 100e9);
    assert_eq!(links["diverse"].as_array().unwrap().len(), 2);
    assert!(links["failures"].as_array().unwrap().iter().any(|failure| failure["name"] == "WACS"), "{links}");
}

#[test]
fn five_ways_to_keep_replicas_are_compared_in_a_table_and_in_figures() {
    let client = Client::new();
    let text = client.run(words!["plan", "cost", "ska", "--replicas"]).expect(0).text();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(row("full-copy ").contains("1,700,000 USD"), "{text}");
    assert!(row("distribution-centres ").contains("2 x 2 PB") && row("in-turn ").contains("200 Gbit/s"), "{text}");
    assert!(text.contains("= ceil(sent / circuit), where sent = 200 Gbit/s, circuit = 100 Gbit/s; AENEAS"), "{text}");
    let document = client.run(words!["plan", "cost", "ska", "--replicas", "--json"]).expect(0).json();
    assert_eq!(figure(&document, "full-copy: circuits from perth")["value"], 2.0);
    assert_eq!(figure(&document, "redistribution: own cost, a year on average")["value"], 800_000.0);
    client
        .run(words!["plan", "cost", "lhc", "--replicas"])
        .refused(2, &["no replica scenarios", "[replicas.parallel]"]);
}

#[test]
fn an_overlay_has_a_vrf_for_each_country_of_the_group() {
    let client = Client::new();
    let overlay = client.run(words!["plan", "overlay", "ska", "centre", "--json"]).expect(0).json();
    let countries: Vec<&str> =
        overlay["countries"].as_array().unwrap().iter().map(|vrf| vrf["country"].as_str().unwrap()).collect();
    assert_eq!(countries, ["AU", "CA", "CN", "IN", "UK", "ZA"]);
    assert_eq!(overlay["countries"][4]["peers"].as_array().unwrap().len(), 5, "{overlay}");
    client.run(words!["plan", "overlay", "ska", "moon"]).refused(2, &["no site belongs to a group \"moon\""]);
}

#[test]
fn faults_of_a_forwarding_configuration_are_named_with_site_prefix_and_path() {
    let client = Client::new();
    let start = client.run(words!["plan", "forwarding", "ska", "--shortest", "centre"]).expect(0).text();
    let file = client.write("centre.toml", &start);
    let verified = client.run(words!["plan", "forwarding", "ska", &file, "--json"]).expect(0).json();
    assert_eq!(verified["faults"], Value::Array(Vec::new()), "{verified}");
    assert!(verified["followed"].as_u64().unwrap() >= 6 * 12, "{verified}");

    // Perth sends what is for Pretoria back to Canberra; the sites are in the order of the scenario.
    let pretoria = start.lines().skip_while(|line| *line != "[vrf.centre.site.pretoria]").nth(1).unwrap();
    let prefix = pretoria.split('"').nth(1).unwrap();
    let london =
        start.replace(&format!("\"{prefix}\" = \"cape-town-london\""), &format!("\"{prefix}\" = \"canberra-london\""));
    assert_ne!(start, london);
    let file = client.write("loop.toml", &london);
    let faulty = client.run(words!["plan", "forwarding", "ska", &file, "--json"]).expect(Exit::Partial as i32).json();
    let fault = &faulty["faults"][0];
    assert_eq!(
        (&fault["kind"], &fault["prefix"], &fault["owner"]),
        (&"loop".into(), &prefix.into(), &"pretoria".into())
    );
    assert!(fault["path"].as_array().unwrap().len() >= 3, "{fault}");
    let text = client.run(words!["plan", "forwarding", "ska", &file]).expect(Exit::Partial as i32).text();
    assert!(
        text.contains(&format!("for {prefix} (pretoria) come back to ")) && text.contains(" → london → "),
        "{text}"
    );

    let file = client.write("bad.toml", "[vrf.x.site.perth]\nprefix = \"10.1.2.3/16\"\n");
    client.run(words!["plan", "forwarding", "ska", file]).refused(2, &["line 2:", "not a prefix", "write 10.1.0.0/16"]);
    client.run(words!["plan", "forwarding", "ska"]).refused(2, &["name a configuration", "--shortest"]);
    client.run(words!["plan", "forwarding", "ska", "--shortest", "moon"]).refused(2, &["no site belongs to a group"]);
}

#[test]
fn links_say_how_far_light_gets() {
    let client = Client::new();
    let links = client.run(words!["plan", "links", "ska", "--json"]).expect(0).json();
    let reach = |name: &str| links["reach"].as_array().unwrap().iter().find(|path| path["path"] == name).unwrap();
    assert_eq!(reach("perth-singapore")["reaches"], true);
    assert_eq!(reach("perth-singapore")["wavelengths"][0]["count"], 4, "a terabit by 300 Gbit/s");
    assert_eq!(reach("cape-town-london")["reaches"], false);
    let text = client.run(words!["plan", "links", "ska"]).expect(0).text();
    assert!(text.contains("1 x 200 Gbit/s in 75 GHz (2.67 bit/s/Hz), 1 regenerator each"), "{text}");
}

#[test]
fn a_report_is_one_page_with_every_formula() {
    let client = Client::new();
    let page = client.path("sanren.html");
    client.run(words!["plan", "report", "sanren", "--out", page]).expect(0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for foreign in ["<script", "src=", "href=", "http:", "https:", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for part in
        ["Demand", "Links", "cost of own fibre", "Simulation", "fibre_once * fibre_times", "dark fibre in South Africa"]
    {
        assert!(page.contains(part), "{part:?} is not on the page");
    }
}

#[test]
fn maps_show_loads_and_failures_by_signs_and_strokes() {
    let client = Client::new();
    let page = client.path("links.html");
    client.run(words!["plan", "links", "ska", "--out", page]).expect(0);
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "id=\"map\"",
        "perth-singapore carries 10 %",
        "cuts or crowds flows",
        "Without ",
        "× down",
        "! ",
        "link core",
        "1 regenerator each",
    ] {
        assert!(page.contains(part), "{part:?} is not on the page");
    }
    assert!(!page.contains("http:") && !page.contains("href=") && !page.contains("<script"));
    let page = client.path("telescopes.html");
    let text = shipped("telescopes")
        + "[[event]]\nat = \"1h\"\npath = \"london-india\"\nset = { down = true }\nfor = \"1h\"\n";
    let file = client.write("cut.toml", text);
    client.run(words!["plan", "simulate", file, "--out", page]).expect(0);
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("id=\"map-simulated\"") && page.contains("london-india is down"),
        "the cut link is on the map"
    );
}

fn shipped(name: &str) -> String {
    scenario::shipped(name).unwrap().text.to_owned()
}

/// Simulates versions of a shipped scenario, in each of which some words are replaced; returns the documents.
fn compared(client: &Client, name: &str, versions: &[&[(&str, &str)]]) -> Vec<Value> {
    let mut arguments = words!["plan", "compare", "--json"];
    for (number, changes) in versions.iter().enumerate() {
        let mut text = shipped(name);
        for (old, new) in *changes {
            assert!(text.contains(old), "{old:?} is not in {name}");
            text = text.replace(old, new);
        }
        arguments.push(client.write(&format!("{name}-{number}.toml"), text).into());
    }
    let out = client.run(arguments).expect(0).text();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn last_h(document: &Value) -> f64 {
    document["work"].as_array().unwrap().iter().map(|work| work["last_s"].as_f64().unwrap()).fold(0.0, f64::max)
        / 3600.0
}

fn peak_gbit_s(document: &Value, resource: &str) -> f64 {
    let resources = document["resources"].as_array().unwrap();
    let found = resources.iter().find(|known| known["name"] == resource);
    found.unwrap_or_else(|| panic!("no {resource}"))["peak_bit_s"].as_f64().unwrap() / 1e9
}

#[test]
fn settings_of_a_scenario_say_how_telescopes_push() {
    let client = Client::new();
    const RELAYS: &str =
        "copies = 5\nrelays = { europe = [\"canada\", \"india\"], canada = [\"china\"], india = [\"australia\"] }";
    let versions: [&[(&str, &str)]; 6] = [
        &[],
        &[("\"parallel\"", "\"in-turn\"")],
        &[("\"400TB\"", "\"800TB\"")],
        &[("\"400TB\"", "\"2PB\"")],
        &[("\"400TB\"", "\"2PB\""), ("copies = 5", RELAYS)],
        &[("\"100%\"", "\"50%\"")],
    ];
    let [parallel, in_turn, two, five, relayed, marked] =
        <[Value; 6]>::try_from(compared(&client, "telescopes", &versions)).unwrap();
    let near = |value: f64, wanted: f64| assert!((value / wanted - 1.0).abs() < 0.04, "{value} and not {wanted}");
    near(last_h(&parallel), 22.4);
    near(peak_gbit_s(&in_turn, "london-canada ab"), 198.0);
    assert!(peak_gbit_s(&parallel, "london-canada ab") < 50.0, "{parallel}");
    near(last_h(&two), 2.0 * 22.4);
    near(last_h(&five), 5.0 * 22.4);
    // Europe has all after 22.4 h; its circuit of 200 Gbit/s carries two copies of it to others.
    near(last_h(&relayed), 2.0 * 22.4);
    near(last_h(&marked), 2.0 * 22.4);
}

#[test]
fn settings_of_a_scenario_say_who_is_selfish_what_is_cached_and_what_is_restored() {
    let client = Client::new();
    let ends = |document: &Value, work: usize| document["work"][work]["last_s"].as_f64().unwrap();
    let versions: [&[(&str, &str)]; 3] = [&[], &[("= 64", "= 4")], &[("\"none\"", "\"hub\"")]];
    let shares = compared(&client, "selfish", &versions);
    assert!(ends(&shares[0], 0) < 150.0 && ends(&shares[0], 1) > 750.0, "one wins, nine pay: {}", shares[0]["work"]);
    assert!((1..3).all(|version| (ends(&shares[version], 0) - ends(&shares[version], 1)).abs() < 20.0), "{shares:?}");

    let versions: [&[(&str, &str)]; 3] = [&[("cache = \"20TB\"\n", "")], &[], &[("20TB", "100TB")]];
    let caches = compared(&client, "named-data", &versions);
    let cached = |version: usize| caches[version]["work"][0]["from_cache"].as_f64().unwrap() / 400_000.0;
    assert_eq!(cached(0), 0.0);
    assert!((0.40..0.50).contains(&cached(1)) && (0.65..0.82).contains(&cached(2)), "{} {}", cached(1), cached(2));
    assert!((last_h(&caches[1]) / last_h(&caches[0]) - (1.0 - cached(1))).abs() < 0.01, "the link moves the rest");

    let text = shipped("on-demand");
    let cut = text.lines().skip_while(|line| *line != "[[event]]").take(4).collect::<Vec<_>>().join("\n");
    let versions: [&[(&str, &str)]; 3] = [&[], &[(&cut, "")], &[(&cut, ""), ("wavelengths = 2 ", "wavelengths = 1 ")]];
    let light = compared(&client, "on-demand", &versions);
    let last_s = |version: usize| last_h(&light[version]) * 3600.0;
    assert!(
        light.iter().all(|document| document["complete"] == true && document["work"][0]["failed"] == 0),
        "{light:?}"
    );
    assert!(last_s(1) < last_s(0) && last_s(1) < last_s(2), "{} {} {}", last_s(0), last_s(1), last_s(2));
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused_with_its_line_and_the_remedy() {
    let client = Client::new();
    let pair = "[site.a]\n[site.b]\n[path.a-b]\n";
    for (text, line, parts) in [
        (format!("{pair}rate = 10\n"), 4, ["rate cannot be 10", "with its unit"]),
        (format!("{pair}rate = '-1Gbit/s'\n"), 4, ["rate cannot be", "2Gbit/s"]),
        (format!("{pair}since = 2030\nuntil = 2024\n"), 5, ["before since = 2030", "in this order"]),
        (
            format!("{pair}[flow.f]\nfrom = 'a'\nto = 'moon'\nrate = '1Gbit/s'\n"),
            6,
            ["no site or group \"moon\"", "a, b"],
        ),
    ] {
        let file = client.write("bad.toml", &text);
        let refused = client.run(words!["plan", "check", file]);
        refused.refused(Exit::Usage as i32, &[&format!("line {line}:"), parts[0], parts[1]]);
    }
    let island = format!("{pair}[site.c]\n[flow.f]\nfrom = 'a'\nto = 'c'\nrate = '1Gbit/s'\n");
    let file = client.write("island.toml", &island);
    let checked = client.run(words!["plan", "check", file]).expect(Exit::Partial as i32);
    assert!(checked.text().contains("line 5: flow f has no route from a to c: add a path"), "{}", checked.text());
    client.run(words!["plan", "demand", "ska", "--with", "moon"]).refused(2, &["no switch \"moon\"", "exchange"]);
    client.run(words!["plan", "simulate", "moon"]).refused(2, &["moon", "srcnet-v0.1"]);
}

/// The processor time of a process in user mode, in ticks of 10 ms (proc(5), field 14).
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse().unwrap()
}

#[test]
fn a_simulation_that_is_interrupted_reports_what_happened_until_then() {
    let client = Client::new();
    // A year of a file every second over a thousand queues is far more than the machine simulates before the signal.
    let mut text = String::from("[simulate]\nduration = '365d'\nstep = '1s'\n");
    for site in 0..40 {
        text += &format!("[site.s{site}]\ngroup = 'all'\n");
    }
    for site in 1..40 {
        text += &format!("[path.s0-s{site}]\nrtt = '20ms'\nrate = '100Gbit/s'\n");
    }
    text += "[work.w]\nfrom = 'all'\nto = 'all'\nbytes = '10000PB'\nfile = '1GB'\nover = '365d'\n";
    let file = client.write("long.toml", &text);
    let page = client.path("partial.html");
    let running = client.begin(words!["plan", "simulate", file, "--json", "--out", page]);
    until("it simulates", LONG, || processor_ticks(running.child.id()) >= 50);
    signal(&running.child, Signal::INT);
    let outcome = running.finish_within(LONG).expect(Exit::Interrupted as i32).json();
    assert_eq!((&outcome["stopped"], &outcome["complete"]), (&true.into(), &false.into()));
    assert!(outcome["simulated_s"].as_f64().unwrap() > 0.0, "{outcome}");
    assert!(fs::read_to_string(page).unwrap().contains("stopped before its end"));
}

#[test]
fn the_twin_of_a_hub_is_a_scenario_of_what_waits_there() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let link = ["hub", "link", "add", "wan", "--capacity", "1Mbit/s", "--between", "alpha,beta"];
    admin.run(&link).expect(0);
    fs::write(a.data("bulk"), vec![1; 20 << 20]).unwrap();
    let list = admin.write("list", &format!("{} {} {}\n", a.at("data/bulk"), b.at("data/in/bulk"), 20 << 20));
    let id = admin.submit(&["--files-from", &list]);
    until("the bulk moves", LONG, || admin.job(&id)["state"] == "running");
    let twin = admin.run(&["plan", "twin"]).expect(0).text();
    assert!(twin.contains("rate = \"1000000bit/s\"") && twin.contains("bytes = \"20971520B\""), "{twin}");
    let client = Client::new();
    let file = client.write("twin.toml", &twin);
    let simulated = client.run(words!["plan", "simulate", file, "--json"]).expect(0).json();
    let last_s = simulated["work"][0]["last_s"].as_f64().unwrap();
    // 20 MiB at 1 Mbit/s less headers.
    assert!((168.0..190.0).contains(&last_s), "{simulated}");
    admin.run(&["queue", "cancel", &id]).expect(0);
}

#[test]
fn a_history_is_forecast_and_the_methods_are_scored() {
    let client = Client::new();
    let document = client.run(words!["plan", "predict", "--synthetic", "shifted", "--json"]).expect(0).json();
    let scores = document["scores"].as_array().unwrap();
    let names: Vec<&str> = scores.iter().map(|score| score["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["seasonal-naive", "smoothing", "quantile-regression", "trees", "network"]);
    assert_eq!(document["forecast"].as_array().unwrap().len(), 24);
    // Habits change on the first held-out day: what was learned before is worse than the week before.
    let over = &scores[2]["over_naive_percent"];
    assert!(over["mean"].as_f64().unwrap() > 2.0 * over["error"].as_f64().unwrap(), "{over}");
    let text = client.run(words!["plan", "predict", "--synthetic", "shifted"]).expect(0).text();
    assert!(text.contains("WORSE by"), "{text}");
}

#[test]
fn a_file_of_measurements_is_forecast_and_a_drift_is_found() {
    let client = Client::new();
    let rates: String = (0..1400).map(|hour| format!("{},{}e9\n", hour * 3600, 10 + hour % 24)).collect();
    let short = &client.write("short.csv", &("time,value\n".to_owned() + &rates));
    let document = client.run(words!["plan", "predict", short, "--json"]).expect(0).json();
    let first = &document["forecast"][0];
    let median = first["median_bit_s"].as_f64().unwrap();
    assert!((median - 18e9).abs() < 1e9, "hour 1400 is the ninth of its day: {first}");
    client
        .run(words!["plan", "predict", short, "--held-out", "40"])
        .refused(2, &["1400 hours are too few", "--held-out"]);

    let dbm: String = (0..40).map(|hour| format!("{},{}\n", hour * 3600, -8.0 - 0.2 * f64::from(hour))).collect();
    let light = &client.write("light.csv", &dbm);
    let sign = client
        .run(words!["plan", "predict", light, "--falls-below", "-18", "--json"])
        .expect(Exit::Partial as i32)
        .json();
    assert!((sign["hours_left"].as_f64().unwrap() - 11.0).abs() < 0.5, "{sign}");
    client.run(words!["plan", "predict", light, "--falls-below", "-30"]).expect(0);
    client.run(words!["plan", "predict", light]).refused(2, &["is no rate"]);
    client.run(words!["plan", "predict"]).expect(2);
}

#[test]
fn the_archive_of_a_running_watch_is_forecast_and_its_twin_has_what_was_measured() {
    let (a, b) = (responder(), responder());
    let dir = Client::new();
    // Six weeks of hourly counters of an interface: a day's habit on 4 Gbit/s.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let first = (now / 3600 - HOURS) * 3600;
    let mut octets = 0;
    let line = |hour: u64| {
        let line = format!("{},{octets}\n", first + hour * 3600);
        octets += (4_000_000_000 + 100_000_000 * (hour % 24)) / 8 * 3600;
        line
    };
    let counters =
        dir.write("counters.csv", "time,out_octets\n".to_owned() + &(0..HOURS).map(line).collect::<String>());
    let table = |(name, node): (&str, &Node)| {
        let key = dir.write(&format!("{name}.key"), node.grant(&["--export", "data", "--write"]));
        format!(
            "[node.{name}]\nsite = \"{name}\"\naddress = \"{}\"\nkey-file = \"{}\"\n",
            node.address(),
            key.display()
        )
    };
    let nodes: String = [("alpha", &a), ("beta", &b)].map(table).concat();
    let config = dir.write(
        "watch.toml",
        format!(
            "[judge]\nscale = 0.02\nlearn = 4\n{nodes}[[interface]]\nname = \"border\"\nsite = \"alpha\"\ncapacity = \"10Gbit/s\"\nevery = \"10s\"\ncsv = \"{}\"\n\
             [[group]]\nlatency = {{ rate = 20, report = \"1s\" }}\npath = false\nthroughput = {{ every = \"10s\", lasts = \"1s\", waits-for-transfers = false }}\n",
            counters.display()
        ),
    );
    let hub = Hub::start(&["--watch", config.display().to_string().leak()]);
    let admin = hub.member("admin", "root", "");
    for (name, node) in [("alpha", &a), ("beta", &b)] {
        admin.run(&["hub", "site", "add", name]).expect(0);
        admin.run(&["hub", "endpoint", "add", &format!("n{name}"), "--site", name, "--url", &node.at("")]).expect(0);
    }
    let forecast = || {
        let said =
            admin.run(&["plan", "predict", "--interface", "border", "--since", "60d", "--held-out", "7", "--json"]);
        (said.code == 0).then(|| said.json())
    };
    let document = until_some("the counters are in the archive", Duration::from_secs(150), forecast);
    assert!(document["source"].as_str().unwrap().contains("counters of border"), "{document}");
    let median = document["forecast"][0]["median_bit_s"].as_f64().unwrap();
    // The last reading ends the last but one hour of the habit.
    let expected = 4e9 + 1e8 * ((HOURS - 1) % 24) as f64;
    assert!((median - expected).abs() < 3e8, "{median} and not {expected}: {document}");
    // A path that was measured for minutes has too little history, which is said with its numbers.
    let short = || {
        let said = admin.run(&["plan", "predict", "--path", "alpha", "beta"]);
        said.code == 2 && said.err.contains("throughput of alpha to beta") && said.err.contains("hour")
    };
    until("the path has a history, which is too short", Duration::from_secs(150), short);
    // The twin has the measured rate of the path over which something waits.
    fs::write(a.data("bulk"), vec![1; 4 << 20]).unwrap();
    admin.run(&["hub", "stop", "all", "--reason", "for the twin"]).expect(0);
    let list = admin.write("list", &format!("{} {} {}\n", a.at("data/bulk"), b.at("data/in/bulk"), 4 << 20));
    admin.submit(&["--files-from", &list]);
    // On a busy machine packets are lost before the first test of throughput has ended: then the path has a loss alone.
    let with_rate =
        |twin: &String| twin.split_once("# measured from").is_some_and(|(_, path)| path.contains("rate = \""));
    let measured = || Some(admin.run(&["plan", "twin"]).expect(0).text()).filter(with_rate);
    let twin = until_some("the twin has the measured rate", Duration::from_secs(150), measured);
    assert!(twin.contains("[route.r0]"), "{twin}");
    let file = dir.write("twin.toml", &twin);
    let simulated = dir.run(words!["plan", "simulate", file, "--json"]).expect(0).json();
    assert!(simulated["work"][0]["last_s"].as_f64().unwrap() > 0.0, "{simulated}");
}

/// Hours of counters in the archive: six weeks.
const HOURS: u64 = 42 * 24;

/// A node that answers tests of a watch.
fn responder() -> Node {
    Setup::new().data_export("rw").arg("--responders").arg("stamp").start()
}
