//! Session pools: successive copies from one node to another use the connections of the previous copy.

use std::fs;
use std::time::{Duration, Instant};

use model::checksum::{Digest, crc32c};
use serde_json::Value;
use wire::Frame;
use wire::frame::{Direction, End, Entry};

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::raw_client::{RawClient, dir, file, order, part, payload};
use crate::tree::pattern;
use crate::wait::{LONG, until};

/// Two nodes, and a client that may read at one and write at the other.
struct Pair {
    source: Node,
    target: Node,
    client: Client,
}

const LARGE: usize = 20 << 20;

fn pair() -> Pair {
    let (source, target) = (Node::closed(), Node::closed());
    let keys = [source.grant(&["--export", "data"]), target.grant(&["--export", "data", "--write"])];
    fs::write(source.data("large"), pattern(LARGE)).unwrap();
    Pair { source, target, client: Client::with_key(&keys.join(",")) }
}

impl Pair {
    fn copy(&self, to: &str) -> Value {
        let receipt = self.client.cp(0, words![self.source.at("data/large"), self.target.at(to)]);
        assert_eq!((&receipt["state"], &receipt["bytes"]), (&"done".into(), &LARGE.into()), "{receipt}");
        let name = to.strip_prefix("data/").unwrap();
        assert!(fs::read(self.target.data(name)).unwrap() == pattern(LARGE));
        receipt
    }

    /// The streams of each session that the target admitted over existing connections.
    fn renewed_streams(&self) -> Vec<u64> {
        let log = self.target.log();
        let lines = log.lines().filter(|line| line.contains("event=\"renew\""));
        lines.map(|line| line.rsplit("streams=").next().unwrap().split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Asserts that no event of the connections was reported as a failed attempt.
    fn assert_unbroken(&self) {
        let log = self.source.log();
        assert!(!log.contains("the connection broke"), "{log}");
    }
}

#[test]
fn the_next_copy_goes_over_the_connections_of_the_last() {
    let pair = pair();
    let first = pair.copy("data/one");
    assert!(first["phases"]["connect"].as_f64() > Some(0.0) && pair.renewed_streams().is_empty());
    let mut connects = Vec::new();
    for name in ["data/two", "data/three"] {
        let receipt = pair.copy(name);
        connects.push(receipt["phases"]["connect"].as_f64().unwrap());
        // Each job's numbers are its own: no stream has carried more than the file.
        let streams = receipt["streams"].as_array().unwrap();
        let bytes: u64 = streams.iter().map(|stream| stream["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, LARGE as u64, "{receipt}");
    }
    // No round trip and no handshake: a fraction of what it takes to connect, unless a busy host held up both copies.
    let quickest = connects.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(Some(quickest) < first["phases"]["connect"].as_f64(), "{connects:?} beside {first}");
    let renewed = pair.renewed_streams();
    assert!(renewed.len() == 2 && renewed.iter().all(|streams| *streams > 0), "{renewed:?}\n{}", pair.target.log());
    pair.assert_unbroken();
    // Nothing is left of the keys for single jobs. The target forgets one when its own side of the job is over: that may be a
    // moment after the client has its receipt.
    until("no key for a single job is left", LONG, || {
        let keys = fs::read_to_string(pair.target.state().join("errand-grants.toml")).unwrap_or_default();
        !keys.contains("secret")
    });
}

#[test]
fn a_target_that_was_restarted_meanwhile_is_no_failed_attempt() {
    let mut pair = pair();
    pair.copy("data/one");
    pair.target.restart();
    pair.copy("data/two");
    assert!(pair.renewed_streams().is_empty(), "{}", pair.target.log());
    pair.assert_unbroken();
}

#[test]
fn stopping_nodes_do_not_wait_for_pooled_sessions() {
    for source_first in [true, false] {
        let mut pair = pair();
        pair.copy("data/one");
        let stops = |node: &mut Node| {
            let started = Instant::now();
            assert_eq!(node.stop(), Some(0));
            assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
        };
        let order =
            if source_first { [&mut pair.source, &mut pair.target] } else { [&mut pair.target, &mut pair.source] };
        order.into_iter().for_each(stops);
    }
}

#[test]
fn a_stopping_source_closes_its_pooled_sessions() {
    let mut pair = pair();
    let before = pair.target.descriptors();
    pair.copy("data/one");
    assert!(pair.target.descriptors() > before + 1, "a session and its streams are kept");
    assert_eq!(pair.source.stop(), Some(0));
    until("nothing is kept", LONG, || pair.target.descriptors() <= before);
}

#[test]
fn clients_with_different_keys_share_connections_and_nothing_else() {
    let pair = pair();
    pair.copy("data/one");
    // Another client, whose key is for one directory of the target.
    fs::create_dir(pair.target.data("mine")).unwrap();
    let keys = [
        pair.source.grant(&["--export", "data"]),
        pair.target.grant(&["--export", "data", "--write", "--path", "mine"]),
    ];
    let other = Client::with_key(&keys.join(","));
    other.run(words!["cp", pair.source.at("data/large"), pair.target.at("data/one")]).expect(4);
    other.cp(0, words![pair.source.at("data/large"), pair.target.at("data/mine/x")]);
    assert_eq!(pair.renewed_streams().len(), 1, "{}", pair.target.log());
    assert!(fs::read(pair.target.data("mine/x")).unwrap() == pattern(LARGE));
}

#[test]
fn a_node_for_one_copy_pools_no_sessions() {
    // The same command twice over nodes for one copy: each node ends with its command.
    let target = Setup::new().data_export("rw").arg("--anonymous").arg("rw").start();
    let client = Client::new();
    let file = client.write("f", pattern(LARGE));
    let before = target.descriptors();
    client.cp(0, words![file, target.at("data/f")]);
    until("nothing is kept", LONG, || target.descriptors() <= before);
}

#[test]
fn a_stream_of_an_earlier_job_brings_nothing_to_the_next() {
    let node = Node::open();
    let mut raw_client = RawClient::logged_in(&node);
    raw_client.send(&Frame::Keep(60));
    raw_client.send(&Frame::Open(order(Direction::Push)));
    raw_client.send(&Frame::Entries(vec![dir(1, 0, "t"), Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(1));
    raw_client.receive_until("the first job's end", |frame| matches!(frame, Frame::Finished(_)));
    // The client claims that two streams stayed; the node has none, and the second is opened only now.
    raw_client.send(&Frame::Renew { key: None, opened: 2, kept: vec![1, 2] });
    raw_client.send(&Frame::Open(order(Direction::Push)));
    raw_client.send(&Frame::Entries(vec![dir(1, 0, "u"), file(2, 1, "f", 1 << 20)]));
    raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
    let (bytes, others) = (pattern(1 << 20), vec![7; 1 << 20]);
    let mut late = raw_client.stream(2);
    let _ = late.send(&[part(2, 0, &others)], &mut payload(&others));
    until("a late stream is closed", LONG, || late.is_lost());
    raw_client.stream(3).send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
    raw_client.send(&Frame::Ends(vec![End { id: 2, size: 1 << 20, digests: vec![Digest::crc32c(crc32c(&bytes))] }]));
    raw_client.send(&Frame::Entries(vec![Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(2));
    let end = raw_client.receive_until("the second job's end", |frame| matches!(frame, Frame::Finished(_)));
    assert!(matches!(end, Frame::Finished(totals) if (totals.files, totals.failed) == (1, 0)), "{end:?}");
    // Once for each job.
    raw_client.send(&Frame::Renew { key: None, opened: 3, kept: Vec::new() });
    raw_client.send(&Frame::Renew { key: None, opened: 3, kept: Vec::new() });
    assert!(matches!(raw_client.end(), engine::Error::Refused { .. }));
}
