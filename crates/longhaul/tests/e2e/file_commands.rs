//! `ls`, `stat`, `mkdir`, `rm`, `mv`, `digest`, on nodes and locally; and attempts to leave an export.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::tree::{set_mode, set_time};

/// The locator of a path below a root.
type LocatorOf<'a> = &'a dyn Fn(&str) -> OsString;

/// Runs the same test on a node and locally, over the same small tree.
fn on_node_and_locally(run: impl Fn(&Client, LocatorOf<'_>, &dyn Fn(&str) -> PathBuf)) {
    let (node, client) = (Node::open(), Client::new());
    for root in [node.data(""), client.path("")] {
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/f"), b"abc").unwrap();
        set_mode(&root.join("d/f"), 0o640);
        set_time(&root.join("d/f"), 1_600_000_000, 500_000_000);
        symlink("f", root.join("d/l")).unwrap();
    }
    run(&client, &|below| node.at(&format!("data/{below}")).into(), &|below| node.data(below));
    run(&client, &|below| client.path(below).into(), &|below| client.path(below));
}

#[test]
fn ls_lists_entries() {
    on_node_and_locally(|client, at, _| {
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(String::from).collect();
            lines.sort();
            lines
        };
        assert_eq!(client.run(words!["ls", at("")]).expect(0).text(), "d/\n");
        assert_eq!(sorted(client.run(words!["ls", at("d")]).expect(0).text()), ["f", "l"]);
        let long = sorted(client.run(words!["ls", "--long", at("d")]).expect(0).text()).join("\n");
        assert!(long.contains("- 0640               3 2020-09-13T12:26:40.5Z "), "{long}");
        assert!(long.contains("l -> f"), "{long}");
        let text = client.run(words!["ls", "--json", at("d")]).expect(0).text();
        for line in text.lines() {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&entry["v"], &entry["event"]), (&1.into(), &"entry".into()));
            match entry["path"].as_str().unwrap() {
                "f" => assert_eq!((&entry["kind"], &entry["size"]), (&"file".into(), &3.into())),
                "l" => assert_eq!((&entry["kind"], &entry["target"]), (&"symlink".into(), &"f".into())),
                other => panic!("{other}"),
            }
        }
        assert_eq!(client.run(words!["ls", at("d/f")]).expect(0).text(), "f\n");
        client.run(words!["ls", at("missing")]).refused(1, &["missing"]);
    });
}

#[test]
fn exports_are_listed() {
    let setup = Setup::new().data_export("rw");
    let dir = setup.data();
    let node = setup.export("more", &dir, "ro").arg("--anonymous").arg("ro").start();
    for locator in [node.at(""), format!("lh://127.0.0.1:{}", node.port)] {
        assert_eq!(Client::new().run(words!["ls", locator]).expect(0).text(), "data/\nmore/\n");
    }
    let key = node.grant(&["--export", "more"]);
    assert_eq!(Client::with_key(&key).run(words!["ls", node.at("")]).expect(0).text(), "more/\n");
    Client::with_key(&key).run(words!["ls", node.at("data")]).refused(1, &["data"]);
}

#[test]
fn stat_shows_facts() {
    on_node_and_locally(|client, at, _| {
        let fact = client.run(words!["stat", "--json", at("d/f")]).expect(0).json();
        assert_eq!((&fact["kind"], &fact["size"], &fact["mode"]), (&"file".into(), &3.into(), &"0640".into()));
        assert_eq!(fact["mtime"], "2020-09-13T12:26:40.5Z");
        let text = client.run(words!["stat", at("d/l")]).expect(0).text();
        assert!(text.contains("symlink") && text.contains("target f"), "{text}");
        assert!(client.run(words!["stat", at("d")]).expect(0).text().contains("kind   dir"));
        client.run(words!["stat", at("missing")]).refused(1, &["missing"]);
    });
}

#[test]
fn mkdir_makes_parents() {
    on_node_and_locally(|client, at, path| {
        for _ in 0..2 {
            client.run(words!["mkdir", at("a/b/c")]).expect(0);
            assert!(path("a/b/c").is_dir());
        }
        client.run(words!["mkdir", at("d/f")]).refused(6, &["f", "a file"]);
        client.run(words!["mkdir", at("d/f/g")]).expect(6);
    });
}

#[test]
fn rm_removes_files_and_trees() {
    on_node_and_locally(|client, at, path| {
        client.run(words!["rm", at("d")]).refused(6, &["d"]);
        client.run(words!["rm", at("d/l")]).expect(0);
        assert!(path("d/f").exists() && fs::symlink_metadata(path("d/l")).is_err(), "the link went, not the file");
        client.run(words!["rm", at("d/l")]).refused(1, &["l"]);
        fs::create_dir_all(path("d/x/y")).unwrap();
        fs::create_dir(path("kept")).unwrap();
        fs::write(path("kept/f"), b"k").unwrap();
        symlink("../kept", path("d/x/way")).unwrap();
        client.run(words!["rm", "-r", at("d")]).expect(0);
        assert!(!path("d").exists() && path("kept/f").exists(), "what a link points to stays");
        fs::create_dir(path("none")).unwrap();
        client.run(words!["rm", at("none")]).expect(0);
        assert!(!path("none").exists());
    });
    let node = Node::open();
    Client::new().run(words!["rm", "-r", node.at("data")]).refused(4, &["export"]);
    assert!(node.data("").is_dir());
}

#[test]
fn mv_renames_entries() {
    on_node_and_locally(|client, at, path| {
        client.run(words!["mv", at("d/f"), at("d/g")]).expect(0);
        assert_eq!(fs::read(path("d/g")).unwrap(), b"abc");
        fs::create_dir(path("into")).unwrap();
        client.run(words!["mv", at("d/g"), at("into")]).expect(0);
        assert_eq!(fs::read(path("into/g")).unwrap(), b"abc");
        client.run(words!["mv", at("into"), at("moved")]).expect(0);
        assert!(path("moved/g").exists() && !path("into").exists());
        client.run(words!["mv", at("missing"), at("x")]).refused(1, &["missing"]);
    });
    let setup = Setup::new().data_export("rw").arg("--anonymous").arg("rw");
    let other = tempfile::tempdir().unwrap();
    let node = setup.export("other", other.path(), "rw").start();
    let client = Client::new();
    fs::write(node.data("f"), b"f").unwrap();
    client.write("f", b"f");
    client.run(words!["mv", node.at("data/f"), node.at("other/f")]).refused(2, &["one export"]);
    client.run(words!["mv", node.at("data/f"), client.path("g")]).refused(2, &["one node"]);
    client.run(words!["mv", client.path("f"), node.at("data/g")]).refused(2, &["one node"]);
    assert!(node.data("f").exists() && client.path("f").exists());
}

#[test]
fn digests_agree_with_published_values() {
    // Of "abc": FIPS 180-4, RFC 1321, RFC 1950, RFC 3720 (by its polynomial), and the BLAKE3 paper's reference.
    let known = [
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("adler32", "024d0127"),
        ("crc32c", "364b3fb7"),
        ("blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ];
    on_node_and_locally(|client, at, path| {
        for (algorithm, value) in known {
            let text = client.run(words!["digest", "--checksum", algorithm, at("d/f")]).expect(0).text();
            assert!(text.starts_with(&format!("{algorithm}:{value}  ")), "{text}");
            assert!(text.trim_end().ends_with("d/f"), "{text}");
        }
        fs::create_dir(path("d/deep")).unwrap();
        fs::write(path("d/deep/g"), b"abc").unwrap();
        let text = client.run(words!["digest", "--checksum", "sha256,md5", at("d")]).expect(0).text();
        assert_eq!((text.matches(known[0].1).count(), text.matches(known[1].1).count()), (2, 2), "{text}");
        assert!(text.contains("d/deep/g") && !text.contains("d/l"), "{text}");
        let json = client.run(words!["digest", "--json", at("d/f")]).expect(0).json();
        assert_eq!((&json["event"], &json["digests"][0]), (&"digest".into(), &"crc32c:364b3fb7".into()));
        client.run(words!["digest", at("missing")]).refused(1, &["missing"]);
        client.run(words!["digest", "--checksum", "rot13", at("d/f")]).expect(2);
    });
}

#[test]
fn no_path_leads_out_of_an_export() {
    let (node, client) = (Node::open(), Client::new());
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    client.write("f", b"x");
    for path in ["data/../state/grants.toml", "data/%2e%2e/state", "data/d/..%2f..%2fx", "..", "data/%2e%2e", "../x"] {
        client.run(words!["ls", node.at(path)]).expect(2);
        client.run(words!["cp", client.path("f"), node.at(path)]).expect(2);
    }
    symlink(outside.path(), node.data("absolute")).unwrap();
    let up = "../".repeat(20);
    symlink(format!("{up}{}", outside.path().display()), node.data("relative")).unwrap();
    symlink(outside.path().join("secret"), node.data("file")).unwrap();
    for link in ["absolute", "relative"] {
        let (dir, secret) = (node.at(&format!("data/{link}/")), node.at(&format!("data/{link}/secret")));
        for words in [
            words!["stat", secret],
            words!["digest", secret],
            words!["rm", secret],
            words!["rm", "-r", format!("{dir}x/y")],
            words!["mkdir", format!("{dir}new")],
            words!["mv", secret, node.at("data/stolen")],
            words!["mv", node.at("data/file"), format!("{dir}put")],
            words!["cp", secret, client.path("stolen")],
            words!["cp", client.path("f"), format!("{dir}f")],
            words!["cp", "-r", client.path(""), format!("{dir}d/e")],
        ] {
            let shown = format!("{words:?}");
            let outcome = client.run(words);
            assert_eq!(outcome.code, 4, "{shown}: {} {}", outcome.text(), outcome.err);
        }
    }
    // The links themselves are visible: they are listed, and copied as links.
    client.run(words!["cp", "-r", node.at("data"), client.path("all")]).expect(0);
    for link in ["absolute", "relative", "file"] {
        assert_eq!(fs::read_link(client.path("all").join(link)).unwrap(), fs::read_link(node.data(link)).unwrap());
    }
    client.run(words!["rm", "-r", node.at("data/absolute")]).expect(0);
    // A file replaces a link, and is never written through it.
    client.run(words!["cp", client.path("f"), node.at("data/file")]).expect(0);
    assert!(!fs::symlink_metadata(node.data("file")).unwrap().is_symlink());
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // Links that stay inside are followed.
    fs::create_dir(node.data("d")).unwrap();
    symlink("d", node.data("inside")).unwrap();
    client.run(words!["cp", client.path("f"), node.at("data/inside/f")]).expect(0);
    assert_eq!(fs::read(node.data("d/f")).unwrap(), b"x");
}
