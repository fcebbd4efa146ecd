//! Nodes that are killed during a request: no file has its final name, and the next start removes the unfinished files.

use std::fs;
use std::time::Duration;

use super::peers::{Peer, begin};
use super::raw::{Raw, ask, get, open, put};
use crate::client::unfinished;
use crate::tree::pattern;
use crate::wait::{LONG, until};

#[test]
fn unfinished_files_of_a_killed_node_are_removed_at_its_next_start() {
    let mut node = open();
    put(&node, "/data/old", b"old").expect(201);
    // A source that sends half of its file and then nothing more.
    let source = Peer::new(|request, socket| {
        let size = 8 << 20;
        if !begin(socket, 200, size, "") {
            return false;
        }
        if request.method == "GET" {
            let _ = std::io::Write::write_all(socket, &pattern(size / 2));
            std::thread::sleep(Duration::from_secs(20));
        }
        true
    });
    let mut puts: Vec<Raw> = Vec::new();
    for target in ["/data/old", "/data/new", "/data/a/b/deep"] {
        let mut raw = Raw::to(&node);
        raw.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n"));
        raw.send(pattern(1_000_000));
        puts.push(raw);
    }
    let mut copy = Raw::to(&node);
    copy.request("COPY", "/data/pulled", &[("Source", &source.url("/f"))], &[]);
    assert_eq!(copy.head().unwrap().status, 202);
    let mut sealed = Raw::sealed(&node);
    sealed.send("PUT /data/sealed HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n");
    until("all are begun", LONG, || unfinished(&node.data("")).len() == 5);
    node.kill();
    let names = |node: &crate::node::Node| {
        let mut names: Vec<_> = fs::read_dir(node.data("")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.retain(|name| !name.to_string_lossy().starts_with(".longhaul-"));
        names.sort();
        names
    };
    assert_eq!(names(&node), ["a", "old"]);
    assert!(fs::read_dir(node.data("a/b")).unwrap().all(|e| e.unwrap().file_name() != "deep"));
    assert_eq!(fs::read(node.data("old")).unwrap(), b"old");
    drop((puts, copy, sealed));
    node.restart();
    assert_eq!(get(&node, "/data/old").body, b"old");
    assert!(unfinished(&node.data("")).is_empty(), "{:?}", unfinished(&node.data("")));
    assert_eq!(ask(&node, "PUT", "/data/new", &[], b"again").status, 201);
}

#[test]
fn a_copy_within_the_node_is_complete_or_absent() {
    let mut node = open();
    fs::write(node.data("f"), pattern(1 << 20).repeat(300)).unwrap();
    let mut raw = Raw::to(&node);
    raw.request("COPY", "/data/f", &[("Destination", "/data/g")], &[]);
    until("it is begun", LONG, || !unfinished(&node.data("")).is_empty() || node.data("g").exists());
    node.kill();
    if let Ok(there) = fs::metadata(node.data("g")) {
        assert_eq!(there.len(), 300 << 20);
    }
    node.restart();
    assert!(unfinished(&node.data("")).is_empty());
}

#[test]
fn a_stopped_node_leaves_no_unfinished_file() {
    let mut node = open();
    let mut raw = Raw::to(&node);
    raw.send("PUT /data/f HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\nabc");
    until("it is begun", LONG, || unfinished(&node.data("")).len() == 1);
    let began = std::time::Instant::now();
    node.stop();
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
    assert!(!node.data("f").exists());
    node.restart();
    assert!(unfinished(&node.data("")).is_empty());
}
