//! A peer that sends one byte at a time: the timeout applies to a whole read, however often a byte arrives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use web::{Body, Conn, Framing};

/// Reads a chunked body from a peer that sends one of these bytes every 20 ms. Returns the result and the time that it took.
fn read(sent: &'static [u8], within: Duration) -> (std::io::Result<usize>, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for byte in sent {
            if socket.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut conn = Conn::new(TcpStream::connect(at).unwrap(), None).unwrap();
    conn.set_read_within(within).unwrap();
    let began = Instant::now();
    let got = conn.read_body(&mut Body::new(Framing::Chunked), &mut [0; 100]);
    let took = began.elapsed();
    drop(conn);
    peer.join().unwrap();
    (got, took)
}

#[test]
fn the_timeout_applies_to_the_whole_first_line_of_a_chunk() {
    // Leading zeros of a length are permitted, and each of them arrives within the timeout.
    let (got, took) = read(&[b'0'; 400], Duration::from_millis(400));
    assert_eq!(got.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_slow_line_that_ends_within_the_timeout_is_read() {
    let (got, _) = read(b"0000a\r\nx", Duration::from_secs(10));
    assert_eq!(got.unwrap(), 1);
}
