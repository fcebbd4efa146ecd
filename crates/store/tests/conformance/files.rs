//! Files: written in any order under a temporary name, then given length, mode, time and name at once.

use model::Timestamp;
use store::{Error, Finish, Store, Writes};

use crate::support::{finish, meta, names, path, pattern, read, write};

pub fn sizes_read_back(store: &dyn Store) {
    for size in [0, 1, 4095, 4096, (1 << 20) + 1] {
        let at = path(format!("f{size}"));
        write(store, &at, &pattern(size)).unwrap();
        assert!(read(store, &at).unwrap() == pattern(size), "{size} bytes");
        let stat = store.stat(&at).unwrap();
        assert_eq!((stat.meta.kind, stat.meta.size, stat.names), (model::Kind::File, size as u64, 1));
    }
}

pub fn writes_out_of_order(store: &dyn Store) {
    if store.capabilities().writes == Writes::InOrder {
        return;
    }
    let bytes = pattern(100_001);
    let sink = store.create(&path("f"), "t").unwrap();
    let blocks: Vec<_> = bytes.chunks(777).enumerate().collect();
    // Odd ones backwards, then even ones forwards, then one of them again.
    let odd = blocks.iter().rev().filter(|(n, _)| n % 2 == 1);
    for (n, block) in odd.chain(blocks.iter().filter(|(n, _)| n % 2 == 0)).chain(&blocks[3..4]) {
        sink.write_at(block, *n as u64 * 777).unwrap();
    }
    sink.commit(&finish(bytes.len() as u64)).unwrap();
    assert!(read(store, &path("f")).unwrap() == bytes);
}

pub fn reads_past_the_end(store: &dyn Store) {
    write(store, &path("f"), b"0123456789").unwrap();
    let source = store.open(&path("f")).unwrap();
    let mut buffer = [b'-'; 8];
    assert_eq!(source.read_at(&mut buffer, 6).unwrap(), 4);
    assert_eq!(&buffer, b"6789----");
    for beyond in [10, 11, 1 << 40, i64::MAX as u64 - 8] {
        assert_eq!(source.read_at(&mut buffer, beyond).unwrap(), 0, "{beyond}");
    }
    assert_eq!(source.read_at(&mut [], 3).unwrap(), 0);
}

pub fn commit_gives_mode_and_time(store: &dyn Store) {
    if !store.capabilities().posix {
        return;
    }
    let times = [(0, 0), (1, 999_999_999), (-1, 0), (-1, 1), (-2_000_000_000, 123_456_789), (4_000_000_000, 5)];
    let modes = [0o000, 0o444, 0o600, 0o644, 0o755, 0o1777, 0o4755, 0o2755];
    for (n, mode) in modes.into_iter().enumerate() {
        for (seconds, nanos) in times {
            let (at, mtime) = (path(format!("{n}{seconds}")), Timestamp { seconds, nanos });
            let sink = store.create(&at, "t").unwrap();
            sink.write_at(b"xyz", 0).unwrap();
            sink.commit(&Finish { mode, mtime, ..finish(3) }).unwrap();
            let meta = meta(store, &at);
            assert_eq!((meta.mode, meta.mtime, meta.size), (mode, mtime, 3), "{mode:o} {mtime:?}");
        }
    }
}

pub fn nothing_has_the_name_before_commit(store: &dyn Store) {
    let sink = store.create(&path("f"), "t").unwrap();
    sink.write_at(b"half", 0).unwrap();
    assert!(store.stat(&path("f")).unwrap_err().is_not_found());
    assert!(store.open(&path("f")).unwrap_err().is_not_found());
    assert!(!names(store, &path("")).contains(&b"f".to_vec()));
    write(store, &path("f"), b"old").unwrap();
    sink.write_at(b"half", 4).unwrap();
    assert_eq!(read(store, &path("f")).unwrap(), b"old");
    sink.commit(&finish(8)).unwrap();
    assert_eq!(names(store, &path("")), [b"f"]);
    assert_eq!(read(store, &path("f")).unwrap(), b"halfhalf");
}

pub fn discard_and_drop_leave_nothing(store: &dyn Store) {
    let sink = store.create(&path("f"), "t").unwrap();
    sink.write_at(b"half", 0).unwrap();
    sink.discard();
    sink.discard();
    assert!(names(store, &path("")).is_empty());
    let sink = store.create(&path("g"), "t").unwrap();
    sink.write_at(b"half", 0).unwrap();
    drop(sink);
    assert!(names(store, &path("")).is_empty());
    // Harmless after commit.
    let sink = store.create(&path("h"), "t").unwrap();
    sink.commit(&finish(0)).unwrap();
    sink.discard();
    drop(sink);
    assert_eq!(names(store, &path("")), [b"h"]);
}

pub fn a_file_is_replaced_only_where_allowed(store: &dyn Store) {
    write(store, &path("f"), b"old").unwrap();
    let sink = store.create(&path("f"), "t").unwrap();
    sink.write_at(b"newer", 0).unwrap();
    let refused = sink.commit(&Finish { replace: false, ..finish(5) });
    assert!(matches!(refused, Err(Error::Exists(at)) if at == "f"));
    drop(sink);
    assert_eq!(read(store, &path("f")).unwrap(), b"old");
    assert_eq!(names(store, &path("")), [b"f"]);
    write(store, &path("f"), b"newer").unwrap();
    assert_eq!(read(store, &path("f")).unwrap(), b"newer");
    // Nothing in the way: no replacement is needed.
    let sink = store.create(&path("g"), "t").unwrap();
    sink.commit(&Finish { replace: false, ..finish(0) }).unwrap();
    assert_eq!(names(store, &path("")), [b"f", b"g"]);
}

pub fn a_directory_is_in_the_way(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    store.make_dir(&path("full")).unwrap();
    write(store, &path("full/f"), b"kept").unwrap();
    for (at, replace) in [("d", true), ("d", false), ("full", true), ("full", false)] {
        let sink = store.create(&path(at), "t").unwrap();
        sink.write_at(b"new", 0).unwrap();
        let refused = sink.commit(&Finish { replace, ..finish(3) });
        assert!(
            matches!(&refused, Err(Error::Kind { path, found: "a directory", .. }) if path == at),
            "{at} {replace} {refused:?}"
        );
    }
    assert_eq!(names(store, &path("")), [&b"d"[..], b"full"]);
    assert_eq!(read(store, &path("full/f")).unwrap(), b"kept");
}

pub fn commit_sets_the_length(store: &dyn Store) {
    let anywhere = store.capabilities().writes == Writes::Anywhere;
    for (written, size) in [(10, 4), (10, 0), (0, 10), (4, 100_000), (7, 7)] {
        // Such a store cannot take back bytes that it has sent on.
        if written > size && !anywhere {
            continue;
        }
        let sink = store.create(&path("f"), "t").unwrap();
        sink.write_at(&pattern(written), 0).unwrap();
        sink.commit(&finish(size as u64)).unwrap();
        let mut expected = pattern(written);
        expected.resize(size, 0);
        assert_eq!(read(store, &path("f")).unwrap(), expected, "{written} {size}");
    }
    if !anywhere {
        return;
    }
    // Holes in the middle are zeros.
    let sink = store.create(&path("f"), "t").unwrap();
    sink.write_at(b"end", 300_000).unwrap();
    sink.write_at(b"begin", 0).unwrap();
    sink.commit(&finish(300_003)).unwrap();
    let bytes = read(store, &path("f")).unwrap();
    assert!(bytes.starts_with(b"begin\0\0") && bytes.ends_with(b"\0\0end") && bytes.len() == 300_003);
}

pub fn a_sink_reads_back(store: &dyn Store) {
    if store.capabilities().writes != Writes::Anywhere {
        let sink = store.create(&path("f"), "t").unwrap();
        assert!(matches!(sink.as_source(), Err(Error::Unsupported { .. })));
        return;
    }
    let sink = store.create(&path("f"), "t").unwrap();
    sink.write_at(b"0123456789", 0).unwrap();
    sink.write_at(b"ab", 3).unwrap();
    let mut buffer = [0; 20];
    let source = sink.as_source().unwrap();
    assert_eq!(source.read_at(&mut buffer, 0).unwrap(), 10);
    assert_eq!(&buffer[..10], b"012ab56789");
    assert_eq!(source.stat().unwrap().meta.size, 10);
    sink.commit(&finish(10)).unwrap();
    assert_eq!(read(store, &path("f")).unwrap(), b"012ab56789");
}

pub fn a_reader_keeps_what_it_opened(store: &dyn Store) {
    write(store, &path("f"), b"old").unwrap();
    let source = store.open(&path("f")).unwrap();
    write(store, &path("f"), b"newer").unwrap();
    let mut buffer = [0; 5];
    if !store.capabilities().posix {
        // A server knows names only: a file whose content has changed since it was opened is refused.
        let error = source.read_at(&mut buffer, 0).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        return;
    }
    assert_eq!(source.read_at(&mut buffer, 0).unwrap(), 3);
    assert_eq!(&buffer[..3], b"old");
    assert_ne!(source.stat().unwrap().identity, store.stat(&path("f")).unwrap().identity);
    store.remove(&path("f")).unwrap();
    assert_eq!(source.read_at(&mut buffer, 0).unwrap(), 3);
}

pub fn durable_files_read_back(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    let sink = store.create(&path("d/f"), "t").unwrap();
    sink.write_at(b"kept", 0).unwrap();
    sink.commit(&Finish { durable: true, ..finish(4) }).unwrap();
    assert_eq!(read(store, &path("d/f")).unwrap(), b"kept");
}

pub fn two_files_at_once(store: &dyn Store) {
    let (one, two) = (store.create(&path("1"), "one").unwrap(), store.create(&path("2"), "two").unwrap());
    one.write_at(b"first", 0).unwrap();
    two.write_at(b"second", 0).unwrap();
    two.commit(&finish(6)).unwrap();
    drop(two);
    one.commit(&finish(5)).unwrap();
    assert_eq!(read(store, &path("1")).unwrap(), b"first");
    assert_eq!(read(store, &path("2")).unwrap(), b"second");
}

/// Tags are chosen at random: a temporary name that is in use belongs to another transfer.
pub fn a_temporary_name_in_use_is_left_alone(store: &dyn Store) {
    let other = path(store::posix::temporary_name("t"));
    write(store, &other, b"of somebody else").unwrap();
    if let Ok(sink) = store.create(&path("f"), "t") {
        // Memory has no temporary names.
        sink.discard();
    }
    assert_eq!(read(store, &other).unwrap(), b"of somebody else");
    store.remove(&other).unwrap();
}

/// A tag with a slash must not lead elsewhere.
pub fn a_tag_is_only_a_name(store: &dyn Store) {
    store.make_dir(&path("d")).unwrap();
    store.make_dir(&path("d/.longhaul-x")).unwrap();
    let sink = store.create(&path("d/f"), "x/../../e").unwrap();
    sink.write_at(b"new", 0).unwrap();
    assert!(!names(store, &path("")).contains(&b"e.part".to_vec()));
    sink.commit(&finish(3)).unwrap();
    assert_eq!(read(store, &path("d/f")).unwrap(), b"new");
    store.remove(&path("d/.longhaul-x")).unwrap();
}
