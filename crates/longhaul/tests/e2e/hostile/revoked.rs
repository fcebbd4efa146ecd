//! A key that is revoked while its session is open: nothing new begins, and running transfers continue to their end.

use model::checksum::{Digest, crc32c};
use model::fault::Fault;
use wire::Frame;
use wire::frame::{Direction, End, Entry, Request};

use super::requests::Requests;
use super::session::{Session, grant_id, order_at, place, proof};
use crate::node::{Node, Setup};
use crate::raw_client::{RawClient, dir, file, part, payload};
use crate::tree::pattern;
use crate::wait::{LONG, until};

fn closed() -> Node {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    std::fs::write(node.data("f"), b"here").unwrap();
    node
}

fn revoke(node: &Node, key: &str) {
    let output = node.grant_command(&["revoke", &grant_id(key)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Sets the end of the node's keys to the past.
fn expire(node: &Node) {
    let file = node.state().join("grants.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let ended = text.lines().map(|line| if line.starts_with("expires") { "expires = 1000" } else { line });
    std::fs::write(&file, ended.collect::<Vec<_>>().join("\n")).unwrap();
}

#[test]
fn an_open_session_of_a_revoked_key_begins_nothing() {
    for is_revoked in [true, false] {
        let node = closed();
        let key = node.grant(&["--export", "data", "--write", "--for", "7d"]);
        // Sessions that are opened before the key is revoked. There are three, because a refused order ends its session.
        let mut open: Vec<Session> = (0..3).map(|_| Session::open(&node, Some(&key)).unwrap()).collect();
        assert_eq!(open[0].query(Request::List(place("data", ""))).unwrap().len(), 1);
        if is_revoked {
            revoke(&node, &key)
        } else {
            expire(&node)
        }
        let job = *model::id::JobId::random().0.as_bytes();
        for request in [
            Request::List(place("data", "")),
            Request::Stat(place("data", "f")),
            Request::Mkdir(place("data", "made")),
            Request::Rename(place("data", "f"), place("data", "g")),
            Request::Remove(place("data", "f"), false),
            Request::KeyFor { job, place: place("data", "t"), delete: false },
        ] {
            let what = format!("{request:?}, revoked {is_revoked}");
            assert_eq!(open[0].ask_text(request).expect_err(&what).fault, Fault::Auth, "{what}");
        }
        assert_eq!(open[1].put(place("data", "new"), b"new").unwrap_err().fault, Fault::Auth);
        assert_eq!(open[2].get(place("data", "f")).unwrap_err().fault, Fault::Auth);
        let names: Vec<_> = std::fs::read_dir(node.data("")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["f"]);
        // Over HTTP each request is checked, so an open connection is of no use.
        assert_eq!(Requests::new(&node, Some(&key)).status("GET", "/data/f", &[], b""), 401);
    }
}

#[test]
fn a_transfer_that_runs_outlives_its_key() {
    let node = closed();
    let key = node.grant(&["--export", "data", "--write"]);
    let bytes = pattern(1 << 20);
    let mut raw_client = RawClient::with_key(&node, Some(&proof(&key))).unwrap();
    raw_client.send(&Frame::Open(order_at(Direction::Push, place("data", "t"))));
    raw_client.send(&Frame::Entries(vec![dir(1, 0, "t"), file(2, 1, "f", 2 << 20)]));
    raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
    let mut stream = raw_client.stream(1);
    stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
    raw_client.receive_until("the block has arrived", |frame| matches!(frame, Frame::Received(_)));
    revoke(&node, &key);
    stream.send(&[part(2, 1 << 20, &bytes)], &mut payload(&bytes)).unwrap();
    let digest = Digest::crc32c(crc32c(&[&bytes[..], &bytes].concat()));
    raw_client.send(&Frame::Ends(vec![End { id: 2, size: 2 << 20, digests: vec![digest] }]));
    raw_client.send(&Frame::Entries(vec![Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(2));
    let finished = raw_client.receive_until("the end", |frame| matches!(frame, Frame::Finished(_)));
    assert!(matches!(finished, Frame::Finished(totals) if totals.files == 1 && totals.failed == 0), "{finished:?}");
    until("the file is whole", LONG, || std::fs::metadata(node.data("t/f")).is_ok_and(|meta| meta.len() == 2 << 20));
    // It was the last transfer: a further request in this session is refused.
    drop(stream);
    let mut session = Session { raw_client };
    let refusal = session.query(Request::List(place("data", ""))).unwrap_err();
    assert_eq!(refusal.fault, Fault::Auth, "{refusal:?}");
}
