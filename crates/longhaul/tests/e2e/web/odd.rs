//! Unusual but valid requests, and third parties that redirect late or compress their answers.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::peers::{Peer, answer, begin, honest, take};
use super::pulls::pull;
use super::raw::{ask, assert_swept, get, open, plain, put, told};
use crate::tree::pattern;

#[test]
fn odd_requests_are_answered() {
    let node = open();
    put(&node, "/data/f", b"x").expect(201);
    for (what, bytes, status) in [
        ("an empty line first", "\r\nGET /data/f HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("a later minor version", "GET /data/f HTTP/1.2\r\nHost: a\r\n\r\n", 200),
        ("a later major version", "GET /data/f HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        ("small letters", "get /data/f HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("a long word", "propfindings /data/f HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ] {
        assert_eq!(told(&node, bytes).map(|answer| answer.status), Some(status), "{what}");
    }
}

#[test]
fn an_address_in_brackets_is_no_reason_to_hang_up() {
    let node = plain().of_both_families().start();
    put(&node, "/data/f", b"here").expect(201);
    for (name, version) in [("[::1]", "-tls1_3"), ("[::1]", "-tls1_2"), ("::1", "-tls1_3"), ("localhost", "-tls1_3")] {
        let at = format!("127.0.0.1:{}", node.port);
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &at, "-servername", name, version])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        client
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"GET /data/f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut said = String::new();
        client.stdout.as_mut().unwrap().read_to_string(&mut said).unwrap();
        client.wait().unwrap();
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("here"), "{name} {version}: {said}");
    }
}

#[test]
fn propfind_of_a_file_wants_no_depth_and_reads_utf_16() {
    let node = open();
    put(&node, "/data/f", b"here").expect(201);
    assert_eq!(ask(&node, "PROPFIND", "/data/f", &[], &[]).status, 207);
    assert_eq!(ask(&node, "PROPFIND", "/data/f", &[("Depth", "infinity")], &[]).status, 207);
    assert_eq!(ask(&node, "PROPFIND", "/data/", &[], &[]).status, 403);
    let text =
        "<?xml version='1.0' encoding='UTF-16'?><propfind xmlns='DAV:'><prop><getcontentlength/></prop></propfind>";
    let body: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let found = ask(&node, "PROPFIND", "/data/f", &[("Depth", "0"), ("Content-Type", "text/xml")], &body).expect(207);
    assert!(found.text().contains("<D:getcontentlength>4</D:getcontentlength>"), "{}", found.text());
    // Addresses are paths: whoever stands in front of the node may have another name and scheme.
    assert!(found.text().contains("<D:href>/data/f</D:href>"), "{}", found.text());
    let of_dir = b"<propfind xmlns='DAV:'><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>";
    let found = ask(&node, "PROPFIND", "/data/", &[("Depth", "0")], of_dir).expect(207).text();
    assert!(found.contains("<D:quota-available-bytes>") && !found.contains("<D:quota-used-bytes>"), "{found}");
}

#[test]
fn digests_behind_a_body_are_compared() {
    let node = open();
    let chunked = |trailer: &str| {
        let head = "PUT /data/f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n";
        told(&node, format!("{head}9\r\n123456789\r\n0\r\n{trailer}\r\n")).unwrap()
    };
    for wrong in
        ["Digest: adler32=00000001\r\n", "Repr-Digest: md5=:AAAAAAAAAAAAAAAAAAAAAA==:\r\n", "Digest: sha-256=x\r\n"]
    {
        assert_eq!(chunked(wrong).status, 400, "{wrong}");
        assert!(node.is_empty());
    }
    for right in ["Digest: adler32=091e01de\r\n", "Digest: md5=JfnnlDI7RTiF9RgfG2JNCw==\r\n", "X: y\r\n", ""] {
        let status = chunked(right).status;
        assert!(matches!(status, 201 | 204), "{right}: {status}");
    }
    assert_eq!(fs::read(node.data("f")).unwrap(), b"123456789");
}

#[test]
fn a_pull_holds_to_what_the_request_says() {
    let node = open();
    let source = Peer::new(|heard, socket| honest(heard, socket, b"123456789", ""));
    let url = source.url("/f");
    let with = |fields: &[(&str, &str)]| pull(&node, &url, fields);
    put(&node, "/data/f", b"old").expect(201);
    let tag = get(&node, "/data/f").field("etag").unwrap().to_owned();
    for fields in [
        [("If-None-Match", "*")],
        [("If-Match", "\"other\"")],
        [("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")],
        [("If", "([\"other\"])")],
    ] {
        assert_eq!(with(&fields).status, 412, "{fields:?}");
    }
    assert!(source.heard().is_empty(), "nobody was asked for it");
    for digest in [
        ("Digest", "adler32=00000001"),
        ("Repr-Digest", "adler=:AAAAAQ==:"),
        ("Digest", "md5=AAAAAAAAAAAAAAAAAAAAAA=="),
    ] {
        let failed = with(&[digest]);
        assert!(
            failed.status == 412 || failed.last_line().contains("checksum mismatch"),
            "{digest:?}: {}",
            failed.text()
        );
        assert_eq!(fs::read(node.data("f")).unwrap(), b"old");
    }
    assert_eq!(with(&[("Digest", "adler32=x")]).status, 400);
    let told = with(&[("If-Match", &tag), ("Digest", "md5=JfnnlDI7RTiF9RgfG2JNCw==")]).expect(202);
    assert!(told.last_line().starts_with("success"), "{}", told.text());
    assert_eq!(fs::read(node.data("f")).unwrap(), b"123456789");
    assert_swept(&node);
}

#[test]
fn a_compressed_answer_is_no_file() {
    let node = open();
    for in_head in [true, false] {
        let source = Peer::new(move |heard, socket| match heard.method.as_str() {
            "HEAD" if in_head => begin(socket, 200, 9, "Content-Encoding: gzip\r\n"),
            "HEAD" => begin(socket, 200, 9, ""),
            _ => {
                assert_eq!(heard.field("accept-encoding"), Some("identity"));
                answer(socket, 200, "Content-Encoding: gzip\r\n", b"123456789")
            }
        });
        let told = pull(&node, &source.url("/f"), &[]);
        assert!(told.text().contains("packed (Content-Encoding: gzip)"), "{}", told.text());
        assert!(node.is_empty());
    }
}

#[test]
fn what_a_source_says_behind_its_file_is_heard() {
    let node = open();
    let source = |trailer: &'static str| {
        Peer::new(move |heard, socket| match heard.method.as_str() {
            "HEAD" => socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok(),
            _ => {
                assert_eq!(heard.field("te"), Some("trailers"));
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n";
                socket.write_all(format!("{head}{trailer}\r\n").as_bytes()).is_ok()
            }
        })
    };
    for (trailer, words) in
        [("Digest: adler32=00000001\r\n", "checksum mismatch"), ("X-Transfer-Status: 500: disk\r\n", "500: disk")]
    {
        let told = pull(&node, &source(trailer).url("/f"), &[]).expect(202);
        assert!(told.last_line().starts_with("failure") && told.last_line().contains(words), "{}", told.text());
        assert!(node.is_empty());
    }
    let told =
        pull(&node, &source("Digest: adler32=091e01de\r\nX-Transfer-Status: 200: OK\r\n").url("/f"), &[]).expect(202);
    assert!(told.last_line().starts_with("success"), "{}", told.text());
}

#[test]
fn a_push_is_led_on_after_it_was_told_to_go_on() {
    let (node, data) = (open(), pattern(30 << 20));
    fs::write(node.data("f"), &data).unwrap();
    let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
    let end = {
        let kept = Arc::clone(&kept);
        Peer::new(move |heard, socket| match heard.method.as_str() {
            "PUT" => {
                let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                *kept.lock().unwrap() = take(socket, heard);
                answer(socket, 201, "", b"")
            }
            _ => answer(socket, 405, "", b""),
        })
    };
    let to = end.url("/there");
    // One that hears a little of it first, and one that hears all.
    for hears_all in [false, true] {
        kept.lock().unwrap().clear();
        let to = to.clone();
        let door = Peer::new(move |heard, socket| match heard.method.as_str() {
            "PUT" => {
                let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                if hears_all {
                    take(socket, heard);
                } else {
                    let _ = socket.read_exact(&mut [0; 1000]);
                }
                answer(socket, 307, &format!("Location: {to}\r\n"), b"") && hears_all
            }
            _ => answer(socket, 405, "", b""),
        });
        let told = ask(&node, "COPY", "/data/f", &[("Destination", &door.url("/g"))], &[]).expect(202);
        assert!(told.last_line().starts_with("success"), "{hears_all}: {}", told.text());
        assert!(*kept.lock().unwrap() == data, "{hears_all}");
        assert_eq!(door.heard_of("PUT").len(), 1);
    }
}

#[test]
fn a_push_holds_to_what_the_request_says() {
    let node = open();
    fs::write(node.data("f"), b"123456789").unwrap();
    let end = Peer::new(|heard, socket| match heard.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            take(socket, heard);
            answer(socket, 201, "", b"")
        }
        _ => answer(socket, 405, "", b""),
    });
    let url = end.url("/g");
    let with = |field: (&str, &str)| ask(&node, "COPY", "/data/f", &[("Destination", url.as_str()), field], &[]);
    for field in [("If-Match", "\"other\""), ("Digest", "adler32=00000001"), ("Repr-Digest", "adler=:AAAAAQ==:")] {
        assert_eq!(with(field).status, 412, "{field:?}");
    }
    assert!(end.heard_of("PUT").is_empty());
    assert!(with(("Digest", "adler32=091e01de")).expect(202).last_line().starts_with("success"));
}
