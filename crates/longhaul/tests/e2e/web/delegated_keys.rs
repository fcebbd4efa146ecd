//! Keys that a node delegates for one copy: they are for the native protocol only, end with the copy, and delegate no further
//! keys.

use std::time::Duration;

use auth::AccessKey;
use serde_json::Value;
use wire::frame::KeyProof;

use super::raw::{Answer, ask};
use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::raw_client::RawClient;
use crate::wait::{LONG, until};

const KIND: (&str, &str) = ("Content-Type", "application/vnd.longhaul.session+json");
const READ: &[u8] = br#"{"v":1,"write":false,"job":"00000000-0000-4000-8000-000000000000"}"#;
const WRITE: &[u8] = br#"{"v":1,"write":true,"job":"00000000-0000-4000-8000-000000000000"}"#;

fn closed_node() -> Node {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    std::fs::write(node.data("f"), b"here").unwrap();
    node
}

fn request_key(node: &Node, key: &str, request: &[u8]) -> Answer {
    let bearer = format!("Bearer {key}");
    ask(node, "POST", "/data/f", &[KIND, ("Authorization", &bearer)], request)
}

fn delegated_key(node: &Node, key: &str, request: &[u8]) -> String {
    let issued: Value = serde_json::from_slice(&request_key(node, key, request).expect(200).body).unwrap();
    issued["key"].as_str().unwrap().to_owned()
}

fn proof(key: &str) -> KeyProof {
    let key: AccessKey = key.parse().unwrap();
    KeyProof { id: key.id, secret: *key.expose_secret() }
}

fn admits(node: &Node, key: &str) -> bool {
    RawClient::with_key(node, Some(&proof(key))).is_ok()
}

#[test]
fn a_delegated_key_is_for_the_native_protocol_and_delegates_nothing() {
    let node = closed_node();
    let own = node.grant(&["--export", "data", "--write"]);
    for request in [READ, WRITE] {
        let key = delegated_key(&node, &own, request);
        let bearer = format!("Bearer {key}");
        let credential = [("Authorization", bearer.as_str())];
        assert_eq!(ask(&node, "GET", "/data/f", &credential, &[]).status, 403);
        assert_eq!(ask(&node, "PROPFIND", "/data/f", &credential, &[]).status, 403);
        assert_eq!(request_key(&node, &key, request).status, 403, "one key led to the next");
        assert!(admits(&node, &key));
    }
    // It is not for file commands either.
    let client = Client::with_key(&delegated_key(&node, &own, READ));
    client.run(words!["ls", node.at("data")]).refused(4, &["one job"]);
}

#[test]
fn a_delegated_key_ends_with_its_parent() {
    let node = closed_node();
    let (own, short) = (node.grant(&["--export", "data"]), node.grant(&["--export", "data", "--for", "15s"]));
    let (of_own, of_short) = (delegated_key(&node, &own, READ), delegated_key(&node, &short, READ));
    assert!(admits(&node, &of_own) && admits(&node, &of_short));
    until("the shorter one is over", LONG, || {
        std::thread::sleep(Duration::from_millis(200));
        !admits(&node, &of_short)
    });
    assert!(admits(&node, &of_own));
    let id = auth::hex(&proof(&own).id);
    assert!(node.grant_command(&["revoke", &id]).status.success());
    assert!(!admits(&node, &of_own), "its parent is revoked");
}
