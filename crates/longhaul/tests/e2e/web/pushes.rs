//! Pushes to destinations that refuse, redirect, break off, or store other bytes than they were sent.

use std::fs;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use super::peers::{Peer, answer, begin, take};
use super::raw::{Answer, ask, open};
use crate::node::Node;
use crate::tree::{pattern, set_time};
use crate::wait::{LONG, until};

fn push(node: &Node, destination: &str, fields: &[(&str, &str)]) -> Answer {
    let fields = [&[("Destination", destination)], fields].concat();
    ask(node, "COPY", "/data/f", &fields, &[])
}

fn with_file(len: usize) -> (Node, Vec<u8>) {
    let (node, data) = (open(), pattern(len));
    fs::write(node.data("f"), &data).unwrap();
    (node, data)
}

#[track_caller]
fn fails(outcome: Answer, saying: &str) {
    let last = outcome.clone().expect(202).last_line();
    assert!(outcome.whole && last.starts_with("failure: ") && last.contains(saying), "{saying}: {}", outcome.text());
}

#[test]
fn a_refusal_before_the_body_is_reported_with_its_status() {
    let (node, _) = with_file(3 << 20);
    for (status, words) in [
        (403, "Permission denied"),
        (507, "status code 507"),
        (404, "No such file"),
        (500, "status code 500"),
        (409, "409"),
    ] {
        let peer = Peer::new(move |request, socket| match request.method.as_str() {
            "PUT" => {
                assert_eq!(request.field("expect"), Some("100-continue"));
                answer(socket, status, "", b"not here, thank you\n") && {
                    // Not a byte of the body arrives.
                    socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
                    assert!(!socket.read(&mut [0]).is_ok_and(|got| got > 0));
                    false
                }
            }
            _ => answer(socket, 405, "", b""),
        });
        let outcome = push(&node, &peer.url("/g"), &[]);
        assert!(outcome.text().contains("not here, thank you"), "{}", outcome.text());
        fails(outcome, words);
    }
    assert_eq!(push(&node, "http://127.0.0.1:1/g", &[]).status, 502);
    assert_eq!(ask(&node, "COPY", "/data/none", &[("Destination", "http://127.0.0.1:1/g")], &[]).status, 404);
}

/// A destination that stores what it is sent, and reports this digest.
fn storing_destination(kept: &Arc<Mutex<Vec<u8>>>, digest: &'static str) -> Peer {
    let kept = Arc::clone(kept);
    Peer::new(move |request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            *kept.lock().unwrap() = take(socket, request);
            answer(socket, 201, "", b"")
        }
        "HEAD" => begin(socket, 200, kept.lock().unwrap().len(), digest),
        _ => answer(socket, 405, "", b""),
    })
}

#[test]
fn the_stored_file_is_compared_by_checksum() {
    let (node, data) = with_file(9);
    fs::write(node.data("f"), b"123456789").unwrap();
    let kept = Arc::default();
    let verification = [("RequireChecksumVerification", "true")];
    let right = storing_destination(&kept, "Digest: adler32=091e01de\r\n");
    assert_eq!(push(&node, &right.url("/g"), &verification).expect(202).last_line(), "success: Created");
    assert_eq!(*kept.lock().unwrap(), b"123456789");
    let wrong = storing_destination(&kept, "Digest: adler32=091e01df\r\n");
    let outcome = push(&node, &wrong.url("/g"), &verification);
    assert!(outcome.last_line().to_ascii_uppercase().contains("CHECKSUM MISMATCH"), "{}", outcome.text());
    fails(outcome, "mismatch");
    fails(push(&node, &storing_destination(&kept, "").url("/g"), &verification), "no checksum");
    assert_eq!(push(&node, &storing_destination(&kept, "").url("/g"), &[]).expect(202).last_line(), "success: Created");
    drop(data);
    let shorter = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            take(socket, request);
            answer(socket, 201, "", b"")
        }
        "HEAD" => begin(socket, 200, 4, "Digest: adler32=091e01de\r\n"),
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &shorter.url("/g"), &verification), "MISMATCH");
}

#[test]
fn a_file_rewritten_while_it_is_sent_does_not_arrive() {
    const LEN: usize = 64 << 20;
    let (node, _) = with_file(LEN);
    let file = node.data("f");
    set_time(&file, 1_500_000_000, 0);
    // The next change has another time by the file system's clock.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (rewritten, received_bytes) = (file.clone(), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&received_bytes);
    let peer = Peer::new(move |request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            let mut buffer = vec![0; 1 << 20];
            socket.read_exact(&mut buffer).unwrap();
            fs::OpenOptions::new().write(true).open(&rewritten).unwrap().write_all(b"other bytes").unwrap();
            set_time(&rewritten, 1_500_000_000, 0);
            let mut all = buffer.len();
            while let Ok(got @ 1..) = socket.read(&mut buffer) {
                all += got;
            }
            *counted.lock().unwrap() = all;
            false
        }
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &peer.url("/g"), &[]), "changed while it was copied");
    until("the destination has seen the end", LONG, || *received_bytes.lock().unwrap() > 0);
    assert!(*received_bytes.lock().unwrap() < LEN, "it never had the whole");
}

#[test]
fn a_redirect_before_the_body_is_followed_without_credentials() {
    let (node, data) = with_file(2 << 20);
    let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
    let pool = storing_destination(&kept, "");
    let to = pool.url("/pool/g");
    let redirector = Peer::new(move |request, socket| match request.method.as_str() {
        "PUT" => answer(socket, 307, &format!("Location: {to}\r\n"), b""),
        _ => answer(socket, 405, "", b""),
    });
    let outcome =
        push(&node, &redirector.url("/g"), &[("TransferHeaderAuthorization", "Bearer for-the-door")]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(*kept.lock().unwrap() == data);
    assert_eq!(redirector.requests_of("PUT")[0].field("authorization"), Some("Bearer for-the-door"));
    assert!(pool.requests().iter().all(|request| request.field("authorization").is_none()));
    let circle = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => answer(socket, 307, "Location: /g\r\n", b""),
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &circle.url("/g"), &[]), "circles");
}

#[test]
fn a_destination_that_breaks_off_is_reported() {
    let (node, _) = with_file(24 << 20);
    let dies = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            let _ = socket.read_exact(&mut vec![0; 1 << 20]);
            false
        }
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &dies.url("/g"), &[]), "broke");
    // A destination that reports its reason in the middle of the body.
    let full = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            let _ = socket.read_exact(&mut vec![0; 1 << 20]);
            answer(socket, 507, "Connection: close\r\n", b"full\n");
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(socket, &mut std::io::sink());
            false
        }
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &full.url("/g"), &[]), "status code 507");
    // One that takes everything and never answers.
    let silent = Peer::new(|request, socket| match request.method.as_str() {
        "PUT" => {
            let _ = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            take(socket, request);
            false
        }
        _ => answer(socket, 405, "", b""),
    });
    fails(push(&node, &silent.url("/g"), &[]), "broke");
}

#[test]
fn an_existing_destination_is_kept_on_request() {
    let (node, _) = with_file(9);
    let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
    let there = storing_destination(&kept, "");
    assert_eq!(push(&node, &there.url("/g"), &[("Overwrite", "F")]).status, 412);
    assert!(there.requests_of("PUT").is_empty());
}
