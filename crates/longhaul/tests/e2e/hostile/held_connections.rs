//! Two thousand connections from few addresses are held in every possible state, while a new client is served.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::first_messages::hello;
use super::measures::{memory, threads};
use super::requests::from_address;
use crate::node::Setup;
use crate::raw_client::RawClient;
use crate::wait::{LONG, skipped, until};
use crate::web::raw::Raw;

const MANY: usize = 2000;
/// The source addresses: each holds more than its share.
const ADDRESSES: usize = 8;

/// The bytes that a connection sends before it only waits.
fn states() -> Vec<Vec<u8>> {
    let hello = hello();
    let get = "GET /data/f HTTP/1.1\r\nHost: h\r\n\r\n";
    let put = "PUT /data/p HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc";
    let chunks = "PUT /data/q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\nabc";
    let find = "PROPFIND /data/ HTTP/1.1\r\nHost: h\r\nDepth: 1\r\nContent-Length: 1000\r\n\r\n<";
    let waits = "PUT /data/r HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    let http2 = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    vec![
        Vec::new(),
        b"L".to_vec(),
        b"LHS1".to_vec(),
        b"LHS1 and some more".to_vec(),
        hello[..1].to_vec(),
        hello[..hello.len() / 2].to_vec(),
        hello,
        b"G".to_vec(),
        get.as_bytes()[..20].to_vec(),
        get.into(),
        put.into(),
        chunks.into(),
        find.into(),
        waits.into(),
        b"PRI * HTTP".to_vec(),
        http2,
        b"abcdefghij".to_vec(),
    ]
}

#[test]
fn two_thousand_held_connections_do_not_keep_a_new_client_out() {
    const TEST: &str = "hostile::held_connections::two_thousand_held_connections_do_not_keep_a_new_client_out";
    if sys::limits::raise_descriptor_limit() < 4 * MANY as u64 {
        return skipped(TEST, "too few descriptors");
    }
    let setup = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain");
    let node = setup.arg("--responders").arg("iperf3").start();
    std::fs::write(node.data("f"), b"x").unwrap();
    assert_eq!(crate::web::raw::get(&node, "/data/f").body, b"x");
    let (states, before, threads_before) = (states(), memory(&node), threads(&node));
    let mut held: Vec<TcpStream> = Vec::new();
    for at in 0..MANY {
        let mut socket = from_address([6, (at % ADDRESSES) as u8 + 1], node.port);
        // A node closes connections of an address beyond its limit.
        let _ = socket.write_all(&states[at % states.len()]);
        held.push(socket);
    }
    let (mut slowest, began) = (Duration::ZERO, Instant::now());
    for round in 0..10 {
        let began = Instant::now();
        let mut raw = Raw::over(from_address([7, round + 1], node.port));
        assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
        let mut raw_client = RawClient::over(&node, from_address([7, round + 1], node.port)).unwrap();
        raw_client.log_in(None).unwrap();
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(15), "a new client waited {slowest:?}");
    // A new client from the address of the held connections is admitted too.
    let mut raw = Raw::over(from_address([6, 1], node.port));
    assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x", "after {:?}", began.elapsed());
    let grown = memory(&node).saturating_sub(before);
    assert!(grown < 256 << 20, "{} MiB for {MANY} connections", grown >> 20);
    drop(held);
    until("their threads have ended", LONG, || threads(&node) <= threads_before + 8);
    until("nothing unfinished is left", LONG, || crate::client::unfinished(&node.data("")).is_empty());
}
