//! Owners, extended attributes and ACLs: kept where an option asks for that, and only there.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;
use std::process::Command;

use crate::client::{Client, words};
use crate::node::Node;
use crate::sync::{CopyFixture, fill, fixtures};
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
    for fixture in fixtures() {
        fill(&fixture.source, &["nobody's", "named", "d/f", "small"]);
        fs::write(fixture.source.join("large"), pattern(3 << 20)).unwrap();
        symlink("named", fixture.source.join("link")).unwrap();
        symlink("d", fixture.source.join("link to a directory")).unwrap();
        fs::hard_link(fixture.source.join("small"), fixture.source.join("d/hard")).unwrap();
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
            lchown(fixture.source.join(name), Some(uid), Some(gid)).unwrap();
        }
        set_mode(&fixture.source.join("large"), 0o640);
        fixture.copy(0, &[]);
        owners
            .iter()
            .for_each(|(name, _)| assert_eq!(owner(&fixture.target.join(name)), (0, 0), "{} {name}", fixture.name));
        fs::remove_dir_all(&fixture.target).unwrap();
        fixture.copy(0, &["--owner"]);
        for (name, owned) in owners {
            assert_eq!(owner(&fixture.target.join(name)), owned, "{} {name}", fixture.name);
        }
        assert_copied(&fixture.source, &fixture.target);
        // The owner of a link's target is not changed with the link.
        assert_eq!(owner(&fixture.target), (0, 0));
    }
}

fn sets(program: &str, arguments: &[&str], path: &Path) -> bool {
    Command::new(program).args(arguments).arg(path).output().is_ok_and(|output| output.status.success())
}

/// The user attributes of a file, and its ACL or that of its directory.
fn attributes_of(path: &Path) -> String {
    let output_of = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The first line is the path.
        String::from_utf8_lossy(&output.stdout).lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    output_of("getfattr", &["--absolute-names", "-d", "-m", "-", "-e", "hex"])
        + &output_of("getfacl", &["--absolute-names", "--omit-header", "--numeric"])
}

/// Sets one attribute of each kind that is copied. `false` where the file system or the tools cannot.
fn set_attributes(fixture: &CopyFixture) -> bool {
    fill(&fixture.source, &["plain", "read-only", "acl", "small", "d/inner"]);
    fs::write(fixture.source.join("large"), pattern(3 << 20)).unwrap();
    let at = |name: &str| fixture.source.join(name);
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
    for fixture in fixtures() {
        if !set_attributes(&fixture) {
            return skipped(TEST, "no setfattr and setfacl (packages attr and acl), or a file system without either");
        }
        fixture.copy(0, &[]);
        for name in ["small", "large", "read-only"] {
            let there = attributes_of(&fixture.target.join(name));
            assert!(!there.contains("user."), "{} {name}: {there}", fixture.name);
        }
        assert!(
            !attributes_of(&fixture.target.join("acl")).contains("12345")
                && !attributes_of(&fixture.target.join("d")).contains("12345")
        );
        fs::remove_dir_all(&fixture.target).unwrap();
        fixture.copy(0, &["--xattrs"]);
        for name in ["small", "large", "plain", "read-only", "acl", "d", "d/inner"] {
            assert_eq!(
                attributes_of(&fixture.target.join(name)),
                attributes_of(&fixture.source.join(name)),
                "{} {name}",
                fixture.name
            );
        }
        assert_copied(&fixture.source, &fixture.target);
        assert!(attributes_of(&fixture.target.join("acl")).contains("user:12345:rw-"));
    }
}

#[test]
fn attributes_of_a_read_only_file_are_kept() {
    const TEST: &str = "attributes::attributes_of_a_read_only_file_are_kept";
    // An ordinary user may not set attributes on a file without the right to write it.
    as_nobody(TEST, || {
        for fixture in fixtures() {
            fill(&fixture.source, &["d/read-only"]);
            let file = fixture.source.join("d/read-only");
            if !sets("setfattr", &["-n", "user.note", "-v", "kept"], &file) {
                return skipped(TEST, "no setfattr (package attr), or a file system without user.*");
            }
            set_mode(&file, 0o444);
            set_mode(&fixture.source.join("d"), 0o555);
            let receipt = fixture.copy(0, &["--xattrs"]);
            assert_eq!(receipt["failed"], 0, "{}", fixture.name);
            let there = attributes_of(&fixture.target.join("d/read-only"));
            assert!(there.contains("user.note"), "{}: {there}", fixture.name);
            assert_copied(&fixture.source, &fixture.target);
            for root in [&fixture.source, &fixture.target] {
                set_mode(&root.join("d"), 0o755);
            }
        }
    });
}

#[test]
fn an_owner_that_cannot_be_given_is_named() {
    as_nobody("attributes::an_owner_that_cannot_be_given_is_named", || {
        let fixture = fixtures().remove(0);
        fill(&fixture.source, &["mine"]);
        fixture.copy(0, &["--owner"]);
        // The owner is another user.
        let words = words!["cp", "/etc/passwd", fixture.target.join("theirs"), "--owner", "--json"];
        let outcome = fixture.client.run(words);
        assert_ne!(outcome.code, 0);
        assert!(outcome.text().contains("needs root") || outcome.err.contains("needs root"), "{}", outcome.err);
        assert!(!fixture.target.join("theirs").exists());
    });
}

#[test]
fn attributes_of_the_system_are_not_copied() {
    const TEST: &str = "attributes::attributes_of_the_system_are_not_copied";
    for fixture in fixtures() {
        fill(&fixture.source, &["f"]);
        if !sets("setfattr", &["-n", "trusted.mark", "-v", "x"], &fixture.source.join("f")) {
            return skipped(TEST, "trusted.* needs root and a file system that has it");
        }
        fixture.copy(0, &["--xattrs"]);
        let there = attributes_of(&fixture.target.join("f"));
        assert!(!there.contains("trusted."), "{}: {there}", fixture.name);
    }
}

#[test]
fn modes_that_change_later_arrive_with_the_next_copy() {
    for fixture in fixtures() {
        fill(&fixture.source, &["f", "still", "d/f"]);
        fs::write(fixture.source.join("large"), pattern(3 << 20)).unwrap();
        fs::hard_link(fixture.source.join("f"), fixture.source.join("d/hard")).unwrap();
        fixture.copy(0, &[]);
        for (round, sync) in ["mtime", "size", "digest"].into_iter().enumerate() {
            for (name, mode) in [("f", 0o600), ("large", 0o640), ("d/f", 0o444), ("d", 0o750)] {
                set_mode(&fixture.source.join(name), mode ^ (round as u32) << 3);
            }
            let receipt = fixture.copy(0, &["--sync", sync]);
            assert_copied(&fixture.source, &fixture.target);
            let counted = ["files", "bytes", "skipped", "refreshed"].map(|name| receipt[name].clone());
            assert_eq!(counted, [0, 0, 4, 3].map(serde_json::Value::from), "{} {sync}: {receipt}", fixture.name);
            assert_eq!(fixture.copy(0, &["--sync", sync])["refreshed"], 0, "{} {sync}", fixture.name);
        }
        // A dry run counts, and changes nothing.
        set_mode(&fixture.source.join("f"), 0o777);
        assert_eq!(fixture.copy(0, &["--dry-run"])["refreshed"], 1, "{}", fixture.name);
        assert_eq!(fs::metadata(fixture.target.join("f")).unwrap().mode() & 0o777, 0o620, "{}", fixture.name);
        // With --sync exists, existing files keep their attributes as well.
        assert_eq!(fixture.copy(0, &["--sync", "exists"])["refreshed"], 0, "{}", fixture.name);
        fixture.copy(0, &["--no-overwrite"]);
        assert_eq!(fs::metadata(fixture.target.join("f")).unwrap().mode() & 0o777, 0o620, "{}", fixture.name);
    }
}

#[test]
fn times_of_existing_files_are_updated_by_the_next_copy() {
    for fixture in fixtures() {
        fill(&fixture.source, &["f"]);
        symlink("f", fixture.source.join("link")).unwrap();
        fixture.copy(0, &[]);
        set_time(&fixture.source.join("f"), 1_000, 7);
        set_time(&fixture.source.join("link"), 2_000, 7);
        let receipt = fixture.copy(0, &["--sync", "digest"]);
        assert_eq!((&receipt["files"], &receipt["refreshed"]), (&0.into(), &2.into()), "{}: {receipt}", fixture.name);
        assert_copied(&fixture.source, &fixture.target);
    }
}

#[test]
fn owners_that_change_later_arrive_with_the_next_copy() {
    if !rustix::process::geteuid().is_root() {
        return skipped("attributes::owners_that_change_later_arrive_with_the_next_copy", "only root gives files away");
    }
    for fixture in fixtures() {
        fill(&fixture.source, &["f", "set-id", "d/f"]);
        symlink("f", fixture.source.join("link")).unwrap();
        fixture.copy(0, &["--owner"]);
        for name in ["f", "set-id", "d", "link"] {
            lchown(fixture.source.join(name), Some(12345), Some(23456)).unwrap();
        }
        // Owners were not requested.
        assert_eq!(fixture.copy(0, &[])["refreshed"], 0, "{}", fixture.name);
        let receipt = fixture.copy(0, &["--owner"]);
        for name in ["f", "set-id", "d", "link"] {
            assert_eq!(owner(&fixture.target.join(name)), (12345, 23456), "{} {name}", fixture.name);
        }
        // A directory is finished anew by every copy, and is not counted.
        assert_eq!(receipt["refreshed"], 3, "{}: {receipt}", fixture.name);
        assert_copied(&fixture.source, &fixture.target);
    }
}

#[test]
fn attributes_that_change_later_arrive_with_the_next_copy() {
    const TEST: &str = "attributes::attributes_that_change_later_arrive_with_the_next_copy";
    for fixture in fixtures() {
        if !set_attributes(&fixture) {
            return skipped(TEST, "no setfattr and setfacl (packages attr and acl), or a file system without either");
        }
        fixture.copy(0, &["--xattrs"]);
        let at = |name: &str| fixture.source.join(name);
        assert!(sets("setfattr", &["-n", "user.note", "-v", "other"], &at("small")));
        assert!(sets("setfattr", &["-x", "user.binary"], &at("large")));
        assert!(sets("setfattr", &["-n", "user.note", "-v", "locked"], &at("read-only")));
        assert!(sets("setfacl", &["-b"], &at("acl")));
        assert!(sets("setfacl", &["-m", "u:54321:r"], &at("plain")));
        assert!(sets("setfacl", &["-b"], &at("d")) && sets("setfattr", &["-x", "user.note"], &at("d")));
        let receipt = fixture.copy(0, &["--xattrs"]);
        for name in ["small", "large", "plain", "read-only", "acl", "d", "d/inner"] {
            assert_eq!(attributes_of(&fixture.target.join(name)), attributes_of(&at(name)), "{} {name}", fixture.name);
        }
        assert_eq!((&receipt["files"], &receipt["refreshed"]), (&0.into(), &5.into()), "{}: {receipt}", fixture.name);
        assert_eq!(fixture.copy(0, &["--xattrs"])["refreshed"], 0, "{}", fixture.name);
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
