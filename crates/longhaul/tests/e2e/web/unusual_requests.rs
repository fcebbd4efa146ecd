//! Unusual but valid requests, and third parties that redirect late or compress their answers.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::peers::{Peer, answer, begin, honest, take};
use super::pulls::pull;
use super::raw::{ask, assert_swept, exchange, get, open, plain, put};
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
        assert_eq!(exchange(&node, bytes).map(|answer| answer.status), Some(status), "{what}");
    }
}

#[test]
fn a_bracketed_address_as_server_name_is_accepted() {
    let node = plain().on_both_families().start();
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
        let mut answer_text = String::new();
        client.stdout.as_mut().unwrap().read_to_string(&mut answer_text).unwrap();
        client.wait().unwrap();
        assert!(
            answer_text.starts_with("HTTP/1.1 200") && answer_text.ends_with("here"),
            "{name} {version}: {answer_text}"
        );
    }
}

#[test]
fn propfind_of_a_file_needs_no_depth_and_reads_utf_16() {
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
    // Addresses are paths: a proxy in front of the node may have another name and scheme.
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
        exchange(&node, format!("{head}9\r\n123456789\r\n0\r\n{trailer}\r\n")).unwrap()
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
fn a_pull_obeys_the_conditions_of_its_request() {
    let node = open();
    let source = Peer::new(|request, socket| honest(request, socket, b"123456789", ""));
    let url = source.url("/f");
    let pull_with = |fields: &[(&str, &str)]| pull(&node, &url, fields);
    put(&node, "/data/f", b"old").expect(201);
    let tag = get(&node, "/data/f").field("etag").unwrap().to_owned();
    for fields in [
        [("If-None-Match", "*")],
        [("If-Match", "\"other\"")],
        [("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")],
        [("If", "([\"other\"])")],
    ] {
        assert_eq!(pull_with(&fields).status, 412, "{fields:?}");
    }
    assert!(source.requests().is_empty(), "no request was sent");
    for digest in [
        ("Digest", "adler32=00000001"),
        ("Repr-Digest", "adler=:AAAAAQ==:"),
        ("Digest", "md5=AAAAAAAAAAAAAAAAAAAAAA=="),
    ] {
        let failed = pull_with(&[digest]);
        assert!(
            failed.status == 412 || failed.last_line().contains("checksum mismatch"),
            "{digest:?}: {}",
            failed.text()
        );
        assert_eq!(fs::read(node.data("f")).unwrap(), b"old");
    }
    assert_eq!(pull_with(&[("Digest", "adler32=x")]).status, 400);
    let outcome = pull_with(&[("If-Match", &tag), ("Digest", "md5=JfnnlDI7RTiF9RgfG2JNCw==")]).expect(202);
    assert!(outcome.last_line().starts_with("success"), "{}", outcome.text());
    assert_eq!(fs::read(node.data("f")).unwrap(), b"123456789");
    assert_swept(&node);
}

#[test]
fn a_compressed_answer_of_a_source_is_refused() {
    let node = open();
    for in_head in [true, false] {
        let source = Peer::new(move |request, socket| match request.method.as_str() {
            "HEAD" if in_head => begin(socket, 200, 9, "Content-Encoding: gzip\r\n"),
            "HEAD" => begin(socket, 200, 9, ""),
            _ => {
                assert_eq!(request.field("accept-encoding"), Some("identity"));
                answer(socket, 200, "Content-Encoding: gzip\r\n", b"123456789")
            }
        });
        let outcome = pull(&node, &source.url("/f"), &[]);
        assert!(outcome.text().contains("encoded (Content-Encoding: gzip)"), "{}", outcome.text());
        assert!(node.is_empty());
    }
}

#[test]
fn trailers_of_a_source_count() {
    let node = open();
    let source = |trailer: &'static str| {
        Peer::new(move |request, socket| match request.method.as_str() {
            "HEAD" => socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok(),
            _ => {
                assert_eq!(request.field("te"), Some("trailers"));
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n";
                socket.write_all(format!("{head}{trailer}\r\n").as_bytes()).is_ok()
            }
        })
    };
    for (trailer, words) in
        [("Digest: adler32=00000001\r\n", "checksum mismatch"), ("X-Transfer-Status: 500: disk\r\n", "500: disk")]
    {
        let outcome = pull(&node, &source(trailer).url("/f"), &[]).expect(202);
        assert!(
            outcome.last_line().starts_with("failure") && outcome.last_line().contains(words),
            "{}",
            outcome.text()
        );
        assert!(node.is_empty());
    }
    let outcome =
        pull(&node, &source("Digest: adler32=091e01de\r\nX-Transfer-Status: 200: OK\r\n").url("/f"), &[]).expect(202);
    assert!(outcome.last_line().starts_with("success"), "{}", outcome.text());
}

#[test]
fn a_redirect_after_continue_is_followed() {
    let (node, data) = (open(), pattern(30 << 20));
    fs::write(node.data("f"), &data).unwrap();
    let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
    let end = {
        let kept = Arc::clone(&kept);
        Peer::new(move |request, socket| match request.method.as_str() {
            "PUT" => {
                let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                *kept.lock().unwrap() = take(socket, request);
                answer(socket, 201, "", b"")
            }
            _ => answer(socket, 405, "", b""),
        })
    };
    let to = end.url("/there");
    // One that reads a little of the body first, and one that reads all of it.
    for reads_all in [false, true] {
        kept.lock().unwrap().clear();
        let to = to.clone();
        let redirector = Peer::new(move |request, socket| match request.method.as_str() {
            "PUT" => {
                let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                if reads_all {
                    take(socket, request);
                } else {
                    let _ = socket.read_exact(&mut [0; 1000]);
                }
                answer(socket, 307, &format!("Location: {to}\r\n"), b"") && reads_all
            }
            _ => answer(socket, 405, "", b""),
        });
        let outcome = ask(&node, "COPY", "/data/f", &[("Destination", &redirector.url("/g"))], &[]).expect(202);
        assert!(outcome.last_line().starts_with("success"), "{reads_all}: {}", outcome.text());
        assert!(*kept.lock().unwrap() == data, "{reads_all}");
        assert_eq!(redirector.requests_of("PUT").len(), 1);
    }
}

#[test]
fn a_push_obeys_the_conditions_of_its_request() {
    let node = open();
    fs::write(node.data("f"), b"123456789").unwrap();
    let end = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            take(socket, request);
            answer(socket, 201, "", b"")
        }
        _ => answer(socket, 405, "", b""),
    });
    let url = end.url("/g");
    let push_with = |field: (&str, &str)| ask(&node, "COPY", "/data/f", &[("Destination", url.as_str()), field], &[]);
    for field in [("If-Match", "\"other\""), ("Digest", "adler32=00000001"), ("Repr-Digest", "adler=:AAAAAQ==:")] {
        assert_eq!(push_with(field).status, 412, "{field:?}");
    }
    assert!(end.requests_of("PUT").is_empty());
    assert!(push_with(("Digest", "adler32=091e01de")).expect(202).last_line().starts_with("success"));
}
