//! A target within its source, or a source within its target: the copy is refused before anything is changed, however the two
//! are named.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::sync::fill;
use crate::tree::facts;

const FILES: &[&str] = &["f", "d1/f", "d5/f", "d5/e/f"];

/// A node with its data, a part of it under another name, and a client on the same host.
fn fixture() -> (Node, Client, PathBuf) {
    let setup = Setup::new().data_export("rw");
    let part = setup.data().join("t/d5");
    fs::create_dir_all(&part).unwrap();
    let node = setup.export("part", &part, "rw").arg("--anonymous").arg("rw").anonymous_may_copy().start();
    let tree = node.data("t");
    fill(&tree, FILES);
    (node, Client::new(), tree)
}

#[track_caller]
fn refused(client: &Client, tree: &Path, from: &str, to: &str, more: &[&str]) {
    let before = facts(tree);
    let mut words = words!["cp", "-r", from, to];
    words.extend(more.iter().map(Into::into));
    let outcome = client.run(words);
    assert_eq!(outcome.code, 2, "{from} to {to}: {} {}", outcome.text(), outcome.err);
    assert!(outcome.err.contains("within"), "{from} to {to}: {}", outcome.err);
    assert!(facts(tree) == before, "{from} to {to} changed something");
}

#[test]
fn a_tree_is_not_copied_into_itself() {
    let (node, client, tree) = fixture();
    let here = |path: &str| tree.join(path).display().to_string();
    let there = |path: &str| node.at(&format!("data/t/{path}"));
    let aside = client.path("aside");
    symlink(tree.join("d5"), &aside).unwrap();
    let aside = format!("{}/copy", aside.display());
    let (local, native) = (tree.display().to_string(), node.at("data/t"));
    for from in [&local, &native] {
        // By its own name, through a link, through the node, and through another export of a part of it.
        for to in [here("d5/copy"), here("new/er"), aside.clone(), there("d5/copy"), there("new"), node.at("part/copy")]
        {
            refused(&client, &tree, from, &to, &[]);
            refused(&client, &tree, from, &to, &["--dry-run"]);
        }
        // Into itself, under its own name.
        refused(&client, &tree, from, &format!("{local}/"), &[]);
        refused(&client, &tree, from, &format!("{native}/"), &[]);
    }
}

#[test]
fn a_sibling_with_the_same_prefix_is_not_within() {
    let (node, client, tree) = fixture();
    for to in [format!("{}.copy", tree.display()), node.at("data/tt"), node.at("data/other/t")] {
        client.run(words!["cp", "-r", tree, to]).expect(0);
        client.run(words!["cp", "-r", node.at("data/t"), to]).expect(0);
    }
    // A part of a tree may be copied beside itself, and into a directory above the tree.
    client.run(words!["cp", "-r", tree.join("d5"), tree.join("d1")]).expect(0);
    client.run(words!["cp", "-r", tree.join("d1"), node.at("data")]).expect(0);
}

#[test]
fn delete_does_not_remove_the_copied_files() {
    let (node, client, tree) = fixture();
    let source = tree.join("d5").display().to_string();
    for from in [source, node.at("data/t/d5"), node.at("part")] {
        for to in [tree.display().to_string(), node.at("data/t")] {
            refused(&client, &tree, &from, &to, &["--delete"]);
        }
    }
}
