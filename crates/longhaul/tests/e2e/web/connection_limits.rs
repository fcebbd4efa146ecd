//! Many hostile clients: they delay only their own requests.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::raw::{Raw, open};
use crate::node::Setup;
use crate::raw_client::RawClient;
use crate::wait::skipped;

/// Opens a connection from another address of this host.
fn from_elsewhere(port: u16) -> TcpStream {
    let own: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&own, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))).unwrap();
    connect(&own, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    own.into()
}

#[test]
fn connections_from_one_address_do_not_keep_others_out() {
    const TEST: &str = "web::connection_limits::connections_from_one_address_do_not_keep_others_out";
    // More than are served at once.
    const MANY: usize = 2300;
    if sys::limits::raise_descriptor_limit() < 4 * MANY as u64 {
        return skipped(TEST, "too few descriptors");
    }
    let node = open();
    fs::write(node.data("f"), b"x").unwrap();
    let mut many = Vec::new();
    for _ in 0..MANY {
        let mut raw = Raw::to(&node);
        // The beginning of a head that never ends, too short to be recognised as HTTP.
        raw.send(b"G");
        many.push(raw);
    }
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    for _ in 0..20 {
        let mut raw = Raw::over(from_elsewhere(node.port));
        assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "others waited {:?}", began.elapsed());
    // Clients of the same address are not refused either: they wait.
    assert_eq!(Raw::to(&node).ask("GET", "/data/f", &[], &[]).body, b"x");
    let _ = RawClient::logged_in(&node);
}

#[test]
fn the_body_of_a_forbidden_request_is_not_waited_for() {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    let session = "Content-Type: application/vnd.longhaul.session+json\r\n";
    for (request, fields) in [("PROPFIND /data/", "Depth: 1\r\n"), ("PROPFIND /", ""), ("POST /data/f", session)] {
        let (mut raw, began) = (Raw::to(&node), Instant::now());
        raw.send(format!("{request} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: 100\r\n\r\n<"));
        assert_eq!(raw.receive().unwrap().status, 401, "{request}");
        assert!(began.elapsed() < Duration::from_secs(15), "{request} {:?}", began.elapsed());
    }
}

#[test]
fn a_dripping_body_is_timed_out() {
    let node = open();
    let began = Instant::now();
    let mut dripping = Vec::new();
    for request in ["PROPFIND /data/", "PUT /data/f", "PROPFIND /"] {
        let mut raw = Raw::to(&node);
        raw.send(format!("{request} HTTP/1.1\r\nHost: h\r\nDepth: 0\r\nContent-Length: 1000\r\n\r\n"));
        dripping.push(raw);
    }
    while began.elapsed() < Duration::from_secs(21) {
        for raw in &mut dripping {
            raw.try_send(b" ");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    for raw in &mut dripping {
        assert_eq!(raw.receive().unwrap().status, 408);
    }
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    super::raw::assert_swept(&node);
}
