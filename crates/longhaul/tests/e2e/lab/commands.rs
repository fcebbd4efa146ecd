//! A running lab, and a lab of a single command: the view from inside, the traffic, and changes.

use std::fs::File;
use std::process::Stdio;

use serde_json::json;

use super::{Labs, PAIR, lab_words, path_text};
use crate::client::words;
use crate::node::LONGHAUL;
use crate::wait::{LONG, until};

#[test]
fn a_lab_is_started_shown_changed_and_stopped() {
    let Some(labs) = Labs::of("a_lab_is_started_shown_changed_and_stopped") else { return };
    let text = labs.run(words!["up", labs.file("pair", PAIR)]).expect(0).text();
    assert!(text.starts_with("lab pair is up\n") && text.contains("10.77.2.1"), "{text}");

    let status = labs.status();
    assert_eq!((&status["v"], &status["event"], &status["lab"]), (&json!(1), &json!("lab"), &json!("pair")));
    assert_eq!((&status["back_end"], &status["pid"]), (&json!("tun"), &json!(labs.process("pair"))));
    let own = ["seconds", "emulator_limited", "emulator", "sites", "links"];
    own.iter().for_each(|field| assert!(status.get(field).is_some(), "{field} is not in {status}"));
    for field in ["cpu_s", "memory_bytes", "memory_peak_bytes", "real_time", "no_memory", "not_written"] {
        assert!(status["emulator"].get(field).is_some(), "{field} is not in {status}");
    }
    for field in ["device_dropped", "unroutable", "expired", "too_big", "firewalled"] {
        assert!(status["emulator"].get(field).is_some(), "{field} is not in {status}");
    }
    assert_eq!(status["sites"][1]["site"], "right");
    assert_eq!(status["sites"][1]["addresses"], json!(["10.77.2.1", "fd4c:6f6e:6700:2::1"]));
    let links = status["links"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    let link = json!({"name": "left-right", "kind": "path", "from": "right", "to": "left", "delay_s": 0.01,
                      "rate_bit_s": 100_000_000, "is_down": false, "member": null});
    link.as_object().unwrap().iter().for_each(|(field, value)| assert_eq!(&links[1][field], value, "{field}"));
    let counters = "segments bytes out_segments out_bytes queue_dropped policed lost down black_hole duplicated \
                    reordered corrupted corrupted_silently cross_bytes queue_bytes queue_peak_bytes";
    counters.split(' ').filter(|name| !name.is_empty()).for_each(|name| assert!(links[0][name].is_u64(), "{name}"));
    ["late_p99_s", "late_max_s"].iter().for_each(|name| assert!(links[0][name].is_f64(), "{name}"));
    let table = labs.run(words!["status"]).expect(0).text();
    assert!(table.contains("left -> right") && table.contains("10.00 ms, 100 Mbit/s"), "{table}");

    labs.run(words!["set", "left-right", "rtt=60ms", "loss=1%"]).expect(0);
    labs.run(words!["set", "left-right", "--direction", "ba", "delay=5ms", "rate=none"]).expect(0);
    let links = labs.status()["links"].clone();
    assert_eq!((&links[0]["delay_s"], &links[1]["delay_s"]), (&json!(0.03), &json!(0.005)));
    assert_eq!((&links[0]["rate_bit_s"], &links[1]["rate_bit_s"]), (&json!(100_000_000), &json!(null)));
    labs.run(words!["set", "left-right", "down=true", "--for", "8s"]).expect(0);
    assert_eq!(labs.status()["links"][0]["is_down"], true);
    until("the path is there again", LONG, || labs.status()["links"][0]["is_down"] == false);

    let process = labs.process("pair");
    assert_eq!(labs.run(words!["down"]).expect(0).text(), "lab pair is down\n");
    assert!(labs.is_clean());
    super::wait_until_ended("the lab's process has ended", process);
}

#[test]
fn a_command_at_a_site_behaves_like_a_local_one() {
    let Some(labs) = Labs::of("a_command_at_a_site_behaves_like_a_local_one") else { return };
    labs.run(words!["up", labs.file("pair", PAIR)]).expect(0);
    let at = |site: &str, line: &str| labs.run(words!["exec", site, "--", "sh", "-c", line]);
    assert_eq!(at("left", "exit 7").code, 7);
    assert_eq!(at("left", "kill -KILL $$").code, 137);
    assert_eq!(at("right", "uname -n").expect(0).text(), "right\n");
    assert_eq!(at("left", "pwd").expect(0).text(), format!("{}\n", path_text(&labs.client.path(""))));
    assert_eq!(at("left", "echo $LONGHAUL_LAB; echo word >&2").expect(0).text(), "pair\n");
    assert_eq!(at("left", "echo word >&2").expect(0).err, "word\n");
    assert!(at("left", "getent hosts right").expect(0).text().contains("right"));
    assert!(at("left", "getent ahostsv4 right-eth0").expect(0).text().starts_with("10.77.2.1"));
    at("left", "getent hosts nobody.example").expect(2);
    // The network has only what belongs to the site, nothing of the host.
    let devices = at("left", "ls /sys/class/net").expect(0).text();
    assert!(devices.split_whitespace().eq(["eth0", "lo"]), "{devices}");
    labs.run(words!["exec", "left", "--", "no-such-program"]).refused(1, &["no-such-program"]);

    let mut command = labs.client.command(lab_words(words!["exec", "left", "--", "tr", "a-z", "A-Z"]));
    command.stdin(Stdio::from(File::open(labs.client.write("in", b"through")).unwrap()));
    assert_eq!(labs.client.start(command).finish().expect(0).text(), "THROUGH");
}

#[test]
fn a_lab_lasts_for_one_command() {
    let Some(labs) = Labs::of("a_lab_lasts_for_one_command") else { return };
    let file = labs.file("pair", PAIR);
    let at_left = |line: &str| labs.run(words!["run", &file, "--in", "left", "--", "bash", "-c", line]);
    let outcome = at_left("uname -n; echo word > /dev/udp/right/9; exit 3").expect(3);
    assert_eq!(outcome.text(), "left\n");
    assert!(outcome.err.contains("left -> right"), "{}", outcome.err);
    assert!(labs.is_clean());
    assert_eq!(at_left("kill -TERM $$").code, 143);
    assert_eq!(at_left("true").expect(0).err, "", "nothing was carried, and nothing is reported");

    // In this directory other commands find the lab by themselves.
    let line = format!("echo $LONGHAUL_LAB; {LONGHAUL} lab exec right -- uname -n; exit 5");
    let outcome = labs.run(words!["run", &file, "--lab", "mine", "--", "sh", "-c", line]).expect(5);
    assert_eq!(outcome.text(), "mine\nright\n");
    labs.run(words!["run", &file, "--in", "left", "--", "no-such-program"]).expect(1);
    // Processes at the sites end with it.
    let outcome = at_left("sleep 600 & echo $!").expect(0);
    assert!(!super::is_running(outcome.text().trim().parse().unwrap()));
    let last = labs.run(words!["run", &file, "--json", "--quiet", "--", "true"]).expect(0);
    assert_eq!((last.json()["event"].as_str(), last.err.as_str()), (Some("lab"), ""));
    assert!(labs.is_clean());
}

#[test]
fn two_labs_run_side_by_side() {
    let Some(labs) = Labs::of("two_labs_run_side_by_side") else { return };
    let file = labs.file("pair", PAIR);
    labs.run(words!["up", &file]).expect(0);
    labs.run(words!["up", &file, "--lab", "other"]).expect(0);
    let both = labs.run(words!["status", "--json"]).expect(0).text();
    assert_eq!(both.lines().count(), 2, "{both}");
    let addresses =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["sites"][0]["addresses"].clone();
    assert_eq!(addresses(both.lines().next().unwrap()), addresses(both.lines().last().unwrap()));

    labs.run(words!["exec", "left", "--", "true"]).refused(2, &["several labs", "pair", "other", "--lab"]);
    labs.run(words!["set", "left-right", "loss=100%", "--lab", "other"]).expect(0);
    // A word in a datagram gets through one of them only: that of the other is counted as lost.
    let send = |lab: &str| {
        let line = "echo word > /dev/udp/10.77.2.1/9";
        labs.run(words!["exec", "--lab", lab, "left", "--", "bash", "-c", line]).expect(0);
    };
    ["pair", "other"].iter().for_each(|lab| send(lab));
    // All counters come from one status: more segments may arrive between two of them. Segments in flight are counted later.
    let are_all = |lab: &str, all: &str, none: &str| {
        let status = labs.run(words!["status", "--json", "--lab", lab]).expect(0).json();
        let link = &status["links"][0];
        link["segments"].as_u64().unwrap() > 0 && link[all] == link["segments"] && link[none] == 0
    };
    until("one lets all of it through", LONG, || are_all("pair", "out_segments", "lost"));
    until("the other loses all of it", LONG, || are_all("other", "lost", "out_segments"));

    labs.run(words!["down", "pair"]).expect(0);
    assert_eq!(labs.run(words!["exec", "left", "--", "sh", "-c", "echo $LONGHAUL_LAB"]).expect(0).text(), "other\n");
    labs.run(words!["down", "--lab", "other"]).expect(0);
    assert!(labs.is_clean());
}

#[test]
fn events_of_a_scenario_happen() {
    let Some(labs) = Labs::of("events_of_a_scenario_happen") else { return };
    let events = "[[event]]\nat = \"100ms\"\npath = \"left-right\"\nset = { down = true }\nfor = \"6s\"\n\
                  [[event]]\nat = \"8s\"\npath = \"left-right\"\ndirection = \"ba\"\nset = { delay = \"30ms\" }\n";
    labs.run(words!["up", labs.file("events", &format!("{PAIR}{events}"))]).expect(0);
    until("the last event has taken place", LONG, || {
        let status = labs.status();
        let (now, links) = (status["seconds"].as_f64().unwrap(), &status["links"]);
        // The numbers are of one moment; a second for the process that applies the events.
        if (1.1..6.1).contains(&now) {
            assert!(links[0]["is_down"] == true || !labs.is_judged(), "{status}");
        }
        if now > 7.1 {
            assert!(links[0]["is_down"] == false || !labs.is_judged(), "{status}");
        }
        links[1]["delay_s"] == 0.03
    });
    assert_eq!(labs.status()["links"][0]["delay_s"], 0.01);
}

#[test]
fn a_site_has_an_interface_for_each_path() {
    let Some(labs) = Labs::of("a_site_has_an_interface_for_each_path") else { return };
    let sites = "[site.a]\n[site.a.interface.eth1]\n[site.a.interface.eth2]\n[site.b]\n[site.c]\n";
    let ends = [("a", "b"), ("a/eth1", "b"), ("a/eth2", "b"), ("a/eth1", "c"), ("a/eth2", "c")].iter().enumerate();
    let paths = ends.map(|(number, (a, b))| format!("[path.{number}]\nsites = [\"{a}\", \"{b}\"]\nrtt = \"2ms\"\n"));
    labs.run(words!["up", labs.file("several", &format!("{sites}{}", paths.collect::<String>()))]).expect(0);
    // The first interface that has a path to a site is the one by which it is reached, if the program does not choose.
    for (to, by) in [("10.77.2.1", "dev eth0 "), ("10.77.3.1", "dev eth1 "), ("10.77.3.1 from 10.77.1.3", "dev eth2 ")]
    {
        let text = labs.run(words!["exec", "a", "--", "sh", "-c", format!("ip route get {to}")]).expect(0).text();
        assert!(text.contains(by), "{to}: {text}");
    }
}
