//! Slow clients: with their head, with their body, with reading; and idle ones.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::raw::{Raw, get, open};
use crate::tree::pattern;
use crate::wait::{LONG, until};

/// Threads of the node's process.
fn threads(node: &crate::node::Node) -> usize {
    fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap().count()
}

#[test]
fn two_hundred_slow_heads_delay_nobody_and_time_out() {
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let began = Instant::now();
    let mut creeping: Vec<Raw> = (0..200).map(|_| Raw::to(&node)).collect();
    let head = b"GET /data/f HTTP/1.1\r\nHost: h\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    for raw in &mut creeping {
        raw.send(b"GET");
    }
    let mut slowest = Duration::ZERO;
    for (at, byte) in head[3..].iter().enumerate() {
        for raw in &mut creeping {
            raw.try_send([*byte]);
        }
        let asked_at = Instant::now();
        assert_eq!(get(&node, "/data/f").body, b"x", "{at}");
        slowest = slowest.max(asked_at.elapsed());
        std::thread::sleep(Duration::from_millis(250));
        if began.elapsed() > Duration::from_secs(18) {
            break;
        }
    }
    assert!(slowest < Duration::from_secs(15), "{slowest:?}");
    for (at, raw) in creeping.iter_mut().enumerate() {
        let answer = raw.receive().unwrap_or_else(|| panic!("{at}: no answer"));
        assert_eq!((answer.status, answer.field("connection")), (408, Some("close")), "{at}");
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(19)..Duration::from_secs(120)).contains(&took), "{took:?}");
    drop(creeping);
    until("their threads have ended", LONG, || threads(&node) < 60);
}

#[test]
fn silent_connections_hold_no_thread_and_time_out() {
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let before = threads(&node);
    let mut silent: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(("127.0.0.1", node.port)).unwrap()).collect();
    let mut idle: Vec<Raw> = (0..100).map(|_| Raw::to(&node)).collect();
    for raw in &mut idle {
        assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
    }
    until("idle connections have no thread", LONG, || threads(&node) <= before + 4);
    // Connections that never sent a byte are closed.
    for socket in &mut silent {
        socket.set_read_timeout(Some(LONG)).unwrap();
        assert!(matches!(socket.read(&mut [0; 64]), Ok(0)));
    }
    // The others are served again, long after that.
    for raw in &mut idle {
        assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
    }
    let mut sealed: Vec<Raw> = (0..20).map(|_| Raw::sealed(&node)).collect();
    for _ in 0..2 {
        for raw in &mut sealed {
            assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
        }
        until("idle connections have no thread", LONG, || threads(&node) <= before + 4);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let node = open();
    let large = pattern(300_000);
    fs::write(node.data("f"), &large).unwrap();
    fs::write(node.data("g"), b"small").unwrap();
    for sealed in [false, true] {
        let mut raw = if sealed { Raw::sealed(&node) } else { Raw::to(&node) };
        let mut all = Vec::new();
        for at in 0..20 {
            let target = if at % 2 == 0 { "/data/f" } else { "/data/g" };
            all.extend(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes());
            all.extend(format!("PUT /data/p{at} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{at:03}").into_bytes());
        }
        // One record of TLS holds several of them.
        let mut speaker = std::thread::spawn(move || {
            raw.send(&all);
            raw
        })
        .join()
        .unwrap();
        for at in 0..20 {
            let answer = speaker.receive().unwrap();
            let wanted = if at % 2 == 0 { large.as_slice() } else { b"small" };
            assert!(answer.status == 200 && answer.body == wanted, "{at} {sealed}");
            let status = speaker.receive().unwrap().status;
            assert_eq!(status, if sealed { 204 } else { 201 }, "{at}");
            assert_eq!(fs::read(node.data(&format!("p{at}"))).unwrap(), format!("{at:03}").as_bytes());
        }
    }
}

#[test]
fn a_stalled_reader_delays_nobody() {
    let node = open();
    let file = fs::File::create(node.data("huge")).unwrap();
    file.set_len(64 << 30).unwrap();
    fs::write(node.data("f"), b"x").unwrap();
    let mut lazy: Vec<Raw> = (0..30).map(|_| Raw::to(&node)).collect();
    for raw in &mut lazy {
        raw.request("GET", "/data/huge", &[], &[]);
        assert_eq!(raw.head().unwrap().status, 200);
    }
    let began = Instant::now();
    assert_eq!(get(&node, "/data/f").body, b"x");
    assert!(began.elapsed() < Duration::from_secs(25));
    // A client that disconnects while its file is sent ends its thread.
    drop(lazy);
    until("their threads have ended", LONG, || threads(&node) < 30);
}

#[test]
fn a_stalled_body_delays_nobody_and_leaves_nothing() {
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let mut stalled: Vec<Raw> = (0..50).map(|_| Raw::to(&node)).collect();
    for (at, raw) in stalled.iter_mut().enumerate() {
        raw.send(format!("PUT /data/s{at} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nabc"));
    }
    until("their files are begun", LONG, || crate::client::unfinished(&node.data("")).len() == 50);
    assert_eq!(get(&node, "/data/f").body, b"x");
    drop(stalled);
    super::raw::assert_swept(&node);
    assert_eq!(fs::read_dir(node.data("")).unwrap().count(), 1);
}
