//! Malformed heads and bodies, and those that two parsers could read differently: they are refused by status, and the connection ends.

use std::fs;

use super::raw::{Answer, Raw, ask, exchange, get, open, put};
use crate::tree::pattern;

fn statuses(cases: Vec<(&str, Vec<u8>, u16)>) {
    let node = open();
    fs::write(node.data("f"), b"0123456789").unwrap();
    for (what, bytes, status) in cases {
        let mut raw = Raw::to(&node);
        raw.try_send(&bytes);
        let answer = raw.receive().unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert!(answer.whole && answer.text().ends_with('\n'), "{what}: {answer:?}");
        assert_eq!(answer.field("connection"), Some("close"), "{what}");
        assert!(raw.is_closed(), "{what}: the connection continues");
    }
    assert_eq!(get(&node, "/data/f").expect(200).body, b"0123456789");
    assert_eq!(fs::read_dir(node.data("")).unwrap().count(), 1);
}

#[test]
fn oversized_heads_are_refused() {
    let long = |len: usize| "x".repeat(len);
    statuses(vec![
        ("a head of 65 KiB", format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", long(65 << 10)).into(), 431),
        ("a head without an end", format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}", long(70 << 10)).into(), 431),
        ("129 fields", format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(128)).into(), 431),
        ("a target of 9 KiB", format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", long(9 << 10)).into(), 414),
    ]);
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let most = format!("GET /data/f HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(127));
    assert_eq!(exchange(&node, most).unwrap().status, 200);
    let name = long(300);
    assert!(matches!(get(&node, &format!("/data/{name}")).status, 404 | 414));
}

#[test]
fn malformed_heads_are_refused() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    statuses(vec![
        ("no Host", bytes("GET /data/f HTTP/1.1\r\n\r\n"), 400),
        ("two Hosts", bytes("GET /data/f HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400),
        ("a NUL in a field", bytes("GET /data/f HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n"), 400),
        ("a NUL in the target", bytes("GET /data/\0f HTTP/1.1\r\nHost: h\r\n\r\n"), 400),
        ("a bare line feed", bytes("GET /data/f HTTP/1.1\nHost: h\n\n"), 400),
        ("a bare line feed among others", bytes("GET /data/f HTTP/1.1\r\nHost: h\nA: b\r\n\r\n"), 400),
        ("a bare carriage return", bytes("GET /data/f HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n"), 400),
        ("a space before the colon", bytes("PUT /data/g HTTP/1.1\r\nHost: h\r\nContent-Length : 3\r\n\r\nabc"), 400),
        ("a folded field", bytes("GET /data/f HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n"), 400),
        ("HTTP/9", bytes("GET /data/f HTTP/9.1\r\nHost: h\r\n\r\n"), 505),
        ("no version", bytes("GET /data/f\r\nHost: h\r\n\r\n"), 400),
    ]);
}

#[test]
fn ambiguous_lengths_are_refused() {
    let put = |fields: &str, body: &str| format!("PUT /data/g HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}").into_bytes();
    statuses(vec![
        ("two lengths", put("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), 400),
        ("two lengths in one", put("Content-Length: 3, 4\r\n", "abcd"), 400),
        ("a negative length", put("Content-Length: -3\r\n", "abc"), 400),
        ("a signed length", put("Content-Length: +3\r\n", "abc"), 400),
        ("a length of 65 bits", put("Content-Length: 36893488147419103232\r\n", "abc"), 400),
        ("a length in hex", put("Content-Length: 0x3\r\n", "abc"), 400),
        ("a length and chunks", put("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        ("chunks and a length", put("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400),
        ("chunks twice", put("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 501),
        ("chunks last but one", put("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), 501),
        ("chunks with a tab", put("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), 400),
        ("chunks of HTTP/1.0", b"PUT /data/g HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(), 400),
    ]);
    // The same length twice is unambiguous.
    let node = open();
    let same = put("Content-Length: 3\r\nContent-Length: 3\r\n", "abc");
    assert_eq!(exchange(&node, same).unwrap().status, 201);
    assert_eq!(fs::read(node.data("g")).unwrap(), b"abc");
    // The largest number: there is no space for that, and nothing is written.
    let huge = put("Content-Length: 18446744073709551615\r\nExpect: 100-continue\r\n", "");
    let mut raw = Raw::to(&node);
    raw.send(huge);
    assert_eq!(raw.head().unwrap().status, 507);
    assert_eq!(fs::read(node.data("g")).unwrap(), b"abc");
}

fn chunked(body: &str) -> Vec<u8> {
    format!("PUT /data/g HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}

#[test]
fn malformed_chunks_leave_no_file() {
    let node = open();
    for (what, body) in [
        ("a size beyond 64 bits", "fffffffffffffffff\r\nabc".to_owned()),
        ("a negative size", "-3\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("a size in words", "three\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("no size", "\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("a chunk that goes on", "3\r\nabcd\r\n0\r\n\r\n".to_owned()),
        ("a bare line feed behind the size", "3\nabc\r\n0\r\n\r\n".to_owned()),
        ("a bare line feed behind the data", "3\r\nabc\n0\r\n\r\n".to_owned()),
        ("an endless extension", format!("3;{}\r\nabc\r\n0\r\n\r\n", "e".repeat(5000))),
        ("endless trailers", format!("3\r\nabc\r\n0\r\n{}\r\n", "a: b\r\n".repeat(4000))),
    ] {
        let answer = exchange(&node, chunked(&body)).unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status, 400, "{what}: {}", answer.text());
        assert!(node.is_empty(), "{what}");
    }
    // The largest valid number: bytes that never arrive.
    let mut raw = Raw::to(&node);
    raw.send(chunked("ffffffffffffffff\r\nabc"));
    raw.shut();
    assert!(raw.receive().is_none_or(|answer| answer.status >= 400));
    super::raw::assert_swept(&node);
    assert!(node.is_empty());
    let fine = "3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n";
    assert_eq!(exchange(&node, chunked(fine)).unwrap().status, 201);
    assert_eq!(fs::read(node.data("g")).unwrap(), b"abc0123456789");
}

#[test]
fn the_rest_of_a_refused_body_is_no_request() {
    let node = open();
    fs::write(node.data("f"), b"secret").unwrap();
    // If this length were used, the rest would be taken for a request.
    let smuggled = "GET /data/f HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut raw = Raw::to(&node);
    raw.send(format!(
        "PUT /data/g HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
    ));
    assert_eq!(raw.receive().unwrap().status, 400);
    assert!(raw.is_closed());
    // The body of a GET is skipped, not taken for the next request.
    let mut raw = Raw::to(&node);
    raw.send(format!("GET /data/f HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()));
    raw.send("DELETE /data/f HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(raw.receive().unwrap().body, b"secret");
    assert_eq!(raw.receive().unwrap().status, 204);
    assert!(!node.data("f").exists());
}

#[test]
fn targets_in_absolute_form_and_old_versions_are_served() {
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let absolute = exchange(&node, "GET http://elsewhere/data/f HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!((absolute.status, absolute.body), (200, b"x".to_vec()));
    let mut raw = Raw::to(&node);
    raw.send("GET /data/f HTTP/1.0\r\n\r\n");
    assert_eq!(raw.receive().unwrap().body, b"x");
    assert!(raw.is_closed(), "HTTP/1.0 keeps nothing open by itself");
    let mut raw = Raw::to(&node);
    for _ in 0..2 {
        raw.send("GET /data/f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = raw.receive().unwrap();
        assert_eq!((answer.field("connection"), answer.body.as_slice()), (Some("keep-alive"), &b"x"[..]));
    }
    for method in ["BREW", "TRACE", "CONNECT", "REPORT"] {
        let answer = ask(&node, method, "/data/f", &[], &[]).expect(501);
        assert!(answer.field("allow").unwrap().contains("PROPFIND"));
    }
    for target in ["data/f", "ftp://h/data/f", "//", "/data/f#x", "/data/%zz", "/data/%4"] {
        let answer = exchange(&node, format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).unwrap();
        assert!((400..500).contains(&answer.status) || target == "//", "{target}: {answer:?}");
    }
}

#[test]
fn an_unknown_expectation_fails() {
    let node = open();
    let put =
        |expect: &str| format!("PUT /data/g HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: {expect}\r\n\r\n");
    let mut raw = Raw::to(&node);
    raw.send(put("200-ok"));
    let answer = raw.head().unwrap();
    assert_eq!((answer.status, answer.field("connection")), (417, Some("close")));
    assert!(node.is_empty());
    // A known expectation, in other letters.
    let mut raw = Raw::to(&node);
    raw.send(put("100-Continue"));
    assert_eq!(raw.head().unwrap().status, 100);
    raw.send("abc");
    assert_eq!(raw.receive().unwrap().status, 201);
    // Where no body follows, the node does not wait.
    let empty = "PUT /data/e HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(Raw::to(&node).send_and_receive_head(empty).status, 201);
}

impl Raw {
    fn send_and_receive_head(mut self, bytes: &str) -> Answer {
        self.send(bytes);
        self.head().unwrap()
    }
}

#[test]
fn a_refusal_is_sent_instead_of_continue() {
    let node = open();
    fs::create_dir(node.data("dir")).unwrap();
    fs::write(node.data("old"), b"old").unwrap();
    for (target, fields, status) in [
        ("/data/dir", "", 409),
        ("/data/old", "If-None-Match: *\r\n", 412),
        ("/data/new", "If-Match: *\r\n", 412),
        ("/data/new", "Content-Range: bytes 0-2/9\r\n", 400),
        ("/data/../x", "", 400),
        ("/nowhere/x", "", 404),
        ("/data/old/below", "", 409),
        ("/data/.longhaul-x.part", "", 403),
        ("/data/new", "Authorization: Bearer nonsense\r\n", 401),
    ] {
        let mut raw = Raw::to(&node);
        let length = 3 << 20;
        raw.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n{fields}\r\n"
        ));
        let answer = raw.head().unwrap();
        assert_eq!(answer.status, status, "{target} {fields}");
        assert_eq!(answer.field("connection"), Some("close"), "{target}");
        let mut rest = Vec::new();
        let length: usize = answer.field("content-length").unwrap().parse().unwrap();
        rest.resize(length, 0);
        assert!(raw.line().is_some() && raw.is_closed(), "{target}: the connection continues");
    }
    assert_eq!(fs::read(node.data("old")).unwrap(), b"old");
    assert!(!node.data("new").exists());
}

#[test]
fn a_client_that_does_not_wait_gets_the_refusal() {
    let node = open();
    fs::create_dir(node.data("dir")).unwrap();
    // The body is being sent already; a small one is skipped and the connection continues.
    let mut raw = Raw::to(&node);
    assert_eq!(raw.ask("PUT", "/data/dir", &[], &pattern(100_000)).status, 409);
    assert_eq!(raw.ask("PUT", "/data/dir/f", &[], b"x").status, 201);
    // A large one is not skipped, but its sender gets the reason.
    let answer = put(&node, "/data/dir", &pattern(24 << 20));
    assert_eq!((answer.status, answer.field("connection")), (409, Some("close")));
    let mut sealed = Raw::sealed(&node);
    assert_eq!(sealed.ask("PUT", "/data/dir", &[], &pattern(100_000)).status, 409);
    assert_eq!(sealed.ask("GET", "/data/dir/f", &[], &[]).body, b"x");
}

#[test]
fn garbage_after_the_handshake_is_no_request() {
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let mut raw = Raw::sealed(&node);
    raw.send(b"\x00\x01\x02 what is this\r\n\r\n");
    assert_eq!(raw.receive().unwrap().status, 400);
    assert!(raw.is_closed());
    // Unencrypted bytes after the handshake.
    let mut raw = Raw::sealed(&node);
    assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
    std::io::Write::write_all(&mut &raw.socket, b"GET /data/f HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert!(raw.is_closed());
    assert_eq!(get(&node, "/data/f").body, b"x");
}
