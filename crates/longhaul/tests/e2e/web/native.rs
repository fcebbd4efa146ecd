//! Copies between two Longhaul nodes: by the native engine where possible, else by HTTP, and the client sees the same.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::raw::{Answer, ask, assert_swept, open, plain};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until};

fn url(port: u16, path: &str) -> String {
    format!("http://127.0.0.1:{port}/{path}")
}

fn pull(node: &Node, from: &str, fields: &[(&str, &str)]) -> Answer {
    ask(node, "COPY", "/data/f", &[&[("Source", from)], fields].concat(), &[])
}

fn push(node: &Node, to: &str, fields: &[(&str, &str)]) -> Answer {
    ask(node, "COPY", "/data/f", &[&[("Destination", to)], fields].concat(), &[])
}

/// How often an event is in the log of a node.
fn log_count(node: &Node, event: &str) -> usize {
    node.log()
        .lines()
        .filter(|line| line.contains(&format!("event=\"{event}\"")) || line.contains(&format!("event={event} ")))
        .count()
}

/// A port that forwards those connections to a node whose first byte passes the filter: with TLS it is that of a handshake, and
/// a data stream begins with `L`.
fn filtered_port(to: u16, passes: impl Fn(u8) -> bool + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, passes) = (listener.local_addr().unwrap().port(), Arc::new(passes));
    let carry = move |near: TcpStream| {
        let mut first = [0];
        if !matches!(near.peek(&mut first), Ok(1)) || !passes(first[0]) {
            return;
        }
        let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
        for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
            thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(len @ 1..) = from.read(&mut buffer) {
                    if to.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    };
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let carry = carry.clone();
            thread::spawn(move || carry(near));
        }
    });
    port
}

/// The first byte of TLS.
const TLS: u8 = 0x16;

/// A path on which only HTTP without TLS gets through.
fn http_only(to: u16) -> u16 {
    filtered_port(to, |first| first != TLS)
}

#[test]
fn two_nodes_use_the_native_engine() {
    let (here, there) = (open(), open());
    let data = pattern(20 << 20);
    fs::write(there.data("f"), &data).unwrap();
    let outcome = pull(&here, &url(there.port, "data/f"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(here.data("f")).unwrap() == data);
    until("the other node logs that", LONG, || log_count(&there, "login") == 1);
    assert_eq!(log_count(&there, "GET"), 0, "{}", there.log());
    assert!(outcome.text().contains(&format!("RemoteConnections: tcp:127.0.0.1:{}", there.port)), "{}", outcome.text());
    assert!(outcome.text().contains(&format!("Stripe Bytes Transferred: {}", data.len())), "{}", outcome.text());
    let outcome = push(&here, &url(there.port, "data/new/g"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(there.data("new/g")).unwrap() == data);
    until("the other node logs that", LONG, || log_count(&there, "login") == 2);
    assert_eq!(log_count(&there, "PUT"), 0, "{}", there.log());
    assert_swept(&here);
    assert_swept(&there);
}

#[test]
fn http_is_used_where_only_http_gets_through() {
    let (here, there) = (open(), open());
    let data = pattern(3 << 20);
    fs::write(there.data("f"), &data).unwrap();
    let port = http_only(there.port);
    let outcome = pull(&here, &url(port, "data/f"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(here.data("f")).unwrap() == data);
    until("the other node logs that", LONG, || log_count(&there, "GET") == 1);
    let outcome = push(&here, &url(port, "data/g"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(there.data("g")).unwrap() == data);
    until("the other node logs that", LONG, || log_count(&there, "PUT") == 1);
    assert_eq!(log_count(&there, "login"), 0, "{}", there.log());
}

#[test]
fn rights_are_those_of_the_credentials_sent_along() {
    let there = Setup::new().data_export("rw").arg("--plain").start();
    let here = open();
    fs::write(there.data("f"), b"theirs").unwrap();
    fs::write(here.data("mine"), b"mine").unwrap();
    let from = url(there.port, "data/f");
    assert_eq!(pull(&here, &from, &[]).status, 401);
    let read = there.grant(&["--export", "data"]);
    let bearer = format!("Bearer {read}");
    let along = [("TransferHeaderAuthorization", bearer.as_str())];
    let outcome = pull(&here, &from, &along).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert_eq!(fs::read(here.data("f")).unwrap(), b"theirs");
    // A key to read writes nothing, by neither protocol.
    let outcome = push(&here, &url(there.port, "data/g"), &along);
    assert!(
        outcome.status == 403 || outcome.last_line().starts_with("failure: Permission denied"),
        "{}",
        outcome.text()
    );
    assert!(!there.data("g").exists());
    assert!(!here.log().contains(&read) && !there.log().contains(&read), "a key is in the log");
}

#[test]
fn an_existing_file_is_kept_on_request() {
    let (here, there) = (open(), plain().start());
    fs::write(here.data("f"), b"here").unwrap();
    fs::write(there.data("f"), b"there").unwrap();
    let other = url(there.port, "data/f");
    assert_eq!(pull(&here, &other, &[("Overwrite", "F")]).status, 412);
    assert_eq!(push(&here, &other, &[("Overwrite", "F")]).status, 412);
    assert_eq!(fs::read(here.data("f")).unwrap(), b"here");
    assert_eq!(fs::read(there.data("f")).unwrap(), b"there");
    assert_eq!(pull(&here, &url(there.port, "data/none"), &[]).status, 404);
    // A key is delegated for a file, not for a tree.
    let request = br#"{"v":1,"write":false,"job":"00000000-0000-4000-8000-000000000000"}"#;
    let kind = [("Content-Type", "application/vnd.longhaul.session+json")];
    assert_eq!(ask(&there, "POST", "/data/", &kind, request).status, 409);
    assert_eq!(ask(&there, "POST", "/data", &kind, request).status, 409);
    assert_eq!(ask(&there, "POST", "/data/f", &kind, request).status, 200);
    for nonsense in [&b"{}"[..], b"", b"[1,2", br#"{"v":9,"write":false,"job":"00000000-0000-4000-8000-000000000000"}"#]
    {
        assert_eq!(ask(&there, "POST", "/data/f", &kind, nonsense).status, 400);
    }
    assert_eq!(ask(&there, "POST", "/data/f", &kind, &[b' '; 5000]).status, 413);
    assert!(matches!(ask(&there, "POST", "/data/f", &[], b"x").status, 405 | 415));
    let outcome = pull(&here, &other, &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert_eq!(fs::read(here.data("f")).unwrap(), b"there");
}

#[test]
fn a_file_that_appeared_meanwhile_is_replaced_only_by_a_client_that_may_replace() {
    let there = open();
    let here = Setup::new().data_export("rw").arg("--plain").start();
    fs::write(there.data("f"), b"fetched").unwrap();
    for (right, left) in [("--create", &b"came meanwhile"[..]), ("--write", &b"fetched"[..])] {
        let bearer = format!("Bearer {}", here.grant(&["--export", "data", right]));
        // The native copy waits until something is in the place that was empty when it was ordered.
        let (begins, goes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, go) = (Arc::clone(&begins), Arc::clone(&goes));
        let port = filtered_port(there.port, move |first| {
            seen.fetch_or(first == TLS, Ordering::SeqCst);
            while first == TLS && !go.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            true
        });
        let outcome = thread::scope(|scope| {
            let copy = scope.spawn(|| pull(&here, &url(port, "data/f"), &[("Authorization", &bearer)]));
            until("the native copy begins", LONG, || begins.load(Ordering::SeqCst));
            fs::write(here.data("f"), b"came meanwhile").unwrap();
            goes.store(true, Ordering::SeqCst);
            copy.join().unwrap().expect(202)
        });
        assert_eq!(outcome.last_line().starts_with("failure: "), right == "--create", "{right}: {}", outcome.text());
        assert_eq!(fs::read(here.data("f")).unwrap(), left, "{right}: {}", outcome.text());
        assert_eq!(log_count(&there, "GET"), 0, "{right}: {}", there.log());
        assert_swept(&here);
        fs::remove_file(here.data("f")).unwrap();
    }
}

#[test]
fn the_operator_limits_native_streams_too() {
    let there = open();
    let data = pattern(24 << 20);
    fs::write(there.data("f"), &data).unwrap();
    let setup = plain();
    fs::create_dir_all(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), "[third_party]\nguests = true\nmax_streams = 1\n").unwrap();
    let here = setup.start();
    let streams = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&streams);
    let port = filtered_port(there.port, move |first| {
        counted.fetch_add(usize::from(first == b'L'), Ordering::SeqCst);
        true
    });
    let outcome = pull(&here, &url(port, "data/f"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(here.data("f")).unwrap() == data);
    assert_eq!((streams.load(Ordering::SeqCst), log_count(&there, "login")), (1, 1), "{}", there.log());
}
