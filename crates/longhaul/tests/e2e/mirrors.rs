//! Copies from several sources of the same bytes: shares, a source that breaks off, crawls, sends wrong bytes or
//! refuses, and all of them gone for a while. Sources that must not be too fast are behind a line with a rate.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, unfinished, words};
use crate::https;
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until};

const MIB: u64 = 1 << 20;
/// Bytes per second of a first source that is slow enough for others to contribute, however late they start.
const SLOW_RATE: u64 = 4 << 20;

/// A line to a node, with a rate in bytes per second for all connections together; at rate 0 the connections break.
pub struct ThrottledLine {
    port: u16,
    rate: Arc<AtomicU64>,
    carried: Arc<AtomicU64>,
}

impl ThrottledLine {
    /// A rate without effect.
    pub const FREE: u64 = 1 << 40;

    pub fn to(node: &Node, rate: u64) -> ThrottledLine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rate, carried, to) = (Arc::new(AtomicU64::new(rate)), Arc::new(AtomicU64::new(0)), node.port);
        let line = ThrottledLine { port, rate: Arc::clone(&rate), carried: Arc::clone(&carried) };
        // When the line is free again, in microseconds since it was made.
        let (began, free) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (near_out, far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                if rate.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                thread::spawn(move || pump(near, far_out, |_| true));
                let (rate, carried, free) = (Arc::clone(&rate), Arc::clone(&carried), Arc::clone(&free));
                thread::spawn(move || {
                    pump(far, near_out, |bytes| {
                        let now = began.elapsed().as_micros() as u64;
                        let Some(takes) = (bytes * 1_000_000).checked_div(rate.load(Ordering::Relaxed)) else {
                            return false;
                        };
                        let mut at = 0;
                        let _ = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                            at = free.max(now) + takes;
                            Some(at)
                        });
                        thread::sleep(Duration::from_micros(at.saturating_sub(now)));
                        carried.fetch_add(bytes, Ordering::Relaxed);
                        true
                    })
                });
            }
        });
        line
    }

    pub fn at(&self, path: &str) -> String {
        format!("lh://127.0.0.1:{}/{path}", self.port)
    }

    /// Its address for clients of XRootD.
    pub fn root(&self, path: &str) -> String {
        format!("root://127.0.0.1:{}//{path}", self.port)
    }

    /// Breaks its connections, and all new ones.
    pub fn cut(&self) {
        self.rate.store(0, Ordering::Relaxed);
    }

    pub fn mend(&self) {
        self.rate.store(ThrottledLine::FREE, Ordering::Relaxed);
    }

    pub fn wait_until_carried(&self, bytes: u64) {
        until("the line has carried its part", LONG, || self.carried.load(Ordering::Relaxed) >= bytes);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, carries: impl Fn(u64) -> bool) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(len) = from.read(&mut buffer)
        && len > 0
        && carries(len as u64)
        && to.write_all(&buffer[..len]).is_ok()
    {}
    // In both directions: a connection that is open in one would hold a client that waits for the end.
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

fn content(len: u64) -> Vec<u8> {
    pattern(len as usize)
}

/// Nodes that anonymous clients may read, each with this file.
fn nodes(count: usize, bytes: &[u8]) -> Vec<Node> {
    let node = |_| {
        let node = Node::open();
        fs::write(node.data("f"), bytes).unwrap();
        node
    };
    (0..count).map(node).collect()
}

fn mirror_bytes(receipt: &Value) -> Vec<u64> {
    let mirrors = receipt["mirrors"].as_array().unwrap_or_else(|| panic!("no mirrors in {receipt}"));
    mirrors.iter().map(|mirror| mirror["bytes"].as_u64().unwrap()).collect()
}

/// Asserts that all sources together sent the file, and these sources sent nothing. Bytes that are read twice, as for a
/// stream that was given up, count twice.
#[track_caller]
fn assert_mirror_bytes(receipt: &Value, bytes: u64, idle: &[usize]) {
    let parts = mirror_bytes(receipt);
    assert!((bytes..bytes + bytes / 4).contains(&parts.iter().sum()), "{receipt}");
    assert!(idle.iter().all(|at| parts[*at] == 0), "{receipt}");
}

fn left_out(receipt: &Value, at: usize) -> Option<&str> {
    receipt["mirrors"][at]["left_out"].as_str()
}

#[test]
fn all_sources_send_a_part() {
    let (bytes, client) = (content(40 * MIB + 7), Client::new());
    let nodes = nodes(3, &bytes);
    // At this rate until each has sent something: otherwise the first could send it all.
    let lines: Vec<ThrottledLine> = nodes.iter().map(|node| ThrottledLine::to(node, SLOW_RATE)).collect();
    let from: Vec<String> = lines.iter().map(|line| line.at("data/f")).collect();
    let running = client.begin(words!["cp", from[0], "g", "--mirror", from[1], "--mirror", from[2], "--json"]);
    lines.iter().for_each(|line| line.wait_until_carried(2 * MIB));
    lines.iter().for_each(ThrottledLine::mend);
    let receipt = running.finish().expect(0).json();
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    let parts = mirror_bytes(&receipt);
    assert_eq!((parts.len(), parts.iter().sum::<u64>()), (3, bytes.len() as u64), "{receipt}");
    assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
    assert!(
        (0..3).all(|at| receipt["mirrors"][at]["source"] == from[at] && left_out(&receipt, at).is_none()),
        "{receipt}"
    );
    // The same command finds it there; without the option the receipt has no mirrors.
    assert_eq!(client.cp(0, words![from[0], "g", "--mirror", from[1]])["skipped"], 1);
    assert!(client.cp(0, words![from[0], "h"]).get("mirrors").is_none());
    lines[0].rate.store(SLOW_RATE, Ordering::Relaxed);
    // To a terminal, to standard output, and to a node.
    let output = client.run(words!["cp", from[0], "people", "--mirror", from[1]]).expect(0).text();
    assert!(output.contains(&format!(" from {}", from[1])), "{output}");
    let out = client.run(words!["cp", from[0], "-", "--mirror", from[1], "--quiet"]).expect(0).out;
    assert!(out == bytes);
    client.cp(0, words![from[0], nodes[2].at("data/copy"), "--mirror", from[1]]);
    assert!(fs::read(nodes[2].data("copy")).unwrap() == bytes);
}

#[test]
fn shares_follow_the_rates_of_the_sources() {
    let (bytes, client) = (content(60 * MIB), Client::new());
    let nodes = nodes(2, &bytes);
    let lines = [ThrottledLine::to(&nodes[0], 12 << 20), ThrottledLine::to(&nodes[1], 4 << 20)];
    let receipt = client.cp(0, words![lines[0].at("data/f"), "g", "--mirror", lines[1].at("data/f")]);
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    let parts = mirror_bytes(&receipt);
    let share = parts[1] as f64 / bytes.len() as f64;
    // A quarter, on a machine with other load.
    assert!((0.08..0.45).contains(&share), "{parts:?}");
}

#[test]
fn a_copy_continues_without_a_killed_source() {
    for killed in [0, 1] {
        let (bytes, client) = (content(48 * MIB), Client::new());
        let mut nodes = nodes(3, &bytes);
        let lines: Vec<ThrottledLine> = nodes.iter().map(|node| ThrottledLine::to(node, 2 << 20)).collect();
        let from: Vec<String> = lines.iter().map(|line| line.at("data/f")).collect();
        let running = client.begin(words!["cp", from[0], "g", "--mirror", from[1], "--mirror", from[2], "--json"]);
        lines[killed].wait_until_carried(3 * MIB);
        nodes[killed].kill();
        until("the killed source is left out", LONG, || running.err().contains("is left out"));
        lines.iter().for_each(ThrottledLine::mend);
        let outcome = running.finish().expect(0);
        assert!(fs::read(client.path("g")).unwrap() == bytes);
        let receipt = outcome.json();
        assert!(left_out(&receipt, killed).is_some(), "{receipt}");
        assert_eq!(outcome.err.matches("is left out").count(), 1, "reported once: {}", outcome.err);
    }
}

/// In the job of reference table T46 the second half took seven times as long as the first. Less than 1.5 times is wanted, which
/// cannot be measured beside other tests. Ten lines, of which one crawls and one breaks in the middle: without any tail the ratio
/// would be 1.25.
#[test]
fn a_slow_and_a_dead_source_hardly_delay_a_copy() {
    let (size, client) = (96 * MIB, Client::new());
    let bytes = content(size);
    let nodes = nodes(2, &bytes);
    let lines: Vec<ThrottledLine> = (0..10).map(|at| ThrottledLine::to(&nodes[at % 2], 3 << 19)).collect();
    let mut words = words!["cp", lines[0].at("data/f"), "g", "--json"];
    lines[1..].iter().for_each(|line| words.extend(words!["--mirror", line.at("data/f")]));
    let running = client.begin(words);
    let carried = || lines.iter().map(|line| line.carried.load(Ordering::Relaxed)).sum::<u64>();
    until("the first bytes come", LONG, || carried() > MIB);
    let started = Instant::now();
    until("half of the bytes are here", LONG, || carried() >= size / 2);
    let first = started.elapsed().as_secs_f64();
    // A piece on its way would take minutes from here on.
    lines[0].rate.store(10 << 10, Ordering::Relaxed);
    lines[1].rate.store(0, Ordering::Relaxed);
    let receipt = running.finish().expect(0).json();
    let last = started.elapsed().as_secs_f64() - first;
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    assert!(last / first < 3.0, "{last} s after {first} s: {receipt}");
}

#[test]
fn a_source_with_another_length_is_left_out() {
    let (bytes, client) = (content(20 * MIB), Client::new());
    let nodes = nodes(3, &bytes);
    fs::write(nodes[1].data("f"), content(19 * MIB)).unwrap();
    fs::remove_file(nodes[2].data("f")).unwrap();
    let words = words![
        "cp",
        nodes[0].at("data/f"),
        "g",
        "--mirror",
        nodes[1].at("data/f"),
        "--mirror",
        nodes[2].at("data/f"),
        "--json"
    ];
    let outcome = client.run(words).expect(0);
    let receipt = outcome.json();
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    assert_mirror_bytes(&receipt, 20 * MIB, &[1, 2]);
    assert!(left_out(&receipt, 1).unwrap().contains("bytes there"), "{receipt}");
    assert!(left_out(&receipt, 2).unwrap().contains("404"), "{receipt}");
    assert_eq!(outcome.err.matches("is left out of").count(), 2, "each once: {}", outcome.err);
}

/// A node with a file of the same length in which the bytes at these positions differ.
fn node_with_wrong_bytes(bytes: &[u8], positions: impl Iterator<Item = usize>) -> Node {
    let mut wrong_bytes = bytes.to_vec();
    positions.for_each(|at| wrong_bytes[at] ^= 1);
    nodes(1, &wrong_bytes).remove(0)
}

#[test]
fn a_source_with_other_bytes_is_left_out_and_the_copy_is_whole() {
    let (bytes, client) = (content(24 * MIB), Client::new());
    // Another edition of the file, and one that is the same in its first half.
    for from in [0, 13 << 20] {
        let (good, wrong) = (nodes(2, &bytes), node_with_wrong_bytes(&bytes, (from..bytes.len()).step_by(4096)));
        let lines = [ThrottledLine::to(&good[0], 6 << 20), ThrottledLine::to(&good[1], 6 << 20)];
        let words = words![
            "cp",
            lines[0].at("data/f"),
            "g",
            "--mirror",
            wrong.at("data/f"),
            "--mirror",
            lines[1].at("data/f"),
            "--json"
        ];
        let outcome = client.run(words).expect(0);
        let receipt = outcome.json();
        assert!(fs::read(client.path("g")).unwrap() == bytes, "{from}: {receipt}");
        assert_eq!((&receipt["failed"], &receipt["files"]), (&0.into(), &1.into()), "{receipt}");
        assert!(left_out(&receipt, 1).is_some_and(|why| why.contains("other bytes of")), "{receipt}");
        assert!(left_out(&receipt, 0).is_none() && left_out(&receipt, 2).is_none(), "{receipt}");
        assert!(outcome.err.contains(&format!("{} is left out", wrong.at("data/f"))), "{}", outcome.err);
        fs::remove_file(client.path("g")).unwrap();
    }
    assert!(unfinished(&client.path("")).is_empty());
}

/// A target that is read only once, such as a pipe, cannot take back wrong bytes.
#[test]
fn wrong_bytes_in_a_pipe_fail_the_copy() {
    let (bytes, client) = (content(24 * MIB), Client::new());
    // No byte differs in the middle, where all sources are compared before the copy begins.
    let positions = (0..bytes.len()).step_by(4096).filter(|at| !(11 << 20..13 << 20).contains(at));
    let (good, wrong) = (nodes(1, &bytes), node_with_wrong_bytes(&bytes, positions));
    let line = ThrottledLine::to(&good[0], 6 << 20);
    let out = client.run(words!["cp", line.at("data/f"), "-", "--mirror", wrong.at("data/f")]).expect(7);
    assert!(out.err.contains("has other bytes than"), "{}", out.err);
}

#[test]
fn a_copy_waits_while_all_sources_are_unreachable() {
    let (bytes, client) = (content(32 * MIB), Client::new());
    let mut nodes = nodes(2, &bytes);
    let lines: Vec<ThrottledLine> = nodes.iter().map(|node| ThrottledLine::to(node, 2 << 20)).collect();
    let running = client.begin(words!["cp", lines[0].at("data/f"), "g", "--mirror", lines[1].at("data/f"), "--json"]);
    lines[0].wait_until_carried(2 * MIB);
    nodes.iter_mut().for_each(Node::kill);
    until("both sources are left out for a while", LONG, || {
        running.err().matches("is left out for a while").count() == 2
    });
    nodes.iter_mut().for_each(Node::restart);
    lines.iter().for_each(ThrottledLine::mend);
    running.finish().expect(0);
    assert!(fs::read(client.path("g")).unwrap() == bytes);
}

#[test]
fn a_source_that_refuses_is_left_out() {
    let bytes = content(12 * MIB);
    let closed: Vec<Node> = (0..3).map(|_| Node::closed()).collect();
    closed.iter().for_each(|node| fs::write(node.data("f"), &bytes).unwrap());
    let keys: Vec<String> = closed[..2].iter().map(|node| node.grant(&["--export", "data"])).collect();
    let listed = closed[1].grant_command(&["list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let id = listed.lines().last().unwrap().split_whitespace().next().unwrap();
    assert!(closed[1].grant_command(&["revoke", id]).status.success(), "{listed}");
    let client = Client::with_key(&keys.join(","));
    let from: Vec<String> = closed.iter().map(|node| node.at("data/f")).collect();
    // One whose key was revoked, and one for which there is none.
    let receipt = client.cp(0, words![from[0], "g", "--mirror", from[1], "--mirror", from[2]]);
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    assert_mirror_bytes(&receipt, 12 * MIB, &[1, 2]);
    assert!(left_out(&receipt, 1).is_some() && left_out(&receipt, 2).is_some(), "{receipt}");
    // The first source decides: where it refuses, nothing is copied.
    client.run(words!["cp", "--quiet", from[2], "h", "--mirror", from[0]]).expect(4);
    assert!(!client.path("h").exists());
}

#[test]
fn servers_of_all_kinds_are_mixed() {
    let (bytes, client) = (content(16 * MIB), Client::new());
    let native = nodes(1, &bytes);
    let clear = Setup::new().data_export("ro").arg("--anonymous").arg("ro").arg("--plain").start();
    fs::write(clear.data("f"), &bytes).unwrap();
    let near = client.write("near", &bytes);
    let http = format!("http://127.0.0.1:{}/data/f", clear.port);
    let receipt = client.cp(0, words![native[0].at("data/f"), "g", "--mirror", http, "--mirror", near]);
    assert!(fs::read(client.path("g")).unwrap() == bytes);
    assert_mirror_bytes(&receipt, bytes.len() as u64, &[]);
    let line = ThrottledLine::to(&native[0], SLOW_RATE);
    let receipt = client.cp(0, words![line.at("data/f"), "http", "--mirror", http]);
    assert!(mirror_bytes(&receipt)[1] > 0, "{receipt}");
    let receipt = client.cp(0, words![line.at("data/f"), "near-too", "--mirror", near]);
    assert!(mirror_bytes(&receipt)[1] > 0, "{receipt}");
    // A node with the certificate of its site: its own key identifies it to the native protocol, and the certificate to HTTPS.
    let site = https::setup("").arg("--anonymous").arg("ro").start();
    fs::write(site.data("f"), &bytes).unwrap();
    let receipt = client.cp(0, words![line.at("data/f"), "h", "--mirror", site.at("data/f")]);
    assert!(left_out(&receipt, 1).is_none() && mirror_bytes(&receipt)[1] > 0, "{receipt}");
    let ca = site.data("../ca.pem");
    let url = format!("https://127.0.0.1:{}/data/f", ThrottledLine::to(&site, SLOW_RATE).port);
    let receipt = client.cp(0, words![url, "i", "--mirror", http, "--cacert", ca]);
    assert!(left_out(&receipt, 0).is_none() && mirror_bytes(&receipt)[1] > 0, "{receipt}");
    assert!(fs::read(client.path("i")).unwrap() == bytes);
}

#[test]
fn a_tree_is_copied_from_all_mirrors() {
    let client = Client::new();
    let nodes: Vec<Node> = (0..3).map(|_| Node::open()).collect();
    let files: Vec<(String, Vec<u8>)> = (0..40).map(|n| (format!("t/d{}/f{n}", n % 3), content(n * 50_000))).collect();
    for node in &nodes {
        for (name, bytes) in &files {
            fs::create_dir_all(node.data(name).parent().unwrap()).unwrap();
            fs::write(node.data(name), bytes).unwrap();
        }
    }
    // One lacks a directory.
    fs::remove_dir_all(nodes[2].data("t/d1")).unwrap();
    let line = ThrottledLine::to(&nodes[0], SLOW_RATE);
    let from = [line.at("data/t"), nodes[1].at("data/t"), nodes[2].at("data/t")];
    let receipt = client.cp(0, words!["-r", from[0], "t", "--mirror", from[1], "--mirror", from[2]]);
    assert_eq!((&receipt["files"], &receipt["failed"]), (&40.into(), &0.into()), "{receipt}");
    files.iter().for_each(|(name, bytes)| assert!(fs::read(client.path(name)).unwrap() == *bytes, "{name}"));
    assert!(mirror_bytes(&receipt).iter().filter(|part| **part > 0).count() >= 2, "{receipt}");
    assert_eq!(client.cp(0, words!["-r", from[0], "t", "--mirror", from[1]])["skipped"], 40);
}

#[test]
fn an_invalid_mirror_is_refused_in_one_sentence() {
    let (nodes, client) = (nodes(1, b"x"), Client::new());
    client.run(words!["cp", nodes[0].at("data/f"), "g", "--mirror", "null:"]).refused(2, &["null:", "lh://"]);
    client.run(words!["cp", nodes[0].at("data/f"), "g", "--mirror", "host:f"]).refused(2, &["host:f", "lh://"]);
    let two = words!["cp", nodes[0].at("data/f"), nodes[0].at("data/f2"), "g", "--mirror", nodes[0].at("data/f")];
    client.run(two).refused(2, &["--mirror", "a single source"]);
    client.run(words!["cp", "lh://127.0.0.1:1/data/f", "g", "--mirror", "lh://127.0.0.1:1/data/f", "-q"]).expect(5);
    // A source that is unreachable from the beginning is left out.
    let away = words!["lh://127.0.0.1:1/data/f", "g", "--mirror", nodes[0].at("data/f")];
    assert_eq!(client.cp(0, away)["files"], 1);
}

/// A Metalink about one file, with a digest and these places.
fn metalink(name: &str, bytes: &[u8], places: &[String]) -> String {
    let sum = model::checksum::BlockSum::of(bytes, true).adler32.unwrap();
    let urls: String = places.iter().map(|place| format!("<url priority=\"1\">{place}</url>")).collect();
    format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"{name}\"><size>{}</size>\
         <hash type=\"adler32\">{sum:08x}</hash>{urls}</file></metalink>",
        bytes.len()
    )
}

#[test]
fn the_files_of_a_metalink_are_copied_from_its_places_and_verified() {
    let (bytes, client) = (content(5 * MIB), Client::new());
    let nodes = nodes(2, &bytes);
    let places: Vec<String> = nodes.iter().map(|node| node.at("data/f")).collect();
    client.write("run.meta4", metalink("run/f1", &bytes, &places).as_bytes());
    let receipt = client.cp(0, words!["run.meta4", "out", "--metalink"]);
    assert!(fs::read(client.path("out/run/f1")).unwrap() == bytes);
    assert_eq!(mirror_bytes(&receipt).len(), 2, "both places are sources: {receipt}");

    // A Metalink on a server, and a place that is gone.
    let server = Setup::new().data_export("ro").arg("--anonymous").arg("ro").arg("--plain").start();
    let text = metalink("g", &bytes, &[places[0].clone(), "root://127.0.0.1:1//f".into()]);
    fs::write(server.data("run.meta4"), text).unwrap();
    let document = format!("http://127.0.0.1:{}/data/run.meta4", server.port);
    client.run(words!["cp", "--metalink", document, "out"]).expect(0);
    assert!(fs::read(client.path("out/g")).unwrap() == bytes);

    // Other bytes than the Metalink says, and places on this host.
    client.write("wrong.meta4", metalink("h", b"other", &places).as_bytes());
    let wrong = client.run(words!["cp", "--metalink", "wrong.meta4", "out"]);
    assert_ne!(wrong.code, 0, "{}", wrong.err);
    assert!(!client.path("out/h").exists());
    client
        .write("local.meta4", metalink("passwd", b"", &["file:///etc/passwd".into(), "/etc/passwd".into()]).as_bytes());
    let local = client.run(words!["cp", "--metalink", "local.meta4", "out"]).expect(2);
    assert!(local.err.contains("names no place"), "{}", local.err);
}
