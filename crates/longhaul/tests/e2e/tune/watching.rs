//! `tune watch`, `tune compare` and `tune verify`: a host over time, against other hosts, with a change and without it.

use rustix::process::Signal;

use super::*;
use crate::client::Running;
use crate::node::{Node, Setup, signal};
use crate::wait::{LONG, until};

const SACK: &str = "proc/sys/net/ipv4/tcp_sack";
const SOFTNET: &str = "proc/net/softnet_stat";

fn softnet(dropped: u32) -> String {
    format!("00000001 {dropped:08x} 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n")
}

#[test]
fn a_watch_reports_drops_and_changed_settings() {
    let host = RecordedHost::new();
    host.write(SACK, "1");
    host.write(SOFTNET, &softnet(0));
    let root = host.client.path("host");
    let watch = host.client.begin(words!["tune", "--root", root, "watch", "--every", "1s", "-t", "1h"]);
    until("it watches", LONG, || watch.err().contains("watching"));
    host.write(SACK, "0");
    host.write(SOFTNET, &softnet(16));
    until("it reports", LONG, || watch.out().contains("T07") && watch.out().contains("N18c"));
    let out = watch.out();
    assert!(out.contains("T07 is not as wanted any more: 1 → 0") && out.contains("N18c grew: 0 → 16"), "{out}");
    drop(watch);
    // As a monitoring system runs it, the command reports only what happened in its interval.
    let check = host.tune(&["watch", "--check", "--every", "1s", "-t", "1s"]).expect(0).text();
    assert!(check.starts_with("OK - nothing dropped, nothing changed"), "{check}");
}

#[test]
fn a_change_of_an_applied_setting_is_reported() {
    let host = RecordedHost::new();
    host.tune_for_target(&["apply", "T01"]).expect(0);
    let check = ["watch", "--check", "-t", "1s"];
    host.tune_for_target(&check).expect(0);
    host.write("proc/sys/net/core/rmem_max", "212992");
    let report = host.tune_for_target(&check).expect(1).text();
    assert!(report.contains("T01") && report.contains("`tune apply` had set 375000000, and it is 212992"), "{report}");
    assert!(host.tune(&["watch", "--every", "10ms"]).expect(2).err.contains("from 1s to 24h"));
}

#[test]
fn a_change_without_effect_is_noise() {
    let host = RecordedHost::new();
    let node = Node::open();
    let at = node.address();
    let verify = |more: &[&str]| host.tune_for_target(&[&["verify", "T01", "--with", &at][..], more].concat());
    // The file of a recorded host moves nothing.
    let look = || verify(&["-t", "1s", "--json"]).expect(0).json();
    let mut trial = look();
    if trial["verdict"] != "noise" {
        // Other load on this machine may coincide with the rounds once, hardly twice.
        trial = look();
    }
    assert_eq!((&trial["verdict"], &trial["rule"]), (&"noise".into(), &"T01".into()), "{trial}");
    assert!(
        trial["rate"]["before"].as_f64().unwrap() > 1e6 && trial["cpu"]["before"].as_f64().unwrap() > 0.0,
        "{trial}"
    );
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
    verify(&["--rounds", "2"]).expect(2);
    assert!(verify(&["-t", "1ms"]).expect(2).err.contains("from 1s to 10min"));
    // Without a name it would be every rule: that needs --yes.
    host.tune_for_target(&["verify", "--with", &at]).refused(2, &["--yes"]);
    let port = node.port;
    drop(node);
    host.tune_for_target(&["verify", "T01", "--with", &format!("127.0.0.1:{port}"), "-t", "1s"])
        .refused(5, &["127.0.0.1"]);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn verify_measures_a_disk_too() {
    let host = RecordedHost::new();
    let directory = host.client.path("");
    let directory = directory.to_str().unwrap();
    let trial = host.tune_for_target(&["verify", "T01", "--with", directory, "-t", "1s", "--json"]).expect(0).json();
    assert_eq!(trial["after"].as_array().unwrap().len(), 5, "{trial}");
    host.tune_for_target(&["verify", "T01", "--with", "/no/such/place", "-t", "1s"]).expect(6);
}

/// Starts a verify, and waits until it has made its change.
fn begin_changed_verify(host: &RecordedHost, node: &Node) -> Running {
    let root = host.client.path("host");
    let mut all = words!["tune", "--root", root, "verify", "T01", "-t", "2s", "--with", node.address()];
    all.extend(TARGET_OPTIONS.map(std::ffi::OsString::from));
    let running = host.client.begin(all);
    until("the change is made", LONG, || host.text("proc/sys/net/core/rmem_max") == WINDOW);
    running
}

#[test]
fn an_interrupted_verify_restores_all_settings() {
    let host = RecordedHost::new();
    let node = Node::open();
    let running = begin_changed_verify(&host, &node);
    signal(&running.child, Signal::INT);
    let ended = running.finish().expect(130);
    assert!(ended.err.contains("all is as it was"), "{}", ended.err);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
    host.tune(&["undo"]).refused(1, &["nothing to undo"]);
}

#[test]
fn a_verify_that_is_killed_can_be_undone() {
    let host = RecordedHost::new();
    let node = Node::open();
    let running = begin_changed_verify(&host, &node);
    // Dropping it kills it.
    drop(running);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), WINDOW);
    host.tune(&["undo"]).expect(0);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn two_hosts_are_compared() {
    let (one, other) = (RecordedHost::new(), RecordedHost::new());
    one.write(SACK, "1");
    other.write(SACK, "0");
    one.write("netlink/ens1/mtu", "9000");
    other.write("netlink/ens1/mtu", "1500");
    let file = |host: &RecordedHost| {
        let audit = host.tune_for_target(&["audit", "--json"]).expect(0).text();
        host.client.write("audit.json", audit).display().to_string()
    };
    let (a, b) = (file(&one), file(&other));
    let compared = one.client.run(words!["tune", "compare", &a, &b, "--json"]).expect(0).json();
    let drift = compared["drift"].as_array().unwrap();
    let drift_of = |id: &str| drift.iter().find(|d| d["rule"] == id).unwrap_or_else(|| panic!("no {id} in {compared}"));
    assert_eq!((&drift_of("T07")["change"], &drift_of("T07")["b"]["observed"]), (&"b".into(), &"0".into()));
    assert_eq!(
        (&drift_of("N01")["a"]["observed"], &drift_of("N01")["b"]["observed"]),
        (&"9000".into(), &"1500".into())
    );
    let text = one.client.run(words!["tune", "compare", &a, &b]).expect(0).text();
    assert!(text.contains("T07") && text.contains("b is to change"), "{text}");
    let same = one.client.run(words!["tune", "compare", &a, &a]).expect(0).text();
    assert!(same.contains("no drift"), "{same}");
    one.client.run(words!["tune", "compare", &a, &b, "--check"]).expect(2);
    one.client.run(words!["tune", "compare", &a, "iperf3://x"]).refused(2, &["iperf3://x"]);
    let torn = one.client.write("torn.json", "{\"schema\":1,");
    one.client.run(words!["tune", "compare", torn, &b]).refused(2, &["torn.json"]);
    let newer = one.client.write("newer.json", "{\"schema\":2}");
    one.client.run(words!["tune", "compare", newer, &b]).refused(8, &["schema is 2"]);
}

#[test]
fn a_node_shows_its_settings_to_holders_of_a_key() {
    let audited = Setup::new().data_export("rw").arg("--audit").arg("--anonymous").arg("ro").start();
    let key = audited.grant(&["--export", "data"]);
    let at = audited.address();
    let client = Client::with_key(&key);
    // Both are this host.
    let compared = client.run(words!["tune", "compare", "here", &at, "--json"]).expect(0).json();
    assert_eq!(compared["drift"].as_array().unwrap().len(), 0, "{compared}");
    assert_eq!(compared["a"]["kernel"], compared["b"]["kernel"]);
    Client::new().run(words!["tune", "compare", "here", &at]).refused(4, &["an access key"]);
    let unaudited = Setup::new().data_export("rw").start();
    let client = Client::with_key(&unaudited.grant(&["--export", "data"]));
    client.run(words!["tune", "compare", "here", unaudited.address()]).refused(4, &["serve --audit"]);
    let check = client.run(words!["tune", "compare", "here", unaudited.address(), "--check"]).expect(3).text();
    assert!(check.starts_with("UNKNOWN - "), "{check}");
}
