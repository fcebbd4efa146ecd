//! Uploads in parts: started, broken off and resumed, also at a restarted node.

use std::fs;

use crate::node::Node;
use crate::tree::pattern;

use super::raw::{Answer, ask, open};

const BYTES: usize = 300_000;

fn begin(node: &Node, path: &str, bytes: usize) -> String {
    let fields = [("Upload-Complete", "?0"), ("Upload-Length", &*bytes.to_string())];
    let answer = ask(node, "PUT", path, &fields, &[]).expect(201);
    assert_eq!((answer.field("upload-offset"), answer.field("upload-complete")), (Some("0"), Some("?0")));
    format!("{path}{}", answer.field("location").unwrap())
}

fn append(node: &Node, at: &str, offset: usize, part: &[u8], is_last: bool) -> Answer {
    let complete = if is_last { "?1" } else { "?0" };
    ask(node, "PATCH", at, &[("Upload-Offset", &*offset.to_string()), ("Upload-Complete", complete)], part)
}

fn offset(node: &Node, at: &str) -> String {
    ask(node, "HEAD", at, &[], &[]).expect(204).field("upload-offset").unwrap().to_owned()
}

#[test]
fn an_upload_in_parts_survives_a_restart_and_appears_when_complete() {
    let mut node = open();
    let all = pattern(BYTES);
    let at = begin(&node, "/data/sub/large", BYTES);
    append(&node, &at, 0, &all[..100_000], false).expect(204);
    node.restart();
    assert_eq!(offset(&node, &at), "100000", "what arrived is on disk before the answer");
    assert!(!node.data("sub/large").exists());
    let refused = append(&node, &at, 0, &all[..10], false).expect(409);
    assert_eq!(refused.field("upload-offset"), Some("100000"));
    append(&node, &at, 100_000, &all[100_000..200_000], false).expect(204);
    let done = append(&node, &at, 200_000, &all[200_000..], true).expect(201);
    assert!(done.field("etag").is_some());
    assert!(fs::read(node.data("sub/large")).unwrap() == all);
    ask(&node, "HEAD", &at, &[], &[]).expect(404);
    // Its digest was made part by part, and is that of the whole.
    let digest = ask(&node, "HEAD", "/data/sub/large", &[("Want-Digest", "adler32")], &[]).expect(200);
    let whole = model::checksum::adler32(&all);
    assert_eq!(digest.field("digest"), Some(&*format!("adler32={whole:08x}")));
    let left: Vec<_> = fs::read_dir(node.data("sub")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["large"]);
}

#[test]
fn an_invalid_part_is_reported_and_changes_nothing() {
    let node = open();
    let at = begin(&node, "/data/f", 10);
    append(&node, &at, 0, b"0123456789x", true).expect(400);
    append(&node, &at, 0, b"01234", true).expect(400);
    assert_eq!(offset(&node, &at), "5", "what arrived of it counts");
    append(&node, &at.replace("/data/f", "/data/g"), 5, b"56789", true).expect(404);
    append(&node, "/data/f?upload=00", 5, b"56789", true).expect(405);
    append(&node, &format!("/data/f?upload={}", "0".repeat(32)), 5, b"56789", true).expect(404);
    let wrong = [("Upload-Offset", "5"), ("Upload-Complete", "?1"), ("Digest", "adler32=00000001")];
    ask(&node, "PATCH", &at, &wrong, b"56789").expect(400);
    assert!(!node.data("f").exists());
    ask(&node, "PUT", "/data/h", &[("Upload-Complete", "?0")], &[]).expect(400);
    let too_large = [("Upload-Complete", "?0"), ("Upload-Length", "1152921504606846976")];
    ask(&node, "PUT", "/data/h", &too_large, &[]).expect(507);
    ask(&node, "DELETE", &at, &[], &[]).expect(204);
    ask(&node, "HEAD", &at, &[], &[]).expect(404);
    assert_eq!(fs::read_dir(node.data("")).unwrap().count(), 0, "nothing is left");
}
