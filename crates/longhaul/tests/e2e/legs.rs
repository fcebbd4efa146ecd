//! The legs of a receipt: how the payload really crossed each leg, not what a scheme or a default suggests.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, words};
use crate::https;
use crate::node::{Node, Setup};
use crate::s3::{KEY, S3Server};

/// A node that anonymous clients may read and write, over HTTP in clear as well.
fn server() -> Node {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").anonymous_may_copy().start();
    fs::write(node.data("f"), vec![7; 300_000]).unwrap();
    node
}

fn leg(from: &str, to: &str, payload: &str) -> Value {
    json!({"from": from, "to": to, "payload": payload})
}

/// The text that the command prints.
fn summary(client: &Client, words: Vec<std::ffi::OsString>) -> String {
    client.run([words!["cp", "--sync", "none"], words].concat()).expect(0).text()
}

#[test]
fn each_leg_states_how_payload_crossed_it() {
    let (node, other, client) = (server(), server(), Client::new());
    let near = client.write("near", vec![9; 300_000]).display().to_string();
    let clear = format!("http://127.0.0.1:{}/data/f", node.port);
    let dav = format!("dav://127.0.0.1:{}/data/dav", node.port);
    let there = other.at("data/copy");
    let cases = [
        (words![near, "within"], vec![leg("here", "here", "local")], "payload stayed on this host"),
        (words![near, there], vec![leg("here", &there, "sealed")], "payload sealed"),
        (words![near, there, "--plain"], vec![leg("here", &there, "plain")], "payload in clear"),
        (words![node.at("data/f"), "pulled"], vec![leg(&node.at("data/f"), "here", "sealed")], "payload sealed"),
        (words![clear, "fetched"], vec![leg(&clear, "here", "plain")], "payload in clear"),
        (words![near, dav], vec![leg("here", &dav, "plain")], "payload in clear"),
        (
            words![clear, there],
            vec![leg(&clear, "here", "plain"), leg("here", &there, "sealed")],
            "in clear, from here to",
        ),
    ];
    for (words, legs, expected) in cases {
        let receipt = client.cp(0, [words.clone(), words!["--sync", "none"]].concat());
        assert_eq!(receipt["carried"], Value::from(legs), "{words:?}: {receipt}");
        let text = summary(&client, words.clone());
        assert!(text.contains(expected), "{words:?}: {text}");
        assert!(text.contains("verified by crc32c") && !text.contains("not verified"), "{words:?}: {text}");
    }
    // Nothing moved: the receipt names no leg.
    assert!(client.cp(0, words![clear, "fetched"]).get("carried").is_none());
}

#[test]
fn payload_within_tls_is_reported_as_such() {
    let (node, client) = (https::setup("").arg("--anonymous").arg("ro").start(), Client::new());
    fs::write(node.data("f"), vec![7; 300_000]).unwrap();
    let (url, ca) = (format!("https://127.0.0.1:{}/data/f", node.port), node.data("../ca.pem"));
    let receipt = client.cp(0, words![url, "f", "--cacert", ca]);
    assert_eq!(receipt["carried"], Value::from(vec![leg(&url, "here", "tls")]), "{receipt}");
    assert!(summary(&client, words![url, "g", "--cacert", ca]).contains("payload within TLS"));
}

#[test]
fn a_bucket_and_mirrors_are_legs_as_well() {
    let (node, client) = (server(), Client::new());
    let (near, bucket) = (client.write("near", vec![9; 300_000]), S3Server::new());
    let mut command = client.command(words!["cp", "--json", near, "s3://bucket/f"]);
    command.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1).env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT_URL_S3", format!("http://{}", bucket.address));
    let receipt = client.start(command).finish().expect(0).json();
    assert_eq!(receipt["carried"], Value::from(vec![leg("here", "s3://bucket/f", "plain")]), "{receipt}");
    let clear = format!("http://127.0.0.1:{}/data/f", node.port);
    let receipt = client.cp(0, words![node.at("data/f"), "g", "--mirror", clear]);
    let words: Vec<&str> =
        receipt["carried"].as_array().unwrap().iter().map(|leg| leg["payload"].as_str().unwrap()).collect();
    assert!(!words.is_empty() && words.iter().all(|word| ["tls", "plain"].contains(word)), "{receipt}");
}

#[test]
fn copies_between_servers_have_an_unseen_leg() {
    let (one, other, client) = (server(), server(), Client::new());
    let [from, to] =
        [(&one, "f"), (&other, "g")].map(|(node, name)| format!("http://127.0.0.1:{}/data/{name}", node.port));
    let receipt = client.cp(0, words![from, to]);
    assert_eq!(receipt["carried"], Value::from(vec![leg(&from, &to, "unseen")]), "{receipt}");
    let text = summary(&client, words![from, format!("{to}2")]);
    assert!(text.contains("not verified by this program; payload between the servers, unseen"), "{text}");
}

#[test]
fn two_nodes_have_one_leg() {
    let (one, other, client) = (server(), server(), Client::new());
    let receipt = client.cp(0, words![one.at("data/f"), other.at("data/g")]);
    let legs = Value::from(vec![leg(&one.at("data/f"), &other.at("data/g"), "sealed")]);
    assert_eq!(receipt["carried"], legs, "{receipt}");
}
