//! Unfinished files of interrupted copies are no data of any client: one rule for every verb and every protocol, and a copy reports
//! how many it left out.

use std::fs;
use std::path::Path;

use crate::client::{Client, words};
use crate::node::{Node, Setup};

/// Names of an unfinished file in a directory or at a node, and of one that is sent to another server.
const PART: &str = ".longhaul-0123abcd.part";
const UPLOAD: &str = ".longhaul-1f-ab.upload";

fn fill(dir: &Path) {
    for at in [dir.to_owned(), dir.join("sub")] {
        fs::create_dir_all(&at).unwrap();
        for (name, text) in [(PART, "half"), (UPLOAD, "half"), ("f", "whole")] {
            fs::write(at.join(name), text).unwrap();
        }
    }
}

/// The same tree locally, on a node, and on that node by HTTP.
fn places(client: &Client) -> (Node, [String; 3]) {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start();
    fill(&node.data("d"));
    fill(&client.path("d"));
    let http = format!("http://127.0.0.1:{}/data/d", node.port);
    let at = [client.path("d").to_str().unwrap().to_owned(), node.at("data/d"), http];
    (node, at)
}

#[test]
fn unfinished_files_cannot_be_read_by_any_protocol() {
    let client = Client::new();
    let (_node, places) = places(&client);
    for place in &places {
        let listed = client.run(words!["ls", place]).expect(0).text();
        assert_eq!(sorted(&listed), ["f", "sub/"], "ls {place}");
        let digests = client.run(words!["digest", place]).expect(0).text();
        assert!(!digests.contains(".longhaul-") && digests.lines().count() == 2, "digest {place}: {digests}");
        let at = format!("{place}/{PART}");
        for command in [words!["ls", at], words!["stat", at], words!["digest", at]] {
            let outcome = client.run(command);
            assert_eq!(outcome.code, 1, "{at}: {outcome:?}");
        }
        for change in [
            words!["rm", at],
            words!["mv", at, format!("{place}/stolen")],
            words!["mv", format!("{place}/f"), at],
            words!["mkdir", format!("{place}/.longhaul-new.part")],
            words!["cp", "--quiet", at, "out"],
            words!["cp", "--quiet", format!("{place}/f"), at],
        ] {
            let outcome = client.run(change.clone());
            assert_ne!(outcome.code, 0, "{change:?}: {outcome:?}");
        }
        assert!(!client.path("out").exists(), "{at} was read");
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_copy_reports_how_many_unfinished_files_it_left_out() {
    let client = Client::new();
    let (_node, places) = places(&client);
    let mirrored = |place: &String| [words!["-r", place, "m"], words!["--mirror", place]].concat();
    // A server that hides its unfinished files over HTTP does not report their number: the expected ones were sent to
    // it. Mirrors are read by HTTP.
    for (number, (place, left_out)) in places.iter().zip([(4, 4), (4, 2), (2, 2)]).enumerate() {
        for (words, left_out) in
            [(words!["-r", place, format!("copy-{number}")], left_out.0), (mirrored(place), left_out.1)]
        {
            let receipt = client.cp(0, words);
            assert_eq!((receipt["state"].as_str(), receipt["files"].as_u64()), (Some("done"), Some(2)), "{receipt}");
            assert_eq!(receipt["unfinished"], left_out, "{place}: {receipt}");
            fs::remove_dir_all(client.path("m")).ok();
        }
        let copied = client.path(&format!("copy-{number}"));
        assert_eq!(crate::client::unfinished(&copied), Vec::<std::path::PathBuf>::new());
    }
    let output = client.run(words!["cp", "-r", client.path("d"), "people"]).expect(0).text();
    assert!(output.contains("4 unfinished files left out"), "{output}");
}

#[test]
fn rm_r_removes_a_directory_of_only_unfinished_files() {
    let client = Client::new();
    let (_node, places) = places(&client);
    // The third is the second by another protocol.
    for place in &places[..2] {
        client.run(words!["rm", "-r", place]).expect(0);
        client.run(words!["stat", place]).expect(1);
    }
    // Unfinished files of the target are not deleted, although the source lacks them.
    fill(&client.path("t"));
    fs::create_dir(client.path("s")).unwrap();
    fs::write(client.path("s/f"), b"whole").unwrap();
    client.cp(0, words!["-r", "--delete", "s", "t"]);
    assert!(client.path("t").join(PART).exists() && client.path("t").join(UPLOAD).exists());
}
