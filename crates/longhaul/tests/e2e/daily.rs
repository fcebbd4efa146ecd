//! Everyday options, as other programs have them: sorted listings, `rm -f`, `cp -a`, `cp -v`, `sync`, a receipt
//! on standard output, and a hint about a link that was named.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::client::{Client, words};
use crate::node::Node;
use crate::sync::{fill, fixtures, names, set};

#[test]
fn listings_are_sorted_and_sizes_can_have_units() {
    let (node, client) = (Node::open(), Client::new());
    let files: Vec<String> =
        (0..300).rev().map(|number| format!("d/{}{number}", if number % 2 == 0 { "b" } else { "a" })).collect();
    for root in [node.data(""), client.path("")] {
        fill(&root, &files.iter().map(String::as_str).collect::<Vec<_>>());
        fs::write(root.join("d/large"), vec![0; 3_000_000]).unwrap();
    }
    for place in [node.at("data/d"), client.path("d").display().to_string()] {
        let listed = client.run(words!["ls", place]).expect(0).text();
        let lines: Vec<&str> = listed.lines().collect();
        assert!(lines.len() == 301 && lines.is_sorted(), "{place}: {listed}");
        let json = client.run(words!["ls", "--json", place]).expect(0).text();
        let named =
            json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].as_str().unwrap().to_owned());
        assert!(named.eq(lines.iter().map(|line| (*line).to_owned())), "{place}");
        let long = client.run(words!["ls", "-lh", place]).expect(0).text();
        assert!(long.lines().last().unwrap().contains(" 2.86 MiB "), "{long}");
        assert!(client.run(words!["ls", "-l", place]).expect(0).text().contains(" 3000000 "));
    }
    assert!(client.run(words!["ls", "--help"]).expect(0).text().contains("--human"));
}

#[test]
fn rm_f_accepts_missing_files() {
    let (node, client) = (Node::open(), Client::new());
    fill(&node.data(""), &["f", "d/f"]);
    for place in [node.at("data/missing"), client.path("missing").display().to_string()] {
        client.run(words!["rm", place]).expect(1);
        client.run(words!["rm", "-f", place]).expect(0);
        client.run(words!["rm", "-rf", place]).expect(0);
    }
    client.run(words!["rm", "-rf", node.at("data/d")]).expect(0);
    assert_eq!(names(&node.data("")), set(["f"]));
    // Other failures are still reported.
    client.run(words!["rm", "-f", "lh://127.0.0.1:1/data/f"]).expect(5);
}

#[test]
fn verbose_copies_print_a_line_for_each_file() {
    for fixture in fixtures() {
        fill(&fixture.source, &["a", "d/b", "d/c"]);
        fixture.copy(0, &[]);
        fill(&fixture.source, &["new"]);
        fs::write(fixture.source.join("d/b"), b"changed").unwrap();
        fs::remove_file(fixture.target.join("a")).unwrap();
        fs::create_dir(fixture.target.join("a")).unwrap();
        let output = fixture.run(&["-v"]).expect(3).text();
        let mut files: Vec<(String, String)> = Vec::new();
        for line in output.lines() {
            let object: Value = serde_json::from_str(line).unwrap();
            if object["event"] == "file" {
                files.push((object["path"].as_str().unwrap().into(), object["outcome"].as_str().unwrap().into()));
            }
        }
        files.sort();
        let wanted = [("s/a", "failed"), ("s/d/b", "done"), ("s/d/c", "skipped"), ("s/new", "done")];
        assert_eq!(files, wanted.map(|(path, outcome)| (path.to_owned(), outcome.to_owned())), "{}", fixture.name);
        fs::remove_dir(fixture.target.join("a")).unwrap();
        let people = fixture.client.run(words!["cp", "-rv", fixture.from, fixture.to]).expect(0).text();
        for line in ["s/a (1 B)", "s/d/c (already there)"] {
            assert!(people.lines().any(|printed| printed == line), "{}: {people}", fixture.name);
        }
    }
}

#[test]
fn copy_and_sync_are_other_names_of_cp() {
    let client = Client::new();
    fill(&client.path("s"), &["d/f"]);
    client.run(words!["cp", client.path("s"), client.path("no")]).expect(2);
    client.run(words!["copy", "-r", client.path("s"), client.path("copied")]).expect(0);
    client.run(words!["sync", client.path("s"), client.path("synced")]).expect(0);
    fill(&client.path("synced"), &["extra"]);
    client.run(words!["sync", "--delete", "--exclude", "*.tmp", client.path("s"), client.path("synced")]).expect(0);
    for copy in ["copied", "synced"] {
        assert_eq!(names(&client.path(copy)), set(["d", "d/f"]), "{copy}");
    }
    let outcome = client.run(words!["cp", "--delete", client.path("s/d/f"), client.path("synced")]).expect(2);
    assert!(outcome.err.contains("--recursive"), "{}", outcome.err);
}

#[test]
fn an_archive_has_attributes_and_owners() {
    let client = Client::new();
    fill(&client.path("s"), &["f"]);
    let file = client.path("s/f");
    if rustix::fs::setxattr(&file, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_err() {
        return crate::wait::skipped("an_archive_has_attributes_and_owners", "this file system keeps no attributes");
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&file, Some(4_711), Some(4_712)).unwrap();
    }
    client.run(words!["cp", "-a", client.path("s"), client.path("t")]).expect(0);
    let mut note = [0; 16];
    let length = rustix::fs::getxattr(client.path("t/f"), "user.note", &mut note[..]).unwrap();
    assert_eq!(&note[..length], b"kept");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(client.path("t/f")).unwrap());
    assert!(!is_root || owner == 4_711, "{owner}");
}

#[test]
fn a_receipt_goes_to_standard_output() {
    let client = Client::new();
    fill(&client.path(""), &["f"]);
    let outcome = client.run(words!["cp", client.path("f"), client.path("g"), "--receipt", "-"]).expect(0);
    let receipt: Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!((&receipt["event"], &receipt["files"]), (&"receipt".into(), &1.into()));
    client.run(words!["cp", client.path("f"), client.path("h"), "--receipt", "-", "--json"]).expect(2);
    client.run(words!["cp", client.path("f"), "-", "--receipt", "-"]).expect(2);
    assert!(!client.path("h").exists() && !client.path("-").exists());
}

#[test]
fn a_link_named_as_source_is_copied_as_a_link_with_a_note() {
    let client = Client::new();
    fill(&client.path("run7"), &["f"]);
    symlink("run7", client.path("latest")).unwrap();
    let outcome = client.run(words!["cp", "-r", client.path("latest"), client.path("t")]).expect(0);
    let remedy = format!("name {}, or add -L, for what it leads to", client.path("run7").display());
    assert!(
        outcome.err.contains("is a symbolic link, and is copied as one") && outcome.err.contains(&remedy),
        "{}",
        outcome.err
    );
    let outcome = client.run(words!["cp", "-r", client.path("run7"), client.path("u")]).expect(0);
    assert!(!outcome.err.contains("symbolic link"), "{}", outcome.err);
}

#[test]
fn dereferenced_links_are_copied_as_their_targets() {
    for fixture in fixtures() {
        fill(&fixture.source, &["a", "d/b"]);
        for (to, link) in [("a", "to_file"), ("d", "to_dir"), ("nowhere", "dangling"), ("..", "d/back")] {
            symlink(to, fixture.source.join(link)).unwrap();
        }
        // A node does not follow a link out of its export; the user's own links are followed.
        let outside = fixture.source.parent().unwrap().parent().unwrap().join(format!(
            "outside-{}-{}",
            fixture.name,
            std::process::id()
        ));
        fs::write(&outside, b"outside").unwrap();
        symlink(&outside, fixture.source.join("out")).unwrap();
        let receipt = fixture.copy(3, &["-L"]);
        fs::remove_file(&outside).unwrap();
        let whole = set(["a", "d", "d/b", "to_dir", "to_dir/b", "to_file"]);
        let (is_node, mut arrived) = (fixture.name == "pull", names(&fixture.target));
        assert_eq!(arrived.remove("out"), !is_node, "{}: {receipt}", fixture.name);
        assert_eq!(arrived, whole, "{}: {receipt}", fixture.name);
        assert_eq!(fs::read(fixture.target.join("to_dir/b")).unwrap(), b"d/b");
        assert!(!fixture.target.join("to_dir").is_symlink() && !fixture.target.join("to_file").is_symlink());
        let reasons: Vec<&str> =
            receipt["failures"].as_array().unwrap().iter().map(|f| f["reason"].as_str().unwrap()).collect();
        let count = |what: &str| reasons.iter().filter(|reason| reason.contains(what)).count();
        assert_eq!((count("leads back to"), count("No such file")), (2, 1), "{}: {reasons:?}", fixture.name);
        // Without it they stay links.
        fs::remove_dir_all(&fixture.target).unwrap();
        fixture.copy(0, &[]);
        assert!(fixture.target.join("to_dir").is_symlink() && fixture.target.join("dangling").is_symlink());
    }
}

#[test]
fn a_link_to_the_target_is_not_copied_without_end() {
    for fixture in fixtures() {
        fill(&fixture.source, &["a"]);
        fs::create_dir_all(fixture.target.join("deep")).unwrap();
        // Only a link of the user's own may lead out by an absolute path: a node follows none, so that a pull has no such link.
        if fixture.name == "pull" {
            continue;
        }
        symlink(&fixture.target, fixture.source.join("l")).unwrap();
        let outcome = fixture.run(&["-L"]);
        assert!(
            outcome.code != 0 && outcome.err.contains("a tree cannot be copied into itself"),
            "{}: {}",
            fixture.name,
            outcome.err
        );
        assert!(names(&fixture.target).len() < 8, "{:?}", names(&fixture.target));
    }
}

#[test]
fn a_failure_names_the_full_path() {
    let (node, client) = (Node::open(), Client::new());
    fill(&client.path("s"), &["f"]);
    fill(&node.data(""), &["file"]);
    let missing = client.path("missing").display().to_string();
    for (words, place) in [
        (words!["ls", "missing/"], missing.clone()),
        (words!["digest", "missing"], missing.clone()),
        (words!["ls", node.at("data/missing")], node.at("data/missing")),
        (words!["cp", client.path("s/f"), node.at("data/file/x")], node.at("data/file/x")),
        (words!["cp", node.at("data/missing"), client.path("t")], node.at("data/missing")),
        (words!["cp", "missing", "t"], missing),
    ] {
        let outcome = client.command(words.clone()).current_dir(client.path("")).output().unwrap();
        let error = String::from_utf8(outcome.stderr).unwrap();
        assert!(!outcome.status.success() && error.contains(&place), "{words:?}: {error}");
    }
}
