//! Auditing, changing and restoring hosts: this one, which is only audited, and recorded ones, which are changed.

mod watching;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ::tune::rule::{ChangeMethod, rules};
use serde_json::Value;

use crate::client::{Client, Outcome, words};

/// What a host for 10 Gbit/s over 150 ms needs: twice 187.5 MB.
const WINDOW: &str = "375000000";
const TARGET_OPTIONS: [&str; 4] = ["--rate", "10Gbit/s", "--rtt", "150ms"];

/// A small host made by hand: one NIC of 10 Gbit/s, and buffers as kernels have them.
struct RecordedHost {
    client: Client,
}

impl RecordedHost {
    fn new() -> RecordedHost {
        let host = RecordedHost { client: Client::new() };
        host.write("etc/machine-id", "0123456789abcdef\n");
        host.write("proc/sys/kernel/hostname", "dtn1\n");
        host.write("proc/sys/net/core/rmem_max", "212992");
        for (what, text) in
            [("operstate", "up"), ("speed", "10000"), ("mtu", "9000"), ("type", "1"), ("device/id", "x")]
        {
            host.write(&format!("sys/class/net/ens1/{what}"), text);
        }
        host
    }

    fn write(&self, name: &str, text: &str) {
        self.client.write(&format!("host/{name}"), text);
    }

    fn at(&self, name: &str) -> PathBuf {
        self.client.path(&format!("host/{name}"))
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Runs `longhaul tune` with these arguments on this host.
    fn tune(&self, more: &[&str]) -> Outcome {
        let words = words!["tune", "--root", self.client.path("host")];
        self.client.run(words.into_iter().chain(more.iter().map(std::ffi::OsString::from)).collect())
    }

    /// The same, for the rate and round trip above.
    fn tune_for_target(&self, more: &[&str]) -> Outcome {
        self.tune(&[more, &TARGET_OPTIONS[..]].concat())
    }
}

fn rule<'a>(audit: &'a Value, id: &str) -> &'a Value {
    let rules = audit["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["id"] == id).unwrap_or_else(|| panic!("no {id} in {audit}"))
}

#[test]
fn an_audit_of_this_host_has_every_rule() {
    let audit = Client::new().run(words!["tune", "audit", "--json"]).expect(0);
    assert_eq!(audit.text().lines().count(), 1, "one object on one line");
    let audit = audit.json();
    assert_eq!(audit["schema"], 1);
    assert!(audit["host"].is_object() && audit["target"]["rtt_s"] == 0.1, "{audit}");
    let mut seen = BTreeSet::new();
    for rule in audit["rules"].as_array().unwrap() {
        for field in ["observed", "wanted", "persist", "confidence", "writable"] {
            assert!(rule.get(field).is_some(), "{field} of {rule}");
        }
        for text in ["id", "why", "source", "command"] {
            assert!(!rule[text].as_str().unwrap().is_empty(), "{text} of {rule}");
        }
        assert!(["ok", "differs", "unknown", "not_applicable"].contains(&rule["status"].as_str().unwrap()), "{rule}");
        assert!(["info", "low", "medium", "high"].contains(&rule["severity"].as_str().unwrap()), "{rule}");
        // Once for each NIC, where there are several.
        let subject = rule["subject"].as_str().unwrap_or_default().to_owned();
        assert!(seen.insert((rule["id"].as_str().unwrap().to_owned(), subject)), "{rule} comes twice");
    }
    let ids: BTreeSet<String> = seen.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, rules().unwrap().into_iter().map(|rule| rule.id).collect::<BTreeSet<_>>());
}

#[test]
fn a_recorded_host_is_audited() {
    let host = RecordedHost::new();
    let audit = host.tune_for_target(&["audit", "--json"]).expect(0).json();
    assert_eq!((&audit["host"]["name"], &audit["target"]["rate_from"]), (&"dtn1".into(), &"asked".into()));
    let buffer = rule(&audit, "T01");
    assert_eq!((&buffer["status"], &buffer["observed"]), (&"differs".into(), &"212992".into()));
    assert_eq!(buffer["wanted"], format!("at least {WINDOW}"));
    assert_eq!(buffer["command"], format!("sysctl -w net.core.rmem_max={WINDOW}"));
    assert_eq!((&buffer["writable"], &buffer["persist"]), (&true.into(), &"sysctl.d".into()));
    // The rate is that of the NIC unless it is given; without a NIC that states one it is unknown.
    let by_nic = host.tune(&["audit", "--json", "--rtt", "150ms"]).expect(0).json();
    assert_eq!((&by_nic["target"]["rate_from"], &rule(&by_nic, "T01")["wanted"]), (&"nic".into(), &buffer["wanted"]));
    host.write("sys/class/net/ens1/speed", "-1");
    let unknown = host.tune(&["audit", "--json"]).expect(0).json();
    assert_eq!((&unknown["target"]["rate_bit_s"], &rule(&unknown, "T01")["status"]), (&Value::Null, &"unknown".into()));
}

#[test]
fn status_shows_the_worst_first_and_its_exit_code_serves_monitoring() {
    let host = RecordedHost::new();
    let check = host.tune_for_target(&["audit", "--check"]).expect(1);
    assert!(check.text().starts_with("WARNING - ") && check.text().contains("T01"), "{}", check.text());
    host.write("proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456");
    let check = host.tune_for_target(&["audit", "--check"]).expect(2);
    assert!(check.text().starts_with("CRITICAL - ") && check.text().contains("T03"), "{}", check.text());
    let text = host.tune_for_target(&["audit", "--html", "page.html"]).expect(0).text();
    let place = |id: &str| text.find(id).unwrap_or_else(|| panic!("no {id} in {text}"));
    assert!(place("high") < place("medium") && place("T03") < place("T01"), "{text}");
    assert!(text.contains("dtn1") && text.contains("ens1") && text.contains(" differ ("), "{text}");
    let page = fs::read_to_string(host.client.path("page.html")).unwrap();
    assert!(page.contains("T01") && page.contains("Not as wanted") && page.ends_with("</html>\n"));
    // A host that cannot be audited as requested is unknown.
    let check = host.tune(&["audit", "--check", "--nic", "nothing0"]).expect(3);
    assert!(check.text().starts_with("UNKNOWN - there is no NIC nothing0"), "{}", check.text());
}

#[test]
fn a_plan_is_a_script_and_changes_nothing() {
    let host = RecordedHost::new();
    let before = host.text("proc/sys/net/core/rmem_max");
    let plan = host.tune_for_target(&["plan"]).expect(0).text();
    assert!(plan.starts_with("#!/bin/sh\n"), "{plan}");
    assert!(plan.contains(&format!("\n{{ sysctl -w net.core.rmem_max={WINDOW}\n}}")), "{plan}");
    assert!(plan.contains("\n# - 212992\n") && plan.contains(&format!("\n# + {WINDOW}\n")), "{plan}");
    let script = host.client.write("plan.sh", &plan);
    assert!(Command::new("sh").arg("-n").arg(script).status().unwrap().success(), "{plan}");
    let diff = host.tune_for_target(&["plan", "t01", "--diff"]).expect(0).text();
    assert_eq!(diff, format!("  net.core.rmem_max\n- 212992\n+ {WINDOW}\n"));
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), before);
}

#[test]
fn an_applied_change_can_be_undone_once() {
    let host = RecordedHost::new();
    host.tune(&["undo"]).refused(1, &["nothing to undo"]);
    let applied = host.tune_for_target(&["apply", "T01", "--persist", "--json"]).expect(0).json();
    assert_eq!((&applied["event"], &applied["changes"][0]["after"]), (&"tune_apply".into(), &WINDOW.into()));
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), WINDOW);
    assert!(host.text("etc/sysctl.d/90-longhaul.conf").contains(&format!("net.core.rmem_max = {WINDOW}\n")));
    let listed = host.tune(&["undo", "--list"]).expect(0).text();
    assert!(listed.lines().count() == 1 && listed.contains("T01"), "{listed}");
    // Another host's values are not this one's.
    host.write("etc/machine-id", "fedcba9876543210\n");
    host.tune(&["undo"]).refused(4, &["another host", "0123456789abcdef"]);
    host.write("etc/machine-id", "0123456789abcdef\n");
    host.tune(&["undo"]).expect(0);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
    assert!(!host.at("etc/sysctl.d/90-longhaul.conf").exists());
    host.tune(&["undo"]).refused(1, &["nothing to undo"]);
}

#[test]
fn applying_every_rule_needs_yes() {
    let host = RecordedHost::new();
    let refused = host.tune_for_target(&["apply"]).expect(2);
    assert!(refused.err.contains("+ 375000000") && refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), "212992");
    host.tune_for_target(&["apply", "--yes"]).expect(0);
    assert_eq!(host.text("proc/sys/net/core/rmem_max"), WINDOW);
    // What is as wanted is not changed again.
    assert!(host.tune_for_target(&["apply", "T01"]).expect(0).text().contains("nothing differs"));
}

#[test]
fn an_invalid_option_is_refused() {
    let host = RecordedHost::new();
    host.tune_for_target(&["apply", "T1"]).refused(2, &["no rule T1", "T01"]);
    host.tune_for_target(&["plan", "X99"]).refused(2, &["no rule X99", "nearest"]);
    host.tune(&["audit", "--nic", "eth7"]).refused(2, &["eth7", "ens1"]);
    host.tune(&["audit", "--disk", "/nowhere"]).refused(2, &["no disk is known for /nowhere"]);
    host.tune(&["undo", "yesterday"]).refused(2, &["no snapshot yesterday", "--list"]);
    for (option, absurd) in
        [("--rate", "10"), ("--rate", "5Pbit/s"), ("--rate", "0Gbit/s"), ("--rtt", "0s"), ("--rtt", "5min")]
    {
        let refused = host.tune(&["audit", option, absurd]).expect(2);
        assert!(refused.err.contains(option) && refused.err.contains(absurd), "{}", refused.err);
    }
    // What only a person can change is shown, not tried.
    let manual = rules().unwrap().into_iter().find(|rule| rule.set == ChangeMethod::Manual).unwrap().id;
    host.tune_for_target(&["apply", &manual]).refused(1, &[manual.as_str(), "by hand"]);
}

#[test]
fn the_calculator_answers() {
    let client = Client::new();
    let calc = |more: &[&str]| {
        let words = words!["tune", "calc", "--json"].into_iter().chain(more.iter().map(std::ffi::OsString::from));
        client.run(words.collect()).expect(0).json()
    };
    let value = |answer: &Value, name: &str| {
        let lines = answer["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name} in {answer}"));
        assert!(
            !line["formula"].as_str().unwrap().is_empty() && !line["source"].as_str().unwrap().is_empty(),
            "{line}"
        );
        line["value"].as_f64().unwrap()
    };
    let near = |is: f64, stated: f64| assert!((is / stated - 1.0).abs() < 1e-3, "{is} is not {stated}");
    let long = calc(&["--rate", "10Gbit/s", "--rtt", "300ms", "--mtu", "9000"]);
    near(value(&long, "bandwidth-delay product"), 375e6);
    near(value(&long, "largest buffer to allow"), 750e6);
    near(value(&long, "recovery from one loss, Reno"), 6_286.3);
    // 1448 bytes x 8 x sqrt(1.5) / (0.1 s x sqrt(0.0001)).
    let lossy = calc(&["--rate", "1Gbit/s", "--rtt", "100ms", "--loss", "0.01%"]);
    near(value(&lossy, "one stream under loss, Reno"), 14_187_445.0);
    let text = client.run(words!["tune", "calc", "--rate", "10Gbit/s", "--rtt", "300ms"]).expect(0).text();
    assert!(text.contains("375 MB (358 MiB)") && text.contains("rate * RTT / 8   [RFC 7323"), "{text}");
    client.run(words!["tune", "calc"]).refused(2, &["--rate and --rtt"]);
    client.run(words!["tune", "calc", "--loss", "0.01", "--rate", "1Gbit/s"]).expect(2);
}
