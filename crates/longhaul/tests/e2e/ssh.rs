//! Copies over ssh: the remote end is started for one copy, and has ended after it, however the copy ends.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, Outcome, unfinished, words};
use crate::control::{ControlPoint, job};
use crate::node::{Node, signal};
use crate::sshd::{Setup, Sshd};
use crate::sync::fill;
use crate::tree::{assert_copied, build, pattern};
use crate::unfinished_state::written;
use crate::wait::{LONG, until};

/// The arguments of a copy over this sshd.
fn over_ssh(sshd: &Sshd, words: Vec<OsString>) -> Vec<OsString> {
    [words!["cp", "--ssh", sshd.command(), "--json"], words].concat()
}

/// Runs a copy that must end with this code, and leave nothing running on the remote host; returns its receipt.
#[track_caller]
fn copy(sshd: &Sshd, client: &Client, code: i32, words: Vec<OsString>) -> Value {
    let outcome = client.run(over_ssh(sshd, words)).expect(code);
    assert_remote_end_has_ended(sshd);
    outcome.json()
}

#[track_caller]
fn assert_remote_end_has_ended(sshd: &Sshd) {
    until("the far end has ended", LONG, || sshd.remote_ends().is_empty());
}

#[test]
fn trees_are_copied_in_both_directions() {
    let Some(sshd) = Sshd::start("ssh::trees_are_copied_in_both_directions") else { return };
    let client = Client::new();
    build(&client.path("s"));
    let there = sshd.home().join("t");
    let receipt = copy(&sshd, &client, 0, words!["-r", client.path("s"), sshd.at(there.to_str().unwrap())]);
    assert!(receipt["files"].as_u64() > Some(30), "{receipt}");
    assert_copied_there(&client, &sshd);
    copy(&sshd, &client, 0, words!["-r", sshd.at(there.to_str().unwrap()), client.path("back")]);
    assert_copied(&there, &client.path("back"));
    // Again, either way: nothing to do.
    let pushed = copy(&sshd, &client, 0, words!["-r", client.path("s"), sshd.at("t")]);
    let pulled = copy(&sshd, &client, 0, words!["-r", sshd.at("t"), client.path("back")]);
    assert_eq!((&pushed["files"], &pulled["files"]), (&0.into(), &0.into()));
}

/// Asserts that a tree was copied; the remote end may have dropped set-id bits, as a node does.
fn assert_copied_there(client: &Client, sshd: &Sshd) {
    crate::tree::assert_copied_without_set_id(&client.path("s"), &sshd.home().join("t"));
}

#[test]
fn the_receipt_describes_the_remote_end() {
    let Some(sshd) = Sshd::start("ssh::the_receipt_describes_the_remote_end") else { return };
    let client = Client::new();
    let file = client.write("f", pattern(3 << 20));
    let outcome = client.run(over_ssh(&sshd, words![file, sshd.at("f")])).expect(0);
    assert!(outcome.err.contains("listens on 127.0.0.1:"), "the port is printed: {}", outcome.err);
    let receipt = outcome.json();
    assert_eq!((&receipt["bytes"], &receipt["target"]), (&(3 << 20).into(), &sshd.at("f").as_str().into()));
    // The user's own data, encrypted like any other.
    assert_eq!(receipt["streams"][0]["payload"], "sealed", "{receipt}");
    // Keys and identities of this one copy are not remembered.
    assert!(!client.state().join("known_nodes").exists() || !outcome.err.contains("remembered"), "{}", outcome.err);
}

#[test]
fn paths_are_resolved_as_at_the_login() {
    let Some(sshd) = Sshd::start("ssh::paths_are_resolved_as_at_the_login") else { return };
    let (client, home) = (Client::new(), sshd.home());
    let file = client.write("a file", b"bytes");
    for (typed, there) in [
        ("plain", "plain"),
        ("deep/er/f", "deep/er/f"),
        ("~/home", "home"),
        ("with a space/and 'quotes' $HOME;`id`", "with a space/and 'quotes' $HOME;`id`"),
        ("./dotted", "dotted"),
        ("into/", "into/a file"),
    ] {
        copy(&sshd, &client, 0, words![file, sshd.at(typed)]);
        assert_eq!(fs::read(home.join(there)).unwrap(), b"bytes", "{typed}");
        let from = if typed.ends_with('/') { format!("{typed}a file") } else { typed.to_owned() };
        copy(&sshd, &client, 0, words![sshd.at(&from), client.path("back")]);
        assert_eq!(fs::read(client.path("back")).unwrap(), b"bytes", "{typed}");
        fs::remove_file(client.path("back")).unwrap();
    }
    // The home directory itself: a file is put into it; a tree is put there under its name.
    copy(&sshd, &client, 0, words![file, sshd.at("")]);
    assert!(home.join("a file").exists());
    // Bytes that are no text.
    let odd = OsString::from_vec(b"odd \xff\xfe name".to_vec());
    let remote = |name: &OsString| OsString::from_vec([sshd.at("").as_bytes(), name.as_encoded_bytes()].concat());
    copy(&sshd, &client, 0, words![file, remote(&odd)]);
    assert_eq!(fs::read(home.join(&odd)).unwrap(), b"bytes");
    copy(&sshd, &client, 0, words![remote(&odd), client.path("odd")]);
    assert_eq!(fs::read(client.path("odd")).unwrap(), b"bytes");
    // Several at once.
    copy(&sshd, &client, 0, words![sshd.at("plain"), sshd.at("~/home"), client.path("both/")]);
    assert!(client.path("both/plain").exists() && client.path("both/home").exists());
}

#[test]
fn options_reach_the_remote_end() {
    let Some(sshd) = Sshd::start("ssh::options_reach_the_remote_end") else { return };
    let client = Client::new();
    fill(&client.path("s"), &["f", "d/f", "x.log"]);
    fill(&sshd.home().join("t"), &["extra", "keep.log"]);
    let options = words!["-r", "--delete", "--exclude", "*.log", client.path("s"), sshd.at("t")];
    let dry = copy(&sshd, &client, 0, [words!["--dry-run"], options.clone()].concat());
    assert_eq!((&dry["deleted"], &dry["files"]), (&1.into(), &2.into()));
    assert!(sshd.home().join("t/extra").exists() && !sshd.home().join("t/d").exists());
    let receipt = copy(&sshd, &client, 0, options);
    assert_eq!((&receipt["deleted"], &receipt["files"]), (&1.into(), &2.into()));
    assert!(!sshd.home().join("t/extra").exists() && sshd.home().join("t/keep.log").exists());
    let list = client.write("list", "d/f\tnew/name\n");
    copy(&sshd, &client, 0, words!["--files-from", list, sshd.at("t"), client.path("listed")]);
    assert_eq!(fs::read(client.path("listed/new/name")).unwrap(), b"d/f");
    let limited = client.write("large", pattern(5 << 20));
    let receipt = copy(&sshd, &client, 0, words!["--limit", "40Mbit/s", "--streams", "3", limited, sshd.at("large")]);
    assert!(receipt["seconds"].as_f64() > Some(0.9), "{receipt}");
}

#[test]
fn an_impossible_copy_over_ssh_is_refused() {
    let Some(sshd) = Sshd::start("ssh::an_impossible_copy_over_ssh_is_refused") else { return };
    let client = Client::new();
    let file = client.write("f", b"x");
    fs::create_dir(sshd.home().join("dir")).unwrap();
    let outcome = client.run(over_ssh(&sshd, words![sshd.at("missing"), client.path("g")])).expect(1);
    assert!(outcome.err.contains("missing"), "{}", outcome.err);
    client.run(over_ssh(&sshd, words![sshd.at("dir"), client.path("g")])).expect(2);
    fs::write(sshd.home().join("file"), b"x").unwrap();
    let through = client.run(over_ssh(&sshd, words![file, sshd.at("file/below")]));
    assert!([1, 6].contains(&through.code), "{}: {}", through.code, through.err);
    let dashed = client.run(words!["cp", file, "-oProxyCommand=true:x", "--ssh", sshd.command()]);
    assert_eq!(dashed.code, 2, "{}", dashed.err);
    assert_remote_end_has_ended(&sshd);
}

#[test]
fn a_missing_longhaul_on_the_remote_host_is_reported() {
    const TEST: &str = "ssh::a_missing_longhaul_on_the_remote_host_is_reported";
    let Some(sshd) = Sshd::start_as(TEST, &Setup { has_longhaul: false, ..Setup::default() }) else { return };
    let client = Client::new();
    let file = client.write("f", b"x");
    for words in [words![file, sshd.at("f")], words![sshd.at("f"), client.path("g")]] {
        let outcome = client.run(over_ssh(&sshd, words)).expect(1);
        let sentence = outcome.err.lines().last().unwrap_or_default().to_owned();
        for word in [&sshd.login(), "longhaul is not there", "PATH", "install"] {
            assert!(sentence.contains(word), "{word:?} is not in {sentence:?}");
        }
    }
}

fn refused_by_ssh(client: &Client, command: &str, to: &str) -> Outcome {
    let outcome = client.run(words!["cp", client.path("f"), to, "--ssh", command]).expect(5);
    assert!(outcome.err.contains("ssh could not connect or log in"), "{}", outcome.err);
    outcome
}

#[test]
fn a_refusal_by_ssh_is_reported_as_unreachable() {
    let Some(sshd) = Sshd::start("ssh::a_refusal_by_ssh_is_reported_as_unreachable") else { return };
    let client = Client::new();
    client.write("f", b"x");
    let lenient = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
    let refused = refused_by_ssh(&client, &sshd.command_with("stranger", lenient), &sshd.at("f"));
    assert!(refused.err.contains("Permission denied"), "ssh speaks for itself: {}", refused.err);
    let known = sshd.known_hosts_with_another_key();
    let strict = format!("-o StrictHostKeyChecking=yes -o UserKnownHostsFile={}", known.display());
    let mistaken = refused_by_ssh(&client, &sshd.command_with("user", &strict), &sshd.at("f"));
    assert!(mistaken.err.contains("erification failed"), "{}", mistaken.err);
    refused_by_ssh(&client, "ssh -F /dev/null -p 1 -o BatchMode=yes", "127.0.0.1:f");
    assert!(!sshd.home().join("f").exists());
    // A missing ssh program is a usage error of this host.
    let none = client.run(words!["cp", client.path("f"), sshd.at("f"), "--ssh", "/no/such/ssh"]);
    assert!(none.code == 1 && none.err.contains("--ssh"), "{}: {}", none.code, none.err);
}

#[test]
fn nothing_outlives_a_client_that_was_killed() {
    let Some(sshd) = Sshd::start("ssh::nothing_outlives_a_client_that_was_killed") else { return };
    for push in [true, false] {
        let client = Client::new();
        let bytes = pattern(40 << 20);
        let (here, there) = (client.path("f"), sshd.home().join("f"));
        let (source, target) = if push { (&here, &there) } else { (&there, &here) };
        fs::write(source, &bytes).unwrap();
        let words = if push { words![here, sshd.at("f")] } else { words![sshd.at("f"), here] };
        let mut running = client.begin(over_ssh(&sshd, [words!["--limit", "32Mbit/s"], words.clone()].concat()));
        let dir = target.parent().unwrap();
        until("a good part is there", LONG, || unfinished(dir).iter().any(|path| written(path) > 8 << 20));
        assert_eq!(sshd.remote_ends().len(), 1);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        assert_remote_end_has_ended(&sshd);
        assert!(!target.exists());
        // The same command continues inside the file.
        let receipt = copy(&sshd, &client, 0, words);
        assert!(receipt["resumed_bytes"].as_u64() >= Some(4 << 20), "push {push}: {receipt}");
        assert!(fs::read(target).unwrap() == bytes);
        assert!(unfinished(dir).is_empty(), "{:?}", unfinished(dir));
        fs::remove_file(&there).unwrap();
    }
}

#[test]
fn a_copy_goes_between_ssh_and_a_node() {
    let Some(sshd) = Sshd::start("ssh::a_copy_goes_between_ssh_and_a_node") else { return };
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--write"]));
    fill(&sshd.home().join("s"), &["f", "d/f"]);
    fs::write(sshd.home().join("s/large"), pattern(5 << 20)).unwrap();
    let receipt = copy(&sshd, &client, 0, words!["-r", sshd.at("s"), node.at("data/t")]);
    assert_eq!(receipt["files"], 3, "{receipt}");
    assert_copied(&sshd.home().join("s"), &node.data("t"));
    copy(&sshd, &client, 0, words!["-r", node.at("data/t"), sshd.at("back")]);
    assert_copied(&node.data("t"), &sshd.home().join("back"));
    assert_eq!(fs::metadata(sshd.home().join("back/large")).unwrap().size(), 5 << 20);
}

#[test]
fn a_job_between_ssh_and_a_node_ends_with_its_command() {
    let Some(sshd) = Sshd::start("ssh::a_job_between_ssh_and_a_node_ends_with_its_command") else { return };
    for from_ssh in [true, false] {
        let node = Node::closed();
        let client = Client::with_key(&node.grant(&["--export", "data", "--write"]));
        let (there, at_node) = (sshd.home().join("f"), node.data("f"));
        let (source, target) = if from_ssh { (&there, &at_node) } else { (&at_node, &there) };
        fs::write(source, pattern(40 << 20)).unwrap();
        let words =
            if from_ssh { words![sshd.at("f"), node.at("data/f")] } else { words![node.at("data/f"), sshd.at("f")] };
        let running = client.begin(over_ssh(&sshd, [words!["--limit", "32Mbit/s"], words.clone()].concat()));
        let dir = target.parent().unwrap();
        until("a good part is there", LONG, || unfinished(dir).iter().any(|path| written(path) > 8 << 20));
        signal(&running.child, Signal::INT);
        let outcome = running.finish().expect(130);
        assert!(outcome.err.contains("same command again"), "{}", outcome.err);
        assert_remote_end_has_ended(&sshd);
        until("the node's part of it is over", LONG, || {
            let listed = job(&node, &client, ControlPoint::Operator, words!["list", "--json"]).expect(0).text();
            listed.lines().all(|line| line.contains("\"receipt\":{"))
        });
        let receipt = copy(&sshd, &client, 0, words);
        assert!(receipt["resumed_bytes"].as_u64() >= Some(4 << 20), "from ssh {from_ssh}: {receipt}");
        assert!(fs::read(target).unwrap() == pattern(40 << 20));
        fs::remove_file(&there).unwrap();
    }
}
