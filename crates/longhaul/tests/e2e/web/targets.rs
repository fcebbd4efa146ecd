//! A public node does not connect to itself on behalf of clients.

use std::fs;
use std::net::TcpListener;

use super::peers::{Peer, honest};
use super::pulls::pull;
use super::raw::{ask, open, put};
use crate::node::{Node, Setup};

fn public_node() -> Node {
    Setup::new()
        .on_all_addresses()
        .data_export("rw")
        .arg("--anonymous")
        .arg("rw")
        .arg("--plain")
        .anonymous_may_copy()
        .start()
}

#[test]
fn a_public_node_fetches_nothing_from_its_own_host() {
    let node = public_node();
    let inner = Peer::new(|request, socket| honest(request, socket, b"secret", ""));
    let port = inner.port;
    for host in [
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "0.0.0.0",
        "0",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0x7f.0.0.1",
        "127.0.0.1.",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.1.1]",
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
    ] {
        for fields in [&[][..], &[("X-Number-Of-Streams", "4")], &[("Copy-Flags", "NoHead")]] {
            let answer = pull(&node, &format!("http://{host}:{port}/f"), fields);
            // Names that this host's resolver does not know are refused too.
            let nowhere = host.contains("ocalhost") || host.ends_with('.') || host.contains("OCALHOST");
            assert!(
                answer.status == 403 || answer.status == 400 || nowhere && answer.status == 502,
                "{host}: {answer:?}"
            );
        }
    }
    assert!(inner.requests().is_empty(), "{:?}", inner.requests());
    assert!(node.is_empty());
    // It pushes nothing there either.
    put(&node, "/data/f", b"x").expect(201);
    for host in ["127.0.0.1", "[::1]", "localhost", "2130706433"] {
        let to = format!("http://{host}:{port}/g");
        assert_eq!(ask(&node, "COPY", "/data/f", &[("Destination", to.as_str())], &[]).status, 403, "{host}");
    }
    assert!(inner.requests().is_empty());
}

/// An address of this host that is neither loopback nor link-local, if it has one.
fn own_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && TcpListener::bind((address, 0)).is_ok()).then(|| address.to_string())
}

#[test]
fn redirects_to_the_node_itself_are_refused() {
    let Some(own) = own_address() else {
        return crate::wait::skipped(
            "web::targets::redirects_to_the_node_itself_are_refused",
            "no address but loopback",
        );
    };
    let setup = Setup::new().on_all_addresses().data_export("rw").arg("--anonymous").arg("rw").arg("--plain");
    fs::create_dir_all(setup.state()).unwrap();
    // The one address of this host that its operator permits.
    let policy = format!("[third_party]\nguests = true\nallow = [\"{own}\"]\n");
    fs::write(setup.state().join("access.toml"), policy).unwrap();
    let node = setup.start();
    let inner = Peer::new(|request, socket| honest(request, socket, b"secret", ""));
    let port = inner.port;
    let outer = Peer::at(&own, move |request, socket| {
        let redirect = format!("Location: http://127.0.0.1:{port}/f\r\n");
        match (request.target.as_str(), request.method.as_str()) {
            ("/late", "HEAD") => honest(request, socket, b"secret", ""),
            _ => super::peers::answer(socket, 307, &redirect, b""),
        }
    });
    let url = |path: &str| format!("http://{own}:{}{path}", outer.port);
    assert_eq!(pull(&node, &url("/f"), &[]).status, 403);
    let late = pull(&node, &url("/late"), &[]).expect(202);
    assert!(late.last_line().starts_with("failure: Permission denied"), "{}", late.text());
    put(&node, "/data/f", b"x").expect(201);
    let pushed = ask(&node, "COPY", "/data/f", &[("Destination", &url("/f"))], &[]).expect(202);
    assert!(pushed.last_line().starts_with("failure: Permission denied"), "{}", pushed.text());
    assert!(inner.requests().is_empty(), "{:?}", inner.requests());
}

/// A public node is reached by its other addresses as well, and a service that listens there may be for this host alone.
#[test]
fn a_public_node_refuses_its_own_addresses() {
    let Some(own) = own_address() else {
        return crate::wait::skipped(
            "web::targets::a_public_node_refuses_its_own_addresses",
            "no address but loopback",
        );
    };
    let (node, listener) = (public_node(), TcpListener::bind((own.as_str(), 0)).unwrap());
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in [own.clone(), format!("[::ffff:{own}]"), format!("[64:ff9b::{own}]")] {
        let outcome = pull(&node, &format!("http://{host}:{port}/f"), &[]).expect(403);
        assert!(outcome.text().contains("this machine"), "{host}: {}", outcome.text());
    }
    assert!(listener.accept().is_err(), "no connection was made");
}

#[test]
fn a_node_on_loopback_refuses_link_local_and_unspecified_addresses() {
    let node = open();
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "0.0.0.0", "[::]"]
    {
        let outcome = pull(&node, &format!("http://{host}/latest/meta-data/"), &[]).expect(403);
        assert!(outcome.text().contains("one of its links"), "{host}: {}", outcome.text());
    }
    let inner = Peer::new(|request, socket| honest(request, socket, b"beside it", ""));
    assert_eq!(pull(&node, &inner.url("/f"), &[]).expect(202).last_line(), "success: Created");
}
