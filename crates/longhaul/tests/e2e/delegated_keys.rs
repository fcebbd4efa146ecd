//! The delegated key that the node at the source of a third-party copy gets: the target makes it for one job and one path; it
//! opens nothing else, and ends with the job.

use std::fs;
use std::time::Duration;

use auth::{AccessKey, Fingerprint};
use model::RelPath;
use model::locator::NodePlace;
use wire::Frame;
use wire::frame::{DelegationOrder, Direction, KeyProof, Open};

use crate::client::{Client, words};
use crate::node::Node;
use crate::raw_client::{RawClient, dir, encoded};
use crate::scripted_node::ScriptedNode;
use crate::third_party::files_with;
use crate::wait::{LONG, until};

/// A delegation that the source of a copy to `data/in/t` gets from a client with a key to each node.
struct DelegationFixture {
    target: Node,
    keys: [AccessKey; 2],
    delegation: DelegationOrder,
    frames: Vec<Frame>,
}

fn delegated(rights: &str) -> DelegationFixture {
    let (source, target) = (ScriptedNode::new(), Node::closed());
    fs::create_dir(target.data("in")).unwrap();
    fs::write(target.data("in/secret"), b"secret").unwrap();
    let keys: [AccessKey; 2] = [source.key(), target.grant(&["--export", "data", rights]).parse().unwrap()];
    let client = Client::with_key(&keys.each_ref().map(AccessKey::expose_text).join(","));
    let words = words!["cp", "-r", source.at("data/s"), target.at("data/in/t"), "--retry-for", "0s"];
    let running = client.begin(words);
    let (delegation, frames) = source.accept_delegated();
    drop(running);
    DelegationFixture { target, keys, delegation, frames }
}

impl DelegationFixture {
    /// The order of the job, as the source's node gives it to the target's.
    fn order(&self) -> Open {
        self.delegation.order.clone()
    }

    fn raw_client(&self) -> RawClient {
        RawClient::with_key(&self.target, Some(&self.delegation.key)).unwrap()
    }

    /// A client of the command line with the delegated key.
    fn client(&self) -> Client {
        let KeyProof { id, secret } = self.delegation.key.clone();
        Client::with_key(&AccessKey::new(id, secret, Fingerprint(self.delegation.node)).expose_text())
    }

    /// Whether the node refuses this order.
    fn refuses(&self, order: Open) -> bool {
        let mut raw_client = self.raw_client();
        raw_client.send(&Frame::Open(order));
        raw_client.send(&Frame::ScanEnd(0));
        loop {
            match raw_client.receive() {
                Err(engine::Error::Refused { .. }) => return true,
                Err(error) => panic!("{error}"),
                Ok(Frame::Finished(_)) => return false,
                Ok(_) => {}
            }
        }
    }
}

fn place(path: &str) -> NodePlace {
    NodePlace::Path { export: "data".into(), path: RelPath::parse(path.as_bytes()).unwrap() }
}

#[test]
fn each_key_of_a_client_goes_only_to_its_own_node() {
    let delegated = delegated("--write");
    let bytes: Vec<u8> = delegated.frames.iter().flat_map(encoded).collect();
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|part| part == needle);
    let [at_source, at_target] = &delegated.keys;
    assert!(holds(at_source.expose_secret()), "it logs in with the key to this node");
    assert!(!holds(at_target.expose_secret()) && !holds(&at_target.id), "the other node's key was sent here");
    assert_ne!(delegated.delegation.key.secret, *at_target.expose_secret());
    assert_eq!(delegated.delegation.node, at_target.node.0);
    assert_eq!(
        (delegated.delegation.order.direction, &delegated.delegation.order.places[0]),
        (Direction::Push, &place("in/t"))
    );
    // Nor does the target keep the key in a form that could be used.
    assert!(files_with(&delegated.target.state(), &delegated.delegation.key.secret).is_empty());
}

#[test]
fn a_delegated_key_is_for_one_job_and_one_path() {
    for rights in ["--write", "--create"] {
        let delegated = delegated(rights);
        let (own, other_job) = (delegated.order(), Open { job: [9; 16], ..delegated.order() });
        assert!(delegated.refuses(other_job), "{rights}: another job");
        for path in ["in", "in/other", "in/t/below", "", "in/t2"] {
            let other_path = Open { places: vec![place(path)], ..delegated.order() };
            assert!(delegated.refuses(other_path), "{rights}: {path:?}");
        }
        assert!(
            delegated.refuses(Open { places: vec![NodePlace::Null], ..delegated.order() }),
            "{rights}: the memory end"
        );
        assert!(!delegated.refuses(own), "{rights}: the job itself");
    }
}

#[test]
fn a_delegated_key_neither_lists_nor_reads_nor_removes() {
    let delegated = delegated("--write");
    let (client, target) = (delegated.client(), &delegated.target);
    client.write("f", b"mine");
    for words in [
        words!["ls", target.at("")],
        words!["ls", target.at("data/in")],
        words!["stat", target.at("data/in/secret")],
        words!["digest", target.at("data/in/secret")],
        words!["rm", target.at("data/in/secret")],
        words!["mkdir", target.at("data/in/t")],
        words!["mv", target.at("data/in/secret"), target.at("data/in/t")],
        words!["cp", target.at("data/in/secret"), client.path("got")],
        words!["cp", client.path("f"), target.at("data/in/t")],
        words!["job", "list", "--node", target.at("")],
    ] {
        let shown = format!("{words:?}");
        let outcome = client.run(words);
        assert_eq!(outcome.code, 4, "{shown}: {}{}", outcome.text(), outcome.err);
    }
    assert!(!client.path("got").exists() && !target.data("in/t").exists());
    assert_eq!(fs::read(target.data("in/secret")).unwrap(), b"secret");
    // Nor under the id of the job.
    let pull = Open { direction: Direction::Pull, places: vec![place("in/secret")], ..delegated.order() };
    let mut raw_client = delegated.raw_client();
    raw_client.send(&Frame::Open(pull));
    assert!(matches!(raw_client.end(), engine::Error::Refused { .. }));
}

#[test]
fn a_delegated_key_ends_with_its_job() {
    let delegated = delegated("--write");
    let mut raw_client = delegated.raw_client();
    raw_client.send(&Frame::Open(delegated.order()));
    raw_client.send(&Frame::Entries(vec![dir(1, 0, "t"), wire::frame::Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(1));
    raw_client.receive_until("the end", |frame| matches!(frame, Frame::Finished(_)));
    raw_client.send(&Frame::Facts(Vec::new()));
    assert!(delegated.target.data("in/t").is_dir());
    until("the key is forgotten", LONG, || {
        std::thread::sleep(Duration::from_millis(50));
        RawClient::with_key(&delegated.target, Some(&delegated.delegation.key)).is_err()
    });
    // The client's own key still works.
    let [_, own] = &delegated.keys;
    let client = Client::with_key(&own.expose_text());
    client.run(words!["ls", delegated.target.at("data/in")]).expect(0);
}

#[test]
fn a_create_only_key_delegates_only_creation() {
    let delegated = delegated("--create");
    fs::create_dir(delegated.target.data("in/t")).unwrap();
    fs::write(delegated.target.data("in/t/f"), b"there").unwrap();
    let mut raw_client = delegated.raw_client();
    raw_client.send(&Frame::Open(delegated.order()));
    let f = crate::raw_client::file(2, 1, "f", 4);
    raw_client.send(&Frame::Entries(vec![dir(1, 0, "t"), f, wire::frame::Entry::Leave(1)]));
    raw_client.send(&Frame::ScanEnd(2));
    let outcome = raw_client.receive_until("an outcome", |frame| match frame {
        Frame::Outcomes(list) => list.iter().any(|(id, _)| *id == 2),
        Frame::Finished(_) => true,
        _ => false,
    });
    assert!(format!("{outcome:?}").contains("Failed") || matches!(outcome, Frame::Finished(t) if t.failed == 1));
    assert_eq!(fs::read(delegated.target.data("in/t/f")).unwrap(), b"there");
}
