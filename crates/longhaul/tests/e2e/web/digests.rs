//! Digests: made once, kept in extended attributes or else in the state directory, and void when the bytes change.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::raw::{Raw, ask, open, plain, put};
use crate::node::Node;
use crate::tree::{pattern, set_time};
use crate::wrappers::{mounted, with_mounts};

fn digest(node: &Node, target: &str, algorithm: &str) -> String {
    let head = Raw::to(node).ask("HEAD", target, &[("Want-Digest", algorithm)], &[]).expect(200);
    head.field("digest").unwrap_or_else(|| panic!("{target}: no digest")).to_ascii_lowercase()
}

/// The bytes that the node's process has read, from the disk or the cache.
fn read_bytes(node: &Node) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", node.pid())).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Waits until a digest may be kept: a file that changed a moment ago gets none.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

fn bytes_read_for_digest(node: &Node, target: &str, algorithm: &str, len: u64) -> u64 {
    let before = read_bytes(node);
    digest(node, target, algorithm);
    let read = read_bytes(node) - before;
    assert!(read < 200_000 || read >= len, "{read}");
    read
}

fn assert_kept_until_the_file_changes(node: &Node, dir: &Path) {
    let len = 8 << 20;
    fs::write(dir.join("f"), pattern(len)).unwrap();
    settle();
    let first = digest(node, "/data/f", "adler32");
    for algorithm in ["adler32", "crc32c"] {
        assert!(bytes_read_for_digest(node, "/data/f", algorithm, len as u64) < 200_000, "{algorithm} was made again");
    }
    assert!(bytes_read_for_digest(node, "/data/f", "md5", len as u64) >= len as u64);
    assert!(bytes_read_for_digest(node, "/data/f", "md5", len as u64) < 200_000);
    assert_eq!(digest(node, "/data/f", "adler32"), first);
    // In place, as long as before, a moment later.
    File::options().write(true).open(dir.join("f")).unwrap().write_all(b"changed").unwrap();
    let second = digest(node, "/data/f", "adler32");
    assert_ne!(second, first);
    settle();
    assert_eq!(digest(node, "/data/f", "adler32"), second);
    assert!(bytes_read_for_digest(node, "/data/f", "crc32c", len as u64) < 200_000);
    // Another file under the same name, of the same length and time.
    let time = fs::metadata(dir.join("f")).unwrap();
    fs::write(dir.join("g"), vec![1; len]).unwrap();
    set_time(&dir.join("g"), time.mtime(), time.mtime_nsec());
    fs::rename(dir.join("g"), dir.join("f")).unwrap();
    assert_ne!(digest(node, "/data/f", "adler32"), second);
    // One byte longer.
    File::options().append(true).open(dir.join("f")).unwrap().write_all(b"x").unwrap();
    let third = digest(node, "/data/f", "adler32");
    // A PUT stores the digests of its body.
    put(node, "/data/p", &pattern(len)).expect(201);
    let before = read_bytes(node);
    assert_eq!(digest(node, "/data/p", "adler32"), first);
    digest(node, "/data/p", "crc32c");
    assert!(read_bytes(node) - before < 200_000);
    assert_ne!(third, first);
}

#[test]
fn digests_in_attributes_are_used_while_valid() {
    let Ok(dir) = tempfile::tempdir_in("/var/tmp") else {
        return crate::wait::skipped("web::digests::digests_in_attributes_are_used_while_valid", "no /var/tmp");
    };
    let node =
        crate::node::Setup::new().export("data", dir.path(), "rw").arg("--anonymous").arg("rw").arg("--plain").start();
    assert_kept_until_the_file_changes(&node, dir.path());
}

#[test]
fn digests_are_kept_in_the_state_directory_where_attributes_are_not() {
    const TEST: &str = "web::digests::digests_are_kept_in_the_state_directory_where_attributes_are_not";
    with_mounts(TEST, || {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("ram");
        let Some(_mount) = mounted(&at, "size=64m", TEST) else { return };
        let mut node =
            crate::node::Setup::new().export("data", &at, "rw").arg("--anonymous").arg("rw").arg("--plain").start();
        assert_kept_until_the_file_changes(&node, &at);
        // They outlast a restart of the node.
        let known = digest(&node, "/data/p", "adler32");
        node.restart();
        assert!(bytes_read_for_digest(&node, "/data/p", "adler32", 8 << 20) < 200_000);
        assert_eq!(digest(&node, "/data/p", "adler32"), known);
    });
}

#[test]
fn concurrent_requests_for_a_digest_read_the_file_once() {
    let node = open();
    let len = 96 << 20;
    fs::write(node.data("f"), pattern(len)).unwrap();
    settle();
    let before = read_bytes(&node);
    let all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| digest(&node, "/data/f", "md5"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    let read = read_bytes(&node) - before;
    assert!(read < 2 * len as u64, "{read} bytes were read for a file of {len}");
}

#[test]
fn the_digest_of_a_file_that_changes_while_it_is_read_is_not_kept() {
    let node = open();
    let len = 200 << 20;
    fs::write(node.data("f"), vec![0; len]).unwrap();
    settle();
    std::thread::scope(|scope| {
        let request = scope.spawn(|| digest(&node, "/data/f", "md5"));
        let began = Instant::now();
        let mut file = File::options().write(true).open(node.data("f")).unwrap();
        while !request.is_finished() && began.elapsed() < Duration::from_secs(20) {
            file.write_all(b"x").unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
        request.join().unwrap();
    });
    settle();
    let digest_of_f = digest(&node, "/data/f", "md5");
    let twin = fs::read(node.data("f")).unwrap();
    put(&node, "/data/twin", &twin).expect(201);
    assert_eq!(digest_of_f, digest(&node, "/data/twin", "md5"));
}

#[test]
fn unknown_digest_algorithms_are_left_out() {
    let node = plain().start();
    put(&node, "/data/f", b"123456789").expect(201);
    assert_eq!(digest(&node, "/data/f", "adler32"), "adler32=091e01de");
    assert_eq!(digest(&node, "/data/f", "unknown;q=1, crc32c;q=0.5"), "crc32c=e3069283");
    let head = |value: &str| Raw::to(&node).ask("HEAD", "/data/f", &[("Want-Digest", value)], &[]).expect(200);
    for value in ["adler32;q=0", ""] {
        assert_eq!(head(value).field("digest"), None, "{value}");
    }
    assert_eq!(head("adler32").field("content-length"), Some("9"));
    let repr = ask(&node, "GET", "/data/f", &[("Want-Repr-Digest", "md5=9")], &[]).expect(200);
    assert_eq!(repr.field("repr-digest"), Some("md5=:JfnnlDI7RTiF9RgfG2JNCw==:"));
    // Of a part, the digest is still that of the whole.
    let part = ask(&node, "GET", "/data/f", &[("Want-Digest", "adler32"), ("Range", "bytes=0-0")], &[]).expect(206);
    assert_eq!(part.field("digest").map(str::to_ascii_lowercase).as_deref(), Some("adler32=091e01de"));
}
