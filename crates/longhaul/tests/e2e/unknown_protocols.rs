//! Unknown protocols at the port of a node, and unknown services at the port of a client's locator: garbage, HTTP, other TLS, and silence.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Trust;
use rustls::{ClientConnection, StreamOwned};
use wire::version::SPOKEN;

use crate::client::{Client, words};
use crate::node::Node;
use crate::raw_client::RawClient;
use crate::wait::{LONG, until};

fn dial(node: &Node) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", node.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    socket
}

/// Sends bytes and returns all that comes back until the node hangs up.
fn answer(node: &Node, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut socket = dial(node);
    socket.write_all(bytes)?;
    let mut out = Vec::new();
    socket.read_to_end(&mut out).map(|_| out)
}

/// A TLS connection that offers these protocols.
fn tls(node: &Node, alpn: &[&[u8]]) -> StreamOwned<ClientConnection, TcpStream> {
    let (config, _) = engine::identity::client_config(&Trust::Fingerprints(Vec::new()), SPOKEN).unwrap();
    let mut config = (*config).clone();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, dial(node))
}

#[test]
fn unknown_protocols_are_rejected_and_leave_nothing() {
    let node = &Node::open();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let join = |stream: u32| [b"LHS1", &[7; 16][..], &stream.to_be_bytes(), &[1], &[0; 32]].concat();
    std::thread::scope(|scope| {
        for garbage in [&b"\0\0\0\0"[..], b"hello\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", &[0xff; 4096], b"\x16\x09garbage"] {
            // The node hangs up: by an end, or by a reset where it had not read all.
            scope.spawn(move || drop(answer(node, garbage)));
        }
        // Bytes that begin like TLS, and joins of streams without a session.
        scope.spawn(|| {
            let greeting = [&b"\x16\x03\x01\x40\x00"[..], &[0x41; 0x4000]].concat();
            assert!(answer(node, &greeting).is_ok_and(|out| out.len() < 64));
        });
        for stream in [0, 1, 1024, 1025, u32::MAX] {
            scope.spawn(move || {
                assert!(answer(node, &join(stream)).is_ok_and(|out| out.is_empty()), "stream {stream}");
            });
        }
        // Connections that end before the first byte, or in the middle.
        for bytes in [&b""[..], b"L", b"LHS1", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"G", b"GE"] {
            scope.spawn(move || {
                let mut socket = dial(node);
                socket.write_all(bytes).unwrap();
                socket.shutdown(Shutdown::Write).unwrap();
                let _ = socket.read_to_end(&mut Vec::new());
            });
        }
    });
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    until("descriptors are given back", LONG, || node.descriptors() <= descriptors);
}

#[test]
fn http_is_answered() {
    let node = Node::open();
    // In clear only where the operator allows it.
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "PROPFIND /data HTTP/1.1\r\nHost: x\r\nDepth: 1\r\n\r\n".into(),
        format!("PUT /data/f HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000)),
    ] {
        let out = answer(&node, request.as_bytes()).unwrap_or_else(|e| panic!("{:.20}: {e}", request));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 ") && text.contains("https://"), "{text}");
    }
    for alpn in [&[][..], &[&b"http/1.1"[..]]] {
        for _ in 0..5 {
            let mut stream = tls(&node, alpn);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap_or_else(|e| panic!("{alpn:?}: {e}"));
            assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("longhaul/"), "{text}");
        }
    }
    // A protocol of other servers only is refused by an alert of TLS.
    let error = tls(&node, &[b"imap"]).write_all(b"x").unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    // So is another version of this protocol.
    assert!(tls(&node, &[b"lh/999"]).write_all(b"x").is_err());
}

/// Connections that send nothing, or half a message, are closed after the time of the handshake: these all wait side by side.
#[test]
fn silent_connections_are_closed() {
    let node = Node::open();
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let hello = {
        let (config, _) = engine::identity::client_config(&Trust::Fingerprints(Vec::new()), SPOKEN).unwrap();
        let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let mut bytes = Vec::new();
        tls.write_tls(&mut bytes).unwrap();
        bytes
    };
    let starts: [&[u8]; 7] = [b"", b"L", b"LHS1 and no more", b"G", b"\x16", &hello[..hello.len() / 2], &hello];
    std::thread::scope(|scope| {
        for start in starts {
            let node = &node;
            scope.spawn(move || {
                let started = Instant::now();
                let _ = answer(node, start);
                let waited = started.elapsed().as_secs();
                assert!((8..100).contains(&waited), "cut off after {waited} s and {} bytes", start.len());
            });
        }
        // Single bytes of a hello, each well within any time limit, do not keep the connection open either.
        scope.spawn(|| {
            let (mut socket, started) = (dial(&node), Instant::now());
            let cut_off = hello.iter().any(|byte| {
                std::thread::sleep(Duration::from_millis(200));
                socket.write_all(&[*byte]).is_err()
            });
            assert!(cut_off && started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
        });
        scope.spawn(|| {
            let (raw_client, started) = (RawClient::connect(&node), Instant::now());
            raw_client.end();
            let waited = started.elapsed().as_secs();
            assert!((8..100).contains(&waited), "cut off after {waited} s without a login");
        });
        // Meanwhile the others are served.
        scope.spawn(|| Client::new().run(words!["ls", node.at("data")]).expect(0));
        scope.spawn(client_that_never_reads);
        for port_greeting in [&b""[..], b"\x16"] {
            scope.spawn(move || behind_a_port(port_greeting, false, 8));
        }
    });
    until("descriptors are given back", LONG, || node.descriptors() <= descriptors);
}

/// A client that requests more than fits any buffer, and reads nothing.
fn client_that_never_reads() {
    let node = Node::open();
    fs::create_dir(node.data("many")).unwrap();
    for n in 0..20_000 {
        fs::write(node.data("many").join(format!("{n:0>250}")), b"").unwrap();
    }
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    let descriptors = node.descriptors();
    let mut raw_client = RawClient::logged_in(&node);
    let path = model::RelPath::parse(b"many").unwrap();
    let place = || model::locator::NodePlace::Path { export: "data".into(), path: path.clone() };
    raw_client.send(&wire::Frame::Request(1, wire::frame::Request::List(place())));
    // Nothing of the answer is read: the client's buffers fill, then the node's, and then only a time limit ends the session.
    until("it gives up on the client", Duration::from_secs(300), || node.descriptors() <= descriptors);
}

/// Runs a client against a port that sends these bytes, and then waits or hangs up.
fn behind_a_port(greeting: &[u8], hangs_up: bool, code: i32) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::new();
    client.write("f", b"x");
    let running = client.begin(words!["cp", client.path("f"), format!("lh://{address}/data/f")]);
    let (mut socket, _) = listener.accept().unwrap();
    let mut hello = [0; 64];
    let _ = socket.read(&mut hello);
    socket.write_all(greeting).unwrap();
    if hangs_up {
        drop(socket);
        running.finish().refused(code, &[&address.to_string()]);
    } else {
        running.finish().refused(code, &[&address.to_string()]);
        drop(socket);
    }
}

#[test]
fn a_wrong_port_is_named() {
    for greeting in [
        &b""[..],
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"220 mail ESMTP\r\n",
        &[0; 100],
        &[0xff; 10_000],
    ] {
        behind_a_port(greeting, true, 8);
        if !greeting.is_empty() {
            behind_a_port(greeting, false, 8);
        }
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new();
    for words in [
        words!["ls", format!("lh://{closed}/")],
        words!["cp", format!("lh://{closed}/data/x"), client.path("x")],
        words!["cp", "-r", client.path(""), format!("lh://{closed}/data/x")],
    ] {
        client.run(words).refused(5, &[&closed.to_string(), "longhaul serve"]);
    }
    client.run(words!["ls", "lh://no-such-host.invalid/"]).refused(5, &["no-such-host.invalid"]);
}

#[test]
fn tls_of_another_protocol_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let identity = client::StateDir::open(dir.path()).unwrap().identity().unwrap();
    for alpn in [&[][..], &[&b"http/1.1"[..]], &[b"lh/999"]] {
        let mut config = (*engine::identity::server_config(&identity).unwrap()).clone();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = Client::new();
        let running = client.begin(words!["ls", format!("lh://{address}/")]);
        let (mut socket, _) = listener.accept().unwrap();
        let mut tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        while tls.is_handshaking() && tls.complete_io(&mut socket).is_ok() {}
        let _ = tls.complete_io(&mut socket);
        drop(socket);
        running.finish().refused(8, &[&address.to_string()]);
        assert!(!client.state().join("known_nodes").exists(), "what is no node is not remembered");
    }
}
