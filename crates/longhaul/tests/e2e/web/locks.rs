//! Locks: kept over restarts, respected by every verb and by the native protocol; the field `If`; properties that clients give.

use std::fs;

use super::raw::{Answer, ask, get, open, put};
use crate::client::{Client, words};
use crate::node::Node;

const EXCLUSIVE: &[u8] =
    b"<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner>me</owner></lockinfo>";

/// Requests an exclusive lock.
pub(super) fn lock(node: &Node, target: &str, fields: &[(&str, &str)]) -> Answer {
    ask(node, "LOCK", target, fields, EXCLUSIVE)
}

/// The token of a new lock, in its brackets.
fn token(answer: Answer) -> String {
    answer.field("lock-token").unwrap_or_else(|| panic!("no lock: {answer:?}")).to_owned()
}

#[test]
fn a_locked_file_changes_only_for_its_holder() {
    let node = open();
    put(&node, "/data/f", b"one").expect(201);
    let lock_token = token(lock(&node, "/data/f", &[("Timeout", "Second-100")]).expect(200));
    let list = format!("({lock_token})");
    let refused = put(&node, "/data/f", b"two").expect(423);
    assert!(refused.text().contains("locked by me (an anonymous client) until "), "{}", refused.text());
    for (verb, fields) in
        [("DELETE", vec![]), ("MOVE", vec![("Destination", "/data/g")]), ("PROPPATCH", vec![]), ("LOCK", vec![])]
    {
        let body: &[u8] = match verb {
            "PROPPATCH" => b"<propertyupdate xmlns='DAV:'><set><prop><x/></prop></set></propertyupdate>",
            "LOCK" => EXCLUSIVE,
            _ => b"",
        };
        assert_eq!(ask(&node, verb, "/data/f", &fields, body).status, 423, "{verb}");
    }
    put(&node, "/data/h", b"three").expect(201);
    assert_eq!(ask(&node, "COPY", "/data/h", &[("Destination", "/data/f")], &[]).status, 423);
    assert_eq!(
        ask(&node, "COPY", "/data/f", &[("Destination", "/data/g")], &[]).status,
        201,
        "to read it is no change"
    );
    assert_eq!(ask(&node, "PUT", "/data/f", &[("If", &list)], b"two").status, 204);
    assert_eq!(get(&node, "/data/f").body, b"two");
    // Clients of the native protocol have no lock tokens, and are refused.
    let client = Client::new();
    let file = client.path("file");
    fs::write(&file, b"native").unwrap();
    let run = client.run(words!["cp", file.to_str().unwrap(), &node.at("data/f")]);
    assert!(run.code != 0 && run.err.contains("locked by me"), "{run:?}");
    let run = client.run(words!["rm", &node.at("data/f")]);
    assert!(run.code != 0 && run.err.contains("locked by me"), "{run:?}");
    assert_eq!(get(&node, "/data/f").body, b"two");
    assert_eq!(ask(&node, "UNLOCK", "/data/f", &[("Lock-Token", &lock_token)], &[]).status, 204);
    let run = client.run(words!["cp", file.to_str().unwrap(), &node.at("data/f")]);
    assert!(run.code == 0, "{run:?}");
}

#[test]
fn locks_outlast_a_restart_of_the_node() {
    let mut node = open();
    put(&node, "/data/f", b"one").expect(201);
    let lock_token = token(lock(&node, "/data/f", &[]).expect(200));
    node.stop();
    node.restart();
    assert_eq!(put(&node, "/data/f", b"two").status, 423);
    let list = format!("({lock_token})");
    let refreshed = ask(&node, "LOCK", "/data/f", &[("If", &list), ("Timeout", "Infinite")], &[]).expect(200);
    assert!(refreshed.text().contains("<D:timeout>Second-3"), "an hour, less a moment: {}", refreshed.text());
    assert_eq!(ask(&node, "UNLOCK", "/data/f", &[("Lock-Token", &lock_token)], &[]).status, 204);
    assert_eq!(ask(&node, "UNLOCK", "/data/f", &[("Lock-Token", &lock_token)], &[]).status, 409);
    assert_eq!(put(&node, "/data/f", b"two").status, 204);
}

#[test]
fn locks_expire() {
    let node = open();
    put(&node, "/data/f", b"one").expect(201);
    lock(&node, "/data/f", &[("Timeout", "Second-1")]).expect(200);
    crate::wait::until("the lock is over", crate::wait::LONG, || put(&node, "/data/f", b"two").status == 204);
}

#[test]
fn locking_a_new_name_reserves_it() {
    let node = open();
    fs::create_dir(node.data("d")).unwrap();
    let lock_token = token(lock(&node, "/data/d/new", &[]).expect(201));
    assert_eq!(fs::read(node.data("d/new")).unwrap(), b"");
    assert_eq!(put(&node, "/data/d/new", b"x").status, 423);
    // As office programs save: under another name, and then moved onto the locked file.
    put(&node, "/data/d/temp", b"saved").expect(201);
    let fields = [("Destination", "/data/d/new"), ("Overwrite", "T")];
    assert_eq!(ask(&node, "MOVE", "/data/d/temp", &fields, &[]).status, 423);
    let list = format!("</data/d/new> ({lock_token})");
    let fields = [&fields[..], &[("If", list.as_str())]].concat();
    assert_eq!(ask(&node, "MOVE", "/data/d/temp", &fields, &[]).status, 204);
    assert_eq!(fs::read(node.data("d/new")).unwrap(), b"saved");
    assert_eq!(ask(&node, "UNLOCK", "/data/d/new", &[("Lock-Token", &lock_token)], &[]).status, 204);
    assert_eq!(lock(&node, "/data/none/new", &[]).status, 409);
    assert_eq!(lock(&node, "/data/d", &[("Depth", "1")]).status, 400);
    assert_eq!(ask(&node, "LOCK", "/data/d", &[], b"<lockinfo xmlns='DAV:'/>").status, 400);
    assert_eq!(ask(&node, "LOCK", "/data/d", &[], &[]).status, 412, "there is none to refresh");
    assert_eq!(ask(&node, "UNLOCK", "/data/d", &[], &[]).status, 400);
}

#[test]
fn a_deep_lock_covers_what_is_below() {
    let node = open();
    fs::create_dir_all(node.data("d/e")).unwrap();
    let lock_token = token(lock(&node, "/data/d", &[("Depth", "infinity")]).expect(200));
    assert_eq!(put(&node, "/data/d/e/f", b"x").status, 423);
    assert_eq!(ask(&node, "MKCOL", "/data/d/new", &[], &[]).status, 423);
    assert_eq!(lock(&node, "/data/d/e", &[]).status, 423);
    let list = format!("</data/d> ({lock_token})");
    assert_eq!(ask(&node, "PUT", "/data/d/e/f", &[("If", &list)], b"x").status, 201);
    let found = ask(&node, "PROPFIND", "/data/d/e/f", &[("Depth", "0")], &[]).expect(207);
    assert!(found.text().contains("<D:lockroot><D:href>/data/d</D:href></D:lockroot>"), "{}", found.text());
    assert!(found.text().contains("<D:owner>me</D:owner>"), "{}", found.text());
}

#[test]
fn the_conditions_of_if_must_hold() {
    let node = open();
    put(&node, "/data/f", b"one").expect(201);
    let tag = get(&node, "/data/f").field("etag").unwrap().to_owned();
    for (condition, status) in [
        ("(<urn:uuid:none>)".to_owned(), 412),
        ("([\"other\"])".to_owned(), 412),
        ("(Not <DAV:no-lock> [\"other\"])".to_owned(), 412),
        ("</data/f> (<urn:uuid:none>)".to_owned(), 412),
        ("<http://elsewhere.example/data/f> ([\"other\"])".to_owned(), 412),
        ("nonsense".to_owned(), 400),
        ("(Not <urn:uuid:none>)".to_owned(), 204),
    ] {
        assert_eq!(ask(&node, "PUT", "/data/f", &[("If", &condition)], b"one").status, status, "{condition}");
    }
    let condition = format!("([{tag}])");
    assert_eq!(ask(&node, "DELETE", "/data/f", &[("If", &condition)], &[]).status, 412, "it has been put since");
    let tag = get(&node, "/data/f").field("etag").unwrap().to_owned();
    let condition = format!("([{tag}])");
    assert_eq!(ask(&node, "GET", "/data/f", &[("If", &condition)], &[]).status, 200);
    assert_eq!(ask(&node, "DELETE", "/data/f", &[("If", &condition)], &[]).status, 204);
}

#[test]
fn properties_are_kept_with_the_file() {
    let node = open();
    put(&node, "/data/f", b"one").expect(201);
    let change = |target: &str, body: &str| ask(&node, "PROPPATCH", target, &[], body.as_bytes());
    let set = "<propertyupdate xmlns='DAV:' xmlns:A='http://apache.org/dav/props/'><set><prop>\
        <getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</getlastmodified><A:executable>T</A:executable>\
        <run xmlns='urn:z' xml:lang='en'>7 &lt; 8</run></prop></set></propertyupdate>";
    let answer = change("/data/f", set).expect(207);
    assert!(answer.text().contains("200 OK") && !answer.text().contains("403"), "{}", answer.text());
    let answer = get(&node, "/data/f");
    assert_eq!(answer.field("last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    let properties_of = |target: &str| ask(&node, "PROPFIND", target, &[("Depth", "0")], &[]).expect(207).text();
    let kept = "<x:run xmlns:x=\"urn:z\" xml:lang=\"en\">7 &lt; 8</x:run>";
    assert!(
        properties_of("/data/f").contains(kept) && properties_of("/data/f").contains("<A:executable>T"),
        "{}",
        properties_of("/data/f")
    );
    // Over a PUT, a MOVE and a COPY, for a directory as well.
    put(&node, "/data/f", b"two").expect(204);
    ask(&node, "MOVE", "/data/f", &[("Destination", "/data/g")], &[]).expect(201);
    ask(&node, "COPY", "/data/g", &[("Destination", "/data/h")], &[]).expect(201);
    assert!(properties_of("/data/g").contains(kept) && properties_of("/data/h").contains(kept));
    fs::create_dir(node.data("d")).unwrap();
    change(
        "/data/d",
        "<propertyupdate xmlns='DAV:'><set><prop><run xmlns='urn:z'>d</run></prop></set></propertyupdate>",
    );
    assert!(properties_of("/data/d").contains("<x:run xmlns:x=\"urn:z\">d</x:run>"));
    // All or nothing.
    let both = "<propertyupdate xmlns='DAV:'><set><prop><run xmlns='urn:z'>9</run><getetag>x</getetag></prop></set></propertyupdate>";
    let answer = change("/data/g", both).expect(207).text();
    assert!(answer.contains("403 Forbidden") && answer.contains("424 Failed Dependency"), "{answer}");
    assert!(properties_of("/data/g").contains(kept));
    let removal = "<propertyupdate xmlns='DAV:'><remove><prop><run xmlns='urn:z'/></prop></remove></propertyupdate>";
    change("/data/g", removal).expect(207);
    assert!(!properties_of("/data/g").contains("urn:z"));
    // More than is read, and more than any file system keeps with a file.
    let many: String = (0..14).map(|at| format!("<p{at} xmlns='urn:z'>{}</p{at}>", "x".repeat(5000))).collect();
    let answer =
        change("/data/g", &format!("<propertyupdate xmlns='DAV:'><set><prop>{many}</prop></set></propertyupdate>"));
    assert_eq!(answer.status, 413, "{answer:?}");
    let much: String = (0..8).map(|at| format!("<p{at} xmlns='urn:z'>{}</p{at}>", "x".repeat(7500))).collect();
    let much = format!("<propertyupdate xmlns='DAV:'><set><prop>{much}</prop></set></propertyupdate>");
    assert!(change("/data/g", &much).expect(207).text().contains("507 Insufficient Storage"));
    assert_eq!(change("/data/none", removal).status, 404);
    assert_eq!(change("/data/g", "<propertyupdate xmlns='DAV:'/>").status, 400);
}
