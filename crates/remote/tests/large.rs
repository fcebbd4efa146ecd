//! Operations of many requests: objects of many parts, listings of many pages, files of many chunks; and refused keys.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod servers;

use std::sync::Arc;

use model::fault::{Blame, Fault};
use model::{Algorithm, RelPath, Timestamp};
use remote::S3;
use servers::{OwnNode, S3Server, path, settings};
use store::{FileAnnouncement, Finish, Sink, Store};

const MIB: usize = 1 << 20;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

fn finish(size: usize) -> Finish {
    let mtime = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    Finish { size: size as u64, mode: 0o644, mtime, durable: false, replace: true, attributes: None }
}

fn begin(store: &dyn Store, at: &str, size: Option<u64>) -> Arc<dyn Sink> {
    let sink = store.create(&path(at), "tag").unwrap();
    sink.announce(&FileAnnouncement { size, mtime: Timestamp::default(), replace: true }).unwrap();
    sink
}

fn read(store: &dyn Store, at: &str) -> Vec<u8> {
    let source = store.open(&path(at)).unwrap();
    let mut bytes = vec![0; source.stat().unwrap().meta.size as usize];
    assert_eq!(source.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Unfinished uploads that the server still has.
fn uploads(server: &S3Server) -> usize {
    let left = std::fs::read_dir(server.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    left.filter(|name| name.to_string_lossy().starts_with(".upload")).count()
}

#[test]
fn parts_come_in_any_order_from_many_streams() {
    let server = S3Server::new();
    let store = server.store();
    let bytes = content(50 * MIB + 12_345);
    let sink = begin(&store, "d/large", Some(bytes.len() as u64));
    // Four streams write the blocks, as in a job.
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(MIB, std::sync::atomic::Ordering::SeqCst);
                    if at >= bytes.len() {
                        return;
                    }
                    sink.write_at(&bytes[at..bytes.len().min(at + MIB)], at as u64).unwrap();
                }
            });
        }
    });
    assert!(store.stat(&path("d/large")).unwrap_err().is_not_found(), "it has no name before it is whole");
    sink.commit(&finish(bytes.len())).unwrap();
    assert!(read(&store, "d/large") == bytes);
    assert_eq!(store.stat(&path("d/large")).unwrap().meta.size, bytes.len() as u64);
}

#[test]
fn an_object_of_unknown_length_is_written() {
    let server = S3Server::new();
    let store = server.store();
    let bytes = content(70 * MIB + 5);
    let sink = begin(&store, "blind", None);
    bytes.chunks(MIB).enumerate().for_each(|(at, piece)| sink.write_at(piece, (at * MIB) as u64).unwrap());
    sink.commit(&finish(bytes.len())).unwrap();
    assert!(read(&store, "blind") == bytes);
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing_on_the_server() {
    let server = S3Server::new();
    let store = server.store();
    let sink = begin(&store, "f", Some(40 * MIB as u64));
    sink.write_at(&content(20 * MIB), 0).unwrap();
    drop(sink);
    assert!(store.stat(&path("f")).unwrap_err().is_not_found());
    assert_eq!(uploads(&server), 0);
    // A missing part is not a hole but an error of the sender: the object is not made.
    let sink = begin(&store, "f", Some(40 * MIB as u64));
    sink.write_at(&content(16 * MIB), 0).unwrap();
    sink.write_at(&content(8 * MIB), 32 * MIB as u64).unwrap();
    assert_eq!(sink.commit(&finish(40 * MIB)).unwrap_err().fault(), Fault::Bug);
    assert!(store.stat(&path("f")).unwrap_err().is_not_found());
}

#[test]
fn a_listing_of_many_pages_is_complete() {
    let server = S3Server::new();
    // Made on the server's own disk: a thousand objects fill a page.
    let dir = server.dir.path().join("bucket/some/prefix/d");
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    (0..1200).for_each(|n| std::fs::write(dir.join(format!("f{n:04}")), b"x").unwrap());
    std::fs::write(dir.join("sub/deep"), b"x").unwrap();
    let mut names: Vec<_> = server.store().list(&path("d")).unwrap().map(|e| e.unwrap().0.to_string()).collect();
    names.sort();
    assert_eq!(names.len(), 1201);
    assert_eq!((names[0].as_str(), names[1200].as_str()), ("f0000", "sub"));
    // The facts of many files come with the listing; one by one they would take far longer.
    let store = server.store();
    (0..1200).for_each(|n| assert_eq!(store.stat(&path(&format!("d/f{n:04}"))).unwrap().meta.size, 1));
}

#[test]
fn a_wrong_or_missing_key_is_refused() {
    let server = S3Server::new();
    let store = S3::new(settings(), &server.bucket("a wrong secret"), RelPath::root()).unwrap();
    let error = store.stat(&path("f")).unwrap_err();
    assert_eq!(error.fault(), Fault::Auth, "{error}");
    assert!(!error.to_string().contains("wrong secret"), "{error}");
    let nobody = remote::s3::Bucket { credentials: Arc::new(|| Ok(None)), ..server.bucket("") };
    let store = S3::new(settings(), &nobody, RelPath::root()).unwrap();
    assert_eq!(store.list(&path("")).err().unwrap().fault(), Fault::Auth);
    let elsewhere = remote::s3::Bucket { name: "missing".into(), ..server.bucket(servers::KEY.1) };
    let store = S3::new(settings(), &elsewhere, RelPath::root()).unwrap();
    assert!(store.list(&path("")).is_err());
}

#[test]
fn names_on_s3_are_text() {
    let server = S3Server::new();
    let odd = RelPath::parse(b"a\xff").unwrap();
    for error in [server.store().stat(&odd).unwrap_err(), server.store().create(&odd, "t").err().unwrap()] {
        assert_eq!(error.fault(), Fault::Config);
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }
}

#[test]
fn a_large_file_goes_to_a_node_and_back() {
    let node = OwnNode::new();
    let store = node.store();
    let bytes = content(30 * MIB + 7);
    let sink = begin(&store, "large", Some(bytes.len() as u64));
    bytes.chunks(MIB).enumerate().for_each(|(at, piece)| sink.write_at(piece, (at * MIB) as u64).unwrap());
    assert!(sink.write_at(b"x", 0).is_err(), "in order, and once");
    sink.commit(&finish(bytes.len())).unwrap();
    assert!(std::fs::read(node.data("large")).unwrap() == bytes);
    assert!(read(&store, "large") == bytes);
    let reported = store.digests(&path("large"), &[Algorithm::Adler32, Algorithm::Sha256]).unwrap();
    let source = store.open(&path("large")).unwrap();
    let computed = store::digest::of_file(&*source, &path("large"), &[Algorithm::Adler32, Algorithm::Sha256]).unwrap();
    assert_eq!(reported, computed, "the node reports the digest of the bytes that it sends");
}

#[test]
fn a_hard_link_is_a_copy_that_the_server_makes() {
    let (node, server) = (OwnNode::new(), S3Server::new());
    for store in [Arc::new(node.store()) as Arc<dyn Store>, Arc::new(server.store())] {
        let sink = begin(&*store, "f", Some(5));
        sink.write_at(b"bytes", 0).unwrap();
        sink.commit(&finish(5)).unwrap();
        store.make_hard_link(&path("g"), &path("f"), false, "t").unwrap();
        assert_eq!(read(&*store, "g"), b"bytes");
        assert!(matches!(store.make_hard_link(&path("g"), &path("f"), false, "t"), Err(store::Error::Exists(_))));
    }
}
