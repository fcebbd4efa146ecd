//! Anonymous clients cannot make a node connect anywhere; only listed, harmless header fields are forwarded with a copy.

use std::fs;
use std::net::TcpListener;

use model::fault::Fault;
use model::locator::HostPort;
use wire::frame::{DelegationOrder, Direction, KeyProof, Request};

use super::session::{Session, order_at, place};
use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::wait::{LONG, until};
use crate::web::peers::{Peer, honest};
use crate::web::raw::ask;

fn open(policy: Option<&str>) -> Node {
    let setup = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain");
    if let Some(policy) = policy {
        fs::create_dir(setup.state()).unwrap();
        fs::write(setup.state().join("access.toml"), policy).unwrap();
    }
    let node = setup.start();
    fs::write(node.data("f"), b"here").unwrap();
    node
}

/// A listening port to which a node must not connect.
fn bait() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn delegation_request(port: u16) -> Request {
    Request::Carry(Box::new(DelegationOrder {
        order: order_at(Direction::Push, place("data", "x")),
        sources: vec![place("data", "f")],
        to: HostPort { host: "127.0.0.1".into(), port },
        node: [7; 32],
        key: KeyProof { id: [7; 8], secret: [7; 32] },
        plain: false,
        retry_for_s: 0,
    }))
}

#[test]
fn anonymous_clients_cannot_make_a_node_dial() {
    let (node, (listener, port)) = (open(None), bait());
    let url = format!("http://127.0.0.1:{port}/f");
    for (field, target) in [("Source", "/data/new"), ("Destination", "/data/f")] {
        for more in [&[][..], &[("TransferHeaderAuthorization", "Bearer x")], &[("Copy-Flags", "NoHead")]] {
            let answer = ask(&node, "COPY", target, &[&[(field, url.as_str())], more].concat(), b"");
            assert_eq!(answer.status, 401, "{field} {more:?}: {}", answer.text());
            assert!(answer.field("www-authenticate").is_some(), "{field}: {:?}", answer.fields);
        }
    }
    let refusal = Session::open(&node, None)
        .unwrap()
        .ask_text(delegation_request(port))
        .expect_err("an anonymous client's order was taken");
    assert_eq!(refusal.fault, Fault::Auth, "{refusal:?}");
    let order = format!("{{\"id\":\"{}\",\"source\":[\"{url}\"],\"target\":\"/data/new\"}}", model::id::Uuid::now_v7());
    let kind = [("Content-Type", "application/json")];
    assert_eq!(ask(&node, "POST", "/api/v1/transfers", &kind, order.as_bytes()).status, 401);
    assert!(listener.accept().is_err(), "the node connected to a port that an anonymous client named");
    assert!(!node.data("new").exists());
}

#[test]
fn an_anonymous_client_orders_no_copy_between_nodes() {
    let (near, far) = (open(None), open(None));
    let client = Client::new();
    client.run(words!["cp", near.at("data/f"), far.at("data/came")]).expect(4);
    assert!(!far.data("came").exists());
    // What an anonymous client copies through itself is a read and a write.
    client.run(words!["cp", near.at("data/f"), client.path("f")]).expect(0);
    client.run(words!["cp", client.path("f"), far.at("data/came")]).expect(0);
}

#[test]
fn a_policy_may_let_anonymous_clients_copy() {
    let policy = "[third_party]\nguests = true\n";
    let (near, far) = (open(Some(policy)), open(None));
    let peer = Peer::new(|request, socket| honest(request, socket, b"from afar", ""));
    let pulled = ask(&near, "COPY", "/data/pulled", &[("Source", peer.url("/f").as_str())], b"").expect(202);
    assert_eq!(pulled.last_line(), "success: Created", "{}", pulled.text());
    assert_eq!(fs::read(near.data("pulled")).unwrap(), b"from afar");
    Client::new().run(words!["cp", near.at("data/f"), far.at("data/came")]).expect(0);
    assert_eq!(fs::read(far.data("came")).unwrap(), b"here");
    let (listener, port) = bait();
    let answer = Session::open(&near, None).unwrap().ask_text(delegation_request(port));
    assert!(answer.is_ok(), "{answer:?}");
    until("the node connects to its target", LONG, || listener.accept().is_ok());
}

#[test]
fn only_listed_fields_are_forwarded_with_a_copy() {
    let node = open(None);
    let key = node.grant(&["--export", "data", "--write"]);
    let bearer = format!("Bearer {key}");
    let peer = Peer::new(|request, socket| honest(request, socket, b"from afar", ""));
    let url = peer.url("/f");
    for name in [
        "TransferHeaderX-Anything",
        "TransferHeaderMetadata-Flavor",
        "TransferHeaderX-aws-ec2-metadata-token",
        "TransferHeaderX-Forwarded-For",
        "TransferHeaderCookie",
    ] {
        for (field, target) in [("Source", "/data/new"), ("Destination", "/data/f")] {
            let fields = [("Authorization", bearer.as_str()), (field, url.as_str()), (name, "1")];
            let answer = ask(&node, "COPY", target, &fields, b"");
            assert_eq!(answer.status, 400, "{name} {field}: {}", answer.text());
            let text = answer.text().to_ascii_lowercase();
            let passed = name.trim_start_matches("TransferHeader").to_ascii_lowercase();
            assert!(text.contains(&passed), "{name} is not named: {text}");
        }
    }
    assert!(peer.requests().is_empty(), "{:?}", peer.requests());
    // Headers of the request itself are set by the node: the client's are refused or left out, never passed on.
    for name in ["Upgrade", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect"] {
        let passed = format!("TransferHeader{name}");
        let fields = [("Authorization", bearer.as_str()), ("Source", url.as_str()), (passed.as_str(), "evil")];
        ask(&node, "COPY", "/data/new", &fields, b"");
        let requests = peer.requests();
        assert!(
            requests.iter().all(|request| request.field(&name.to_lowercase()) != Some("evil")),
            "{name}: {requests:?}"
        );
    }
    let fields =
        [("Authorization", bearer.as_str()), ("Source", url.as_str()), ("TransferHeaderAuthorization", "Bearer t")];
    assert_eq!(ask(&node, "COPY", "/data/new", &fields, b"").expect(202).last_line(), "success: Created");
    assert!(peer.requests().iter().any(|request| request.field("authorization") == Some("Bearer t")));
}
