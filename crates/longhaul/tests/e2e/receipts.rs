//! Receipts and job lists are true: sent bytes and existing bytes are two numbers, a dry run claims nothing, and a list shows how
//! a job ended.

use std::fs::File;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, words};
use crate::file_copy::{COPY_KINDS, ENOUGH, FileCopy, IN_FLIGHT, count, each, resumed};
use crate::node::{Node, signal};
use crate::tree::pattern;
use crate::wait::{LONG, until_some};

/// The mean rate that goes with so many bytes.
fn rate(bytes: u64, receipt: &Value) -> f64 {
    bytes as f64 * 8.0 / receipt["seconds"].as_f64().unwrap()
}

#[test]
fn a_rate_counts_only_sent_bytes() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::new(kind);
        let journalled = copy.run_killed(&[]);
        let receipt = copy.assert_resumes(journalled, &[]);
        let (sent, stated_rate) = (count(&receipt, "sent_bytes"), count(&receipt, "rate_bit_s") as f64);
        assert_eq!(sent, count(&receipt, "bytes") - resumed(&receipt), "{receipt}");
        assert!((stated_rate / rate(sent, &receipt) - 1.0).abs() < 0.01, "{kind:?}: {receipt}");
    });
}

#[test]
fn holes_are_created_and_not_sent() {
    let (node, client) = (Node::open(), Client::new());
    File::create(client.path("s")).unwrap().set_len(4 << 30).unwrap();
    for target in [node.at("data/s").into(), client.path("t").into_os_string()] {
        let receipt = client.cp(0, words![client.path("s"), target]);
        assert_eq!((count(&receipt, "bytes"), count(&receipt, "sent_bytes")), (4 << 30, 0), "{receipt}");
        assert_eq!(count(&receipt, "rate_bit_s"), 0, "{receipt}");
    }
    let text = client.run(words!["cp", "--sync", "none", client.path("s"), client.path("t")]).expect(0).text();
    assert!(text.starts_with("done: 4.00 GiB in 1 file") && !text.lines().next().unwrap().contains("bit/s"), "{text}");
}

#[test]
fn a_dry_run_claims_nothing() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", pattern(3 << 20));
    let words = || words!["cp", "--dry-run", client.path("f"), node.at("data/f")];
    let text = client.run(words()).expect(0).text();
    assert!(text.contains("would send: 3.00 MiB in 1 file"), "{text}");
    for claim in ["bit/s", "verified", "sealed", "payload", "limited by", " in 0."] {
        assert!(!text.contains(claim), "{claim:?} of a dry run: {text}");
    }
    let receipt = client.cp(0, words!["--dry-run", client.path("f"), node.at("data/f")]);
    assert_eq!((&receipt["rate_bit_s"], &receipt["digests"]), (&0.into(), &Value::Array(Vec::new())), "{receipt}");
    assert_eq!(receipt["limited_by"]["part"], "unknown", "{receipt}");
}

#[test]
fn an_interrupted_copy_reports_what_is_kept() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::new(kind);
        // First the JSON of the receipt, and then its text.
        let running = copy.begin(&[]);
        signal(&running.child, Signal::INT);
        let receipt = running.finish().expect(130).json();
        // What is acknowledged is kept, and what is in flight may be.
        assert!(count(&receipt, "kept_bytes") + IN_FLIGHT >= ENOUGH, "{kind:?}: {receipt}");
        assert_ne!(receipt["kept_bytes"], 0, "{kind:?}: {receipt}");
        let journalled = copy.settled_bytes();
        assert!(count(&receipt, "kept_bytes") <= journalled + IN_FLIGHT, "{kind:?}: {journalled}: {receipt}");
        let slow = [words!["cp"], copy.words(&[]), words!["--limit", "16Mbit/s"]].concat();
        let again = copy.client.begin(slow);
        until_some("it prints its progress", LONG, || again.err().contains("mean").then_some(()));
        signal(&again.child, Signal::INT);
        let text = again.finish().expect(130).text();
        assert!(text.starts_with("interrupted: ") && text.contains(" kept"), "{kind:?}: {text}");
        assert!(!text.contains("0 B in 0 files"), "{kind:?}: {text}");
    });
}

#[test]
fn a_list_of_jobs_states_how_each_ended() {
    let (from, to) = (Node::open(), Node::open());
    std::fs::write(from.data("f"), pattern(8 << 20)).unwrap();
    std::fs::create_dir(to.data("there")).unwrap();
    let client = Client::new();
    client.cp(0, words![from.at("data/f"), to.at("data/f")]);
    client.cp(1, words![from.at("data/missing"), to.at("data/g")]);
    let running = client.begin(words!["cp", from.at("data/f"), to.at("data/h"), "--limit", "8Mbit/s"]);
    let list = |json: bool| {
        let words = words!["job", "list", "--node", from.at("")];
        client.run(if json { [words, words!["--json"]].concat() } else { words }).expect(0).text()
    };
    let jobs = || list(true).lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    let state = |job: &Value| job["state"].as_str().unwrap().to_owned();
    let id = until_some("it runs", LONG, || {
        jobs().iter().find(|job| state(job) == "running" && count(job, "bytes") > 0).map(|job| job["id"].clone())
    });
    client.run(words!["job", "cancel", id.as_str().unwrap(), "--node", from.at("")]).expect(0);
    running.finish().expect(130);
    until_some("all have ended", LONG, || jobs().iter().all(|job| job.get("receipt").is_some()).then_some(()));
    let ended: Vec<String> = jobs().iter().map(|job| job["state"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(ended, ["done", "failed", "cancelled"]);
    let text = list(false);
    for word in ended {
        assert!(text.contains(&word), "{word}: {text}");
    }
    assert!(!text.contains("ended"), "{text}");
}
