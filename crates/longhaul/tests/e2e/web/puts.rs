//! PUT: whole or not at all, whatever happens meanwhile.

use std::fs;
use std::sync::Barrier;

use super::raw::{Answer, Raw, ask, assert_swept, get, open, put};
use crate::client::unfinished;
use crate::tree::{pattern, set_mode};
use crate::wait::{LONG, until};

#[test]
fn a_client_that_disconnects_leaves_the_old_file() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    for chunked in [false, true] {
        let mut raw = Raw::to(&node);
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 5000000" };
        raw.send(format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
        let piece = pattern(100_000);
        if chunked {
            raw.send(format!("{:x}\r\n", piece.len()));
        }
        raw.send(&piece);
        until("the file is begun", LONG, || unfinished(&node.data("")).len() == 1);
        assert_eq!(get(&node, "/data/f").body, b"old");
        drop(raw);
        assert_swept(&node);
        assert_eq!(get(&node, "/data/f").body, b"old");
    }
    // A client that stops sending, and still reads.
    let mut raw = Raw::to(&node);
    raw.send("PUT /data/f HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\nabc");
    raw.shut();
    assert!(raw.receive().is_none_or(|answer| answer.status >= 400));
    assert_swept(&node);
    assert_eq!(get(&node, "/data/f").body, b"old");
}

#[test]
fn concurrent_puts_leave_one_whole_file() {
    let node = open();
    let size = 3 << 20;
    for round in 0..4 {
        let target = format!("/data/r{round}");
        let start = Barrier::new(4);
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let one = |byte: u8| {
                let (node, target, start) = (&node, &target, &start);
                move || {
                    let mut raw = Raw::to(node);
                    raw.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n"));
                    start.wait();
                    raw.send(vec![byte; size]);
                    raw.receive().unwrap().status
                }
            };
            let threads: Vec<_> = (0..4).map(|at| scope.spawn(one(b'a' + at))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Without a condition all may replace.
        assert!(statuses.iter().all(|status| matches!(status, 201 | 204)), "{statuses:?}");
        let there = fs::read(node.data(&target["/data/".len()..])).unwrap();
        assert!(there.len() == size && there.iter().all(|byte| *byte == there[0]));
    }
    assert_swept(&node);
}

/// As many PUTs at once as there are bytes, each with this field.
fn race(node: &crate::node::Node, target: &str, field: &str, bytes: &[u8]) -> Vec<u16> {
    let start = Barrier::new(bytes.len());
    std::thread::scope(|scope| {
        let one = |byte: u8| {
            let start = &start;
            move || {
                let mut raw = Raw::to(node);
                raw.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n{field}\r\n\r\n"));
                start.wait();
                raw.send([byte; 10]);
                raw.receive().unwrap().status
            }
        };
        let threads: Vec<_> = bytes.iter().map(|byte| scope.spawn(one(*byte))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn one_of_two_puts_with_the_same_condition_is_refused() {
    let node = open();
    for round in 0..20 {
        let target = format!("/data/r{round}");
        let statuses = race(&node, &target, "If-None-Match: *", b"abcd");
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 3, "{statuses:?}");
        // All clients have read the same version; only one may replace it.
        let tag = get(&node, &target).field("etag").unwrap().to_owned();
        let statuses = race(&node, &target, &format!("If-Match: {tag}"), b"efgh");
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 3, "{statuses:?}");
    }
    assert_swept(&node);
}

#[test]
fn an_unreadable_file_still_exists() {
    crate::wrappers::as_nobody("web::puts::an_unreadable_file_still_exists", || {
        let node = open();
        fs::write(node.data("locked"), b"old").unwrap();
        set_mode(&node.data("locked"), 0);
        assert_eq!(get(&node, "/data/locked").status, 403);
        assert_eq!(ask(&node, "PUT", "/data/locked", &[("If-None-Match", "*")], b"new").status, 412);
        set_mode(&node.data("locked"), 0o644);
        assert_eq!(fs::read(node.data("locked")).unwrap(), b"old");
        fs::create_dir(node.data("shut")).unwrap();
        set_mode(&node.data("shut"), 0o555);
        assert_eq!(put(&node, "/data/shut/f", b"x").status, 403);
        assert_eq!(ask(&node, "MKCOL", "/data/shut/d", &[], &[]).status, 403);
        set_mode(&node.data("shut"), 0o755);
    });
}

#[test]
fn a_reader_keeps_the_file_that_it_began_to_read() {
    let node = open();
    let (old, new) = (pattern(40 << 20), pattern(1 << 20));
    fs::write(node.data("f"), &old).unwrap();
    for sealed in [false, true] {
        fs::write(node.data("f"), &old).unwrap();
        let mut raw = if sealed { Raw::sealed(&node) } else { Raw::to(&node) };
        raw.request("GET", "/data/f", &[], &[]);
        assert_eq!(put(&node, "/data/f", &new).status, 204);
        let answer = raw.receive().unwrap();
        assert!(answer.whole && (answer.body == old || answer.body == new));
        assert!(get(&node, "/data/f").body == new);
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_not_padded() {
    let node = open();
    for sealed in [false, true] {
        fs::write(node.data("f"), pattern(64 << 20)).unwrap();
        let mut raw = if sealed { Raw::sealed(&node) } else { Raw::to(&node) };
        raw.request("GET", "/data/f", &[], &[]);
        assert_eq!(raw.head().unwrap().status, 200);
        fs::File::options().write(true).open(node.data("f")).unwrap().set_len(1000).unwrap();
        // The connection ends: the client sees that bytes are missing.
        let mut bytes = 0u64;
        while let Some(line) = raw.line() {
            bytes += line.len() as u64;
        }
        assert!(bytes < 64 << 20, "{bytes}");
    }
}

fn put_with(node: &crate::node::Node, name: &str, value: &str) -> Answer {
    ask(node, "PUT", "/data/f", &[(name, value)], b"123456789")
}

#[test]
fn wrong_digests_leave_the_old_file() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    for (name, value) in [
        ("Digest", "adler32=091e01df"),
        ("Digest", "crc32c=e3069284"),
        ("Digest", "md5=JfnnlDI7RTiF9RgfG2JNCg=="),
        ("Digest", "sha-256=FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiQ="),
        ("Digest", "adler32=091e01de,crc32c=00000000"),
        ("Repr-Digest", "md5=:JfnnlDI7RTiF9RgfG2JNCg==:"),
        ("Repr-Digest", "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiQ=:"),
        ("Content-MD5", "JfnnlDI7RTiF9RgfG2JNCg=="),
        ("OC-Checksum", "ADLER32:091e01df"),
    ] {
        let answer = put_with(&node, name, value).expect(400);
        assert!(answer.text().contains("checksum mismatch"), "{name}: {}", answer.text());
        assert_eq!(get(&node, "/data/f").body, b"old", "{name}: {value}");
    }
    assert_swept(&node);
    for (name, value) in [
        ("Digest", "adler32=091e01de"),
        ("Digest", "ADLER32=91E01DE"),
        ("Digest", "crc32c=e3069283"),
        ("Digest", "md5=JfnnlDI7RTiF9RgfG2JNCw=="),
        ("Digest", "unknown=1234,adler32=091e01de"),
        ("Repr-Digest", "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:"),
        ("Content-MD5", "JfnnlDI7RTiF9RgfG2JNCw=="),
        ("OC-Checksum", "ADLER32:091e01de"),
    ] {
        assert_eq!(put_with(&node, name, value).status, 204, "{name}: {value}");
        assert_eq!(get(&node, "/data/f").body, b"123456789");
        put(&node, "/data/f", b"old").expect(204);
    }
}

#[test]
fn names_that_cannot_be_files_are_refused() {
    let node = open();
    fs::write(node.data("f"), b"f").unwrap();
    fs::create_dir(node.data("d")).unwrap();
    let long = "n".repeat(256);
    for (target, status) in [
        ("/data/d", 409),
        ("/data/d/", 409),
        ("/data/new/", 409),
        ("/data", 409),
        ("/data/", 409),
        ("/", 405),
        ("/data/f/below", 409),
        (&format!("/data/{long}"), 414),
    ] {
        assert_eq!(put(&node, target, b"x").status, status, "{target}");
    }
    assert_eq!(ask(&node, "PUT", "/data/f", &[("Content-Range", "bytes 0-0/9")], b"x").status, 400);
    assert_eq!(ask(&node, "PUT", "/data/f", &[("Content-Encoding", "gzip")], b"x").status, 415);
    assert_eq!(fs::read(node.data("f")).unwrap(), b"f");
    // Parents that are missing are made.
    put(&node, "/data/a/b/c/f", b"deep").expect(201);
    assert_eq!(fs::read(node.data("a/b/c/f")).unwrap(), b"deep");
    put(&node, "/data/empty", b"").expect(201);
    assert_eq!(get(&node, "/data/empty").expect(200).body, b"");
    let odd = "/data/%F0%9F%9A%9A%20%25%0A%FF%3C%26";
    put(&node, odd, b"odd").expect(201);
    assert_eq!(get(&node, odd).body, b"odd");
    ask(&node, "PROPFIND", "/data/", &[("Depth", "1")], &[]).expect(207);
    assert_swept(&node);
}
