//! A state directory that has lost its identity is not given another one behind the back of those who hold keys.

use std::fs;
use std::process::{Command, Output};

use crate::node::{LONGHAUL, Node};

fn serve(node: &Node) -> Output {
    // What serves would go on doing so: a refusal has to come by itself.
    let words = ["30", LONGHAUL, "serve", "--listen", "127.0.0.1:0", "--state"];
    Command::new("timeout").args(words).arg(node.state()).output().unwrap()
}

#[test]
fn a_lost_identity_is_not_replaced_where_keys_are_out() {
    let mut node = Node::closed();
    node.grant(&["--export", "data"]);
    node.kill();
    for lost in [&["identity.key.der"][..], &["identity.key.der", "identity.cert.der"]] {
        for name in lost {
            let _ = fs::remove_file(node.state().join(name));
        }
        let output = serve(&node);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| code != 0 && code != 124), "{:?}: {said}", output.status);
        assert!(said.contains("identity.key.der") && said.contains("grants.toml"), "{said}");
        assert!(said.contains("restore") || said.contains("remove") || said.contains("put"), "no remedy: {said}");
        assert!(!node.state().join("identity.key.der").exists(), "a new identity was made");
    }
}

#[test]
fn a_new_state_directory_makes_an_identity() {
    let mut node = Node::closed();
    node.kill();
    fs::remove_file(node.state().join("identity.key.der")).unwrap();
    fs::remove_file(node.state().join("identity.cert.der")).unwrap();
    // No key is out that it could make worthless.
    node.restart();
    assert!(node.state().join("identity.key.der").exists());
}
