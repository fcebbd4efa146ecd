//! Nodes that break the protocol, send false data or vanish: the client reports it in one sentence with the right code, and nothing
//! that they sent is outside the target, or incomplete under a final name.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use model::Timestamp;
use model::checksum::{Digest, crc32c};
use wire::Frame;
use wire::frame::{Direction, End, Entry, Offered, Totals};

use crate::client::{Client, Outcome, unfinished, words};
use crate::raw_client::{dir, entry, file, forged, inline, part, payload};
use crate::scripted_node::{ClientSession, ScriptedNode, pulled};
use crate::tree::pattern;
use crate::unfinished_state::{assert_kept, covered};

const LARGE: u64 = 1 << 20;

fn offers(entries: Vec<Entry>) -> Frame {
    Frame::Entries(entries)
}

fn file_end(id: u64, bytes: &[u8]) -> Frame {
    Frame::Ends(vec![End { id, size: bytes.len() as u64, digests: vec![Digest::crc32c(crc32c(bytes))] }])
}

/// Offers `t/f` of one block and waits until the client requests it.
fn offer_large(session: &mut ClientSession<'_>) {
    session.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", LARGE)]));
    session.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
}

/// Asserts that only directories are below the target, and nothing is beside it.
#[track_caller]
fn assert_nothing(client: &Client) {
    let names = |at: &str| -> Vec<String> {
        let list = fs::read_dir(client.path(at)).into_iter().flatten();
        let mut names: Vec<_> = list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["target"]);
    assert!(names("target").iter().all(|name| name == "t"), "{:?}", names("target"));
    assert!(names("target/t").is_empty(), "{:?}", names("target/t"));
}

#[track_caller]
fn assert_one_sentence(what: &str, outcome: Outcome, code: i32) {
    assert_eq!(outcome.code, code, "{what}: {} {}", outcome.text(), outcome.err);
    let lines = outcome.err.lines().filter(|line| !line.ends_with("remembered)")).count();
    assert_eq!(lines, 1, "{what}: {}", outcome.err);
    assert_eq!(outcome.json()["exit"], code, "{what}");
}

type Script = fn(&mut ClientSession<'_>);

#[test]
fn protocol_breaches_are_reported() {
    let scripts: &[(&str, Script)] = &[
        ("a name that leads up", |s| s.send_raw(&forged(&offers(vec![dir(1, 0, "ZZ")]), b"ZZ", b".."))),
        ("a file's name that leads up", |s| {
            s.send(&offers(vec![dir(1, 0, "t")]));
            s.send_raw(&forged(&offers(vec![file(2, 1, "ZZZZ", 4)]), b"ZZZZ", b"../x"));
        }),
        ("a name that is absolute", |s| {
            s.send(&offers(vec![dir(1, 0, "t")]));
            s.send_raw(&forged(&offers(vec![file(2, 1, "ZZZZ", 4)]), b"ZZZZ", b"/x/y"));
        }),
        ("a path of a hard link that leads up", |s| {
            s.send(&offers(vec![dir(1, 0, "t")]));
            let path = model::RelPath::parse(b"ZZ/x").unwrap();
            let link = entry(2, 1, "l", Offered::HardLink { to: 77, path });
            s.send_raw(&forged(&offers(vec![link]), b"ZZ", b".."));
        }),
        ("a parent that was never offered", |s| s.send(&offers(vec![file(1, 999, "f", 0)]))),
        ("an absurd length", |s| s.send_raw(&[0xff, 0xff, 0xff, 0xff, 10, 0])),
        ("an unknown message", |s| s.send_raw(&[0, 0, 0, 2, 200, 0])),
        ("a wrong count", |s| s.send(&Frame::ScanEnd(3))),
        ("an end that only a receiver sends", |s| s.send(&Frame::Finished(Totals::default()))),
        ("a job of its own", |s| s.send(&Frame::Open(crate::raw_client::order(Direction::Push)))),
        ("bytes of a file that was never offered", |s| s.send(&inline(part(9, 0, b"x"), b"x"))),
        ("bytes beyond a file's end", |s| {
            s.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 1)]));
            s.send(&inline(part(2, 0, b"long"), b"long"));
        }),
        ("a block of a file that was never offered", |s| {
            offer_large(s);
            let bytes = pattern(64);
            s.stream().send(&[part(9, 0, &bytes)], &mut payload(&bytes)).unwrap();
        }),
    ];
    std::thread::scope(|scope| {
        for half in scripts.chunks(scripts.len().div_ceil(2)) {
            scope.spawn(move || {
                for (what, script) in half {
                    let client = Client::new();
                    let outcome = pulled(&client, |mut session| {
                        script(&mut session);
                        session.until_disconnected();
                    });
                    assert_one_sentence(what, outcome, 8);
                    assert_nothing(&client);
                }
            });
        }
    });
}

#[test]
fn links_lead_no_pull_out_of_its_target() {
    let client = Client::new();
    let outside = tempfile::tempdir().unwrap();
    let to = outside.path().as_os_str().as_encoded_bytes().to_vec();
    let outcome = pulled(&client, |mut session| {
        let link = Offered::Symlink { mtime: Timestamp::default(), target: to };
        let first = vec![dir(1, 0, "t"), entry(2, 1, "a", link.clone()), dir(3, 1, "a"), file(4, 3, "f", 1)];
        session.send(&offers(first));
        session.send(&inline(part(4, 0, b"x"), b"x"));
        session.send(&file_end(4, b"x"));
        // And a link in place of an open directory.
        let second = vec![dir(5, 1, "b"), entry(6, 1, "b", link), file(7, 5, "g", 1)];
        session.send(&offers(second));
        session.send(&inline(part(7, 0, b"y"), b"y"));
        session.send(&file_end(7, b"y"));
        session.send(&offers(vec![Entry::Leave(5), Entry::Leave(3), Entry::Leave(1)]));
        session.send(&Frame::ScanEnd(7));
        session.until_disconnected();
    });
    assert!([0, 3].contains(&outcome.code), "{} {}", outcome.text(), outcome.err);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "something went through the link");
    // A link that is in the target already does not lead out either.
    let client = Client::new();
    fs::create_dir_all(client.path("target/t")).unwrap();
    symlink(outside.path(), client.path("target/t/a")).unwrap();
    pulled(&client, |mut session| {
        session.send(&offers(vec![dir(1, 0, "t"), dir(2, 1, "a"), file(3, 2, "f", 1)]));
        session.send(&inline(part(3, 0, b"x"), b"x"));
        session.send(&file_end(3, b"x"));
        session.send(&offers(vec![Entry::Leave(2), Entry::Leave(1)]));
        session.send(&Frame::ScanEnd(3));
        session.until_disconnected();
    });
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "something went through the link");
}

#[test]
fn a_damaged_block_is_requested_again() {
    let client = Client::new();
    let bytes = pattern(LARGE as usize);
    let outcome = pulled(&client, |mut session| {
        offer_large(&mut session);
        let mut stream = session.stream();
        let mut wrong = bytes.clone();
        wrong[77] ^= 1;
        stream.send(&[part(2, 0, &bytes)], &mut payload(&wrong)).unwrap();
        let again = session.receive_until("a request to send it again", |frame| matches!(frame, Frame::Again(_)));
        assert_eq!(again, Frame::Again(vec![(2, 0, LARGE)]));
        stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
        session.send(&file_end(2, &bytes));
        session.send(&offers(vec![Entry::Leave(1)]));
        session.send(&Frame::ScanEnd(2));
        session.until_disconnected();
    });
    let receipt = outcome.expect(0).json();
    assert_eq!((&receipt["files"], &receipt["resent_bytes"]), (&1.into(), &LARGE.into()));
    assert!(fs::read(client.path("target/t/f")).unwrap() == bytes);
}

#[test]
fn a_wrong_digest_is_an_integrity_failure() {
    let client = Client::new();
    let bytes = pattern(LARGE as usize);
    let outcome = pulled(&client, |mut session| {
        offer_large(&mut session);
        let mut stream = session.stream();
        stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
        let digests = vec![Digest::crc32c(crc32c(&bytes) ^ 1)];
        session.send(&Frame::Ends(vec![End { id: 2, size: LARGE, digests }]));
        session.send(&offers(vec![Entry::Leave(1)]));
        session.send(&Frame::ScanEnd(2));
        session.until_disconnected();
    });
    assert_one_sentence("a wrong digest", outcome, 7);
    assert_nothing(&client);
}

#[test]
fn bytes_that_never_match_end_the_job() {
    let client = Client::new();
    let bytes = pattern(8);
    let outcome = pulled(&client, |mut session| {
        session.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", LARGE)]));
        session.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        let mut stream = session.stream();
        let damaged = wire::record::Part { crc32c: 1, ..part(2, 0, &bytes) };
        while stream.send(&[damaged], &mut payload(&bytes)).is_ok() && session.is_connected() {}
        session.until_disconnected();
    });
    assert!([7, 8].contains(&outcome.code), "{} {}", outcome.text(), outcome.err);
    assert_nothing(&client);
}

#[test]
fn a_node_that_vanishes_is_unreachable() {
    let states: &[(&str, Script)] = &[
        ("after the order", |_| {}),
        ("after half of the tree", |s| s.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", LARGE)]))),
        ("after a verdict", offer_large),
        ("in a small file", |s| {
            s.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 4)]));
            s.send(&inline(part(2, 0, b"ab"), b"ab"));
        }),
        ("in the middle of a record", |s| {
            offer_large(s);
            let stream = s.stream();
            stream.handle().unwrap().write_all(b"LR\0\x01\0").unwrap();
        }),
        ("in the middle of a frame", |s| s.send_raw(&[0, 0, 1, 0, 10, 0, 5])),
    ];
    std::thread::scope(|scope| {
        for (what, script) in states {
            scope.spawn(move || {
                let client = Client::new();
                let outcome = pulled(&client, |mut session| script(&mut session));
                assert_one_sentence(what, outcome, 5);
                assert_nothing(&client);
            });
        }
    });
    let client = Client::new();
    let bytes = pattern(LARGE as usize);
    let outcome = pulled(&client, |mut session| {
        session.send(&offers(vec![dir(1, 0, "t"), file(2, 1, "f", 2 * LARGE)]));
        session.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        session.stream().send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
        crate::wait::until("the block is written down", crate::wait::LONG, || covered(&client.state()) > 0);
    });
    assert_one_sentence("in the middle of a file", outcome, 5);
    // What was verified on arrival is kept, and nothing else.
    assert_kept(&client.path(""), &client.state());
    assert_eq!(covered(&client.state()), LARGE);
    unfinished(&client.path("")).iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_nothing(&client);
}

#[test]
fn a_stream_that_is_garbage_is_the_peers_fault() {
    let client = Client::new();
    let node = ScriptedNode::new();
    let target = client.path("target/t");
    let options = words!["--retry-for", "0s", "--streams", "1", "--quiet"];
    let running = client.begin([words!["cp", "-r", node.at("data/t"), target], options].concat());
    let mut session = node.accept_pull();
    offer_large(&mut session);
    std::thread::scope(|scope| {
        let finished = scope.spawn(move || running.finish());
        // The client tries other streams for a while; each of them fails in the same way.
        while !finished.is_finished() {
            if let Some(stream) = session.stream_if_any() {
                let _ = stream.handle().unwrap().write_all(b"LR\xff\xff\xff\xff\xff\xff");
            }
            session.is_connected();
        }
        finished.join().unwrap().refused(8, &[]);
    });
    assert!(unfinished(&client.path("")).is_empty() && !client.path("target/t/f").exists());
}
