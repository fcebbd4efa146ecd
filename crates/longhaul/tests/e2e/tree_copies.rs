//! Trees are copied to nodes, from nodes and locally, and arrive unchanged.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::client::{Client, unfinished, words};
use crate::node::Node;
use crate::tree::{self, assert_copied, assert_copied_without_set_id};
use crate::wait::skipped;

/// The bytes that a file takes on its device.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn assert_sparse(source: &Path, target: &Path) {
    for name in ["middle", "start", "end"] {
        let (from, to) = (allocated(&source.join(name)), allocated(&target.join(name)));
        assert!(to <= from + (128 << 10), "{name} takes {to} bytes, {from} at the source");
    }
}

#[test]
fn a_tree_goes_to_a_node_and_comes_back() {
    let (node, client) = (Node::open(), Client::new());
    let source = client.path("source");
    tree::build(&source);
    let pushed = client.cp(0, words!["-r", source, node.at("data/copy")]);
    assert_copied_without_set_id(&source, &node.data("copy"));
    assert_sparse(&source.join("holes"), &node.data("copy/holes"));
    let there = tree::facts(&source);
    let count = |is: fn(&tree::Fact) -> bool| there.entries.values().filter(|fact| is(fact)).count() as u64;
    let names: u64 = there.groups.iter().map(|group| group.len() as u64 - 1).sum();
    let links = count(|fact| matches!(fact, tree::Fact::Link { .. })) + names;
    assert_eq!(pushed["files"], count(|fact| matches!(fact, tree::Fact::File { .. })) - names);
    assert_eq!(pushed["directories"], count(|fact| matches!(fact, tree::Fact::Dir { .. })));
    assert_eq!((&pushed["links"], &pushed["failed"]), (&links.into(), &0.into()));
    // Back from a source that has set-id bits, which the user's own copy keeps.
    tree::build(&node.data("again"));
    let pulled = client.cp(0, words!["-r", node.at("data/again"), client.path("pulled")]);
    assert_copied(&node.data("again"), &client.path("pulled"));
    assert_sparse(&source.join("holes"), &client.path("pulled/holes"));
    assert_eq!(pulled["files"], pushed["files"]);
    assert!(unfinished(&node.data("")).is_empty() && unfinished(&client.path("")).is_empty());
}

#[test]
fn a_tree_is_copied_locally() {
    let client = Client::new();
    let source = client.path("source");
    tree::build(&source);
    client.cp(0, words!["-r", source, client.path("new/parents/copy")]);
    assert_copied_without_set_id(&source, &client.path("new/parents/copy"));
    assert_sparse(&source.join("holes"), &client.path("new/parents/copy/holes"));
    assert!(unfinished(&client.path("")).is_empty());
}

#[test]
fn the_same_command_again_skips_everything() {
    let (node, client) = (Node::open(), Client::new());
    let source = client.path("source");
    tree::build(&source);
    for target in [node.at("data/t"), client.path("t").display().to_string()] {
        let first = client.cp(0, words!["-r", source, target]);
        assert_eq!(first["skipped"], 0);
        let second = client.cp(0, words!["-r", source, target]);
        assert_eq!((&second["files"], &second["bytes"], &second["skipped"]), (&0.into(), &0.into(), &first["files"]));
        assert_eq!(second["skipped_bytes"], first["bytes"]);
    }
    assert_copied_without_set_id(&source, &node.data("t"));
    assert_copied_without_set_id(&source, &client.path("t"));
}

#[test]
fn a_sparse_file_of_sixteen_tebibytes_takes_seconds() {
    const SIZE: u64 = (16 << 40) - 4096;
    let (node, client) = (Node::open(), Client::new());
    let source = client.path("huge");
    if let Err(error) = File::create(&source).unwrap().set_len(SIZE) {
        return skipped(
            "a_sparse_file_of_sixteen_tebibytes_takes_seconds",
            &format!("a file of {SIZE} bytes: {error}"),
        );
    }
    let started = Instant::now();
    client.cp(0, words![source, node.at("data/huge")]);
    client.cp(0, words![node.at("data/huge"), client.path("back")]);
    client.cp(0, words![source, client.path("copy")]);
    assert!(started.elapsed() < Duration::from_secs(150), "{:?}", started.elapsed());
    for copy in [node.data("huge"), client.path("back"), client.path("copy")] {
        assert_eq!(fs::metadata(&copy).unwrap().len(), SIZE);
        assert!(allocated(&copy) <= 1 << 16, "{} takes {} bytes", copy.display(), allocated(&copy));
    }
}

#[test]
fn special_files_are_counted_and_named() {
    let (node, client) = (Node::open(), Client::new());
    let source = client.path("source");
    client.write("source/file", b"x");
    let fifo = std::process::Command::new("mkfifo").arg(source.join("pipe")).stderr(Stdio::null()).status().unwrap();
    assert!(fifo.success());
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    tree::build(&node.data("there"));
    for target in [node.at("data/t"), client.path("t").display().to_string()] {
        let receipt = client.cp(3, words!["-r", source, target]);
        assert_eq!((&receipt["special"], &receipt["files"], &receipt["failed"]), (&2.into(), &1.into(), &0.into()));
        assert_eq!(receipt["state"], "partial");
        let mut named: Vec<&str> =
            receipt["failures"].as_array().unwrap().iter().map(|miss| miss["path"].as_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(named, ["source/pipe", "source/socket"]);
    }
    assert_copied(&source, &node.data("t"));
}

#[test]
fn thousands_of_small_files_and_a_large_one_are_copied() {
    let (node, client) = (Node::open(), Client::new());
    for n in 0..5000 {
        client.write(&format!("source/{:02}/{n}", n % 50), n.to_string().repeat(n % 200));
    }
    client.write("source/large", tree::pattern(64 << 20));
    let source = client.path("source");
    let pushed = client.cp(0, words!["-r", source, node.at("data/t"), "--streams", "8"]);
    assert_eq!((&pushed["files"], &pushed["directories"]), (&5001.into(), &51.into()));
    assert_copied(&source, &node.data("t"));
    let pulled = client.cp(0, words!["-r", node.at("data/t"), client.path("back"), "--streams", "2"]);
    assert_eq!((&pulled["files"], &pulled["bytes"]), (&5001.into(), &pushed["bytes"]));
    assert_copied(&source, &client.path("back"));
}

#[test]
fn names_that_are_not_text_are_reported_in_base64_too() {
    let (node, client) = (Node::open(), Client::new());
    let odd = client.path("").join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(odd.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let receipt = client.cp(3, words!["-r", odd, node.at("data/t%FE")]);
    let miss = &receipt["failures"][0];
    assert_eq!((miss["path"].as_str(), miss["path_b64"].as_str()), (Some("odd\\xff/pipe"), Some("b2Rk/y9waXBl")));
    let listed = client.run(words!["ls", node.at("data"), "--json"]).expect(0).json();
    assert_eq!((listed["path"].as_str(), listed["path_b64"].as_str()), (Some("t\\xfe"), Some("dP4=")));
}

#[test]
fn many_clients_share_a_node() {
    let node = Node::open();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let node = &node;
            scope.spawn(move || {
                let client = Client::new();
                client.write("s/large", tree::pattern((3 << 20) + n));
                client.write("s/d/small", n.to_string());
                let (there, back) = (node.at(&format!("data/{n}")), client.path("back"));
                client.cp(0, words!["-r", client.path("s"), there]);
                client.cp(0, words!["-r", there, back]);
                assert_copied(&client.path("s"), &back);
                // All of them to one name: the last to arrive stays, and never a mixture.
                client.cp(0, words!["-r", client.path("s"), node.at("data/shared"), "--sync", "none"]);
            });
        }
    });
    let large = fs::read(node.data("shared/large")).unwrap();
    assert!(large == tree::pattern(large.len()), "a mixture of several copies");
    assert!(unfinished(&node.data("")).is_empty());
}
