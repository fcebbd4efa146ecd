//! The limit of a job in its receipt, without a lab: slow pipes, and limits that the other end sets.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, words};
use crate::control::{ControlPoint, job};
use crate::node::Node;
use crate::wait::{LONG, until_some};

/// The bytes that a pipe moves at once, the pause afterwards, and the number of repetitions.
const PIECE: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(160);
const PIECES: usize = 30;

/// Whether the job was limited by something other than the busy processors of the machine; reports where it was not.
fn is_judged(receipt: &Value) -> bool {
    let by = &receipt["limited_by"];
    let text = |field: &str| by[field].as_str().unwrap_or_default();
    let is_withheld = text("part").ends_with("_cpu") && text("remedy").contains("other work takes the processors");
    if is_withheld {
        let _ = writeln!(std::io::stderr(), "NOT JUDGED: limits: {}", text("evidence"));
    }
    !is_withheld
}

#[track_caller]
fn assert_limited_by(receipt: &Value, part: &str, evidence: &str, remedy: &str) {
    let by = &receipt["limited_by"];
    let states = |field: &str, word: &str| by[field].as_str().unwrap().contains(word);
    let fits = by["part"] == part && states("evidence", evidence) && states("remedy", remedy);
    assert!(fits || !is_judged(receipt), "{by} is not {part}: {evidence} -> {remedy}");
}

fn receipt(client: &Client, mut child: Child) -> Value {
    let ended = until_some("the copy ends", LONG, || child.try_wait().unwrap());
    assert!(ended.success());
    serde_json::from_slice(&fs::read(client.path("receipt")).unwrap()).unwrap()
}

fn piped(client: &Client, source: &str, target: &str) -> Command {
    client.command(words!["cp", source, target, "--quiet", "--receipt", client.path("receipt")])
}

#[test]
fn a_receipt_names_a_slow_pipe_at_the_source() {
    let (node, client) = (Node::open(), Client::new());
    let mut child = piped(&client, "-", &node.at("data/f")).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for _ in 0..PIECES {
        pipe.write_all(&vec![7; PIECE]).unwrap();
        std::thread::sleep(PAUSE);
    }
    drop(pipe);
    assert_limited_by(&receipt(&client, child), "source", "readers busy", "what writes into the pipe");
}

#[test]
fn a_receipt_names_a_slow_pipe_at_the_target() {
    let (node, client) = (Node::open(), Client::new());
    let zeros = node.at(&format!("zero:{}", PIECE * PIECES));
    let mut child = piped(&client, &zeros, "-").stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, mut piece) = (child.stdout.take().unwrap(), vec![0; PIECE]);
    while pipe.read(&mut piece).unwrap() > 0 {
        // A read gives what a pipe holds, 64 KiB.
        std::thread::sleep(PAUSE / 4);
    }
    assert_limited_by(&receipt(&client, child), "target", "writers busy", "what reads from the pipe");
}

#[test]
fn a_receipt_names_a_limit_of_either_end() {
    let (node, client) = (Node::open(), Client::new());
    let ours = client.cp(0, words!["zero:10MB", node.at("null:"), "--limit", "2MB/s"]);
    assert_limited_by(&ours, "cap", "limit of 16.0 Mbit/s, set here", "--limit");
    for (source, target) in [("zero:16MB".to_owned(), node.at("null:")), (node.at("zero:16MB"), "null:".to_owned())] {
        let running = client.begin(words!["cp", source, target, "--limit", "2MB/s", "--json"]);
        // The operator's view of the node has the job as soon as it runs.
        let set = || {
            let listed = job(&node, &client, ControlPoint::Operator, words!["list", "--json"]).expect(0).text();
            let jobs = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let id = jobs.filter_map(|job| job["id"].as_str().map(str::to_owned)).next()?;
            let set = job(&node, &client, ControlPoint::Operator, words!["set", id, "--limit", "20Mbit/s"]);
            (set.code == 0).then_some(())
        };
        until_some("the node has set the limit", LONG, set);
        assert_limited_by(
            &running.finish().expect(0).json(),
            "cap",
            "limit of 20.0 Mbit/s, set at the other end",
            "ask whoever",
        );
    }
}
