//! Tests with datagrams, tests of a disk, and `probe all`, with a node; and a node's answers to STAMP.

use std::fs;

use serde_json::Value;

use crate::client::{Client, words};
use crate::node::{Node, Setup};

fn result(client: &Client, words: Vec<std::ffi::OsString>) -> Value {
    let result = client.run([words, words!["--json"]].concat()).expect(0).json();
    assert_eq!((&result["event"], &result["v"]), (&"result".into(), &1.into()), "{result}");
    result
}

/// Repeats a test a few times until it succeeds: a machine that stalls loses datagrams.
fn repeat_until(client: &Client, words: Vec<std::ffi::OsString>, is_right: impl Fn(&Value) -> bool) -> Value {
    let attempts = std::iter::repeat_with(|| result(client, words.clone())).take(3);
    let mut last = Value::Null;
    for found in attempts {
        last = found;
        if is_right(&last) {
            break;
        }
    }
    last
}

#[test]
fn latency_is_measured_with_a_node_and_with_a_responder() {
    let node = Setup::new().data_export("ro").arg("--responders").arg("stamp").start();
    let client = Client::with_key(&node.grant(&["--export", "data"]));
    let (host, port) = ("127.0.0.1", node.port);
    for target in [node.at(""), format!("stamp://{host}:{port}")] {
        let words = words!["probe", "latency", target, "-n", "50", "--rate", "100", "--timeout", "30s"];
        let found = repeat_until(&client, words, |found| found["packets"]["received"] == 50);
        let packets = &found["packets"];
        assert_eq!(
            (&packets["sent"], &packets["received"], &packets["lost"]),
            (&50.into(), &50.into(), &0.into()),
            "{found}"
        );
        assert_eq!((&packets["lost_forward"], &packets["lost_reverse"]), (&0.into(), &0.into()), "{found}");
        assert!(found["round_trip"]["median_s"].as_f64().unwrap() < 0.5, "{found}");
        // One machine has one clock: the error that it states for itself decides whether directions are reported.
        assert_eq!(found["forward"].is_null(), found["one_way_refused"].is_string(), "{found}");
        let (near, far) = (&found["hosts"]["near"], &found["hosts"]["far"]);
        assert!(near["kernel"].is_string() && near["settings"]["net.ipv4.tcp_rmem"].is_string(), "{found}");
        assert_eq!(far["kernel"] == near["kernel"], !target.starts_with("stamp"), "{found}");
    }
    // A request shorter than its answer is not answered for anonymous clients.
    let short =
        words!["probe", "latency", format!("stamp://{host}:{port}"), "-n", "5", "--size", "14", "--timeout", "300ms"];
    assert_eq!(result(&client, short)["packets"]["received"], 0);
    let words = words!["probe", "latency", node.at(""), "-t", "1s", "--rate", "50", "--under-load", "1"];
    let words = [words, words!["--timeout", "30s"]].concat();
    let loaded = repeat_until(&client, words, |loaded| loaded["packets"]["received"].as_u64() >= Some(40));
    assert!(loaded["packets"]["received"].as_u64().unwrap() >= 40, "{loaded}");
}

#[test]
fn a_node_without_responders_answers_no_stamp() {
    let node = Node::open();
    let target = format!("stamp://127.0.0.1:{}", node.port);
    let client = Client::new();
    let found = result(&client, words!["probe", "latency", target, "-n", "3", "--timeout", "300ms"]);
    assert_eq!(found["packets"]["received"], 0, "without --responders: {found}");
}

#[test]
fn datagrams_are_counted_exactly_in_both_directions() {
    let node = Node::open();
    let client = Client::new();
    for reverse in [&[][..], &["-R"]] {
        let reverse: Vec<std::ffi::OsString> = reverse.iter().map(std::ffi::OsString::from).collect();
        let words = words!["probe", "udp", node.at(""), "--size", "1000", "--spacing", "500us", "-n", "2000"];
        let is_whole = |found: &Value| found["lost"] == 0 && found["received"]["reordered"] == 0;
        let found = repeat_until(&client, [words, reverse].concat(), is_whole);
        assert_eq!((&found["sent"]["datagrams"], &found["lost"]), (&2000.into(), &0.into()), "{found}");
        assert_eq!(
            (&found["received"]["duplicates"], &found["received"]["reordered"]),
            (&0.into(), &0.into()),
            "{found}"
        );
        let spacing = found["sent"]["spacing"]["p50_s"].as_f64().unwrap();
        assert!((0.000_49..0.005).contains(&spacing), "{found}");
        assert_eq!(found["received"]["ended"], "complete", "{found}");
    }
    let rows = client.run(words![
        "probe",
        "udp",
        node.at(""),
        "--udpmon",
        "--size",
        "100,1000",
        "--spacing",
        "1ms",
        "-n",
        "20"
    ]);
    let text = rows.expect(0).text();
    assert_eq!(text.lines().count(), 3, "titles and two rows: {text}");
    assert!(text.lines().skip(1).all(|row| row.matches(';').count() >= 12), "{text}");
    let words = words!["probe", "udp", node.at(""), "--request", "--size", "100,1400", "-n", "50"];
    let found = repeat_until(&client, words, |found| found["sizes"][1]["answered"].as_u64() >= Some(49));
    assert_eq!(found["sizes"].as_array().unwrap().len(), 2, "{found}");
    assert!(found["sizes"][1]["answered"].as_u64().unwrap() >= 49 && found["line_of_min"].is_object(), "{found}");
}

#[test]
fn a_route_is_traced_in_both_directions() {
    let node = Node::open();
    let client = Client::new();
    let words = words!["probe", "path", node.at(""), "--flows", "4", "--probes", "20"];
    let is_there =
        |found: &Value| ["forward", "reverse"].iter().all(|direction| found[direction]["path"]["end"] == "reached");
    let found = repeat_until(&client, words, is_there);
    for direction in ["forward", "reverse"] {
        assert_eq!(
            (&found[direction]["path"]["distance"], &found[direction]["path"]["end"]),
            (&1.into(), &"reached".into()),
            "{found}"
        );
        assert_eq!(found[direction]["mtu"]["black_hole"], false, "{found}");
        assert_eq!(found[direction]["sweep"]["paths"].as_array().unwrap().len(), 1, "{found}");
    }
    let file = client.path("before.json");
    fs::write(&file, found.to_string()).unwrap();
    let words = words!["probe", "path", node.at(""), "--before", file, "--probes", "20"];
    let again = repeat_until(&client, words, |again| again["changes"].as_array().unwrap().is_empty());
    assert_eq!(again["changes"].as_array().unwrap().len(), 0, "{again}");
    fs::write(&file, "{}").unwrap();
    client.run(words!["probe", "path", node.at(""), "--before", file]).refused(2, &["--before", "probe path --json"]);
}

#[test]
fn local_and_remote_disks_are_tested() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").start();
    let client = Client::new();
    let small =
        words!["--tests", "write,read,fsync,small-files", "--file-size", "8MiB", "--workers", "1,2", "-t", "1s"];
    let here = client.path("disk");
    fs::create_dir(&here).unwrap();
    for target in [here.clone().into_os_string(), node.at("data").into()] {
        let lines = client.run([words!["probe", "disk", target, "--json"], small.clone()].concat()).expect(0).text();
        let found: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let points = found["points"].as_array().unwrap();
        assert!(points.len() >= 10 && lines.lines().count() > points.len(), "{found}");
        assert!(points.iter().all(|point| point["calls"].as_u64().unwrap() > 0), "{found}");
        assert!(!found["knees"].as_array().unwrap().is_empty(), "{found}");
    }
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0, "nothing stays behind");
    client.run(words!["probe", "disk", node.at("data/below")]).refused(2, &["where an export"]);
    client.run(words!["probe", "disk", node.at("")]).refused(2, &["lh://HOST/EXPORT"]);
    client.run(words!["probe", "disk", client.path("nowhere")]).expect(6);
    let reader = Client::with_key(&node.grant(&["--export", "data"]));
    reader.run(words!["probe", "disk", node.at("data")]).expect(4);
}

#[test]
fn probe_all_has_every_part_and_a_check_ends_with_a_monitoring_code() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data"]));
    let page = client.path("page.html");
    let words = words!["probe", "all", node.at(""), "-t", "1s", "--html", page];
    let found = repeat_until(&client, words, |found| found["findings"]["left_out"].as_array().unwrap().is_empty());
    let findings = &found["findings"];
    for part in ["limits", "routes", "latency", "loaded"] {
        assert!(findings[part].is_object(), "{part}: {found}");
    }
    for part in ["datagrams", "bursts", "tcp"] {
        assert!(findings[part]["forward"].is_object() && findings[part]["reverse"].is_object(), "{part}: {found}");
    }
    assert_eq!(findings["left_out"].as_array().unwrap().len(), 0, "{found}");
    let html = fs::read_to_string(page).unwrap();
    assert!(
        html.starts_with("<!doctype html>")
            && html.contains("<svg")
            && !html.contains("<script")
            && !html.contains("src=")
    );
    let check = |bounds: &str, by: &str| {
        let words = words!["probe", "latency", node.at(""), "-n", "10", "--rate", "50", "--timeout", "30s"];
        client.run([words, words!["--check", by, bounds]].concat())
    };
    let well = check("rtt<=10s,loss<=20%", "--warn").expect(0).text();
    assert!(well.starts_with("OK - ") && well.contains("| ") && well.contains("rtt="), "{well}");
    check("rtt<=0.001us", "--warn").expect(1);
    assert!(check("rtt<=0.001us", "--crit").expect(2).text().starts_with("CRITICAL"));
    let unknown =
        client.run(words!["probe", "latency", "127.0.0.1:1", "--check", "--warn", "loss<=0%"]).expect(3).text();
    assert!(unknown.starts_with("UNKNOWN - "), "{unknown}");
    client.run(words!["probe", "latency", node.at(""), "--warn", "loss<=1%"]).expect(2);
}

#[test]
fn limits_are_reported_and_kept() {
    let node = Setup::new().data_export("ro").arg("--anonymous").arg("ro").start();
    let client = Client::new();
    let limits = result(&client, words!["probe", "limits", node.at("")]);
    assert_eq!((&limits["seconds"], &limits["tests"]), (&3600.0.into(), &32.into()), "{limits}");
    let fast = words!["probe", "udp", node.at(""), "--rate", "2Gbit/s", "-t", "1s"];
    client.run(fast).refused(4, &["anonymous clients", "1.00 Gbit/s"]);
    client.run(words!["probe", "udp", node.at(""), "--max", "-t", "1s"]).refused(4, &["anonymous clients"]);
    client.run(words!["probe", "udp", node.at(""), "--size", "40"]).refused(2, &["41 to 65507"]);
    client.run(words!["probe", "udp", node.at(""), "--rate", "1bit/s"]).refused(2, &["0 to 10 s"]);
    client.run(words!["probe", "latency", node.at(""), "--rate", "0"]).refused(2, &["0.01 to 100,000"]);
}
