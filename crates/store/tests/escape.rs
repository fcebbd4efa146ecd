//! Nothing leads out of a directory store: no path, no link, no link that is swapped in during the walk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::{RelPath, Timestamp};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use store::posix::{Links, Posix};
use store::{Error, Store};
use support::{finish, names, path, read, write};

const OUTSIDE: &[u8] = b"what nobody here may see or change";
const INSIDE: &[u8] = b"what belongs to the tree";

/// A directory with an export and, beside it, a tree that must stay out of reach.
struct Site {
    temp: tempfile::TempDir,
    before: Vec<(PathBuf, String)>,
}

impl Site {
    fn new() -> Site {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().join("outside");
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("secret"), OUTSIDE).unwrap();
        fs::write(outside.join("sub/secret"), OUTSIDE).unwrap();
        fs::create_dir_all(temp.path().join("root/real/sub")).unwrap();
        fs::write(temp.path().join("root/real/secret"), INSIDE).unwrap();
        fs::write(temp.path().join("root/real/sub/secret"), INSIDE).unwrap();
        let before = survey(&outside);
        Site { temp, before }
    }

    fn root(&self) -> PathBuf {
        self.temp.path().join("root")
    }

    fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    fn store(&self, links: Links) -> Posix {
        Posix::open(&self.root(), links).unwrap()
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.root().join(name)).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(survey(&self.outside()), self.before, "something outside was changed");
        }
    }
}

/// All facts about a tree that an intruder could change.
fn survey(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(at) = todo.pop() {
        let meta = fs::symlink_metadata(&at).unwrap();
        let content = if meta.is_file() { fs::read(&at).unwrap() } else { Vec::new() };
        let times = (meta.mtime(), meta.mtime_nsec());
        found.push((at.clone(), format!("{:o} {} {} {times:?} {content:?}", meta.mode(), meta.ino(), meta.nlink())));
        if meta.is_dir() {
            todo.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

/// Tries every operation below the directory `via`. All must fail.
fn assert_every_operation_fails(store: &Posix, via: &str) {
    let below = |name: &str| path(format!("{via}/{name}"));
    let zero = Timestamp::default();
    assert!(store.stat(&below("secret")).is_err(), "stat {via}");
    assert!(store.open(&below("secret")).is_err(), "open {via}");
    assert!(store.list(&path(via)).is_err(), "list {via}");
    assert!(store.list(&below("sub")).is_err(), "list {via}/sub");
    assert!(!store.is_dir(&path(via)) && !store.is_dir(&below("sub")), "is_dir {via}");
    assert!(store.read_link(&below("secret")).is_err(), "read_link {via}");
    assert!(write(store, &below("new"), b"x").is_err(), "create {via}");
    assert!(write(store, &below("secret"), b"x").is_err(), "replace {via}");
    assert!(store.make_dir(&below("new")).is_err(), "make_dir {via}");
    assert!(store.make_dir(&below("sub")).is_err(), "make_dir {via}/sub");
    assert!(store::make_dirs(store, &below("new/er")).is_err(), "make_dirs {via}");
    assert!(store.make_symlink(&below("new"), b"x", zero, true, "t").is_err(), "make_symlink {via}");
    assert!(store.make_hard_link(&path("stolen"), &below("secret"), true, "t").is_err(), "hard link from {via}");
    assert!(store.make_hard_link(&below("new"), &path("real/secret"), true, "t").is_err(), "hard link to {via}");
    assert!(store.rename(&below("secret"), &path("stolen"), true).is_err(), "rename from {via}");
    assert!(store.rename(&path("real/secret"), &below("secret"), true).is_err(), "rename to {via}");
    assert!(store.remove(&below("secret")).is_err(), "remove {via}");
    assert!(store::remove_all(store, &below("sub")).is_err(), "remove_all {via}");
    assert!(store.finish_dir(&path(via), 0o777, zero).is_err(), "finish_dir {via}");
    assert!(store.finish_dir(&below("sub"), 0o777, zero).is_err(), "finish_dir {via}/sub");
}

#[test]
fn no_path_leads_above_the_root() {
    for bad in [&b".."[..], b"a/..", b"../a", b"a/../../b", b"/../etc", b"a/../a"] {
        assert!(RelPath::parse(bad).is_err(), "{bad:?}");
    }
    // A leading slash is the root of the store.
    let site = Site::new();
    let store = site.store(Links::Inside);
    assert_eq!(read(&store, &path("/real/secret")).unwrap(), INSIDE);
    assert!(store.stat(&path("/etc/passwd")).unwrap_err().is_not_found());
}

#[test]
fn links_that_leave_are_refused() {
    for links in [Links::Inside, Links::Refuse] {
        let site = Site::new();
        let store = site.store(links);
        site.link(site.outside(), "absolute");
        site.link("../outside", "relative");
        site.link("real/../../outside", "winding");
        site.link("real/../../root/real", "out-and-in");
        site.link(site.root().join("real"), "absolute-but-inside");
        site.link("relative", "chain");
        site.link("chain/../chain", "longer-chain");
        site.link("/proc/self/cwd", "magic");
        site.link("loop", "loop");
        let links_out = ["absolute", "relative", "winding", "out-and-in", "absolute-but-inside"];
        for via in links_out.into_iter().chain(["chain", "longer-chain", "magic", "loop"]) {
            assert_every_operation_fails(&store, via);
            // The link itself can be examined, and the error names its path.
            assert!(store.stat(&path(via)).is_ok());
            let error = store.open(&path(format!("{via}/secret"))).unwrap_err();
            assert!(error.to_string().contains(&format!("{via}/secret")), "{error}");
        }
        let escape = store.open(&path("absolute/secret")).unwrap_err();
        assert!(links == Links::Refuse || matches!(escape, Error::Escapes(_)), "{escape:?}");
        assert_eq!(read(&store, &path("real/secret")).unwrap(), INSIDE);
        assert!(!names(&store, &path("")).contains(&b"stolen".to_vec()));
    }
}

#[test]
fn links_to_files_outside_are_not_opened() {
    for links in [Links::Inside, Links::Refuse] {
        let site = Site::new();
        let store = site.store(links);
        site.link(site.outside().join("secret"), "absolute");
        site.link("../outside/secret", "relative");
        site.link("/dev/zero", "device");
        for at in ["absolute", "relative", "device"] {
            assert!(store.open(&path(at)).is_err(), "{at}");
            // Another name for a link is a link.
            store.make_hard_link(&path("other"), &path(at), true, "t").unwrap();
            assert!(store.open(&path("other")).is_err());
            assert!(store.finish_dir(&path(at), 0o777, Timestamp::default()).is_err());
            assert!(store.make_dir(&path(at)).is_err());
            // A file of that name replaces the link; it is not written through.
            write(&store, &path(at), INSIDE).unwrap();
            assert_eq!(read(&store, &path(at)).unwrap(), INSIDE);
            store.remove(&path(at)).unwrap();
        }
    }
}

#[test]
fn links_that_stay_are_followed_where_allowed() {
    let site = Site::new();
    let store = site.store(Links::Inside);
    site.link("real", "dir");
    site.link("dir/../dir/sub", "chain");
    site.link("real/secret", "file");
    assert_eq!(read(&store, &path("dir/secret")).unwrap(), INSIDE);
    assert_eq!(read(&store, &path("chain/secret")).unwrap(), INSIDE);
    assert_eq!(read(&store, &path("file")).unwrap(), INSIDE);
    assert!(store.is_dir(&path("dir")) && store.is_dir(&path("chain")) && !store.is_dir(&path("file")));
    assert_eq!(names(&store, &path("dir")), [b"secret".to_vec(), b"sub".to_vec()]);
    write(&store, &path("chain/new"), b"new").unwrap();
    store::make_dirs(&store, &path("dir/a/b")).unwrap();
    assert_eq!(fs::read(site.root().join("real/sub/new")).unwrap(), b"new");
    assert!(site.root().join("real/a/b").is_dir());
}

#[test]
fn no_link_is_followed_where_refused() {
    let site = Site::new();
    let store = site.store(Links::Refuse);
    site.link("real", "dir");
    site.link("dir", "chain");
    site.link("real/secret", "file");
    assert_every_operation_fails(&store, "dir");
    assert_every_operation_fails(&store, "chain");
    assert!(store.open(&path("file")).is_err());
    assert_eq!(store.read_link(&path("file")).unwrap(), b"real/secret");
    assert_eq!(read(&store, &path("real/secret")).unwrap(), INSIDE);
}

#[test]
fn the_root_itself_may_be_behind_a_link_and_may_move() {
    let site = Site::new();
    symlink("root", site.temp.path().join("export")).unwrap();
    let store = Posix::open(&site.temp.path().join("export"), Links::Refuse).unwrap();
    // Once open, it is the directory that counts, not its name.
    fs::remove_file(site.temp.path().join("export")).unwrap();
    symlink("outside", site.temp.path().join("export")).unwrap();
    fs::rename(site.root(), site.temp.path().join("moved")).unwrap();
    assert_eq!(read(&store, &path("real/secret")).unwrap(), INSIDE);
    write(&store, &path("real/new"), INSIDE).unwrap();
    assert!(site.temp.path().join("moved/real/new").exists());
}

/// Swaps a directory and a link to the outside as fast as it can, and counts.
fn swap(root: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    let (dir, link) = (root.join("real"), root.join("link"));
    while !stop.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tries every operation below a path that alternates between a directory and a link to the outside. Counts reads that succeed.
fn trespass(store: &Posix, round: u64, through: &AtomicU64) {
    let zero = Timestamp::default();
    let seen = |at: &str| {
        if let Ok(bytes) = read(store, &path(at)) {
            assert_ne!(bytes, OUTSIDE, "the outside was read through {at}");
            through.fetch_add(1, Ordering::Relaxed);
        }
    };
    seen("real/secret");
    seen("real/sub/secret");
    if let Ok(sink) = store.create(&path("real/new"), "t") {
        let _ = sink.write_at(INSIDE, 0);
        let _ = sink.commit(&finish(INSIDE.len() as u64));
    }
    let _ = write(store, &path("real/sub/new"), INSIDE);
    let _ = store.make_dir(&path("real/made"));
    let _ = store.finish_dir(&path("real/sub"), 0o700, zero);
    let _ = store.finish_dir(&path("real"), 0o755, zero);
    let _ = store.make_symlink(&path("real/sl"), b"x", zero, true, "s");
    if store.make_hard_link(&path("linked"), &path("real/secret"), true, "h").is_ok() {
        seen("linked");
    }
    let _ = store.make_hard_link(&path("real/hard"), &path("linked"), true, "i");
    for entry in store.list(&path("real")).into_iter().flatten().flatten() {
        assert!(entry.0.as_bytes() != b"only-outside", "the outside was listed");
    }
    if round.is_multiple_of(3) {
        let _ = store.remove(&path("real/sub/secret"));
        let _ = store.rename(&path("linked"), &path("real/secret"), true);
        let _ = store::remove_all(store, &path("real/made"));
        let _ = write(store, &path("real/sub/secret"), INSIDE);
    }
}

#[test]
fn a_link_swapped_in_during_the_walk_leads_nowhere() {
    for links in [Links::Inside, Links::Refuse] {
        let mut site = Site::new();
        fs::write(site.outside().join("only-outside"), OUTSIDE).unwrap();
        site.before = survey(&site.outside());
        site.link(site.outside(), "link");
        let (stop, swaps, through) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let (store, root) = (site.store(links), site.root());
        thread::scope(|scope| {
            scope.spawn(|| swap(&root, &stop, &swaps));
            let begun = Instant::now();
            for round in 0.. {
                // A panic here must still stop the other thread, or the scope waits for ever.
                let done = std::panic::catch_unwind(|| trespass(&store, round, &through));
                let enough = swaps.load(Ordering::Relaxed) > 1_000 && through.load(Ordering::Relaxed) > 100;
                let ends = if enough { Duration::from_millis(200) } else { Duration::from_secs(60) };
                if done.is_err() || begun.elapsed() > ends {
                    stop.store(true, Ordering::Relaxed);
                    done.unwrap();
                    break;
                }
            }
        });
        let swaps = swaps.into_inner();
        // The race took place, and legitimate reads succeeded meanwhile.
        assert!(swaps > 100 && through.into_inner() > 10, "{swaps} swaps");
        let swapped = fs::symlink_metadata(root.join("real")).unwrap().is_symlink();
        let dir = if swapped { "link" } else { "real" };
        assert!(!names(&store, &path(dir)).iter().any(|name| name.starts_with(b".longhaul-")), "a leftover");
    }
}

#[test]
fn a_fifo_in_place_of_a_file_does_not_hang() {
    let site = Site::new();
    rustix::fs::mknodat(CWD, site.root().join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(site.root().join("socket")).unwrap();
    for links in [Links::Inside, Links::Refuse] {
        let store = site.store(links);
        let (done, wait) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let refused = store.open(&path("fifo")).map(drop);
            assert!(store.open(&path("socket")).is_err() && store.list(&path("fifo")).is_err());
            assert_eq!(store.stat(&path("fifo")).unwrap().meta.kind, model::Kind::Special);
            // A new file replaces it; nothing is written into the FIFO.
            write(&store, &path("copy"), INSIDE).unwrap();
            done.send(refused).unwrap();
        });
        let refused = wait.recv_timeout(Duration::from_secs(10)).expect("open hangs on a FIFO");
        assert!(matches!(refused, Err(Error::Kind { wanted: "a file", .. })), "{refused:?}");
    }
    drop(socket);
}
