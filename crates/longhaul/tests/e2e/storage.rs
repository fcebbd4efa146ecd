//! Failures of storage: full, read-only, unreadable, and sources that change while they are read.

use std::fs::{self, File};
use std::io::Write;

use rustix::process::Signal;

use crate::client::{Client, unfinished, words};
use crate::node::{Node, Setup, signal};
use crate::tree::{pattern, set_mode};
use crate::wait::{LONG, until};
use crate::wrappers::{as_nobody, make_read_only, mounted, with_mounts};

#[test]
fn a_full_target_is_a_storage_failure() {
    const TEST: &str = "storage::a_full_target_is_a_storage_failure";
    with_mounts(TEST, || {
        let (node, client) = (Node::open(), Client::new());
        let full = client.path("full");
        let Some(_mount) = mounted(&full, "size=16m", TEST) else { return };
        fs::create_dir(full.join("here")).unwrap();
        fs::write(full.join("full"), pattern(10 << 20)).unwrap();
        let there = Setup::new().export("data", &full, "rw").arg("--anonymous").arg("rw").start();
        fs::write(node.data("f"), pattern(9 << 20)).unwrap();
        client.write("s/f", pattern(9 << 20));
        for words in [
            words!["cp", client.path("s/f"), there.at("data/here/f")],
            words!["cp", client.path("s/f"), full.join("here/f")],
            words!["cp", node.at("data/f"), full.join("here/f")],
        ] {
            let shown = format!("{words:?}");
            let outcome = client.run([words, words!["--wait-space", "0s"]].concat());
            assert_eq!(outcome.code, 6, "{shown}: {}", outcome.err);
            assert!(outcome.err.contains("free space"), "{shown}: {}", outcome.err);
            assert!(outcome.err.contains("9.00 MiB needed"), "{shown}: {}", outcome.err);
            until("the unfinished file is removed", LONG, || fs::read_dir(full.join("here")).unwrap().next().is_none());
        }
        // What fits arrives afterwards.
        client.write("s/small", pattern(1 << 20));
        client.cp(0, words![client.path("s/small"), there.at("data/here/small")]);
    });
}

#[test]
fn a_read_only_file_system_is_a_storage_failure() {
    const TEST: &str = "storage::a_read_only_file_system_is_a_storage_failure";
    with_mounts(TEST, || {
        let (node, client) = (Node::open(), Client::new());
        let target = client.path("ro");
        let Some(_mount) = mounted(&target, "size=4m", TEST) else { return };
        make_read_only(&target);
        let there = Setup::new().export("data", &target, "rw").arg("--anonymous").arg("rw").start();
        fs::write(node.data("f"), b"x").unwrap();
        client.write("s/f", b"x");
        for words in [
            words!["cp", client.path("s/f"), there.at("data/f")],
            words!["cp", "-r", client.path("s"), there.at("data/new/s")],
            words!["cp", client.path("s/f"), target.join("f")],
            words!["cp", node.at("data/f"), target.join("f")],
            words!["mkdir", there.at("data/d")],
        ] {
            let shown = format!("{words:?}");
            let outcome = client.run(words);
            assert_eq!(outcome.code, 6, "{shown}: {}", outcome.err);
            assert!(outcome.err.contains("writable"), "{shown}: {}", outcome.err);
        }
    });
}

#[test]
fn an_unreadable_file_is_named() {
    as_nobody("storage::an_unreadable_file_is_named", || {
        let (node, client) = (Node::open(), Client::new());
        client.write("s/locked", b"x");
        client.write("s/closed/f", b"x");
        client.write("s/fine", b"fine");
        set_mode(&client.path("s/locked"), 0);
        set_mode(&client.path("s/closed"), 0);
        let source = client.path("s");
        for (from, to) in [
            (source.display().to_string(), node.at("data/t")),
            (source.display().to_string(), client.path("t").display().to_string()),
        ] {
            let receipt = client.cp(3, words!["-r", from, to]);
            assert_eq!((&receipt["files"], &receipt["failed"]), (&1.into(), &2.into()), "{receipt}");
            let mut named: Vec<&str> =
                receipt["failures"].as_array().unwrap().iter().map(|miss| miss["path"].as_str().unwrap()).collect();
            named.sort_unstable();
            assert_eq!(named, ["s/closed", "s/locked"]);
        }
        assert!(!node.data("t/locked").exists());
        let outcome = client.run(words!["cp", client.path("s/locked"), node.at("data/alone")]).expect(6);
        assert!(outcome.err.contains("owner and mode") && !node.data("alone").exists(), "{}", outcome.err);
        // The same on the node's side, and where it may not write.
        fs::write(node.data("locked"), b"x").unwrap();
        set_mode(&node.data("locked"), 0);
        let outcome = client.run(words!["cp", node.at("data/locked"), client.path("alone")]).expect(6);
        assert!(outcome.err.contains("owner and mode") && !client.path("alone").exists(), "{}", outcome.err);
        fs::create_dir(node.data("shut")).unwrap();
        set_mode(&node.data("shut"), 0o555);
        let outcome = client.run(words!["cp", client.path("s/fine"), node.at("data/shut/f")]).expect(6);
        assert!(outcome.err.contains("owner and mode"), "{}", outcome.err);
        set_mode(&client.path("s/closed"), 0o755);
    });
}

/// Copies two files by one stream, of which the first takes three seconds; runs `meanwhile` in the middle of it, while the sender
/// is halted.
fn while_copying(push: bool, meanwhile: impl Fn(&std::path::Path)) -> serde_json::Value {
    let (node, client) = (Node::open(), Client::new());
    let source = if push { client.path("s") } else { node.data("s") };
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), pattern(6 << 20)).unwrap();
    fs::write(source.join("two"), pattern((6 << 20) + 1)).unwrap();
    fs::write(source.join("fine"), b"fine").unwrap();
    let target = if push { node.data("t") } else { client.path("t") };
    let (from, to) = if push {
        (source.display().to_string(), node.at("data/t"))
    } else {
        (node.at("data/s"), target.display().to_string())
    };
    let running =
        client.begin(words!["cp", "-r", from, to, "--limit", "2MB/s", "--streams", "1", "--json", "--retry-for", "0s"]);
    // Not the small one, which may be seen unfinished before the first of the others is open.
    until("a block has been written", LONG, || {
        unfinished(&target).iter().any(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 4))
    });
    let sender = |what: Signal| if push { signal(&running.child, what) } else { node.signal(what) };
    sender(Signal::STOP);
    meanwhile(&source);
    sender(Signal::CONT);
    let receipt = running.finish().expect(3).json();
    assert!(unfinished(&target).is_empty());
    for name in ["one", "two"] {
        if let Ok(bytes) = fs::read(target.join(name)) {
            assert!(bytes == pattern((6 << 20) + usize::from(name == "two")), "{name} is not what it was");
        }
    }
    assert_eq!(fs::read(target.join("fine")).unwrap(), b"fine");
    receipt
}

fn reasons(receipt: &serde_json::Value) -> Vec<&str> {
    receipt["failures"].as_array().unwrap().iter().map(|miss| miss["reason"].as_str().unwrap()).collect()
}

#[test]
fn a_file_that_changes_while_it_is_read_fails() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let receipt = while_copying(push, |source| {
                    for name in ["one", "two"] {
                        File::options().append(true).open(source.join(name)).unwrap().write_all(b"more").unwrap();
                    }
                });
                assert_eq!(receipt["failed"], 2, "{receipt}");
                assert!(reasons(&receipt).iter().all(|reason| reason.contains("changed")), "{receipt}");
            });
            // Shorter than it was offered.
            scope.spawn(move || {
                let receipt = while_copying(push, |source| {
                    for name in ["one", "two"] {
                        File::options().write(true).open(source.join(name)).unwrap().set_len(10).unwrap();
                    }
                });
                assert_eq!(receipt["failed"], 2, "{receipt}");
                assert!(reasons(&receipt).iter().all(|reason| reason.contains("changed")), "{receipt}");
            });
        }
    });
}

#[test]
fn a_file_that_vanishes_is_named() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let receipt = while_copying(push, |source| {
                    for name in ["one", "two"] {
                        fs::remove_file(source.join(name)).unwrap();
                    }
                });
                // The open file is read to its end; the other is missing.
                assert_eq!((&receipt["failed"], &receipt["files"]), (&1.into(), &2.into()), "{receipt}");
                assert!(reasons(&receipt)[0].contains("vanished"), "{receipt}");
            });
        }
    });
}
