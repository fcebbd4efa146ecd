//! Messages of failures: the problem, whose fault it is, and the remedy. Keys for other nodes, several keys for one node, exports
//! that are missing or cannot be entered, damaged files, values of the wrong kind, no home directory.

use std::fs;

use serde_json::json;

use crate::client::{Client, words};
use crate::https::{self, HttpsClient};
use crate::node::{Node, Setup};
use crate::sync::fill;
use crate::tree::set_mode;
use crate::wrappers::as_nobody;

#[test]
fn keys_of_other_nodes_are_reported_as_such() {
    let (node, other) = (Node::open(), Node::closed());
    fill(&node.data(""), &["f"]);
    let client = Client::new();
    client.run(words!["ls", node.at("data")]).expect(0);
    let mut command = client.command(words!["ls", node.at("data")]);
    command.env("LONGHAUL_KEY", other.grant(&["--export", "data"]));
    let outcome = client.start(command).finish().expect(0);
    let remedy = format!("your access keys are for other nodes than 127.0.0.1:{}", node.port);
    assert!(outcome.err.contains(&remedy), "{}", outcome.err);
}

#[test]
fn all_keys_for_a_node_are_tried() {
    let node = Setup::new().data_export("rw").start();
    let more = tempfile::tempdir().unwrap();
    fill(&node.data(""), &["f"]);
    fill(more.path(), &["g"]);
    let revoked = node.grant(&["--export", "data"]);
    let listed = String::from_utf8(node.grant_command(&["list"]).stdout).unwrap();
    let id = listed.lines().last().unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(node.grant_command(&["revoke", &id]).status.success());
    let (narrow, good) =
        (node.grant(&["--export", "data", "--path", "d"]), node.grant(&["--export", "data", "--write"]));
    let client = Client::with_key(&[revoked.as_str(), &narrow, &good].join(","));
    assert_eq!(client.run(words!["ls", node.at("data")]).expect(0).text(), "f\n");
    let client = Client::with_key(&[narrow.as_str(), &good].join(","));
    assert_eq!(client.cp(0, words![node.at("data/f"), "f"])["files"], 1);
    client.cp(0, words!["f", node.at("data/g")]);
    // No key opens it: the refusal of the last one is shown.
    let client = Client::with_key(&[revoked.as_str(), &narrow].join(","));
    client.run(words!["ls", node.at("data")]).refused(4, &["data"]);
    client.run(words!["cp", "--quiet", node.at("data/f"), "f"]).expect(4);
}

#[test]
fn a_key_for_a_missing_export_is_reported() {
    let node = Node::closed();
    let granted = node.grant_command(&["--export", "nosuch"]);
    let output = String::from_utf8(granted.stderr).unwrap();
    assert!(
        granted.status.success() && output.contains("no export nosuch") && output.contains("it served: data"),
        "{output}"
    );
    let granted = node.grant_command(&["--export", "data"]);
    assert!(!String::from_utf8(granted.stderr).unwrap().contains("no export"));
}

#[test]
fn an_export_that_cannot_be_served_is_reported_at_the_start() {
    as_nobody("remedies::an_export_that_cannot_be_served_is_reported_at_the_start", || {
        let client = Client::new();
        fill(&client.path("closed"), &["f"]);
        set_mode(&client.path("closed"), 0o600);
        let export = format!("closed={}", client.path("closed").display());
        let words = words!["serve", "--listen", "127.0.0.1:0", "--export", export];
        client.run(words).refused(6, &["export closed", "cannot enter", "check the owner and mode"]);
        set_mode(&client.path("closed"), 0o700);
    });
    let client = Client::new();
    fs::create_dir_all(client.state()).unwrap();
    fs::write(client.state().join("grants.toml"), "[[grant]\nid = ").unwrap();
    let outcome = client.run(words!["serve", "--listen", "127.0.0.1:0"]).expect(1);
    assert!(outcome.err.contains("grants.toml is damaged"), "{}", outcome.err);
}

#[test]
fn an_anonymous_client_gets_no_message_about_keys() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("ro").start();
    let client = Client::new();
    fill(&client.path(""), &["f"]);
    let outcome = client.run(words!["cp", client.path("f"), node.at("data/g")]).expect(4);
    assert!(
        outcome.err.contains("a client without a credential may not") && !outcome.err.contains("access key"),
        "{}",
        outcome.err
    );
    let outcome = client.run(words!["rm", node.at("data/g")]).expect(4);
    assert!(outcome.err.contains("a client without a credential may not"), "{}", outcome.err);
}

#[test]
fn a_value_of_the_wrong_kind_is_named() {
    let node = https::setup("").start();
    let https_client =
        HttpsClient::bearer(&node.grant(&["--export", "data", "--write"])).with("Content-Type", "application/json");
    let order = json!({"source": ["/data/f"], "target": "lh://127.0.0.1:1/data/g", "options": {"recursive": "yes"}});
    let answer = https_client.ask(&node, "POST", "/api/v1/transfers", order.to_string().as_bytes());
    assert!(answer.status == 400 && answer.body.contains("options.recursive has the wrong type"), "{answer:?}");
    let answer = https_client.ask(&node, "POST", "/api/v1/transfers", b"{} {}");
    assert_eq!(answer.status, 400, "{answer:?}");
}

/// As `openssl req -x509` makes them.
#[test]
fn a_ca_certificate_is_refused_as_a_server_certificate() {
    let client = Client::new();
    let (key, mut params) =
        (rcgen::KeyPair::generate().unwrap(), rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap());
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    let (both, certificate) = (certificate.clone() + &key.serialize_pem(), client.write("cert.pem", certificate));
    let both = client.write("both.pem", both);
    set_mode(&both, 0o600);
    let node = Setup::new().data_export("ro").arg("--anonymous").arg("ro").arg("--certificate").arg(&both).start();
    let url = format!("https://127.0.0.1:{}/data/", node.port);
    let outcome = client.run(words!["ls", url, "--cacert", certificate]);
    assert!(
        outcome.err.contains("basicConstraints=CA:FALSE") && !outcome.err.contains("CaUsedAsEndEntity"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_missing_home_directory_is_no_failure() {
    as_nobody("remedies::a_missing_home_directory_is_no_failure", || {
        let (node, client) = (Node::open(), Client::new());
        fill(&node.data(""), &["f"]);
        fill(&client.path("d"), &["f"]);
        let run = |words| {
            let mut command = client.command(words);
            for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "LONGHAUL_STATE"] {
                command.env_remove(name);
            }
            client.start(command).finish()
        };
        assert_eq!(run(words!["ls", client.path("d")]).expect(0).text(), "f\n");
        assert!(run(words!["digest", client.path("d/f")]).expect(0).text().starts_with("crc32c:"));
        let listed = run(words!["ls", node.at("data")]).expect(0);
        assert!(listed.text() == "f\n" && listed.err.contains("not remembered"), "{}", listed.err);
        run(words!["job", "list"]).refused(2, &["LONGHAUL_STATE or HOME"]);
    });
}
