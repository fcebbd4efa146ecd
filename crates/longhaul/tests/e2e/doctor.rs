//! `longhaul doctor`: each problem is found, and nothing else.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::client::{Client, Outcome, words};
use crate::node::{Node, Setup};

/// A node with a settings file, and a second one that may be asked to connect to it.
struct Installation {
    node: Node,
    peer: Node,
    client: Client,
}

impl Installation {
    fn new() -> Installation {
        let setup = Setup::new();
        let file = setup.data().with_file_name("node.toml");
        fs::write(&file, format!("export = [\"data={}:rw\"]\n", setup.data().display())).unwrap();
        let node = setup.arg("--config").arg(file).start();
        let peer = Setup::new().arg("--anonymous").arg("ro").anonymous_may_copy().start();
        Installation { node, peer, client: Client::new() }
    }

    fn file(&self) -> std::path::PathBuf {
        self.node.data("").with_file_name("node.toml")
    }

    fn examine(&self) -> Outcome {
        self.client.run(words![
            "doctor",
            "--json",
            "--config",
            self.file(),
            "--state",
            self.node.state(),
            "--peer",
            format!("lh://127.0.0.1:{}", self.peer.port),
            "--at",
            format!("127.0.0.1:{}", self.node.port)
        ])
    }
}

/// The status of each check, with what was found.
fn checks(outcome: &Outcome) -> BTreeMap<String, (String, String)> {
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let lines = outcome.text();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|line| (text(&line, "check"), (text(&line, "status"), text(&line, "found")))).collect()
}

#[test]
fn a_good_installation_has_no_problem_and_a_peer_reaches_it() {
    let installation = Installation::new();
    let outcome = installation.examine().expect(0);
    let checks = checks(&outcome);
    let [peer, from] = ["peer", "from"].map(|word| format!("{word} 127.0.0.1:{}", installation.peer.port));
    for check in ["settings", "state directory", "identity", "export data", "certificate", "node", &peer, &from] {
        assert_eq!(checks.get(check).map(|(status, _)| status.as_str()), Some("ok"), "{check}: {checks:?}");
    }
    assert!(checks[&from].1.contains("1000000 bytes"), "{checks:?}");
    let grants = fs::read_to_string(installation.node.state().join("grants.toml")).unwrap();
    assert!(!grants.contains("doctor"), "the keys for the checks are removed: {grants}");
}

#[test]
fn a_node_that_has_ended_and_a_setting_that_is_wrong_are_problems_with_remedies() {
    let mut installation = Installation::new();
    installation.node.stop();
    fs::write(installation.file(), "exports = 7\n").unwrap();
    let checks = checks(&installation.examine().expect(1));
    assert_eq!(checks["settings"].0, "problem", "{checks:?}");
    assert_eq!(checks["node"].0, "problem", "{checks:?}");
    assert!(
        !checks.keys().any(|check| check.starts_with("from 127.")),
        "a node that has ended is not reached: {checks:?}"
    );
    let client = &installation.client;
    let text = client
        .run(words!["doctor", "--config", installation.file(), "--state", installation.node.state()])
        .expect(1)
        .text();
    assert!(text.contains("problem  node: ") && text.contains("to do: start it"), "{text}");
    client.run(words!["doctor", "--peer", "http://x"]).expect(2);
}

#[test]
fn a_peer_that_does_not_answer_is_a_problem() {
    let mut installation = Installation::new();
    installation.peer.stop();
    let checks = checks(&installation.examine().expect(1));
    assert_eq!(checks[&format!("peer 127.0.0.1:{}", installation.peer.port)].0, "problem", "{checks:?}");
    assert_eq!(checks["node"].0, "ok", "{checks:?}");
}
