//! When the source of a pull is asked for the digests of its file: a server may have to read its whole file for them.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::peers::{Peer, PeerRequest, answer, honest};
use super::pulls::pull;
use super::raw::{assert_swept, open, put};
use crate::wait::{LONG, until};

const DATA: &[u8] = b"123456789";
const RIGHT: &str = "Digest: adler32=091e01de\r\n";

fn asks_for_digest(request: &PeerRequest) -> bool {
    request.method == "HEAD" && request.field("want-digest").is_some()
}

/// A source that answers a request for digests only when it has sent its file.
fn slow_to_digest(fields: &'static str) -> Peer {
    let has_sent = Arc::new(AtomicBool::new(false));
    Peer::new(move |request, socket| {
        if asks_for_digest(request) {
            until("the file was sent", LONG, || has_sent.load(Ordering::Acquire));
            return honest(request, socket, DATA, fields);
        }
        let goes_on = honest(request, socket, DATA, "");
        has_sent.fetch_or(request.method == "GET", Ordering::AcqRel);
        goes_on
    })
}

#[test]
fn the_bytes_move_while_the_source_computes_a_digest() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    let wrong = slow_to_digest("Digest: adler32=12345678\r\n");
    let outcome = pull(&node, &wrong.url("/f"), &[]).expect(202);
    assert!(outcome.last_line().starts_with("failure: ") && outcome.last_line().contains("checksum mismatch"));
    assert_eq!(fs::read(node.data("f")).unwrap(), b"old");
    assert_swept(&node);
    let right = slow_to_digest(RIGHT);
    assert_eq!(pull(&node, &right.url("/f"), &[]).expect(202).last_line(), "success: Created");
    assert_eq!(fs::read(node.data("f")).unwrap(), DATA);
    assert_eq!(right.requests().iter().filter(|request| asks_for_digest(request)).count(), 1);
}

#[test]
fn a_digest_that_decides_is_asked_for_first_and_an_unwanted_one_never() {
    let node = open();
    let required = ("RequireChecksumVerification", "true");
    let stated = ("Repr-Digest", "md5=:JfnnlDI7RTiF9RgfG2JNCw==:");
    for field in [required, stated] {
        let source = Peer::new(|request, socket| honest(request, socket, DATA, RIGHT));
        assert_eq!(pull(&node, &source.url("/f"), &[field]).expect(202).last_line(), "success: Created");
        let heads = source.requests_of("HEAD");
        assert!(heads.len() == 1 && asks_for_digest(&heads[0]), "{heads:?}");
    }
    let source = Peer::new(|request, socket| honest(request, socket, DATA, ""));
    let unwanted = [("RequireChecksumVerification", "false")];
    assert_eq!(pull(&node, &source.url("/f"), &unwanted).expect(202).last_line(), "success: Created");
    assert!(!source.requests().iter().any(asks_for_digest));
}

#[test]
fn a_source_that_refuses_a_digest_is_trusted_as_one_without() {
    let node = open();
    let refusing = Peer::new(|request, socket| {
        if asks_for_digest(request) { answer(socket, 501, "", b"") } else { honest(request, socket, DATA, "") }
    });
    assert_eq!(pull(&node, &refusing.url("/f"), &[]).expect(202).last_line(), "success: Created");
    until("the log says so", LONG, || node.log().contains("does not say the digest"));
}

#[test]
fn a_source_that_fails_over_its_digest_is_asked_again_and_not_trusted() {
    let node = open();
    let failing = |failures: usize| {
        let left = AtomicUsize::new(failures);
        let fails = move || left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
        Peer::new(move |request, socket| match asks_for_digest(request) {
            true if fails() => answer(socket, 503, "", b""),
            true => honest(request, socket, DATA, RIGHT),
            false => honest(request, socket, DATA, ""),
        })
    };
    let outcome = pull(&node, &failing(usize::MAX).url("/f"), &[]).expect(202);
    let last = outcome.last_line();
    assert!(last.starts_with("failure: ") && last.contains("status code 503"), "{last}");
    assert_swept(&node);
    assert_eq!(pull(&node, &failing(2).url("/f"), &[]).expect(202).last_line(), "success: Created");
}

#[test]
fn a_file_with_a_content_coding_is_accepted_with_a_digest_only() {
    let node = open();
    const CODED: &str = "Content-Encoding: x-stored\r\n";
    let without = Peer::new(|request, socket| honest(request, socket, DATA, CODED));
    assert_eq!(pull(&node, &without.url("/f"), &[]).status, 502);
    let with = Peer::new(|request, socket| {
        let digest = if asks_for_digest(request) { RIGHT } else { "" };
        honest(request, socket, DATA, &format!("{CODED}{digest}"))
    });
    assert_eq!(pull(&node, &with.url("/f"), &[]).expect(202).last_line(), "success: Created");
}

#[test]
fn a_copy_that_fails_does_not_wait_for_a_digest() {
    let node = open();
    let until_closed = |socket: &mut TcpStream| {
        let _ = socket.read_to_end(&mut Vec::new());
        false
    };
    let refusing = Peer::new(move |request, socket| match request.method.as_str() {
        "HEAD" if asks_for_digest(request) => until_closed(socket),
        "HEAD" => honest(request, socket, DATA, ""),
        _ => answer(socket, 403, "", b"not you\n"),
    });
    let began = Instant::now();
    let outcome = pull(&node, &refusing.url("/f"), &[]).expect(202);
    assert!(outcome.last_line().contains("not you"), "{}", outcome.text());
    assert!(began.elapsed() < LONG);
    assert_swept(&node);
}
