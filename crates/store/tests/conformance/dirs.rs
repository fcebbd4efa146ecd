//! Directories: made, filled, finished, listed, renamed, removed.

use model::{Kind, Timestamp};
use store::{Error, Store, make_dirs, remove_all};

use crate::support::{meta, names, path, read, write};

pub fn trees_nest(store: &dyn Store) {
    let mut at = path("");
    // Some servers keep the metadata of a file under one name made of its whole path.
    let levels = if store.capabilities().any_name { 40 } else { 15 };
    for level in 0..levels {
        at = at.join(&path(format!("level{level}")).name().unwrap());
        store.make_dir(&at).unwrap();
    }
    store.make_dir(&path("level0/empty")).unwrap();
    write(store, &at.join(&path("f").name().unwrap()), b"deep").unwrap();
    assert_eq!(names(store, &path("level0")), [&b"empty"[..], b"level1"]);
    assert!(names(store, &path("level0/empty")).is_empty());
    assert_eq!(read(store, &at.join(&path("f").name().unwrap())).unwrap(), b"deep");
    // Servers may make missing directories.
    if store.capabilities().posix {
        assert!(write(store, &path("missing/f"), b"").unwrap_err().is_not_found());
    }
    assert!(store.make_dir(&path("missing/d")).unwrap_err().is_not_found());
}

pub fn making_a_directory_twice_leaves_it_as_it_is(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    write(store, &path("d/f"), b"kept").unwrap();
    store.make_dir(&path("d")).unwrap();
    assert_eq!(read(store, &path("d/f")).unwrap(), b"kept");
}

pub fn make_dir_makes_usable(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    for mode in [0o000, 0o111, 0o555, 0o700, 0o755] {
        store.make_dir(&path("d")).unwrap();
        store.finish_dir(&path("d"), mode, Timestamp::default()).unwrap();
        store.make_dir(&path("d")).unwrap();
        assert_eq!(meta(store, &path("d")).mode, mode | 0o700, "{mode:o}");
    }
}

pub fn a_file_is_in_the_way(store: &dyn Store) {
    write(store, &path("f"), b"kept").unwrap();
    assert!(matches!(store.make_dir(&path("f")), Err(Error::Kind { wanted: "a directory", .. })));
    assert!(make_dirs(store, &path("f")).is_err());
    assert!(make_dirs(store, &path("f/d")).is_err());
    assert!(write(store, &path("f/below"), b"").is_err());
    assert!(store.stat(&path("f/below")).is_err());
    assert!(store.list(&path("f")).is_err());
    assert_eq!(read(store, &path("f")).unwrap(), b"kept");
    assert_eq!(names(store, &path("")), [b"f"]);
    if store.capabilities().posix {
        assert!(store.finish_dir(&path("f"), 0o700, Timestamp::default()).is_err());
        store.make_symlink(&path("l"), b"nowhere", Timestamp::default(), false, "t").unwrap();
        assert!(matches!(store.make_dir(&path("l")), Err(Error::Kind { .. })));
        assert_eq!(store.read_link(&path("l")).unwrap(), b"nowhere");
    }
}

pub fn finish_dir_sets_mode_and_time(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    store.make_dir(&path("d")).unwrap();
    for (mode, seconds) in [(0o755, 7), (0o000, -7), (0o000, -8), (0o2775, 1), (0o1777, 0), (0o700, 1 << 33)] {
        let mtime = Timestamp { seconds, nanos: 987_654_321 };
        store.finish_dir(&path("d"), mode, mtime).unwrap();
        let meta = meta(store, &path("d"));
        assert_eq!((meta.kind, meta.mode, meta.mtime, meta.size), (Kind::Dir, mode, mtime, 0));
    }
    assert!(store.finish_dir(&path("missing"), 0o755, Timestamp::default()).unwrap_err().is_not_found());
}

pub fn make_dirs_makes_parents(store: &dyn Store) {
    make_dirs(store, &path("")).unwrap();
    make_dirs(store, &path("a/b/c")).unwrap();
    make_dirs(store, &path("a/b/c")).unwrap();
    make_dirs(store, &path("a/x")).unwrap();
    assert_eq!(names(store, &path("a")), [b"b", b"x"]);
    assert!(store.is_dir(&path("a/b/c")));
}

pub fn remove_takes_what_is_empty(store: &dyn Store) {
    make_dirs(store, &path("a/b")).unwrap();
    write(store, &path("a/f"), b"x").unwrap();
    // A name with the same beginning does not lie below.
    write(store, &path("a/b2"), b"x").unwrap();
    assert!(store.remove(&path("a")).is_err());
    store.remove(&path("a/f")).unwrap();
    store.remove(&path("a/b")).unwrap();
    assert_eq!(names(store, &path("a")), [b"b2"]);
    store.remove(&path("a/b2")).unwrap();
    store.remove(&path("a")).unwrap();
    assert!(names(store, &path("")).is_empty());
    assert!(store.remove(&path("a")).unwrap_err().is_not_found());
}

pub fn remove_all_takes_the_tree(store: &dyn Store) {
    for dir in ["t/a/b/c", "t/d", "kept"] {
        make_dirs(store, &path(dir)).unwrap();
    }
    for file in ["t/f", "t/a/f", "t/a/b/c/f", "t2", "kept/f"] {
        write(store, &path(file), b"x").unwrap();
    }
    remove_all(store, &path("t")).unwrap();
    assert_eq!(names(store, &path("")), [&b"kept"[..], b"t2"]);
    remove_all(store, &path("t2")).unwrap();
    assert!(remove_all(store, &path("t")).unwrap_err().is_not_found());
    assert_eq!(read(store, &path("kept/f")).unwrap(), b"x");
}

/// As deep as a path may be long: neither descriptors nor stack may run out.
pub fn remove_all_goes_deep(store: &dyn Store) {
    // Fewer descriptors than there are levels, and more than other tests in this process need.
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..limit }).unwrap();
    let mut at = path("");
    let step = path("d").name().unwrap();
    for _ in 0..1500 {
        at = at.join(&step);
        store.make_dir(&at).unwrap();
    }
    remove_all(store, &path("d")).unwrap();
    assert!(names(store, &path("")).is_empty());
}

pub fn rename_moves_trees(store: &dyn Store) {
    make_dirs(store, &path("a/b")).unwrap();
    write(store, &path("a/b/f"), b"moved").unwrap();
    write(store, &path("a2"), b"stays").unwrap();
    store.make_dir(&path("z")).unwrap();
    store.rename(&path("a"), &path("z/a"), true).unwrap();
    assert_eq!(names(store, &path("")), [&b"a2"[..], b"z"]);
    assert_eq!(read(store, &path("z/a/b/f")).unwrap(), b"moved");
    assert!(store.rename(&path("a"), &path("b"), true).unwrap_err().is_not_found());
    assert!(store.rename(&path("a2"), &path("missing/a2"), true).unwrap_err().is_not_found());
    assert_eq!(read(store, &path("a2")).unwrap(), b"stays");
}

pub fn rename_replaces_files(store: &dyn Store) {
    write(store, &path("f"), b"new").unwrap();
    write(store, &path("g"), b"old").unwrap();
    store.rename(&path("f"), &path("g"), true).unwrap();
    assert_eq!(names(store, &path("")), [b"g"]);
    assert_eq!(read(store, &path("g")).unwrap(), b"new");
    store.rename(&path("g"), &path("g"), true).unwrap();
    assert_eq!(read(store, &path("g")).unwrap(), b"new");
}

/// An entry that appeared under a name after the caller saw it free is not replaced.
pub fn rename_replaces_only_where_allowed(store: &dyn Store) {
    write(store, &path("f"), b"new").unwrap();
    write(store, &path("g"), b"old").unwrap();
    make_dirs(store, &path("a/b")).unwrap();
    store.make_dir(&path("empty")).unwrap();
    for (from, to) in [("f", "g"), ("f", "empty"), ("a", "empty"), ("a", "g"), ("f", "f"), ("a", "a")] {
        let error = store.rename(&path(from), &path(to), false).unwrap_err();
        assert!(matches!(error, store::Error::Exists(_)), "{from} -> {to}: {error}");
    }
    assert_eq!((read(store, &path("f")).unwrap(), read(store, &path("g")).unwrap()), (b"new".into(), b"old".into()));
    store.rename(&path("f"), &path("h"), false).unwrap();
    store.rename(&path("a"), &path("z"), false).unwrap();
    assert_eq!(names(store, &path("")), [&b"empty"[..], b"g", b"h", b"z"]);
    assert_eq!((read(store, &path("h")).unwrap(), names(store, &path("z"))), (b"new".into(), vec![b"b".to_vec()]));
    for nonsense in ["z/b/c", "z/c"] {
        assert!(store.rename(&path("z"), &path(nonsense), false).is_err(), "{nonsense}");
    }
    assert!(store.rename(&path("none"), &path("x"), false).unwrap_err().is_not_found());
}

pub fn rename_refuses_nonsense(store: &dyn Store) {
    make_dirs(store, &path("a/b")).unwrap();
    make_dirs(store, &path("full/d")).unwrap();
    write(store, &path("f"), b"kept").unwrap();
    for (from, to) in [("a", "a/b/c"), ("a", "a/c"), ("f", "a"), ("a", "f"), ("a", "full"), ("", "x"), ("a", "")] {
        assert!(store.rename(&path(from), &path(to), true).is_err(), "{from} -> {to}");
    }
    assert_eq!(names(store, &path("")), [&b"a"[..], b"f", b"full"]);
    assert_eq!(names(store, &path("a")), [b"b"]);
    assert_eq!(read(store, &path("f")).unwrap(), b"kept");
    // An empty directory gives way to another, as rename(2) has it.
    store.rename(&path("a"), &path("full/d"), true).unwrap();
    assert_eq!(names(store, &path("full/d")), [b"b"]);
}

pub fn an_empty_directory_lists_nothing(store: &dyn Store) {
    assert!(names(store, &path("")).is_empty());
    store.make_dir(&path("d")).unwrap();
    assert!(names(store, &path("d")).is_empty());
    assert!(store.list(&path("missing")).err().unwrap().is_not_found());
}

pub fn a_large_directory_lists_all(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    let name = |n: usize| format!("file-{n:05}").into_bytes();
    for n in 0..10_000 {
        store.create(&path([b"d/", &name(n)[..]].concat()), "t").unwrap().commit(&crate::support::finish(0)).unwrap();
    }
    assert!(names(store, &path("d")) == (0..10_000).map(name).collect::<Vec<_>>());
    for entry in store.list(&path("d")).unwrap() {
        let (name, stat) = entry.unwrap();
        let stat = stat.unwrap();
        assert_eq!((stat.meta.kind, stat.names), (Kind::File, 1), "{name}");
    }
}

pub fn is_dir_is_true_of_directories_only(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    write(store, &path("f"), b"").unwrap();
    assert!(store.is_dir(&path("")) && store.is_dir(&path("d")));
    assert!(!store.is_dir(&path("f")) && !store.is_dir(&path("missing")) && !store.is_dir(&path("f/x")));
}

pub fn the_root_stays(store: &dyn Store) {
    assert!(store.remove(&path("")).is_err());
    assert!(store.create(&path(""), "t").is_err());
    if store.capabilities().posix {
        assert!(store.make_symlink(&path(""), b"x", Timestamp::default(), true, "t").is_err());
        store.finish_dir(&path(""), 0o751, Timestamp { seconds: 5, nanos: 6 }).unwrap();
        let root = meta(store, &path(""));
        assert_eq!((root.mode, root.mtime.seconds), (0o751, 5));
    }
    assert!(store.is_dir(&path("")) && names(store, &path("")).is_empty());
    assert_eq!(meta(store, &path("")).kind, Kind::Dir);
}
