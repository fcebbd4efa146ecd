//! Clients that log in and then break the protocol, or vanish: the node ends their session, serves the others, and
//! keeps nothing of theirs.

use model::Refusal;
use std::fs;
use std::time::{Duration, Instant};

use engine::Error;
use model::checksum::Digest;
use model::fault::Fault;
use wire::Frame;
use wire::frame::{Direction, End, Entry, Outcome, Totals, Verdict};

use crate::client::{Client, unfinished, words};
use crate::node::Node;
use crate::raw_client::{RawClient, dir, file, forged, inline, part, payload};
use crate::tree::pattern;
use crate::unfinished_state::{assert_kept, covered, has_no_writer};
use crate::wait::{LONG, until};

/// Asserts that the node still serves, and keeps nothing that the clients began.
fn assert_unharmed(node: &Node, descriptors: usize) {
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    until("nothing unfinished is left", LONG, || unfinished(&node.data("")).is_empty());
    until("descriptors are given back", LONG, || node.descriptors() <= descriptors);
}

/// Asserts that the node reported why, or hung up.
#[track_caller]
fn assert_ended(what: &str, error: &Error) {
    match error {
        Error::Refused { refusal, .. } => {
            assert!(matches!(refusal.fault, Fault::Peer | Fault::Auth), "{what}: {refusal:?}");
            assert!(!refusal.reason.is_empty(), "{what}");
        }
        Error::Broken { .. } => {}
        other => panic!("{what}: {other:?}"),
    }
}

type Script = fn(&mut RawClient);

fn raw(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 2).to_be_bytes().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(body);
    bytes
}

fn offers(entries: Vec<Entry>) -> Frame {
    Frame::Entries(entries)
}

#[test]
fn protocol_breaches_end_the_session() {
    let node = Node::open();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let scripts: &[(&str, Script)] = &[
        ("an absurd length", |c| c.send_raw(&[0xff, 0xff, 0xff, 0xff, 9, 0])),
        ("a length of nothing", |c| c.send_raw(&[0, 0, 0, 0, 9, 0])),
        ("an unknown message", |c| c.send_raw(&raw(200, 0, b"what"))),
        ("a message that does not decode", |c| c.send_raw(&raw(9, 0, b"what"))),
        ("a message with something behind it", |c| c.send_raw(&raw(4, 0, &[1, 2]))),
        ("a second login", |c| c.send(&c.login())),
        ("entries without a job", |c| c.send(&offers(vec![dir(1, 0, "t")]))),
        ("a message that only a node sends", |c| c.send(&Frame::Reply(1, Vec::new(), false))),
        ("an export that leads out", |c| {
            let order = Frame::Open(crate::raw_client::order(Direction::Push));
            c.send_raw(&forged(&order, b"data", b"../x"));
        }),
    ];
    for (what, script) in scripts {
        let mut raw_client = RawClient::logged_in(&node);
        script(&mut raw_client);
        assert_ended(what, &raw_client.end());
    }
    assert!(node.is_empty());
    assert_unharmed(&node, descriptors);
}

#[test]
fn breaches_of_a_push_leave_nothing() {
    let node = Node::open();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let scripts: &[(&str, Script)] = &[
        ("a second job in the first", |c| c.send(&Frame::Open(crate::raw_client::order(Direction::Push)))),
        ("a login in a job", |c| c.send(&c.login())),
        ("a parent that was never offered", |c| c.send(&offers(vec![file(1, 999, "f", 0)]))),
        ("a parent that is a file", |c| c.send(&offers(vec![file(1, 0, "f", 1), file(2, 1, "g", 1)]))),
        ("an id twice", |c| c.send(&offers(vec![file(1, 0, "f", 9), file(1, 0, "g", 9)]))),
        ("ids out of order", |c| c.send(&offers(vec![file(7, 0, "f", 9)]))),
        ("a directory left twice", |c| c.send(&offers(vec![dir(1, 0, "t"), Entry::Leave(1), Entry::Leave(1)]))),
        ("a directory left that is none", |c| c.send(&offers(vec![Entry::Leave(5)]))),
        ("a name that leads up", |c| c.send_raw(&forged(&offers(vec![dir(1, 0, "ZZ")]), b"ZZ", b".."))),
        ("a name that is a path", |c| c.send_raw(&forged(&offers(vec![dir(1, 0, "ZZZ")]), b"ZZZ", b"a/b"))),
        ("a name with NUL", |c| c.send_raw(&forged(&offers(vec![dir(1, 0, "ZZZ")]), b"ZZZ", b"a\0b"))),
        ("a file that is larger than files can be", |c| c.send(&offers(vec![file(1, 0, "f", u64::MAX - 1)]))),
        ("bytes of a file that was never offered", |c| c.send(&inline(part(5, 0, b"x"), b"x"))),
        ("bytes beyond a file's end", |c| {
            c.send(&offers(vec![file(1, 0, "f", 4)]));
            c.send(&inline(part(1, 0, b"too long"), b"too long"));
        }),
        ("bytes that overlap", |c| {
            c.send(&offers(vec![file(1, 0, "f", 9)]));
            c.send(&inline(part(1, 0, b"1234"), b"1234"));
            c.send(&inline(part(1, 2, b"3456"), b"3456"));
        }),
        ("a record that is none", |c| c.send(&Frame::Inline(b"LR".to_vec()))),
        ("the end of a file that was never offered", |c| {
            c.send(&Frame::Ends(vec![End { id: 9, size: 1, digests: vec![Digest::crc32c(0)] }]));
        }),
        ("a file that ends with another size", |c| {
            c.send(&offers(vec![file(1, 0, "f", 4)]));
            c.send(&Frame::Ends(vec![End { id: 1, size: 5, digests: Vec::new() }]));
        }),
        ("a wrong count", |c| {
            c.send(&offers(vec![file(1, 0, "f", 4)]));
            c.send(&Frame::ScanEnd(2));
        }),
        ("the largest count", |c| c.send(&Frame::ScanEnd(u64::MAX))),
        ("an entry after the last", |c| {
            c.send(&offers(vec![file(1, 0, "f", 4)]));
            c.send(&Frame::ScanEnd(1));
            c.send(&offers(vec![file(2, 0, "g", 4)]));
        }),
        ("what only a receiver sends", |c| c.send(&Frame::Finished(Totals::default()))),
    ];
    for (what, script) in scripts {
        let mut raw_client = RawClient::with_job(&node, Direction::Push);
        script(&mut raw_client);
        assert_ended(what, &raw_client.end());
        until(what, LONG, || unfinished(&node.data("")).is_empty());
        // A directory may have been made before the breach; a file may not.
        let _ = fs::remove_dir(node.data("t"));
        assert!(node.is_empty(), "{what}: something is under a final name");
    }
    assert_unharmed(&node, descriptors);
}

#[test]
fn breaches_of_a_pull_end_it() {
    let node = Node::open();
    fs::create_dir(node.data("t")).unwrap();
    fs::write(node.data("t/f"), pattern(3 << 20)).unwrap();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let fails: &[(&str, Script)] = &[
        ("what only a sender sends", |c| c.send(&Frame::ScanEnd(0))),
        ("a second job", |c| c.send(&Frame::Open(crate::raw_client::order(Direction::Pull)))),
    ];
    for (what, script) in fails {
        let mut raw_client = RawClient::with_job(&node, Direction::Pull);
        script(&mut raw_client);
        assert_ended(what, &raw_client.end());
    }
    // Frames about files that do not exist, or not any more, do no harm.
    let strange: &[Script] = &[
        |c| c.send(&Frame::Received(vec![(1, u64::MAX), (1024, 1)])),
        |c| c.send(&Frame::Verdicts(vec![(77, Verdict::Want), (u64::MAX, Verdict::WantUnless(Digest::crc32c(1)))])),
        |c| {
            c.send(&Frame::Verdicts(vec![(
                2,
                Verdict::WantRest(vec![claim(u64::MAX, u64::MAX), claim(1, 0), claim(0, u64::MAX)]),
            )]))
        },
        |c| c.send(&Frame::Again(vec![(2, u64::MAX, u64::MAX), (2, 0, u64::MAX), (99, 0, 1)])),
        |c| c.send(&Frame::Outcomes(vec![(2, Outcome::Done), (2, Outcome::Done), (9, Outcome::Skipped)])),
        |c| {
            let reason = "\u{1b}[31m\nforged log line".into();
            c.send(&Frame::Outcomes(vec![(2, Outcome::Failed(Refusal { fault: Fault::Bug, reason }))]));
        },
    ];
    for script in strange {
        let mut raw_client = RawClient::with_job(&node, Direction::Pull);
        raw_client.receive_until("the offer", |frame| matches!(frame, Frame::Entries(_)));
        script(&mut raw_client);
        raw_client.send(&Frame::Finished(Totals { files: u64::MAX, bytes: u64::MAX, ..Totals::default() }));
        raw_client.send(&Frame::Request(1, wire::frame::Request::List(model::locator::NodePlace::Exports)));
        let deadline = Instant::now() + LONG;
        while let Ok(frame) = raw_client.receive() {
            assert!(Instant::now() < deadline);
            if matches!(frame, Frame::Reply(..)) {
                break;
            }
        }
        drop(raw_client);
        Client::new().run(words!["ls", node.at("data")]).expect(0);
    }
    assert!(!node.log().contains("\nforged log line"), "{}", node.log());
    assert_unharmed(&node, descriptors);
}

#[test]
fn unknown_optional_frames_are_ignored() {
    let node = Node::open();
    let mut raw_client = RawClient::logged_in(&node);
    raw_client.send_raw(&raw(200, 1, b"from a later version"));
    raw_client.send(&Frame::Request(1, wire::frame::Request::List(model::locator::NodePlace::Exports)));
    let answer = raw_client.receive_until("an answer", |frame| matches!(frame, Frame::Reply(1, ..)));
    assert!(matches!(answer, Frame::Reply(_, lines, _) if lines.len() == 1));
}

#[test]
fn an_absurd_length_fills_no_memory() {
    let node = Node::open();
    let mut raw_client = RawClient::logged_in(&node);
    raw_client.send_raw(&[0xff, 0xff, 0xff, 0xff, 9, 0]);
    // As much as the node takes: it must hang up long before the length that was announced.
    let chunk = vec![0; 1 << 20];
    let mut sent = 0;
    while sent < 512 && raw_client.link.send_raw(&chunk).is_ok() && raw_client.link.exchange(Duration::ZERO).is_ok() {
        raw_client.link.drain(Duration::from_secs(1));
        sent += 1;
        if raw_client.link.next_frame().is_err() {
            break;
        }
    }
    assert!(sent < 256, "the node took in {sent} MiB of one message");
    Client::new().run(words!["ls", node.at("data")]).expect(0);
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let node = Node::open();
    fs::create_dir(node.data("t")).unwrap();
    fs::write(node.data("t/there"), pattern(8 << 20)).unwrap();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    drop(RawClient::connect(&node));
    drop(RawClient::logged_in(&node));
    drop(RawClient::with_job(&node, Direction::Push));
    drop(RawClient::with_job(&node, Direction::Pull));
    let push = |entries: Vec<Entry>| {
        let mut raw_client = RawClient::with_job(&node, Direction::Push);
        raw_client.send(&offers(entries));
        raw_client
    };
    drop(push(vec![dir(1, 0, "t"), file(2, 1, "f", 4)]));
    // Half of a small file, and of a large one.
    let mut raw_client = push(vec![dir(1, 0, "t"), file(2, 1, "half", 4)]);
    raw_client.send(&inline(part(2, 0, b"ab"), b"ab"));
    drop(raw_client);
    for cut in [false, true] {
        let mut raw_client = push(vec![dir(1, 0, "t"), file(2, 1, "large", 4 << 20)]);
        raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        let mut stream = raw_client.stream(1);
        let bytes = pattern(1 << 20);
        stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
        raw_client.receive_until("the block has arrived", |frame| matches!(frame, Frame::Received(_)));
        if cut {
            // In the middle of a record's head.
            std::io::Write::write_all(&mut stream.handle().unwrap(), b"LR\0").unwrap();
        }
        drop((stream, raw_client));
        // One whole block is kept for a later attempt; here it is removed again.
        until("the node has closed the file", LONG, || has_no_writer(&node.state()));
        assert_kept(&node.data("t"), &node.state());
        // The second time it is there already, and sent again all the same.
        assert_eq!(covered(&node.state()), if cut { 2 << 20 } else { 1 << 20 });
    }
    let again = Client::new();
    again.write("large", pattern(2 << 20));
    again.cp(0, words![again.path("large"), node.at("data/t/large")]);
    fs::remove_file(node.data("t/large")).unwrap();
    // In the middle of a pull, with a stream that is not read.
    let mut raw_client = RawClient::with_job(&node, Direction::Pull);
    raw_client.receive_until("the offer", |frame| matches!(frame, Frame::Entries(_)));
    raw_client.send(&Frame::Verdicts(vec![(2, Verdict::Want)]));
    let stream = raw_client.stream(1);
    drop((stream, raw_client));
    assert_unharmed(&node, descriptors);
    assert_eq!(fs::read_dir(node.data("t")).unwrap().count(), 1);
}

#[test]
fn a_damaged_block_is_requested_again() {
    let node = Node::open();
    let mut raw_client = RawClient::with_job(&node, Direction::Push);
    raw_client.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 1 << 20)]));
    raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
    let (mut stream, bytes) = (raw_client.stream(1), pattern(1 << 20));
    let damaged = wire::record::Part { crc32c: 1, ..part(2, 0, &bytes) };
    stream.send(&[damaged], &mut payload(&bytes)).unwrap();
    let again = raw_client.receive_until("a request to send it again", |frame| matches!(frame, Frame::Again(_)));
    assert_eq!(again, Frame::Again(vec![(2, 0, 1 << 20)]));
    assert!(!node.data("t/f").exists());
    stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
    let digests = vec![Digest::crc32c(model::checksum::crc32c(&bytes))];
    raw_client.send(&Frame::Ends(vec![End { id: 2, size: 1 << 20, digests }]));
    raw_client.send(&offers(vec![Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(2));
    let Frame::Finished(totals) = raw_client.receive_until("the end", |frame| matches!(frame, Frame::Finished(_)))
    else {
        unreachable!()
    };
    assert_eq!((totals.files, totals.bytes, totals.failed), (1, 1 << 20, 0));
    assert!(fs::read(node.data("t/f")).unwrap() == bytes);
}

/// A path can break so that the client notices first: it returns with the same job while the node still keeps
/// the session before.
#[test]
fn an_old_session_does_not_spoil_the_next_attempt() {
    let node = Node::open();
    let order = crate::raw_client::order(Direction::Push);
    let bytes = pattern(1 << 20);
    let begin = || {
        let mut raw_client = RawClient::logged_in(&node);
        raw_client.send(&Frame::Open(order.clone()));
        raw_client.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 2 << 20)]));
        raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        let mut stream = raw_client.stream(1);
        stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
        raw_client.receive_until("the block has arrived", |frame| matches!(frame, Frame::Received(_)));
        (raw_client, stream)
    };
    let old = begin();
    let log = node.log().len();
    let (mut raw_client, mut stream) = begin();
    drop(old);
    until("the old session is over", LONG, || node.log()[log..].contains("push"));
    stream.send(&[part(2, 1 << 20, &bytes)], &mut payload(&bytes)).unwrap();
    let digest = Digest::crc32c(model::checksum::crc32c(&[&bytes[..], &bytes].concat()));
    raw_client.send(&Frame::Ends(vec![End { id: 2, size: 2 << 20, digests: vec![digest] }]));
    raw_client.send(&offers(vec![Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(2));
    let outcome = raw_client.receive_until("the end", |frame| matches!(frame, Frame::Finished(_)));
    assert!(matches!(outcome, Frame::Finished(totals) if totals.failed == 0), "{outcome:?}");
    assert!(fs::read(node.data("t/f")).unwrap() == [&bytes[..], &bytes].concat());
    assert!(unfinished(&node.data("")).is_empty());
}

#[test]
fn streams_of_other_sessions_are_refused() {
    let node = Node::open();
    let mut raw_client = RawClient::with_job(&node, Direction::Push);
    raw_client.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 4 << 20)]));
    raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
    // A stream with the right code; then one with the same number, one whose code is for another number, one without a seal, and one of an
    // unknown session.
    let _first = raw_client.stream(1);
    let mut joins = vec![raw_client.join(1)];
    joins.push(wire::join::Join { stream: 2, ..raw_client.join(3) });
    joins.push(wire::join::Join { sealed: false, ..raw_client.join(4) });
    joins.push(wire::join::Join { session: [9; 16], ..raw_client.join(5) });
    for join in joins {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", node.port)).unwrap();
        std::io::Write::write_all(&mut socket, &join.encode()).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let got = std::io::Read::read(&mut socket, &mut [0; 16]);
        assert!(matches!(got, Ok(0)) || got.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    }
    // A record that is not sealed with the session's keys: the stream ends, the file does not begin.
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", node.port)).unwrap();
    std::io::Write::write_all(&mut socket, &raw_client.join(6).encode()).unwrap();
    let head = wire::record::Head::new(1, 4).encode();
    std::io::Write::write_all(&mut socket, &[&head[..], &[0; 64]].concat()).unwrap();
    let ended = std::io::Read::read(&mut socket, &mut [0; 16]);
    assert!(!matches!(ended, Ok(n) if n > 0));
    assert!(unfinished(&node.data("")).is_empty());
}

fn claim(offset: u64, len: u64) -> wire::frame::Claim {
    wire::frame::Claim { offset, len, crc32c: 0 }
}
