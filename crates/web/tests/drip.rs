//! A peer that sends a byte now and then: what one read waits for has one bound, however often a byte comes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use web::{Body, Conn, Framing};

/// Reads a body of chunks from a peer that drips these bytes, one every 20 ms.
fn read(dripped: &'static [u8], within: Duration) -> (std::io::Result<usize>, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let drip = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for byte in dripped {
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
    drip.join().unwrap();
    (got, took)
}

#[test]
fn the_line_that_begins_a_chunk_has_one_bound() {
    // Zeros in front of a length mean nothing, and each of them came in time.
    let (got, took) = read(&[b'0'; 400], Duration::from_millis(400));
    assert_eq!(got.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_slow_line_that_ends_in_time_is_read() {
    let (got, _) = read(b"0000a\r\nx", Duration::from_secs(10));
    assert_eq!(got.unwrap(), 1);
}
