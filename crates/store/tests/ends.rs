//! The stores that keep no tree: `null:`, `zero:SIZE` and pipes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use std::os::fd::OwnedFd;
use std::thread;

use model::{Algorithm, Timestamp};
use store::ends::{DisklessStore, zero_name};
use store::pipe::Pipe;
use store::{Error, Extent, Source, Store, make_dirs};
use support::{finish, path, pattern};

#[test]
fn null_takes_everything_and_keeps_nothing() {
    let null = DisklessStore::Null;
    assert!(!null.capabilities().keeps);
    make_dirs(&null, &path("a/b")).unwrap();
    let sink = null.create(&path("a/b/f"), "t").unwrap();
    sink.write_at(&pattern(5000), 1 << 50).unwrap();
    sink.commit(&finish(u64::MAX)).unwrap();
    null.make_symlink(&path("l"), b"x", Timestamp::default(), false, "t").unwrap();
    null.make_hard_link(&path("h"), &path("a/b/f"), false, "t").unwrap();
    null.finish_dir(&path("a"), 0o755, Timestamp::default()).unwrap();
    assert!(Store::stat(&null, &path("a/b/f")).unwrap_err().is_not_found());
    assert!(null.open(&path("a/b/f")).unwrap_err().is_not_found());
    assert_eq!(null.list(&path("")).unwrap().count(), 0);
    assert!(sink.as_source().is_err());
}

#[test]
fn zero_gives_as_many_zeros_as_its_size() {
    let zero = DisklessStore::Zero(100_000);
    assert!(!zero.is_dir(&path("")));
    assert_eq!(Store::stat(&zero, &path("")).unwrap().meta.size, 100_000);
    assert!(Store::stat(&zero, &path("x")).unwrap_err().is_not_found());
    let source = zero.open(&path("")).unwrap();
    let mut buffer = vec![1; 60_000];
    assert_eq!(source.read_at(&mut buffer, 0).unwrap(), 60_000);
    assert!(buffer.iter().all(|b| *b == 0));
    assert_eq!(source.read_at(&mut buffer, 60_000).unwrap(), 40_000);
    assert_eq!(source.read_at(&mut buffer, 100_000).unwrap(), 0);
    assert_eq!(source.read_at(&mut buffer, u64::MAX).unwrap(), 0);
    // It stands for a disk: its zeros are data, not a hole, which would not be sent.
    assert_eq!(source.extent(0, 100_000).unwrap(), Extent::Data(100_000));
    assert!(matches!(zero.create(&path("f"), "t"), Err(Error::Unsupported { store: "zero:", .. })));
    assert!(zero.make_dir(&path("d")).is_err() && zero.remove(&path("")).is_err());
    assert_eq!(zero_name().as_bytes(), b"zero");
    let digest = store::digest::of_file(&*source, &path(""), &[Algorithm::Md5]).unwrap();
    assert_eq!(digest[0].hex(), "0019d23bef56a136a1891211d7007f6f");
}

fn pipe() -> (Pipe, Pipe) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Pipe::new(OwnedFd::from(reader)), Pipe::new(OwnedFd::from(writer)))
}

#[test]
fn a_pipe_carries_one_file_in_order() {
    let (reader, writer) = pipe();
    let (bytes, sent) = (pattern(300_000), pattern(300_000));
    let writing = thread::spawn(move || {
        let sink = writer.create(&path(""), "t").unwrap();
        for (n, block) in sent.chunks(1 << 16).enumerate() {
            sink.write_at(block, (n << 16) as u64).unwrap();
        }
        // The hole at the end comes out as zeros.
        sink.commit(&finish(300_100)).unwrap();
    });
    let source = reader.open(&path("")).unwrap();
    let mut buffer = vec![1; 1 << 17];
    let mut got = Vec::new();
    loop {
        // A read fills the buffer, in whatever portions the pipe delivers.
        let count = source.read_at(&mut buffer, got.len() as u64).unwrap();
        got.extend_from_slice(&buffer[..count]);
        if count < buffer.len() {
            break;
        }
    }
    writing.join().unwrap();
    assert!(got.len() == 300_100 && got[..300_000] == bytes && got[300_000..].iter().all(|b| *b == 0));
}

#[test]
fn a_pipe_refuses_what_is_out_of_order() {
    let (reader, writer) = pipe();
    assert!(writer.capabilities().writes == store::Writes::InOrder);
    let sink = writer.create(&path(""), "t").unwrap();
    assert!(sink.write_at(b"x", 1).is_err());
    sink.write_at(b"x", 0).unwrap();
    assert!(sink.write_at(b"x", 0).is_err());
    assert!(Source::read_at(&reader, &mut [0], 1).is_err());
    assert_eq!(Source::read_at(&reader, &mut [0], 0).unwrap(), 1);
    assert!(writer.create(&path("f"), "t").is_err());
    assert!(writer.make_dir(&path("d")).is_err() && writer.list(&path("")).is_err() && !writer.is_dir(&path("")));
}

#[test]
fn a_pipe_whose_other_end_is_gone_is_an_error() {
    let (reader, writer) = pipe();
    drop(reader);
    let error = writer.create(&path(""), "t").unwrap().write_at(b"x", 0).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe), "{error}");
}
