//! A node on a wildcard address takes every address of its host for its own: a client that may order copies cannot make it connect there.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use super::requests::Requests;
use crate::node::{Node, Setup};
use crate::wait::{LONG, skipped, until_some};
use crate::wrappers::with_network;

const TEST: &str = "hostile::own_addresses::a_host_s_own_addresses_are_the_node_itself";
const OWN: &str = "10.77.0.1";
const OWN_V6: &str = "fd77::1";

/// Gives the network of the test two addresses that are not loopback addresses; returns why, where that fails.
fn with_addresses() -> Result<(), String> {
    for words in ["link set lo up", "addr add 10.77.0.1/24 dev lo", "-6 addr add fd77::1/64 dev lo nodad"] {
        let output = Command::new("ip").args(words.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
        if !output.status.success() {
            return Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(())
}

fn order(node: &Node, key: &str, source: &str, target: &str) -> Value {
    let id = model::id::Uuid::now_v7();
    let mut requests = Requests::new(node, Some(key));
    let body = format!(
        "{{\"id\":\"{id}\",\"source\":[\"{source}\"],\"target\":\"{target}\",\"retry_for_s\":0,\"node\":\"{}\"}}",
        "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    );
    let created = requests.ask("POST", "/api/v1/transfers", &[("Content-Type", "application/json")], body.as_bytes());
    if created.status >= 400 {
        return serde_json::from_slice(&created.body).unwrap();
    }
    until_some("the transfer has ended", LONG, || {
        let transfer = requests.ask("GET", &format!("/api/v1/transfers/{id}"), &[], b"");
        let transfer: Value = serde_json::from_slice(&transfer.body).unwrap();
        matches!(transfer["state"].as_str(), Some("failed" | "done" | "canceled")).then_some(transfer)
    })
}

#[test]
fn a_host_s_own_addresses_are_the_node_itself() {
    with_network(TEST, || {
        if let Err(why) = with_addresses() {
            return skipped(TEST, &why);
        }
        let bait = TcpListener::bind("[::]:0").unwrap();
        bait.set_nonblocking(true).unwrap();
        let port = bait.local_addr().unwrap().port();
        for setup in [Setup::new().on_all_addresses(), Setup::new().on_both_families()] {
            let node = setup.data_export("rw").arg("--plain").start();
            std::fs::write(node.data("f"), b"here").unwrap();
            let key = node.grant(&["--export", "data", "--write"]);
            for host in [
                OWN.to_owned(),
                format!("[{OWN_V6}]"),
                format!("[::ffff:{OWN}]"),
                "[64:ff9b::10.77.0.1]".to_owned(),
                "127.0.0.1".to_owned(),
                "10.77.1".to_owned(),
            ] {
                let url = format!("http://{host}:{port}/f");
                let mut requests = Requests::new(&node, Some(&key));
                for (field, target) in [("Source", "/data/new"), ("Destination", "/data/f")] {
                    let answer = requests.ask("COPY", target, &[(field, url.as_str())], b"");
                    assert_eq!(answer.status, 403, "COPY, {field} {url}: {}", answer.text());
                }
                for far in [format!("lh://{host}:{port}/data/x"), url] {
                    for (source, target) in [("/data/f", far.as_str()), (far.as_str(), "/data/new")] {
                        let transfer = order(&node, &key, source, target);
                        assert_ne!(transfer["state"], "done", "{source} to {target}: {transfer}");
                    }
                }
                assert!(bait.accept().is_err(), "the node connected to {host}, which is its own");
            }
        }
    });
}
