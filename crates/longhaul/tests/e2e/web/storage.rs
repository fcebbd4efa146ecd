//! Failures of storage over HTTP: full from the start, full during a request, read-only, without extended attributes.

use std::fs;

use super::peers::{Peer, honest};
use super::raw::{Raw, ask, get, put};
use crate::client::unfinished;
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until};
use crate::wrappers::{make_read_only, mounted, with_mounts};

fn plain_node_on(dir: &std::path::Path) -> Node {
    Setup::new().export("data", dir, "rw").arg("--anonymous").arg("rw").arg("--plain").anonymous_may_copy().start()
}

#[test]
fn a_full_file_system_keeps_nothing() {
    const TEST: &str = "web::storage::a_full_file_system_keeps_nothing";
    with_mounts(TEST, || {
        let dir = tempfile::tempdir().unwrap();
        let full = dir.path().join("full");
        let Some(_mount) = mounted(&full, "size=16m", TEST) else { return };
        let node = plain_node_on(&full);
        put(&node, "/data/f", b"old").expect(201);
        // With a length it is detected before a byte of the body.
        let mut raw = Raw::to(&node);
        raw.send("PUT /data/f HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(raw.head().unwrap().status, 507);
        let answer = put(&node, "/data/f", &pattern(20_000_000)).expect(507);
        assert!(answer.text().contains("free"), "{}", answer.text());
        // Detected when it happens: the chunks do not announce the length.
        let piece = pattern(1 << 20);
        let mut raw = Raw::to(&node);
        raw.send("PUT /data/f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..20 {
            if !raw.try_send([format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat()) {
                break;
            }
        }
        raw.try_send("0\r\n\r\n");
        assert_eq!(raw.receive().expect("the node answers with the reason").status, 507);
        // Copies: of a file of this node, and of another server's with a known or an unknown size.
        fs::write(full.join("large"), pattern(10 << 20)).unwrap();
        assert_eq!(ask(&node, "COPY", "/data/large", &[("Destination", "/data/f")], &[]).status, 507);
        let data = pattern(20_000_000);
        let source = Peer::new(move |request, socket| match request.method.as_str() {
            "HEAD" if request.target == "/unknown" => super::peers::answer(socket, 405, "", b""),
            _ => honest(request, socket, &data, ""),
        });
        let known = ask(&node, "COPY", "/data/f", &[("Source", &source.url("/known"))], &[]);
        assert_eq!(known.status, 507);
        let unknown = ask(&node, "COPY", "/data/f", &[("Source", &source.url("/unknown"))], &[]).expect(202);
        assert!(unknown.last_line().starts_with("failure:") && unknown.text().contains("ENOSPC"), "{}", unknown.text());
        until("nothing unfinished is left", LONG, || unfinished(&full).is_empty());
        assert_eq!(fs::read(full.join("f")).unwrap(), b"old");
        put(&node, "/data/g", &pattern(1 << 20)).expect(201);
    });
}

#[test]
fn a_read_only_file_system_is_refused() {
    const TEST: &str = "web::storage::a_read_only_file_system_is_refused";
    with_mounts(TEST, || {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("ro");
        let Some(_mount) = mounted(&target, "size=4m", TEST) else { return };
        fs::write(target.join("f"), b"x").unwrap();
        fs::create_dir(target.join("d")).unwrap();
        make_read_only(&target);
        let node = plain_node_on(&target);
        for (method, path, fields) in [
            ("PUT", "/data/g", &[][..]),
            ("PUT", "/data/f", &[]),
            ("PUT", "/data/a/b", &[]),
            ("MKCOL", "/data/m", &[]),
            ("DELETE", "/data/f", &[]),
            ("DELETE", "/data/d", &[]),
            ("MOVE", "/data/f", &[("Destination", "/data/g")]),
            ("COPY", "/data/f", &[("Destination", "/data/g")]),
        ] {
            let answer = ask(&node, method, path, fields, if method == "PUT" { b"y" } else { b"" });
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
        let head = Raw::to(&node).ask("HEAD", "/data/f", &[("Want-Digest", "adler32")], &[]);
        assert_eq!(head.field("digest").map(str::to_ascii_lowercase).as_deref(), Some("adler32=00790079"));
        assert_eq!(get(&node, "/data/f").body, b"x");
    });
}
