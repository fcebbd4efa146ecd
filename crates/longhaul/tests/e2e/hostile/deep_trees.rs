//! A tree of a thousand levels does not cost a node a descriptor for each level.

use std::fs;

use model::Algorithm;
use wire::frame::Request;

use super::requests::Requests;
use super::session::{Session, place};
use crate::client::{Client, words};
use crate::node::Setup;

const LEVELS: usize = 1000;

#[test]
fn a_deep_tree_is_listed_digested_and_removed_with_few_descriptors() {
    let node = Setup::new().descriptors(256).data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start();
    let deep = vec!["d"; LEVELS].join("/");
    fs::create_dir_all(node.data(&deep)).unwrap();
    fs::write(node.data(&deep).join("f"), b"abc").unwrap();
    let mut session = Session::open(&node, None).unwrap();
    let digests = session.query(Request::Digest(place("data", "d"), vec![Algorithm::Crc32c])).unwrap();
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert!(format!("{:?}", digests[0].digests).contains("364b3fb7") || !digests[0].digests.is_empty());
    let lines = session.query(Request::List(place("data", &deep))).unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let client = Client::new();
    let text = client.run(words!["digest", node.at("data/d")]).expect(0).text();
    assert!(text.starts_with("crc32c:364b3fb7"), "{text:.100}");
    assert_eq!(client.run(words!["ls", node.at(&format!("data/{deep}"))]).expect(0).text(), "f\n");
    assert!(node.descriptors() < 128, "{} descriptors are held", node.descriptors());
    // Over HTTP so deep a tree is not removed; whatever the status, the node continues.
    let status = Requests::new(&node, None).status("PROPFIND", &format!("/data/{deep}/"), &[("Depth", "1")], b"");
    assert!(status == 207 || (400..500).contains(&status), "{status}");
    session.query(Request::Remove(place("data", "d"), true)).unwrap();
    assert!(!node.data("d").exists());
}
