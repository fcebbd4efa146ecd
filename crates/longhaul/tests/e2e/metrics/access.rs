//! Access to a node's metrics.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;

use super::exposition::Numbers;
use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::wait::{LONG, skipped, until};
use crate::web::raw::{Answer, Raw};
use crate::wrappers::with_network;

/// An address of this host that is not loopback.
const ELSEWHERE: &str = "198.51.100.7";

fn from_elsewhere(node: &Node) -> TcpStream {
    TcpStream::connect((ELSEWHERE, node.port)).unwrap()
}

fn get_metrics(mut raw: Raw, target: &str, key: Option<&str>) -> Answer {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let fields: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    raw.ask("GET", target, &fields, &[])
}

#[test]
fn metrics_need_a_credential_and_a_key_shows_only_its_exports() {
    const TEST: &str = "metrics::access::metrics_need_a_credential_and_a_key_shows_only_its_exports";
    with_network(TEST, || {
        for words in [["link", "set", "lo", "up"].as_slice(), &["addr", "add", "198.51.100.7/32", "dev", "lo"]] {
            let output = Command::new("ip").args(words).output();
            if !output.as_ref().is_ok_and(|output| output.status.success()) {
                return skipped(TEST, &format!("ip: {output:?}"));
            }
        }
        with_and_without_a_key();
    });
}

fn with_and_without_a_key() {
    let setup = Setup::new().on_all_addresses().data_export("rw");
    let other = setup.data().with_file_name("other");
    fs::create_dir(&other).unwrap();
    let node = setup.export("other", &other, "ro").start();
    let sealed = |target: &str, key: Option<&str>| get_metrics(Raw::sealed_over(from_elsewhere(&node)), target, key);
    let refused = sealed("/metrics", None).expect(401);
    assert!(refused.field("www-authenticate").is_some() && !refused.text().contains("longhaul_"));
    sealed("/metrics", Some("lhk1_AAAA")).expect(401);
    let key = node.grant(&["--export", "data", "--path", "deep/down"]);
    let visible = Numbers::parse(&sealed("/metrics", Some(&key)).expect(200).text());
    assert!(visible.get("longhaul_export_free_bytes{export=\"data\"}").is_some());
    assert!(
        visible.get("longhaul_export_free_bytes{export=\"other\"}").is_none(),
        "an export that the key does not cover"
    );
    // Clients on this host see all exports.
    let here = Numbers::parse(&get_metrics(Raw::sealed(&node), "/metrics", None).expect(200).text());
    assert!(here.get("longhaul_export_free_bytes{export=\"other\"}").is_some());
    // Without TLS no metrics are sent, to no client.
    for raw in [Raw::over(from_elsewhere(&node)), Raw::to(&node)] {
        assert!(get_metrics(raw, "/metrics", Some(&key)).expect(403).text().contains("over TLS only"));
    }
}

const SETTINGS: &str = "export = [\"data=DATA\"]\n";

#[test]
fn a_listed_monitor_needs_no_key_and_no_tls_and_a_reload_changes_the_list() {
    let setup = Setup::new();
    let file = setup.data().with_file_name("serve.toml");
    let settings = SETTINGS.replace("DATA", &setup.data().display().to_string());
    fs::write(&file, &settings).unwrap();
    let node = setup.arg("--config").arg(&file).start();
    fs::write(node.data("f"), b"f").unwrap();
    let clear = |target: &str| get_metrics(Raw::to(&node), target, None);
    let reload = |more: &str, expected: &str| {
        fs::write(&file, format!("{settings}{more}")).unwrap();
        let before = node.log().matches(expected).count();
        node.signal(Signal::HUP);
        until("it is reloaded", LONG, || node.log().matches(expected).count() > before);
    };
    clear("/metrics").expect(403);
    reload("metrics = [\"192.0.2.0/24\", \"127.0.0.0/8\"]\n", "are in force");
    let numbers = Numbers::parse(&clear("/metrics").expect(200).text());
    assert_eq!(numbers.of("longhaul_reloads_total{outcome=\"done\"}"), 1.0);
    // Nothing else, also on a connection that requested the metrics first.
    let mut raw = Raw::to(&node);
    raw.ask("GET", "/metrics", &[], &[]).expect(200);
    for target in ["/data/f", "/", "/metrics/x", "/api/v1/flows"] {
        assert!(raw.ask("GET", target, &[], &[]).expect(403).text().contains("over TLS only"), "{target}");
    }
    raw.ask("PUT", "/metrics", &[], b"x").expect(405);
    let head = raw.ask("HEAD", "/metrics", &[], &[]).expect(200);
    assert!(head.body.is_empty());
    reload("metrics = [\"monitor\"]\n", "the new settings are refused");
    let numbers = Numbers::parse(&clear("/metrics").expect(200).text());
    assert_eq!(numbers.of("longhaul_reloads_total{outcome=\"refused\"}"), 1.0);
    reload("", "are in force");
    clear("/metrics").expect(403);
    // A connection that was opened before gets no metrics any more, with a key or without.
    raw.ask("GET", "/metrics", &[], &[]).expect(403);
    let key = format!("Bearer {}", node.grant(&["--export", "data"]));
    raw.ask("GET", "/metrics", &[("Authorization", &key)], &[]).expect(403);
}

#[test]
fn no_export_can_replace_the_metrics() {
    let client = Client::new();
    for name in ["metrics", "api"] {
        let refusal =
            client.run(words!["serve", "--listen", "127.0.0.1:0", "--export", format!("{name}=/tmp")]).expect(2).err;
        assert!(refusal.contains(&format!("{name:?} cannot name an export")), "{refusal}");
    }
}
