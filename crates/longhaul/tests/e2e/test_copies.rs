//! Copies that test a path or a disk: a progress line each second, zeros without end; and the time left of copies that end.

use std::ffi::OsString;
use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, Outcome, Running, words};
use crate::node::{Node, signal};
use crate::tree::pattern;
use crate::wait::{LONG, until};

/// A rate that is slow enough for a few lines.
const SLOW: &str = "40MB/s";

/// The sources and targets of the zeros.
fn zero_copies(node: &Node, zeros: &str) -> [Vec<OsString>; 3] {
    [words![zeros, node.at("null:")], words![node.at(zeros), "null:"], words![zeros, "null:"]]
}

/// The numbers of an interval's line: from, to, bytes and both rates as printed.
fn interval(line: &str) -> (f64, f64, [String; 3]) {
    let inner = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).unwrap_or_else(|| panic!("{line:?}"));
    let (from, to) = inner.0.split_once('-').unwrap();
    let seconds = |text: &str| text.trim().parse::<f64>().unwrap_or_else(|e| panic!("{e}: {line:?}"));
    let words: Vec<&str> = inner.1.split_whitespace().collect();
    assert_eq!((words.len(), words[4], words[7]), (8, "now", "mean"), "{line:?}");
    assert!(words[3].ends_with("bit/s") && words[6].ends_with("bit/s"), "{line:?}");
    let amounts = [[words[0], words[1]], [words[2], words[3]], [words[5], words[6]]].map(|pair| pair.join(" "));
    (seconds(from), seconds(to.trim_end_matches('s')), amounts)
}

fn intervals(outcome: &Outcome) -> Vec<(f64, f64, [String; 3])> {
    outcome.err.lines().filter(|line| line.starts_with('[')).map(interval).collect()
}

/// Starts a test, and stops it after two progress lines.
fn stop_after_two_lines(client: &Client, words: Vec<OsString>, progress_lines: impl Fn(&Running) -> usize) -> Outcome {
    let running = client.begin([words!["cp"], words].concat());
    until("the test prints its progress", LONG, || progress_lines(&running) >= 2);
    signal(&running.child, Signal::INT);
    running.finish().expect(130)
}

#[test]
fn a_test_reports_its_progress_every_second() {
    let (node, client) = (Node::open(), Client::new());
    for words in zero_copies(&node, "zero:100MB") {
        let outcome = client.run([words!["cp", "--limit", SLOW], words].concat()).expect(0);
        let lines = intervals(&outcome);
        assert!(lines.len() >= 2, "{}", outcome.err);
        let mut end = 0.0;
        for (from, to, _) in &lines {
            assert!(*from == end && to > from, "{lines:?}");
            end = *to;
        }
        assert!((0.9..5.0).contains(&lines[0].1), "{lines:?}");
        assert!(outcome.text().starts_with("done: 95.4 MiB in 1 file"), "{}", outcome.text());
        assert!(!outcome.err.contains("left"), "{}", outcome.err);
    }
}

#[test]
fn zeros_without_a_size_last_until_they_are_stopped() {
    let (node, client) = (Node::open(), Client::new());
    for words in zero_copies(&node, "zero:") {
        let progress_lines = |running: &Running| running.err().lines().filter(|line| line.starts_with('[')).count();
        let outcome = stop_after_two_lines(&client, [words, words!["--limit", SLOW]].concat(), progress_lines);
        let (text, lines) = (outcome.text(), intervals(&outcome));
        assert!(text.starts_with("interrupted: ") && text.contains(" MiB in "), "{text}");
        assert!(lines.len() >= 2 && !text.contains("0 files"), "{text}{lines:?}");
        // A fingerprint is random letters, and may spell any of these.
        let lines: Vec<&str> = outcome.err.lines().filter(|line| !line.contains("SHA256:")).collect();
        for word in ["EiB", "EB", " left", "again", " of "] {
            assert!(lines.iter().all(|line| !line.contains(word)), "{word}: {}", outcome.err);
        }
    }
}

#[test]
fn a_test_reports_the_same_to_scripts_as_to_people() {
    let (node, client) = (Node::open(), Client::new());
    let objects = |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    for words in zero_copies(&node, "zero:") {
        let progress_lines = |running: &Running| running.out().lines().filter(|line| line.contains("progress")).count();
        let outcome =
            stop_after_two_lines(&client, [words, words!["--limit", SLOW, "--json"]].concat(), progress_lines);
        let mut lines = objects(&outcome.text());
        let receipt = lines.pop().unwrap();
        assert_eq!((&receipt["event"], &receipt["state"]), (&"receipt".into(), &"interrupted".into()));
        let last = lines.last().unwrap();
        assert!(receipt["bytes"].as_u64().unwrap() >= last["bytes"].as_u64().unwrap(), "{last} {receipt}");
        assert!(receipt["rate_bit_s"].as_u64().unwrap() > 0 && receipt["error"] == "stopped", "{receipt}");
        for line in &lines {
            assert!(line.get("eta_s").is_none() && line["scanned"] == false, "{line}");
            assert_eq!(line["bytes_total"], line["bytes"]);
        }
        assert!(!outcome.err.contains('['), "{}", outcome.err);
    }
    let quiet = client.run(words!["cp", "zero:60MB", node.at("null:"), "--limit", SLOW, "-q"]).expect(0);
    assert_eq!((quiet.text().as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn zeros_without_a_size_need_an_end_that_keeps_nothing() {
    let (node, client) = (Node::open(), Client::new());
    for words in [
        words!["zero:", client.path("f")],
        words!["zero:", node.at("data/f")],
        words![node.at("zero:"), client.path("f")],
        words![node.at("zero:"), node.at("null:")],
    ] {
        client.run([words!["cp"], words].concat()).refused(2, &["zero:10GB"]);
    }
    assert!(!client.path("f").exists() && !node.data("f").exists());
}

#[test]
fn each_part_of_a_path_is_tested_alone() {
    let (node, client) = (Node::open(), Client::new());
    let file = client.write("d/f", pattern(3 << 20));
    client.write("d/e/g", pattern(1 << 20));
    for (words, bytes) in [
        (words![file, node.at("null:")], 3 << 20),
        (words![node.at("zero:3MiB"), client.path("down")], 3 << 20),
        (words![file, "null:"], 3 << 20),
        (words!["zero:3MiB", client.path("here")], 3 << 20),
        (words!["-r", client.path("d"), "null:"], 4 << 20),
        (words!["-r", client.path("d"), node.at("null:")], 4 << 20),
    ] {
        let receipt = client.cp(0, words);
        assert_eq!(receipt["bytes"], bytes, "{receipt}");
    }
    assert_eq!(fs::read(client.path("down")).unwrap(), vec![0; 3 << 20]);
    assert_eq!(fs::read(client.path("here")).unwrap(), vec![0; 3 << 20]);
}

#[test]
fn the_time_left_is_shown_with_its_error() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", pattern(32 << 20));
    let begin = |to: &str, more: &[&str]| {
        let words = words!["cp", client.path("f"), node.at(to), "--limit", "4MB/s"];
        client.begin([words, more.iter().map(OsString::from).collect()].concat())
    };
    let (people, scripts) = (begin("data/f", &[]), begin("data/g", &["--json"]));
    let progress = || -> Vec<Value> {
        let lines: Vec<Value> = scripts.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.into_iter().filter(|line| line.get("eta_s").is_some()).collect()
    };
    until("people see the progress", LONG, || people.err().contains(" left (± "));
    until("scripts get the progress", LONG, || progress().len() >= 2);
    for line in progress() {
        assert!(line["eta_s"].as_f64().unwrap() < 600.0 && line["eta_error_s"].as_f64().unwrap() > 0.0, "{line}");
    }
}
