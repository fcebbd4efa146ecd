//! Owners, extended attributes and ACLs: kept where an option asks for that, and only there.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;
use std::process::Command;

use crate::client::{Client, words};
use crate::node::Node;
use crate::sync::{CopyFixture, fill, ways};
use crate::tree::{assert_copied, pattern, set_mode, set_time};
use crate::wait::skipped;
use crate::wrappers::as_nobody;

/// An account that every system has, under a number that may differ.
const NAMED: &str = "daemon";

fn id(option: &str, name: &str) -> u32 {
    let output = Command::new("id").args([option, name]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn owner(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.uid(), meta.gid())
}

#[test]
fn owners_are_kept_on_request() {
    if !rustix::process::geteuid().is_root() {
        return skipped("attributes::owners_are_kept_on_request", "only root gives files away");
    }
    let named = (id("-u", NAMED), id("-g", NAMED));
    for way in ways() {
        fill(&way.source, &["nobody's", "named", "d/f", "small"]);
        fs::write(way.source.join("large"), pattern(3 << 20)).unwrap();
        symlink("named", way.source.join("link")).unwrap();
        symlink("d", way.source.join("link to a directory")).unwrap();
        fs::hard_link(way.source.join("small"), way.source.join("d/hard")).unwrap();
        let owners = [
            ("nobody's", (12345, 23456)),
            ("named", named),
            ("large", (12345, named.1)),
            ("d", (named.0, 12345)),
            ("d/f", (0, 12345)),
            ("link", (12345, 12345)),
            ("link to a directory", named),
            ("small", (54321, 54321)),
            ("d/hard", (54321, 54321)),
        ];
        for (name, (uid, gid)) in owners {
            lchown(way.source.join(name), Some(uid), Some(gid)).unwrap();
        }
        set_mode(&way.source.join("large"), 0o640);
        way.copy(0, &[]);
        owners.iter().for_each(|(name, _)| assert_eq!(owner(&way.target.join(name)), (0, 0), "{} {name}", way.name));
        fs::remove_dir_all(&way.target).unwrap();
        way.copy(0, &["--owner"]);
        for (name, owned) in owners {
            assert_eq!(owner(&way.target.join(name)), owned, "{} {name}", way.name);
        }
        assert_copied(&way.source, &way.target);
        // A link's target is not given away with the link.
        assert_eq!(owner(&way.target), (0, 0));
    }
}

fn sets(program: &str, arguments: &[&str], path: &Path) -> bool {
    Command::new(program).args(arguments).arg(path).output().is_ok_and(|output| output.status.success())
}

/// The user attributes of a file, and its ACL or that of its directory.
fn marks(path: &Path) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The first line is the path.
        String::from_utf8_lossy(&output.stdout).lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    said("getfattr", &["--absolute-names", "-d", "-m", "-", "-e", "hex"])
        + &said("getfacl", &["--absolute-names", "--omit-header", "--numeric"])
}

/// Sets one attribute of each kind that is copied. `false` where the file system or the tools cannot.
fn mark(way: &CopyFixture) -> bool {
    fill(&way.source, &["plain", "read-only", "acl", "small", "d/inner"]);
    fs::write(way.source.join("large"), pattern(3 << 20)).unwrap();
    let at = |name: &str| way.source.join(name);
    let able = sets("setfattr", &["-n", "user.note", "-v", "taken once"], &at("small"))
        && sets("setfattr", &["-n", "user.binary", "-v", "0x00ff00"], &at("large"))
        && sets("setfattr", &["-n", "user.note", "-v", ""], &at("d"))
        && sets("setfattr", &["-n", "user.note", "-v", "kept"], &at("read-only"))
        && sets("setfacl", &["-m", "u:12345:rw,g:54321:r"], &at("acl"))
        && sets("setfacl", &["-m", "u:12345:rx", "-m", "d:u:12345:rwx"], &at("d"));
    set_mode(&at("read-only"), 0o444);
    able
}

#[test]
fn attributes_and_acls_are_kept_on_request() {
    const TEST: &str = "attributes::attributes_and_acls_are_kept_on_request";
    for way in ways() {
        if !mark(&way) {
            return skipped(TEST, "no setfattr and setfacl (packages attr and acl), or a file system without either");
        }
        way.copy(0, &[]);
        for name in ["small", "large", "read-only"] {
            let there = marks(&way.target.join(name));
            assert!(!there.contains("user."), "{} {name}: {there}", way.name);
        }
        assert!(!marks(&way.target.join("acl")).contains("12345") && !marks(&way.target.join("d")).contains("12345"));
        fs::remove_dir_all(&way.target).unwrap();
        way.copy(0, &["--xattrs"]);
        for name in ["small", "large", "plain", "read-only", "acl", "d", "d/inner"] {
            assert_eq!(marks(&way.target.join(name)), marks(&way.source.join(name)), "{} {name}", way.name);
        }
        assert_copied(&way.source, &way.target);
        assert!(marks(&way.target.join("acl")).contains("user:12345:rw-"));
    }
}

#[test]
fn a_file_that_its_owner_may_not_write_has_them_too() {
    const TEST: &str = "attributes::a_file_that_its_owner_may_not_write_has_them_too";
    // Whoever is not root may not set attributes on a file without the right to write it.
    as_nobody(TEST, || {
        for way in ways() {
            fill(&way.source, &["d/read-only"]);
            let file = way.source.join("d/read-only");
            if !sets("setfattr", &["-n", "user.note", "-v", "kept"], &file) {
                return skipped(TEST, "no setfattr (package attr), or a file system without user.*");
            }
            set_mode(&file, 0o444);
            set_mode(&way.source.join("d"), 0o555);
            let receipt = way.copy(0, &["--xattrs"]);
            assert_eq!(receipt["failed"], 0, "{}", way.name);
            let there = marks(&way.target.join("d/read-only"));
            assert!(there.contains("user.note"), "{}: {there}", way.name);
            assert_copied(&way.source, &way.target);
            for root in [&way.source, &way.target] {
                set_mode(&root.join("d"), 0o755);
            }
        }
    });
}

#[test]
fn an_owner_that_cannot_be_given_is_named() {
    as_nobody("attributes::an_owner_that_cannot_be_given_is_named", || {
        let way = ways().remove(0);
        fill(&way.source, &["mine"]);
        way.copy(0, &["--owner"]);
        // Somebody else's.
        let words = words!["cp", "/etc/passwd", way.target.join("theirs"), "--owner", "--json"];
        let outcome = way.client.run(words);
        assert_ne!(outcome.code, 0);
        assert!(outcome.text().contains("needs root") || outcome.err.contains("needs root"), "{}", outcome.err);
        assert!(!way.target.join("theirs").exists());
    });
}

#[test]
fn attributes_of_the_system_are_not_copied() {
    const TEST: &str = "attributes::attributes_of_the_system_are_not_copied";
    for way in ways() {
        fill(&way.source, &["f"]);
        if !sets("setfattr", &["-n", "trusted.mark", "-v", "x"], &way.source.join("f")) {
            return skipped(TEST, "trusted.* needs root and a file system that has it");
        }
        way.copy(0, &["--xattrs"]);
        let there = marks(&way.target.join("f"));
        assert!(!there.contains("trusted."), "{}: {there}", way.name);
    }
}

#[test]
fn modes_that_change_later_arrive_with_the_next_copy() {
    for way in ways() {
        fill(&way.source, &["f", "still", "d/f"]);
        fs::write(way.source.join("large"), pattern(3 << 20)).unwrap();
        fs::hard_link(way.source.join("f"), way.source.join("d/hard")).unwrap();
        way.copy(0, &[]);
        for (round, sync) in ["mtime", "size", "digest"].into_iter().enumerate() {
            for (name, mode) in [("f", 0o600), ("large", 0o640), ("d/f", 0o444), ("d", 0o750)] {
                set_mode(&way.source.join(name), mode ^ (round as u32) << 3);
            }
            let receipt = way.copy(0, &["--sync", sync]);
            assert_copied(&way.source, &way.target);
            let counted = ["files", "bytes", "skipped", "refreshed"].map(|name| receipt[name].clone());
            assert_eq!(counted, [0, 0, 4, 3].map(serde_json::Value::from), "{} {sync}: {receipt}", way.name);
            assert_eq!(way.copy(0, &["--sync", sync])["refreshed"], 0, "{} {sync}", way.name);
        }
        // A dry run counts, and changes nothing.
        set_mode(&way.source.join("f"), 0o777);
        assert_eq!(way.copy(0, &["--dry-run"])["refreshed"], 1, "{}", way.name);
        assert_eq!(fs::metadata(way.target.join("f")).unwrap().mode() & 0o777, 0o620, "{}", way.name);
        // Whoever said that what exists is right has said so of its facts as well.
        assert_eq!(way.copy(0, &["--sync", "exists"])["refreshed"], 0, "{}", way.name);
        way.copy(0, &["--no-overwrite"]);
        assert_eq!(fs::metadata(way.target.join("f")).unwrap().mode() & 0o777, 0o620, "{}", way.name);
    }
}

#[test]
fn times_of_files_that_are_there_arrive_with_the_next_copy() {
    for way in ways() {
        fill(&way.source, &["f"]);
        symlink("f", way.source.join("link")).unwrap();
        way.copy(0, &[]);
        set_time(&way.source.join("f"), 1_000, 7);
        set_time(&way.source.join("link"), 2_000, 7);
        let receipt = way.copy(0, &["--sync", "digest"]);
        assert_eq!((&receipt["files"], &receipt["refreshed"]), (&0.into(), &2.into()), "{}: {receipt}", way.name);
        assert_copied(&way.source, &way.target);
    }
}

#[test]
fn owners_that_change_later_arrive_with_the_next_copy() {
    if !rustix::process::geteuid().is_root() {
        return skipped("attributes::owners_that_change_later_arrive_with_the_next_copy", "only root gives files away");
    }
    for way in ways() {
        fill(&way.source, &["f", "set-id", "d/f"]);
        symlink("f", way.source.join("link")).unwrap();
        way.copy(0, &["--owner"]);
        for name in ["f", "set-id", "d", "link"] {
            lchown(way.source.join(name), Some(12345), Some(23456)).unwrap();
        }
        // Nobody asked for owners.
        assert_eq!(way.copy(0, &[])["refreshed"], 0, "{}", way.name);
        let receipt = way.copy(0, &["--owner"]);
        for name in ["f", "set-id", "d", "link"] {
            assert_eq!(owner(&way.target.join(name)), (12345, 23456), "{} {name}", way.name);
        }
        // A directory is finished anew by every copy, and is not counted.
        assert_eq!(receipt["refreshed"], 3, "{}: {receipt}", way.name);
        assert_copied(&way.source, &way.target);
    }
}

#[test]
fn attributes_that_change_later_arrive_with_the_next_copy() {
    const TEST: &str = "attributes::attributes_that_change_later_arrive_with_the_next_copy";
    for way in ways() {
        if !mark(&way) {
            return skipped(TEST, "no setfattr and setfacl (packages attr and acl), or a file system without either");
        }
        way.copy(0, &["--xattrs"]);
        let at = |name: &str| way.source.join(name);
        assert!(sets("setfattr", &["-n", "user.note", "-v", "other"], &at("small")));
        assert!(sets("setfattr", &["-x", "user.binary"], &at("large")));
        assert!(sets("setfattr", &["-n", "user.note", "-v", "locked"], &at("read-only")));
        assert!(sets("setfacl", &["-b"], &at("acl")));
        assert!(sets("setfacl", &["-m", "u:54321:r"], &at("plain")));
        assert!(sets("setfacl", &["-b"], &at("d")) && sets("setfattr", &["-x", "user.note"], &at("d")));
        let receipt = way.copy(0, &["--xattrs"]);
        for name in ["small", "large", "plain", "read-only", "acl", "d", "d/inner"] {
            assert_eq!(marks(&way.target.join(name)), marks(&at(name)), "{} {name}", way.name);
        }
        assert_eq!((&receipt["files"], &receipt["refreshed"]), (&0.into(), &5.into()), "{}: {receipt}", way.name);
        assert_eq!(way.copy(0, &["--xattrs"])["refreshed"], 0, "{}", way.name);
    }
}

#[test]
fn a_create_only_key_changes_no_attributes() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--create"]));
    fill(&client.path("s"), &["f"]);
    client.cp(0, words!["-r", client.path("s"), node.at("data/t")]);
    set_mode(&client.path("s/f"), 0o777);
    let receipt = client.cp(0, words!["-r", client.path("s"), node.at("data/t")]);
    assert_ne!(fs::metadata(node.data("t/f")).unwrap().mode() & 0o777, 0o777, "{receipt}");
}
