//! Targets of a copy: how the form of the target and existing entries decide where files go.

use std::fs;

use crate::client::{Client, words};
use crate::node::Node;
use crate::tree::assert_copied;

/// Both kinds of target: below the node's data, and local.
fn on_both_targets(
    node: &Node,
    client: &Client,
    run: impl Fn(&dyn Fn(&str) -> String, &dyn Fn(&str) -> std::path::PathBuf),
) {
    run(&|below| node.at(&format!("data/{below}")), &|below| node.data(below));
    run(&|below| client.path("to").join(below).display().to_string(), &|below| client.path("to").join(below));
}

fn source(client: &Client) -> std::path::PathBuf {
    client.write("s/d/file", b"inner");
    client.write("s/file", b"outer");
    fs::create_dir_all(client.path("to")).unwrap();
    client.path("s")
}

#[test]
fn a_tree_never_nests() {
    let (node, client) = (Node::open(), Client::new());
    let s = source(&client);
    on_both_targets(&node, &client, |at, path| {
        for _ in 0..2 {
            client.cp(0, words!["-r", s, at("t")]);
            assert_copied(&s, &path("t"));
        }
        // Another tree on top merges.
        client.write("other/new", b"n");
        client.cp(0, words!["-r", client.path("other"), at("t")]);
        assert_eq!(fs::read(path("t/new")).unwrap(), b"n");
        assert_eq!(fs::read(path("t/d/file")).unwrap(), b"inner");
    });
}

#[test]
fn a_slash_or_several_sources_copy_into_the_target() {
    let (node, client) = (Node::open(), Client::new());
    let s = source(&client);
    on_both_targets(&node, &client, |at, path| {
        for _ in 0..2 {
            client.cp(0, words!["-r", s, at("slash/")]);
            assert_copied(&s, &path("slash/s"));
            assert_eq!(fs::read_dir(path("slash")).unwrap().count(), 1);
        }
        client.cp(0, words!["-r", s, s.join("file"), at("several")]);
        assert_copied(&s, &path("several/s"));
        assert_eq!(fs::read(path("several/file")).unwrap(), b"outer");
        client.cp(0, words![s.join("file"), at("one/two/")]);
        assert_eq!(fs::read(path("one/two/file")).unwrap(), b"outer");
    });
    let pulled = words!["-r", node.at("data/slash/s"), node.at("data/several/file"), client.path("pulled")];
    client.cp(0, pulled);
    assert_copied(&s, &client.path("pulled/s"));
    assert_eq!(fs::read(client.path("pulled/file")).unwrap(), b"outer");
}

#[test]
fn files_go_where_cp_would_put_them() {
    let (node, client) = (Node::open(), Client::new());
    let file = source(&client).join("file");
    on_both_targets(&node, &client, |at, path| {
        // A new name with missing parents.
        client.cp(0, words![file, at("p/q/name")]);
        assert_eq!(fs::read(path("p/q/name")).unwrap(), b"outer");
        // Into a directory that exists.
        client.cp(0, words![file, at("p")]);
        assert_eq!(fs::read(path("p/file")).unwrap(), b"outer");
        // Over a file, in one step.
        fs::write(path("p/file"), b"old and longer").unwrap();
        client.cp(0, words![file, at("p/file")]);
        assert_eq!(fs::read(path("p/file")).unwrap(), b"outer");
        // A file is not replaced by a directory, nor a directory by a file.
        fs::write(path("in-the-way"), b"precious").unwrap();
        client.cp(6, words!["-r", client.path("s/d"), at("in-the-way")]);
        assert_eq!(fs::read(path("in-the-way")).unwrap(), b"precious");
        // Nor is anything that is neither.
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(made.success());
        client.cp(6, words![file, at("fifo")]);
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&fs::symlink_metadata(path("fifo")).unwrap().file_type()));
        fs::create_dir_all(path("p2/file/kept")).unwrap();
        let receipt = client.cp(6, words![file, at("p2")]);
        assert_eq!(receipt["failed"], 1);
        assert!(path("p2/file/kept").is_dir());
    });
    // The export itself is a directory that exists.
    client.cp(0, words![file, node.at("data")]);
    assert_eq!(fs::read(node.data("file")).unwrap(), b"outer");
    client.cp(0, words![node.at("data/p/q/name"), client.path("")]);
    assert_eq!(fs::read(client.path("name")).unwrap(), b"outer");
}

#[test]
fn a_whole_export_is_a_tree() {
    let (node, client) = (Node::open(), Client::new());
    fs::create_dir(node.data("d")).unwrap();
    fs::write(node.data("d/f"), b"x").unwrap();
    client.cp(0, words!["-r", node.at("data"), client.path("all")]);
    assert_copied(&node.data(""), &client.path("all"));
    client.cp(0, words!["-r", node.at("data"), format!("{}/", client.path("into").display())]);
    assert_copied(&node.data(""), &client.path("into/data"));
}

#[test]
fn a_directory_needs_recursive() {
    let (node, client) = (Node::open(), Client::new());
    let s = source(&client);
    on_both_targets(&node, &client, |at, path| {
        let outcome = client.run(words!["cp", s, at("t")]).expect(2);
        assert!(outcome.err.contains("-r"), "{}", outcome.err);
        assert!(!path("t").exists());
    });
    fs::create_dir(node.data("d")).unwrap();
    let outcome = client.run(words!["cp", node.at("data/d"), client.path("t")]).expect(2);
    assert!(outcome.err.contains("-r"), "{}", outcome.err);
    // Beside a file that arrives it is part of the job.
    client.cp(3, words![s.join("file"), s.join("d"), node.at("data/mixed/")]);
    assert_eq!(fs::read(node.data("mixed/file")).unwrap(), b"outer");
}

#[test]
fn a_missing_source_is_named() {
    let (node, client) = (Node::open(), Client::new());
    let fails = |words| client.run(words).refused(1, &["nothing-here"]);
    fails(words!["cp", client.path("nothing-here"), node.at("data/t")]);
    fails(words!["cp", node.at("data/nothing-here"), client.path("t")]);
    fails(words!["cp", node.at("nothing-here/x"), client.path("t")]);
    fails(words!["cp", client.path("nothing-here"), client.path("t")]);
    assert!(node.is_empty() && !client.path("t").exists());
}

#[test]
fn links_that_the_user_names_are_followed_where_cp_would() {
    let client = Client::new();
    let s = source(&client);
    std::os::unix::fs::symlink("s", client.path("way")).unwrap();
    // Without a slash the link itself; with one, what it points to.
    client.cp(0, words!["-r", client.path("way"), client.path("a")]);
    assert_eq!(fs::read_link(client.path("a")).unwrap().to_str(), Some("s"));
    client.cp(0, words!["-r", format!("{}/", client.path("way").display()), client.path("b")]);
    assert_copied(&s, &client.path("b"));
}

#[test]
fn a_file_onto_itself_is_harmless() {
    let client = Client::new();
    let file = client.write("f", b"keep me");
    for sync in ["mtime", "none"] {
        client.run(words!["cp", file, file, "--sync", sync]);
        assert_eq!(fs::read(&file).unwrap(), b"keep me");
    }
}
