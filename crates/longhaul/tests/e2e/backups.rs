//! `longhaul support backup` and `restore`: a service goes on elsewhere as what it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::client::{Client, Outcome, words};
use crate::hub::Hub;
use crate::node::{Node, Setup};

fn backup(state: &Path, out: &Path) -> Outcome {
    Client::new().run(words!["support", "backup", "--state", state, "--out", out])
}

fn restore(file: &Path, state: &Path) -> Outcome {
    Client::new().run(words!["support", "restore", file, "--state", state])
}

/// A place for a backup.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup.tar.gz");
    (dir, file)
}

#[test]
fn a_node_has_its_identity_and_its_keys_after_a_restore() {
    let (dir, file) = place();
    let mut node = Setup::new().data_export("rw").start();
    let key = node.grant(&["--export", "data"]);
    fs::write(node.data("f"), "abc").unwrap();
    let out = backup(&node.state(), &file).expect(0).text();
    assert!(out.contains("keep it as secret"), "{out}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    backup(&node.state(), &file).refused(6, &["backup.tar.gz", "--out"]);
    node.stop();
    let state = dir.path().join("state");
    restore(&file, &state).expect(0);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    let later = Setup::new().with_state(&state).export("data", &node.data(""), "ro").start();
    let client = Client::with_key(&key);
    client.run(words!["cp", later.at("data/f"), client.path("f")]).expect(0);
    assert_eq!(fs::read(client.path("f")).unwrap(), b"abc");
    restore(&file, &state).refused(1, &["is not an empty directory", "--state"]);
}

#[test]
fn a_hub_is_saved_while_it_runs_and_knows_its_collaboration_after_a_restore() {
    let (_dir, file) = place();
    let hub = Hub::start(&[]);
    let key = hub.grant(&["--role", "admin", "--name", "ann", "--community", ""]);
    hub.with_key(&key).run(&["hub", "site", "add", "perth"]).expect(0);
    backup(&hub.state(), &file).expect(0);
    hub.with_key(&key).run(&["hub", "site", "add", "later"]).expect(0);
    let dir = tempfile::tempdir().unwrap();
    restore(&file, &dir.path().join("state")).expect(0);
    let restored = Hub::on(dir);
    let sites = restored.with_key(&key).run(&["hub", "site", "list"]).expect(0).text();
    assert!(sites.contains("perth") && !sites.contains("later"), "{sites}");
}

#[test]
fn a_file_that_is_no_backup_or_was_changed_is_refused() {
    let (dir, file) = place();
    let node = Node::closed();
    backup(&node.state(), &file).expect(0);
    let bytes = fs::read(&file).unwrap();
    let half = dir.path().join("half.tar.gz");
    fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    restore(&half, &dir.path().join("a")).refused(1, &["is not a whole backup"]);
    assert!(!dir.path().join("a").exists(), "a part of a state directory would be taken for one");
    let mut changed = bytes.clone();
    // In gzip's checksum: no member shows it.
    let at = changed.len() - 6;
    changed[at] ^= 1;
    let file_changed = dir.path().join("changed.tar.gz");
    fs::write(&file_changed, changed).unwrap();
    restore(&file_changed, &dir.path().join("d")).refused(1, &["is not a whole backup"]);
    let other = dir.path().join("other.tar.gz");
    fs::write(&other, "not a backup").unwrap();
    restore(&other, &dir.path().join("b")).refused(1, &["is not a whole backup"]);
    let evil = dir.path().join("evil.tar.gz");
    write_archive(&evil, "state/../../escaped");
    restore(&evil, &dir.path().join("c")).refused(1, &["is not a plain file"]);
    assert!(!dir.path().join("escaped").exists());
    backup(&dir.path().join("none"), &dir.path().join("x.tar.gz")).refused(1, &["cannot read", "--state"]);
}

/// An archive with a manifest, and one file of this name.
fn write_archive(file: &Path, name: &str) {
    let gzip = flate2::write::GzEncoder::new(fs::File::create(file).unwrap(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    let manifest = br#"{"v":1,"software":"longhaul/0","host":"h","created":"now"}"#;
    for (name, content) in [("longhaul-backup.json", &manifest[..]), (name, b"x")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        // Not by `set_path`, which refuses names that leave the directory.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}
