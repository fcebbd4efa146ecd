//! Links: symbolic ones are text and travel verbatim; hard ones are further names of one file.

use model::{Kind, Timestamp};
use store::{Error, Store, make_dirs, remove_all};

use crate::support::{meta, names, path, read, write};

const AT: Timestamp = Timestamp { seconds: -3, nanos: 14 };

pub fn symlinks_are_verbatim(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    let long = [&b"x/".repeat(2047)[..], b"y"].concat();
    assert_eq!(long.len(), 4095);
    let targets: [&[u8]; 9] =
        [b"dangling", b"/etc/passwd", b"../..", b".", b"//a//./b/", b"\xff\n\x01", b" ", &long, &[b'x'; 4095]];
    for (n, target) in targets.into_iter().enumerate() {
        let at = path(format!("l{n}"));
        store.make_symlink(&at, target, AT, false, "t").unwrap();
        assert_eq!(store.read_link(&at).unwrap(), target);
        let meta = meta(store, &at);
        assert_eq!((meta.kind, meta.size, meta.mtime), (Kind::Symlink, 0, AT));
    }
    assert_eq!(names(store, &path("")).len(), targets.len());
    write(store, &path("f"), b"").unwrap();
    assert!(store.read_link(&path("f")).is_err());
    assert!(store.read_link(&path("missing")).unwrap_err().is_not_found());
}

pub fn symlinks_replace(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    write(store, &path("f"), b"old").unwrap();
    store.make_symlink(&path("l"), b"old", AT, false, "t").unwrap();
    store.make_dir(&path("d")).unwrap();
    for at in ["f", "l"] {
        let refused = store.make_symlink(&path(at), b"new", AT, false, "t");
        assert!(matches!(&refused, Err(Error::Exists(name)) if name == at), "{refused:?}");
    }
    assert_eq!(store.read_link(&path("l")).unwrap(), b"old");
    assert_eq!(read(store, &path("f")).unwrap(), b"old");
    for at in ["f", "l"] {
        store.make_symlink(&path(at), b"new", AT, true, "t").unwrap();
        assert_eq!(store.read_link(&path(at)).unwrap(), b"new");
    }
    for replace in [false, true] {
        let refused = store.make_symlink(&path("d"), b"new", AT, replace, "t");
        assert!(matches!(refused, Err(Error::Kind { found: "a directory", .. })), "{refused:?}");
    }
    // A file replaces a link, and does not write through it.
    store.make_symlink(&path("l"), b"g", AT, true, "t").unwrap();
    write(store, &path("l"), b"file").unwrap();
    assert_eq!(meta(store, &path("l")).kind, Kind::File);
    assert_eq!(names(store, &path("")), [b"d", b"f", b"l"]);
    assert!(store.make_symlink(&path("missing/l"), b"x", AT, true, "t").unwrap_err().is_not_found());
}

pub fn remove_all_takes_links_not_their_targets(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    make_dirs(store, &path("kept/d")).unwrap();
    write(store, &path("kept/f"), b"kept").unwrap();
    store.make_dir(&path("t")).unwrap();
    store.make_symlink(&path("t/l"), b"../kept", AT, false, "t").unwrap();
    store.make_symlink(&path("top"), b"kept", AT, false, "t").unwrap();
    remove_all(store, &path("t")).unwrap();
    remove_all(store, &path("top")).unwrap();
    assert_eq!(names(store, &path("")), [b"kept"]);
    assert_eq!(names(store, &path("kept")), [b"d", b"f"]);
}

pub fn hard_links_share_one_file(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    store.make_dir(&path("d")).unwrap();
    write(store, &path("f"), b"shared").unwrap();
    store.make_hard_link(&path("d/g"), &path("f"), false, "t").unwrap();
    let (f, g) = (store.stat(&path("f")).unwrap(), store.stat(&path("d/g")).unwrap());
    assert_eq!((f.identity, f.names, f.meta), (g.identity, 2, g.meta));
    let listed = store.list(&path("d")).unwrap().next().unwrap().unwrap().1.unwrap();
    assert_eq!((listed.identity, listed.names), (f.identity, 2));
    let opened = store.open(&path("f")).unwrap().stat().unwrap();
    assert_eq!((opened.identity, opened.names), (f.identity, 2));
    // Onto a name of the same file: nothing changes, and no temporary name stays.
    store.make_hard_link(&path("d/g"), &path("f"), true, "t").unwrap();
    let refused = store.make_hard_link(&path("d/g"), &path("f"), false, "t");
    assert!(matches!(refused, Err(Error::Exists(_))));
    assert_eq!(store.stat(&path("f")).unwrap().names, 2);
    assert_eq!(
        (names(store, &path("")), names(store, &path("d"))),
        (vec![b"d".to_vec(), b"f".to_vec()], vec![b"g".to_vec()])
    );
    store.remove(&path("f")).unwrap();
    assert_eq!(store.stat(&path("d/g")).unwrap().names, 1);
    assert_eq!(read(store, &path("d/g")).unwrap(), b"shared");
    // Another file under the name leaves the first one alone.
    store.make_hard_link(&path("f"), &path("d/g"), false, "t").unwrap();
    write(store, &path("f"), b"own").unwrap();
    assert_eq!(read(store, &path("d/g")).unwrap(), b"shared");
}

pub fn hard_links_replace(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    write(store, &path("f"), b"new").unwrap();
    write(store, &path("g"), b"old").unwrap();
    store.make_dir(&path("d")).unwrap();
    assert!(matches!(store.make_hard_link(&path("g"), &path("f"), false, "t"), Err(Error::Exists(_))));
    assert_eq!(read(store, &path("g")).unwrap(), b"old");
    store.make_hard_link(&path("g"), &path("f"), true, "t").unwrap();
    assert_eq!(read(store, &path("g")).unwrap(), b"new");
    for replace in [false, true] {
        let refused = store.make_hard_link(&path("d"), &path("f"), replace, "t");
        assert!(matches!(refused, Err(Error::Kind { found: "a directory", .. })), "{refused:?}");
    }
    assert_eq!(names(store, &path("")), [b"d", b"f", b"g"]);
}

pub fn hard_links_need_a_file(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    store.make_dir(&path("d")).unwrap();
    assert!(store.make_hard_link(&path("g"), &path("missing"), true, "t").unwrap_err().is_not_found());
    assert!(store.make_hard_link(&path("g"), &path("d"), true, "t").is_err());
    write(store, &path("f"), b"x").unwrap();
    assert!(store.make_hard_link(&path("missing/g"), &path("f"), true, "t").unwrap_err().is_not_found());
    assert_eq!(names(store, &path("")), [b"d", b"f"]);
}
