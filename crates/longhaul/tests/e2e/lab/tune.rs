//! A host with deliberately bad settings, in a network of its own: the bad settings are found, changed and restored, and the
//! effect of a change on a path is measured.

use std::collections::BTreeMap;

use lab::fixture::{Fixture, up};
use serde_json::Value;
use tempfile::TempDir;

use super::{CpuWaitBaseline, is_judged, serve_at_b};
use crate::node::LONGHAUL;

/// Settings that every network namespace has, a bad value of each, and the rule that must report it.
const BAD: [(&str, &str, &str); 8] = [
    ("net.ipv4.tcp_rmem", "4096 65536 262144", "T03"),
    ("net.ipv4.tcp_wmem", "4096 16384 262144", "T04"),
    ("net.ipv4.tcp_window_scaling", "0", "T06"),
    ("net.ipv4.tcp_sack", "0", "T07"),
    ("net.ipv4.tcp_timestamps", "0", "T08"),
    ("net.ipv4.tcp_no_metrics_save", "0", "T09"),
    ("net.ipv4.tcp_moderate_rcvbuf", "0", "T12"),
    ("net.ipv4.tcp_slow_start_after_idle", "1", "T13"),
];
const TARGET_OPTIONS: [&str; 6] = ["--rate", "1Gbit/s", "--rtt", "50ms", "--role", "dtn"];

struct Host {
    fixture: Fixture,
    dir: TempDir,
}

impl Host {
    fn output(&self, program: &str, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.fixture.command("a", program).unwrap();
        let output = command.args(words).stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn tune(&self, words: &[&str], exit: i32) -> String {
        let state = self.dir.path().display().to_string();
        let (code, out, err) = self.output(LONGHAUL, &[&["tune", "--state", &state], words].concat());
        assert_eq!(code, Some(exit), "tune {words:?}: {out}{err}");
        out
    }

    fn rules(&self) -> Vec<Value> {
        let words = [&["audit", "--json"][..], &TARGET_OPTIONS[..]].concat();
        let audit: Value = serde_json::from_str(&self.tune(&words, 0)).unwrap();
        audit["rules"].as_array().unwrap().clone()
    }

    /// Every setting of this network, as the kernel writes it, without values that differ at each reading.
    fn settings(&self) -> BTreeMap<String, String> {
        let (_, out, _) = self.output("sh", &["-c", "cd /proc/sys/net && grep -r . ipv4 ipv6 core 2>/dev/null"]);
        let all = out.lines().filter_map(|line| line.split_once(':'));
        let volatile = ["stable_secret", "fib_", "mc_forwarding", "flush", "tcp_fastopen_key"];
        all.filter(|(name, _)| !volatile.iter().any(|volatile| name.contains(volatile)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

fn host(name: &str, bad: &[(&str, &str, &str)]) -> Option<Host> {
    let sysctl: Vec<String> = bad.iter().map(|(name, value, _)| format!("\"{name}\" = \"{value}\"")).collect();
    // A lab's TUN device is not a card: a test that needs a card makes one.
    let site = format!("[site.a]\nsysctl = {{ {} }}\n[site.b]\n", sysctl.join(", "));
    let fixture = up(name, &format!("{site}[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"\n"))?;
    Some(Host { fixture, dir: tempfile::tempdir().unwrap() })
}

fn status(rules: &[Value], id: &str) -> String {
    let rule = rules.iter().find(|rule| rule["id"] == id).unwrap();
    rule["status"].as_str().unwrap().to_owned()
}

#[test]
fn bad_settings_are_found_changed_and_restored() {
    let Some(host) = host("bad settings", &BAD) else { return };
    let before = host.settings();
    let found = host.rules();
    for (name, value, id) in BAD {
        assert_eq!(status(&found, id), "differs", "{name} is {value}");
        let rule = found.iter().find(|rule| rule["id"] == id).unwrap();
        assert_eq!(rule["writable"], true, "{rule}");
    }
    // Settings that a machine has once for all networks are left out for a host in one of them.
    let names: Vec<&str> = BAD.iter().map(|(_, _, id)| *id).collect();
    host.tune(&[&["apply"], &names[..], &TARGET_OPTIONS[..]].concat(), 0);
    let mended = host.rules();
    for id in names {
        assert_eq!(status(&mended, id), "ok", "{id}");
    }
    assert_ne!(host.settings(), before);
    host.tune(&["undo"], 0);
    assert_eq!(host.settings(), before, "undo leaves no difference");
}

#[test]
fn a_card_is_changed_by_netlink_and_ethtool_and_restored() {
    let Some(host) = host("bad card", &[]) else { return };
    let make = "ip link add dtn0 txqueuelen 10 type veth peer name dtn1 && ip link set dtn0 up && ip link set dtn1 up";
    let (made, _, err) = host.output("sh", &["-c", make]);
    assert_eq!(made, Some(0), "{err}");
    let card = || host.output("ip", &["-d", "link", "show", "dtn0"]).1;
    let card_options = ["--nic", "dtn0", "--rate", "100Gbit/s", "--rtt", "50ms"];
    let rules = || {
        let audit = host.tune(&[&["audit", "--json"][..], &card_options[..]].concat(), 0);
        serde_json::from_str::<Value>(&audit).unwrap()["rules"].as_array().unwrap().clone()
    };
    // The queue is too short, the kernel does not merge, and the largest pieces are 64 KiB: sent and merged ones, by IPv6 and IPv4.
    let bad = ["N02", "N09", "N10", "N10a", "N11", "N11a"];
    let (before, found) = (card(), rules());
    for id in bad {
        assert_eq!(status(&found, id), "differs", "{id}");
    }
    host.tune(&[&["apply"], &bad[..], &card_options[..]].concat(), 0);
    let (changed, mended) = (card(), rules());
    for id in bad {
        assert_eq!(status(&mended, id), "ok", "{id}");
    }
    // As ip(8) sees it, which in older releases knows nothing of the limits of IPv4.
    for expected in ["qlen 10000", "gso_max_size 185000"] {
        assert!(changed.contains(expected), "{expected}: {changed}");
    }
    host.tune(&["undo"], 0);
    assert_eq!(card(), before, "undo leaves no difference");
    assert_eq!(status(&rules(), "N09"), "differs");
}

#[test]
fn the_effect_of_a_change_is_measured() {
    let Some(host) = host("verified", &[BAD[0]]) else { return };
    let (before, since) = (host.settings(), CpuWaitBaseline::now());
    let serving = serve_at_b(&host.fixture, &host.dir);
    let at = format!("b:{}", serving.address.port());
    let words = ["verify", "T03", "T09", "--json", "-R", "-t", "1s", "--with", &at];
    let out = host.tune(&[&words[..], &TARGET_OPTIONS[..]].concat(), 0);
    let trials: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trial = |id: &str| trials.iter().find(|trial| trial["rule"] == id).unwrap_or_else(|| panic!("no {id}: {out}"));
    // A window of a quarter of a megabyte gives 40 Mbit/s over 50 ms at best.
    let is_better = trial("T03")["verdict"] == "better" && trial("T03")["rate"]["share"].as_f64() > Some(0.5);
    let limited = || host.fixture.limited(&host.fixture.reading().unwrap());
    assert!(is_better || !is_judged("the_effect_of_a_change_is_measured", limited(), &since), "{out}");
    assert_eq!(trial("T03")["before"].as_array().unwrap().len(), 5);
    assert_eq!(host.settings(), before, "all is as it was");
    assert!(host.tune(&["undo", "--list"], 0).is_empty(), "nothing is left to undo");
}
