//! `longhaul plan`: shipped scenarios, numbers, pages, bad input, interruption, and the twin of a running hub.

use std::fs;

use model::fault::Exit;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, words};
use crate::hub::{Hub, Pair, pair};
use crate::node::signal;
use crate::wait::{LONG, until};

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
