//! A state directory that has lost its identity does not get another one while keys to the old one exist.

use std::fs;

use crate::client::{Client, Outcome, words};
use crate::node::Node;

fn serve(node: &Node) -> Outcome {
    // A node that started would serve for ever: the command ends only if it refuses.
    Client::new().run(words!["serve", "--listen", "127.0.0.1:0", "--state", node.state()])
}

#[test]
fn a_lost_identity_is_not_replaced_while_keys_exist() {
    let mut node = Node::closed();
    node.grant(&["--export", "data"]);
    node.kill();
    for lost in [&["identity.key.der"][..], &["identity.key.der", "identity.cert.der"]] {
        for name in lost {
            let _ = fs::remove_file(node.state().join(name));
        }
        let refused = serve(&node);
        let error = &refused.err;
        assert!(refused.code != 0, "{error}");
        assert!(error.contains("identity.key.der") && error.contains("grants.toml"), "{error}");
        assert!(error.contains("restore") || error.contains("remove") || error.contains("put"), "no remedy: {error}");
        assert!(!node.state().join("identity.key.der").exists(), "a new identity was made");
    }
}

#[test]
fn a_new_state_directory_makes_an_identity() {
    let mut node = Node::closed();
    node.kill();
    fs::remove_file(node.state().join("identity.key.der")).unwrap();
    fs::remove_file(node.state().join("identity.cert.der")).unwrap();
    // No keys were granted that a new identity would invalidate.
    node.restart();
    assert!(node.state().join("identity.key.der").exists());
}
