//! Fireflies of a node that serves files over HTTP: a client marks its request with a SciTag, and collectors receive fireflies.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use open_node::OpenNode;
use serde_json::Value;

const BYTES: usize = 1 << 20;
/// Bytes that the head of an answer or of a request may add to its body.
const HEAD_BYTES_MAX: u64 = 1000;

struct FirefliesFixture {
    open_node: OpenNode,
    collectors: [UdpSocket; 2],
}

impl FirefliesFixture {
    fn new() -> FirefliesFixture {
        let collectors = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let fireflies = collectors.iter().map(|collector| collector.local_addr().unwrap()).collect();
        let open_node = OpenNode::start_with("data", |config| config.web.fireflies = fireflies);
        std::fs::write(open_node.path("data/file"), vec![7; BYTES]).unwrap();
        FirefliesFixture { open_node, collectors }
    }

    fn address(&self) -> SocketAddr {
        self.open_node.address
    }

    fn dial(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    /// The next two fireflies; both collectors receive the same ones.
    fn flow(&self) -> [Value; 2] {
        let [first, second] =
            self.collectors.each_ref().map(|collector| [receive_firefly(collector), receive_firefly(collector)]);
        assert_eq!(first, second);
        first
    }
}

fn receive_firefly(collector: &UdpSocket) -> Value {
    collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut bytes = [0; 2048];
    let got = collector.recv(&mut bytes).expect("a firefly within ten seconds");
    let text = String::from_utf8(bytes[..got].to_vec()).unwrap();
    let (header, json) = text.split_once(" - firefly-json - ").unwrap();
    assert!(header.starts_with("<134>1 ") && header.ends_with(" longhaul"), "{header}");
    serde_json::from_str(json).unwrap()
}

/// Sends a request and reads its answer; returns its status and body.
fn ask(socket: &mut TcpStream, request: &str, body: &[u8]) -> (u16, Vec<u8>) {
    socket.write_all(&[request.as_bytes(), body].concat()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; if request.starts_with("HEAD") { 0 } else { length }];
    socket.read_exact(&mut body).unwrap();
    (status, body)
}

fn get(socket: &mut TcpStream, fields: &str) -> (u16, Vec<u8>) {
    ask(socket, &format!("GET /data/file HTTP/1.1\r\nHost: node\r\n{fields}\r\n"), b"")
}

/// Checks the fields that the schema (version 1) requires, and the flow.
fn check(firefly: &Value, state: &str, source: SocketAddr, target: SocketAddr) {
    assert_eq!((&firefly["version"], &firefly["flow-lifecycle"]["state"]), (&1.into(), &state.into()), "{firefly}");
    let time =
        |name: &str| firefly["flow-lifecycle"][name].as_str().map(|text| text.ends_with('Z') && text.len() == 27);
    let ended = (state == "end").then_some(true);
    assert_eq!(
        [time("current-time"), time("start-time"), time("end-time")],
        [Some(true), Some(true), ended],
        "{firefly}"
    );
    assert_eq!(
        firefly["context"],
        serde_json::json!({"experiment-id": 7, "activity-id": 4, "application": "longhaul"})
    );
    let flow = serde_json::json!({
        "afi": "ipv4", "src-ip": source.ip().to_string(), "dst-ip": target.ip().to_string(), "protocol": "tcp",
        "src-port": source.port(), "dst-port": target.port(),
    });
    assert_eq!(firefly["flow-id"], flow);
    assert!(firefly["netlink"]["rtt"].as_f64().is_some_and(|rtt| rtt > 0.0), "{firefly}");
}

fn usage(firefly: &Value) -> (u64, u64) {
    (firefly["usage"]["received"].as_u64().unwrap(), firefly["usage"]["sent"].as_u64().unwrap())
}

#[test]
fn marked_transfers_are_reported_to_collectors() {
    let fixture = FirefliesFixture::new();
    let mut socket = fixture.dial();
    let client = socket.local_addr().unwrap();
    // There are no fireflies for unmarked requests, invalid tags, HEAD requests, and refused requests.
    assert_eq!(get(&mut socket, "").1.len(), BYTES);
    assert_eq!(get(&mut socket, "SciTag: 64\r\n").1.len(), BYTES);
    assert_eq!(ask(&mut socket, "HEAD /data/file HTTP/1.1\r\nHost: node\r\nSciTag: 452\r\n\r\n", b"").0, 200);
    assert_eq!(ask(&mut socket, "GET /data/none HTTP/1.1\r\nHost: node\r\nSciTag: 452\r\n\r\n", b"").0, 404);
    // Two flows of one connection, each with its own byte counts; the second is of a part.
    for (fields, status, bytes) in [("", 200, BYTES), ("Range: bytes=0-99999\r\n", 206, 100_000)] {
        let (answered, body) = get(&mut socket, &format!("{fields}SciTag: 452\r\n"));
        assert_eq!((answered, body.len()), (status, bytes));
        let [start, end] = fixture.flow();
        check(&start, "start", fixture.address(), client);
        check(&end, "end", fixture.address(), client);
        let (received, sent) = usage(&end);
        assert_eq!((received, usage(&start)), (0, (0, 0)));
        assert!((bytes as u64..bytes as u64 + HEAD_BYTES_MAX).contains(&sent), "{sent} of {bytes}");
    }
    // The source of an upload is the client; a small body arrives in one piece with its head.
    for bytes in [200_000, 10] {
        let head =
            format!("PUT /data/new-{bytes} HTTP/1.1\r\nHost: node\r\nSciTag: 452\r\nContent-Length: {bytes}\r\n\r\n");
        assert_eq!(ask(&mut socket, &head, &vec![3; bytes]).0, 201);
        let [start, end] = fixture.flow();
        check(&start, "start", client, fixture.address());
        check(&end, "end", client, fixture.address());
        assert_eq!(usage(&end), (0, bytes as u64), "the client received nothing, and sent the body");
    }
    assert!(fixture.open_node.path("data/new-10").exists());
}

#[test]
fn disconnects_end_the_flow() {
    let fixture = FirefliesFixture::new();
    let mut socket = fixture.dial();
    let client = socket.local_addr().unwrap();
    let head = format!("PUT /data/cut HTTP/1.1\r\nHost: node\r\nSciTag: 452\r\nContent-Length: {BYTES}\r\n\r\n");
    socket.write_all(&[head.as_bytes(), &[3; 5000]].concat()).unwrap();
    drop(socket);
    let [start, end] = fixture.flow();
    check(&start, "start", client, fixture.address());
    check(&end, "end", client, fixture.address());
    let (received, sent) = usage(&end);
    assert!(
        received == 0 && (5000..=5001).contains(&sent),
        "{received} {sent}: the end of the connection may count as one byte"
    );
}
