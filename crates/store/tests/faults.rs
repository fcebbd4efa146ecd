//! Failures that happen in practice: the target is full, read-only, on another file system, or may not be read.
//!
//! Tests that mount run in their own mount namespace: they start themselves again under `unshare`, so that
//! nothing stays mounted if they fail. Tests that need an ordinary user start themselves again under
//! `setpriv`. Where the machine permits neither, they are reported as skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

#[path = "faults/late.rs"]
mod late;

use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use model::Timestamp;
use model::fault::{Blame, Fault, Retry};
use store::posix::{Links, Posix};
use store::{Error, Finish, Store};
use support::{finish, names, path, pattern, read, skipped, write};

/// Set in the process in which a test has started itself again.
const INSIDE: &str = "STORE_FAULTS_INSIDE";
const NAMESPACE: &[&str] = &["unshare", "--mount", "--propagation", "private"];
/// Where an ordinary user may be root of a namespace, that is enough to mount a tmpfs in it.
const USER_NAMESPACE: &[&str] = &["unshare", "--map-root-user", "--mount", "--propagation", "private"];
const NOBODY: &[&str] = &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// Runs the body of the named test in another process, under a wrapper program.
fn below(wrapper: &[&str], test: &str, body: fn()) {
    let root = rustix::process::geteuid().is_root();
    if std::env::var_os(INSIDE).is_some() || (wrapper == NOBODY && !root) {
        return body();
    }
    let wrapper = if wrapper == NAMESPACE && !root { USER_NAMESPACE } else { wrapper };
    let this = std::env::current_exe().unwrap();
    let wrapped = |arguments: &[&str]| {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(&this).args(arguments).env(INSIDE, "1").output()
    };
    match wrapped(&["--list"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(test, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => return skipped(test, &format!("{}: {error}", wrapper[0])),
    }
    let output = wrapped(&["--exact", test, "--nocapture"]).unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for line in err.lines().filter(|line| line.starts_with("SKIPPED: ")) {
        skipped(test, line.trim_start_matches("SKIPPED: "));
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// Mounts a tmpfs in this process's own namespace; where that is impossible, reports the test as skipped.
fn mounted(at: &Path, options: &str, test: &str) -> bool {
    std::fs::create_dir_all(at).unwrap();
    let output = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
    match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => skipped(test, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => skipped(test, &format!("mount: {error}")),
    }
    false
}

fn kind(error: &Error) -> Option<ErrorKind> {
    match error {
        Error::Io { source, .. } => Some(source.kind()),
        _ => None,
    }
}

fn assert_full(error: &Error) {
    assert!(error.is_fatal() && kind(error) == Some(ErrorKind::StorageFull), "{error:?}");
    assert_eq!((error.fault(), error.retry()), (Fault::Storage, Retry::After));
    assert!(error.to_string().contains("free space"), "{error}");
}

#[test]
fn a_full_target_leaves_nothing() {
    below(NAMESPACE, "a_full_target_leaves_nothing", || {
        let temp = tempfile::tempdir().unwrap();
        if !mounted(temp.path(), "size=1m", "a_full_target_leaves_nothing") {
            return;
        }
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        write(&store, &path("kept"), b"kept").unwrap();
        for round in 0..3 {
            let sink = store.create(&path("f"), "t").unwrap();
            let error = (0..32).find_map(|n| sink.write_at(&pattern(1 << 16), n << 16).err()).unwrap();
            assert_full(&error);
            if round == 1 {
                sink.discard();
            }
            drop(sink);
            // Its space is free again; otherwise the next round would fail earlier.
            assert_eq!(names(&store, &path("")), [b"kept"]);
            write(&store, &path("g"), &pattern(900_000)).unwrap();
            store.remove(&path("g")).unwrap();
        }
        assert_eq!(read(&store, &path("kept")).unwrap(), b"kept");
    });
}

#[test]
fn no_inodes_left_is_full_too() {
    below(NAMESPACE, "no_inodes_left_is_full_too", || {
        let temp = tempfile::tempdir().unwrap();
        if !mounted(temp.path(), "size=1m,nr_inodes=6", "no_inodes_left_is_full_too") {
            return;
        }
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        let error = (0..10).find_map(|n| write(&store, &path(format!("f{n}")), b"x").err()).unwrap();
        assert_full(&error);
        assert_full(&store.make_dir(&path("d")).unwrap_err());
        let link = store.make_symlink(&path("l"), &[b'x'; 4000], Timestamp::default(), true, "t");
        assert_full(&link.unwrap_err());
        assert!(names(&store, &path("")).iter().all(|name| name.starts_with(b"f")));
    });
}

/// Network file systems report errors late: a file must not get its name before they were asked for them.
#[test]
fn what_is_refused_at_the_close_gets_no_name() {
    below(NAMESPACE, "what_is_refused_at_the_close_gets_no_name", || {
        let temp = tempfile::tempdir().unwrap();
        let _mounted = match late::mount(temp.path()) {
            Ok(mounted) => mounted,
            Err(error) => return skipped("what_is_refused_at_the_close_gets_no_name", &format!("mount: {error}")),
        };
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        let sink = store.create(&path("f"), "t").unwrap();
        sink.write_at(&pattern(100_000), 0).unwrap();
        let durable = Finish { durable: true, ..finish(100_000) };
        // A mover calls `publish` before it reports that it has closed a file.
        for result in [sink.publish(), sink.commit(&finish(100_000)), sink.flush(), sink.commit(&durable)] {
            let error = result.unwrap_err();
            assert!(
                matches!(&error, Error::Late { source, .. } if source.kind() == ErrorKind::QuotaExceeded),
                "{error:?}"
            );
            assert_eq!((error.fault(), error.retry()), (Fault::Storage, Retry::Never));
            // The system reports it once: a retry, as for a full device, would find no error.
            assert!(error.is_fatal() && !error.is_full() && error.to_string().contains("quota"), "{error}");
            assert!(store.stat(&path("f")).unwrap_err().is_not_found());
            assert!(temp.path().join(".longhaul-t.part").exists(), "what is there is for a later attempt");
        }
    });
}

#[test]
fn a_read_only_target_is_fatal() {
    below(NAMESPACE, "a_read_only_target_is_fatal", || {
        let temp = tempfile::tempdir().unwrap();
        if !mounted(temp.path(), "size=1m", "a_read_only_target_is_fatal") {
            return;
        }
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        store.make_dir(&path("d")).unwrap();
        write(&store, &path("d/f"), b"kept").unwrap();
        let begun = store.create(&path("begun"), "t").unwrap();
        drop(begun);
        let remount = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(temp.path()).status().unwrap();
        assert!(remount.success());
        let (zero, f) = (Timestamp::default(), path("d/f"));
        let refused = [
            store.create(&path("d/g"), "t").map(drop),
            store.make_dir(&path("new")),
            store.make_symlink(&path("l"), b"x", zero, true, "t"),
            store.make_hard_link(&path("h"), &f, true, "t"),
            store.finish_dir(&path("d"), 0o700, zero),
            store.rename(&f, &path("d/g"), true),
            store.remove(&f),
        ];
        for (n, refused) in refused.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert!(error.is_fatal() && kind(&error) == Some(ErrorKind::ReadOnlyFilesystem), "{n}: {error:?}");
            assert!(error.to_string().contains("writable"), "{error}");
        }
        // Operations that write nothing still succeed.
        store.make_dir(&path("d")).unwrap();
        assert_eq!(read(&store, &f).unwrap(), b"kept");
    });
}

#[test]
fn another_file_system_below_is_no_obstacle() {
    below(NAMESPACE, "another_file_system_below_is_no_obstacle", || {
        let temp = tempfile::tempdir().unwrap();
        if !mounted(&temp.path().join("mnt"), "size=1m", "another_file_system_below_is_no_obstacle") {
            return;
        }
        symlink("mnt", temp.path().join("way")).unwrap();
        let store = Posix::open(temp.path(), Links::Inside).unwrap();
        // The temporary name is beside the final one, so a commit never crosses.
        for at in ["mnt/f", "way/g", "h"] {
            write(&store, &path(at), b"here").unwrap();
            assert_eq!(read(&store, &path(at)).unwrap(), b"here");
        }
        // An operation that would have to cross reports that, and not an escape.
        let link = store.make_hard_link(&path("mnt/link"), &path("h"), true, "t").unwrap_err();
        assert_eq!((kind(&link), link.fault()), (Some(ErrorKind::CrossesDevices), Fault::Storage), "{link}");
        let rename = store.rename(&path("h"), &path("mnt/h"), true).unwrap_err();
        assert_eq!((kind(&rename), rename.fault()), (Some(ErrorKind::CrossesDevices), Fault::Storage), "{rename}");
        assert_eq!(names(&store, &path("mnt")), [b"f", b"g"]);
    });
}

fn set_mode(at: &Path, mode: u32) {
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn assert_denied(error: &Error) {
    assert!(kind(error) == Some(ErrorKind::PermissionDenied) && !error.is_fatal(), "{error:?}");
    assert!(error.to_string().contains("owner and mode"), "{error}");
}

#[test]
fn what_may_not_be_read_or_written_is_named() {
    below(NOBODY, "what_may_not_be_read_or_written_is_named", || {
        let temp = tempfile::tempdir().unwrap();
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        let sink = store.create(&path("locked"), "t").unwrap();
        sink.write_at(b"x", 0).unwrap();
        // The owner can set a mode that locks the owner out.
        sink.commit(&Finish { mode: 0, ..finish(1) }).unwrap();
        assert_denied(&store.open(&path("locked")).unwrap_err());
        assert_eq!(store.stat(&path("locked")).unwrap().meta.size, 1);
        write(&store, &path("locked"), b"replaced").unwrap();

        store.make_dir(&path("d")).unwrap();
        write(&store, &path("d/f"), b"x").unwrap();
        set_mode(&temp.path().join("d"), 0o000);
        assert_denied(&store.list(&path("d")).err().unwrap());
        assert_denied(&store.open(&path("d/f")).unwrap_err());
        assert_denied(&store.stat(&path("d/f")).unwrap_err());
        // Its names can be read, but nothing about them.
        set_mode(&temp.path().join("d"), 0o400);
        let entries: Vec<_> = store.list(&path("d")).unwrap().collect();
        assert!(entries.len() == 1);
        for entry in entries {
            let (name, stat) = entry.unwrap();
            let error = stat.unwrap_err();
            assert_denied(&error);
            assert!(name.as_bytes() == b"f" && error.to_string().contains("d/f"), "{error}");
        }
        set_mode(&temp.path().join("d"), 0o500);
        assert_denied(&write(&store, &path("d/g"), b"x").unwrap_err());
        assert_denied(&store.remove(&path("d/f")).unwrap_err());
    });
}

#[test]
fn an_owner_may_finish_and_fill_what_locks_it_out() {
    below(NOBODY, "an_owner_may_finish_and_fill_what_locks_it_out", || {
        let temp = tempfile::tempdir().unwrap();
        let store = Posix::open(temp.path(), Links::Refuse).unwrap();
        let mtime = Timestamp { seconds: 5, nanos: 6 };
        store.make_dir(&path("d")).unwrap();
        for mode in [0o000, 0o111, 0o200, 0o300, 0o555] {
            store.finish_dir(&path("d"), mode, mtime).unwrap();
            store.finish_dir(&path("d"), mode, mtime).unwrap();
            let meta = store.stat(&path("d")).unwrap().meta;
            assert_eq!((meta.mode, meta.mtime), (mode, mtime), "{mode:o}");
            store.make_dir(&path("d")).unwrap();
            write(&store, &path(format!("d/{mode:o}")), b"x").unwrap();
        }
        // A durable file can also be committed in a directory that may be entered but not listed.
        set_mode(&temp.path().join("d"), 0o300);
        let sink = store.create(&path("d/durable"), "t").unwrap();
        sink.commit(&Finish { durable: true, ..finish(0) }).unwrap();
        set_mode(&temp.path().join("d"), 0o700);
        assert!(names(&store, &path("d")).contains(&b"durable".to_vec()));
    });
}

#[test]
fn privilege_bits_are_dropped_where_asked() {
    let temp = tempfile::tempdir().unwrap();
    for (drops, expected) in [(false, 0o6755), (true, 0o755)] {
        let mut store = Posix::open(temp.path(), Links::Refuse).unwrap();
        if drops {
            store = store.without_privilege_bits();
        }
        let sink = store.create(&path("f"), "t").unwrap();
        sink.commit(&Finish { mode: 0o6755, ..finish(0) }).unwrap();
        assert_eq!(store.stat(&path("f")).unwrap().meta.mode, expected);
    }
}

#[test]
fn a_missing_root_is_named() {
    let error = Posix::open(Path::new("/no/such/place"), Links::Refuse).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("no/such/place"), "{error}");
}
