//! Several sources as one store, with real servers and faulty ones: a bucket, a node and a directory together, a server without
//! ranges, one that answers with another range, and no source at all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod script;
mod servers;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::checksum::BlockSum;
use model::fault::{Blame, Fault};
use model::{RelPath, Timestamp};
use remote::mirrored::{Member, Mirrored, SourceStore};
use remote::{Dav, S3};
use script::{Reply, Script};
use servers::{OwnNode, S3Server, path, settings};
use store::{Finish, Store};
use web::Headers;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

type Messages = Arc<Mutex<Vec<String>>>;

/// Longer than any test waits for a source.
const PATIENT: Duration = Duration::from_secs(60);

fn set(members: Vec<(&str, SourceStore, RelPath)>, patience: Duration) -> (Mirrored, Messages) {
    let messages = Messages::default();
    let collected = Arc::clone(&messages);
    let members = members.into_iter().map(|(name, place, at)| Member::new(name.into(), place, at)).collect();
    let report = move |message: &str| collected.lock().unwrap().push(message.to_owned());
    (Mirrored::new(members, patience, Box::new(report)), messages)
}

fn read(set: &Mirrored, at: &RelPath, len: usize) -> store::Result<Vec<u8>> {
    let source = set.open(at)?;
    assert_eq!(source.stat()?.meta.size, len as u64);
    let mut bytes = vec![0; len];
    for (at, piece) in bytes.chunks_mut(1 << 20).enumerate() {
        source.read_at(piece, (at << 20) as u64)?;
    }
    Ok(bytes)
}

fn put(store: &dyn Store, at: &RelPath, bytes: &[u8]) {
    let sink = store.create(at, "t").unwrap();
    sink.write_at(bytes, 0).unwrap();
    let size = bytes.len() as u64;
    let mtime = Timestamp::default();
    sink.commit(&Finish { size, mode: 0o644, mtime, durable: false, replace: true, attributes: None }).unwrap();
}

/// A slow server, which sends the bytes beyond the first 4 MiB only when `turn` is set: then the others have sent some.
fn slow(bytes: &[u8], turn: &Arc<AtomicBool>) -> Script {
    let (bytes, turn) = (bytes.to_vec(), Arc::clone(turn));
    Script::new(move |request| {
        std::thread::sleep(Duration::from_millis(20));
        if request.range().is_some_and(|(from, _)| from >= 4 << 20) {
            wait_until(|| turn.load(Ordering::Relaxed));
        }
        Reply::honest(request, &bytes)
    })
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads while another thread waits until the other sources have sent bytes (`had`), and then sets `turn`.
fn read_in_turn(set: &Mirrored, len: usize, turn: &AtomicBool, had: impl Fn() -> bool + Send) -> Vec<u8> {
    turn.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            wait_until(had);
            turn.store(true, Ordering::Relaxed);
        });
        read(set, &path("f"), len).unwrap()
    })
}

fn dav(script: &Script) -> SourceStore {
    SourceStore::Dav(Dav::new(settings(), &script.url(), RelPath::root()))
}

#[test]
fn a_bucket_a_node_and_a_server_are_read_as_one_store() {
    let bytes = content((30 << 20) + 5);
    let turn = Arc::default();
    let (node, bucket, first) = (OwnNode::new(), S3Server::new(), slow(&bytes, &turn));
    std::fs::write(node.data("g"), &bytes).unwrap();
    let s3: S3 = bucket.store();
    put(&s3, &path("d/f"), &bytes);
    // Each together with a slow one: of three, the fastest could send everything before the others have begun.
    let others = [("node", SourceStore::Dav(node.store()), path("g")), ("bucket", SourceStore::S3(s3), path("d/f"))];
    for (name, place, at) in others {
        let (set, messages) = set(vec![("first", dav(&first), path("f")), (name, place, at)], PATIENT);
        let had = || set.shares()[1].bytes > 0;
        assert!(read_in_turn(&set, bytes.len(), &turn, had) == bytes, "{name}");
        let shares = set.shares();
        assert!(shares.iter().all(|share| share.bytes > 0 && share.left_out.is_none()), "{shares:?} {messages:?}");
        assert_eq!(shares.iter().map(|share| share.bytes).sum::<u64>(), bytes.len() as u64);
    }
}

#[test]
fn a_source_with_wrong_ranges_or_without_ranges_is_left_out() {
    let bytes = content(20 << 20);
    let turn = Arc::default();
    let (first, own) = (slow(&bytes, &turn), bytes.clone());
    let shifted = Script::new(move |request| match request.range() {
        Some((from, to)) => {
            let range = format!("bytes {}-{}/{}", from + 1, to + 1, own.len());
            Reply::new(206, Headers::new().with("Content-Range", range), &own[from..=to])
        }
        None => Reply::honest(request, &own),
    });
    let own = bytes.clone();
    let whole = Script::new(move |request| match request.method() {
        "HEAD" => Reply::honest(request, &own),
        "GET" => Reply::new(200, Headers::new(), &own),
        _ => Reply::new(405, Headers::new(), b""),
    });
    let at = || path("f");
    let all = vec![("first", dav(&first), at()), ("shifted", dav(&shifted), at()), ("whole", dav(&whole), at())];
    let (set, messages) = set(all, PATIENT);
    let had = || messages.lock().unwrap().len() >= 2;
    assert!(read_in_turn(&set, bytes.len(), &turn, had) == bytes);
    let why: Vec<_> = set.shares().into_iter().map(|share| (share.bytes, share.left_out.unwrap_or_default())).collect();
    assert!(why[1].0 == 0 && why[1].1.contains("when asked for bytes"), "{why:?}");
    assert!(why[2].0 == 0 && why[2].1.contains("does not support ranges"), "{why:?}");
    assert_eq!(messages.lock().unwrap().len(), 2, "each is named once: {messages:?}");
}

#[test]
fn a_file_whose_sources_are_all_unreachable_fails_by_the_path() {
    let bytes = content(20 << 20);
    let gone = Arc::new(AtomicBool::new(false));
    let (away, own) = (Arc::clone(&gone), bytes.clone());
    let script =
        Script::new(
            move |request| {
                if away.load(Ordering::Relaxed) { Reply::hang_up() } else { Reply::honest(request, &own) }
            },
        );
    let both = vec![("one", dav(&script), path("f")), ("other", dav(&script), path("f"))];
    let (set, _) = set(both, Duration::from_millis(300));
    let source = set.open(&path("f")).unwrap();
    gone.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let error = source.read_at(&mut [0; 100], 0).unwrap_err();
    assert!(error.fault() == Fault::Path && error.is_fatal(), "{error}");
    assert!(error.to_string().contains("no source of it is left"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    // The facts are remembered, and reads succeed when the sources are back.
    assert_eq!(set.stat(&path("f")).unwrap().meta.size, bytes.len() as u64);
    gone.store(false, Ordering::Relaxed);
    let read = (0..60).find_map(|_| read(&set, &path("f"), bytes.len()).ok());
    assert!(read.is_some_and(|read| read == bytes));
}

/// A copy of the bytes in which each 4096th differs, except in `same`.
fn other(bytes: &[u8], same: Range<usize>) -> Vec<u8> {
    let mut other = bytes.to_vec();
    (0..bytes.len()).step_by(4096).filter(|at| !same.contains(at)).for_each(|at| other[at] ^= 1);
    other
}

/// No source here reports a digest.
#[test]
fn samples_of_other_sources_bytes_are_compared_with_the_first_source() {
    let bytes = content(20 << 20);
    let turn = Arc::default();
    let (first, own) = (slow(&bytes, &turn), bytes.clone());
    let good = Script::new(move |request| Reply::honest(request, &own));
    let both = || vec![("first", dav(&first), path("f")), ("good", dav(&good), path("f"))];
    let (set, messages) = set(both(), PATIENT);
    assert!(read_in_turn(&set, bytes.len(), &turn, || set.shares()[1].bytes > 0) == bytes);
    assert_eq!(set.shares()[1].unproven_files, 1);
    let text = messages.lock().unwrap().join("\n");
    assert!(text.contains("no source reports a digest of f: samples of all"), "{text}");
    assert!(!set.is_retry_useful());
    // The wrong source is found by the sample of the middle, or at the end by samples of the bytes that it sent.
    for same in [0..0, 10 << 20..11 << 20] {
        let lies = other(&bytes, same.clone());
        let lying = Script::new(move |request| Reply::honest(request, &lies));
        let mut three = both();
        three.insert(1, ("lying", dav(&lying), path("f")));
        let (set, messages) = self::set(three, PATIENT);
        turn.store(false, Ordering::Relaxed);
        let (read_first, read_then) = std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until(|| set.shares()[1].bytes > 0 || set.shares()[1].left_out.is_some());
                turn.store(true, Ordering::Relaxed);
            });
            let read_first = read(&set, &path("f"), bytes.len());
            (read_first, read(&set, &path("f"), bytes.len()))
        });
        // It is found before it sends a wrong byte, or the file is read again without it.
        match read_first {
            Ok(read) => assert!(read == bytes, "{same:?}: {:?}", set.shares()),
            Err(error) => assert!(error.fault() == Fault::Integrity && set.is_retry_useful(), "{error}"),
        }
        assert!(read_then.unwrap() == bytes, "{same:?}: {:?}", set.shares());
        let shares = set.shares();
        assert!(
            shares[1].left_out.as_ref().is_some_and(|why| why.contains("it has other bytes of f than first")),
            "{shares:?}"
        );
        assert!(shares[0].left_out.is_none() && shares[2].left_out.is_none(), "{shares:?} {messages:?}");
    }
}

/// A server that reports this digest, whatever its bytes are.
fn reporting(bytes: &[u8], digest: &str) -> Script {
    let (bytes, digest) = (bytes.to_vec(), digest.to_owned());
    Script::new(move |request| {
        // Slow, so that the other source sends bytes too.
        std::thread::sleep(Duration::from_millis(10));
        match request.method() {
            "HEAD" => {
                let headers = Headers::new().with("ETag", "\"one\"").with("Accept-Ranges", "bytes");
                let headers = headers.with("Content-Length", bytes.len().to_string());
                Reply::head(200, headers.with("Digest", digest.clone()))
            }
            _ => Reply::honest(request, &bytes),
        }
    })
}

/// The bytes of the first source decide, unless they differ from the digest that it reports itself.
#[test]
fn a_first_source_whose_bytes_differ_from_its_own_digest_fails_the_file() {
    let bytes = content(6 << 20);
    let right = format!("adler32={:08x}", BlockSum::of(&bytes, true).adler32.unwrap());
    // The first source reports a wrong digest; then the other one does.
    let wrong = "adler32=00000001";
    for (first, other, is_read) in [(wrong, &right[..], false), (&right[..], wrong, true)] {
        let (one, two) = (reporting(&bytes, first), reporting(&bytes, other));
        let (set, messages) = set(vec![("one", dav(&one), path("f")), ("two", dav(&two), path("f"))], PATIENT);
        // It is read again as long as that may help, as in a job.
        let mut last = read(&set, &path("f"), bytes.len());
        for _ in 0..3 {
            if last.is_err() && set.is_retry_useful() {
                last = read(&set, &path("f"), bytes.len());
            }
        }
        assert!(!set.is_retry_useful(), "it would go on for ever: {messages:?}");
        // A file of which all bytes came from the first source is not verified.
        let is_proven = set.shares()[1].bytes > 0;
        match last {
            Ok(read) => assert!((is_read || !is_proven) && read == bytes, "{messages:?}"),
            Err(error) => assert!(!is_read && error.fault() == Fault::Integrity, "{error} {messages:?}"),
        }
        assert!(set.shares()[0].left_out.is_none(), "{messages:?}");
    }
}
