//! Stores for a credential for one path: nothing leads out of them, whatever links a client that may write there makes, and
//! whatever replaces the entry of the credential.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Kind, Timestamp};
use store::memory::Memory;
use store::posix::{Links, Posix};
use store::{Error, Store, granted_dir, granted_entry};
use support::{path, read, write};

const SECRET: &[u8] = b"beside what the credential is for";

/// An export with a directory `a` that a client may write to, and a secret beside it.
fn export() -> (tempfile::TempDir, Arc<dyn Store>) {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir_all(temp.path().join("a/real")).unwrap();
    fs::write(temp.path().join("secret"), SECRET).unwrap();
    fs::write(temp.path().join("a/real/f"), "inside").unwrap();
    let store = Posix::open(temp.path(), Links::Inside).unwrap();
    (temp, Arc::new(store))
}

#[test]
fn a_credential_for_a_link_opens_nothing() {
    let (temp, store) = export();
    symlink("..", temp.path().join("a/up")).unwrap();
    symlink("real", temp.path().join("a/down")).unwrap();
    for link in ["a/up", "a/down"] {
        assert!(granted_dir(&store, &path(link), false).is_err(), "{link} as a directory");
        let (entry, at) = granted_entry(&store, &path(link), true, false).unwrap();
        assert_eq!(entry.stat(&at).unwrap().meta.kind, Kind::Symlink);
        assert!(!entry.is_dir(&at), "{link}");
        for below in ["secret", "f", "a"] {
            let below = at.join_path(&path(below));
            assert!(entry.stat(&below).is_err() && entry.open(&below).is_err(), "{link}: {below}");
            assert!(write(&*entry, &below, b"x").is_err(), "{link}: {below}");
        }
        assert!(matches!(entry.open(&at), Err(Error::Kind { .. })), "{link}");
        assert!(entry.list(&at).is_err(), "{link}");
    }
}

#[test]
fn a_link_on_the_path_of_a_credential_leads_deeper_or_is_refused() {
    let (temp, store) = export();
    fs::create_dir(temp.path().join("deep")).unwrap();
    fs::write(temp.path().join("deep/f"), "deep").unwrap();
    symlink("deep", temp.path().join("current")).unwrap();
    symlink("..", temp.path().join("a/up")).unwrap();
    symlink("real/../..", temp.path().join("a/round")).unwrap();
    fs::create_dir(temp.path().join("deep/sub")).unwrap();
    assert!(granted_dir(&store, &path("current/sub"), false).is_ok(), "an operator's link");
    let (entry, at) = granted_entry(&store, &path("current/f"), true, false).unwrap();
    assert_eq!(read(&*entry, &at).unwrap(), b"deep");
    for out in ["a/up/deep", "a/round/deep"] {
        assert!(granted_dir(&store, &path(out), true).is_err(), "{out}");
        assert!(granted_entry(&store, &path(out), true, true).is_err(), "{out}");
    }
    assert!(granted_dir(&store, &path("a/up/made"), true).is_err());
    assert!(!temp.path().join("made").exists(), "what is made is made below");
}

#[test]
fn a_credential_for_an_entry_opens_that_name_and_what_lies_below_it() {
    let (temp, store) = export();
    let (entry, at) = granted_entry(&store, &path("a/f"), true, false).unwrap();
    write(&*entry, &at, b"new").unwrap();
    assert_eq!(fs::read(temp.path().join("a/f")).unwrap(), b"new");
    for beside in ["real/f", "real", "g", "f2"] {
        assert!(matches!(entry.stat(&path(beside)), Err(Error::Outside { .. })), "{beside}");
        assert!(matches!(entry.open(&path(beside)), Err(Error::Outside { .. })), "{beside}");
        assert!(write(&*entry, &path(beside), b"x").is_err() && entry.make_dir(&path(beside)).is_err(), "{beside}");
        assert!(entry.remove(&path(beside)).is_err() && entry.rename(&at, &path(beside), true).is_err(), "{beside}");
    }
    assert!(entry.list(&path("")).is_err(), "its neighbours are not listed");
    let zero = Timestamp::default();
    assert!(matches!(entry.make_symlink(&at, b"..", zero, true, "t"), Err(Error::Granted { .. })));
    assert!(entry.make_hard_link(&at, &path("real/f"), true, "t").is_err());
    // The same name as a directory, with links below it that stay inside and that do not.
    entry.remove(&at).unwrap();
    entry.make_dir(&at).unwrap();
    let below = |name: &str| at.join_path(&path(name));
    write(&*entry, &below("x"), b"below").unwrap();
    entry.make_symlink(&below("same"), b"x", zero, false, "t").unwrap();
    entry.make_symlink(&below("out"), b"../real", zero, false, "t").unwrap();
    assert_eq!(read(&*entry, &below("same")).unwrap(), b"below");
    assert!(matches!(entry.stat(&below("out/f")), Err(Error::Escapes(_))));
    entry.rename(&below("x"), &below("y"), false).unwrap();
    assert_eq!(entry.list(&at).unwrap().count(), 3);
}

/// The memory store has no links, and behaves the same.
#[test]
fn a_credential_for_an_entry_works_on_every_store() {
    let memory: Arc<dyn Store> = Arc::new(Memory::default());
    memory.make_dir(&path("a")).unwrap();
    write(&*memory, &path("secret"), SECRET).unwrap();
    let (entry, at) = granted_entry(&memory, &path("a/f"), true, false).unwrap();
    write(&*entry, &at, b"new").unwrap();
    assert_eq!(read(&*memory, &path("a/f")).unwrap(), b"new");
    assert!(entry.open(&path("g")).is_err());
    entry.remove(&at).unwrap();
    entry.make_dir(&at).unwrap();
    write(&*entry, &at.join_path(&path("x")), b"below").unwrap();
    assert_eq!(read(&*memory, &path("a/f/x")).unwrap(), b"below");
    assert!(granted_entry(&memory, &path("none/f"), true, false).is_err());
    assert!(granted_entry(&memory, &path("none/f"), true, true).is_ok());
    assert!(granted_entry(&memory, &path(""), true, false).is_err());
}

/// A process that may write to the directory above swaps the entry of the credential while it is used.
#[test]
fn an_entry_that_is_swapped_for_a_link_while_it_is_opened_leads_nowhere() {
    let (temp, store) = export();
    let (name, aside) = (temp.path().join("a/x"), temp.path().join("a/aside"));
    fs::create_dir(&name).unwrap();
    fs::write(name.join("secret"), "mine").unwrap();
    symlink("..", &aside).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &name, rustix::fs::CWD, &aside, flags).unwrap();
            }
        });
        let mut opened = 0;
        for _ in 0..4000 {
            if let Ok(dir) = granted_dir(&store, &path("a/x"), false) {
                opened += 1;
                assert_eq!(read(&*dir, &path("secret")).unwrap(), b"mine");
            }
            let (entry, at) = granted_entry(&store, &path("a/x"), true, false).unwrap();
            if let Ok(found) = read(&*entry, &at.join_path(&path("secret"))) {
                assert_eq!(found, b"mine");
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(opened > 0, "it was there now and then");
    });
    assert_eq!(fs::read(temp.path().join("secret")).unwrap(), SECRET);
}
