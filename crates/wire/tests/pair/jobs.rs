//! Whole jobs without faults: any tree arrives unchanged.

use model::Algorithm;
use wire::frame::UNKNOWN_SIZE;

use crate::harness::{Config, Pair};
use crate::source::serial_digest;
use crate::tree::{Content, Node, NodeKind, dir, file, node, path};
use crate::verify::check;

const MIB: u64 = 1 << 20;

/// Entries of every kind, with equal names in different directories.
pub fn some_tree() -> Vec<Node> {
    let sparse = Content { seed: 9, len: 9 * MIB, holes: vec![(1000, 5 * MIB), (6 * MIB, 3 * MIB)] };
    let all_hole = Content { seed: 9, len: 40 * MIB, holes: vec![(0, 40 * MIB)] };
    vec![
        dir(
            "top",
            vec![
                file("a", 10),
                file("empty", 0),
                dir("sub", vec![file("a", 70_000), file("big", 5 * MIB + 17), dir("void", vec![])]),
                dir("sub2", vec![file("a", MIB), file("b", 2 * MIB), node("c", NodeKind::HardLink(path("sub2/b")))]),
                node("link", NodeKind::Symlink(b"../\xff/where".to_vec())),
                node("fifo", NodeKind::Special),
                node("sparse", NodeKind::File(sparse)),
                node("hole", NodeKind::File(all_hole)),
            ],
        ),
        file("alone", 300_000),
    ]
}

/// Runs a job, and asserts that all of the tree arrived and that progress is complete at both ends.
fn run_to_end(config: Config, roots: &[Node]) -> Pair {
    let mut pair = Pair::new(config, roots);
    pair.run().unwrap();
    check(&pair, roots);
    assert!(pair.sender.misses().is_empty(), "{:?}", pair.sender.misses());
    let sent = pair.sender.progress();
    let got = pair.receiver.progress();
    assert_eq!((sent.files_offered, sent.files_settled), (got.files_offered, got.files_settled));
    assert_eq!(sent.bytes_offered, sent.bytes_arrived, "progress is complete");
    assert_eq!((got.bytes_offered, got.bytes_arrived), (sent.bytes_offered, sent.bytes_arrived));
    assert!(sent.scanned && got.scanned);
    pair
}

#[test]
fn a_tree_arrives_unchanged() {
    for pull in [false, true] {
        for checksums in [vec![Algorithm::Crc32c], vec![], vec![Algorithm::Adler32, Algorithm::Crc32c]] {
            let pair = run_to_end(Config { pull, checksums, ..Config::default() }, &some_tree());
            assert_eq!(pair.sender.resent_bytes(), 0);
            assert_eq!(pair.receiver.totals().resent_bytes, 0);
        }
    }
}

#[test]
fn holes_are_not_sent() {
    let pair = run_to_end(Config::default(), &some_tree());
    let sparse_and_hole = (9 + 40 - 8) * MIB;
    let all = pair.receiver.totals().bytes;
    assert!(pair.store.payload_bytes <= all - sparse_and_hole, "{} of {all}", pair.store.payload_bytes);
}

#[test]
fn a_single_root_takes_the_name_of_the_target() {
    let roots =
        [dir("top", vec![file("a", 70_000), node("b", NodeKind::HardLink(path("a"))), dir("d", vec![file("a", 1)])])];
    let pair = run_to_end(Config { into: false, ..Config::default() }, &roots);
    assert!(pair.store.entries.contains_key(&path("d/a")));
}

#[test]
fn a_single_file_that_the_target_already_has_ends_the_job() {
    let roots = [file("a", 10)];
    let mut first = Pair::new(Config::default(), &roots);
    first.run().unwrap();
    for delay in [0, 3] {
        let config = Config { action_delay: delay * crate::harness::MS, ..Config::default() };
        let mut second = Pair::new(config, &roots);
        second.store.entries = first.store.entries.clone();
        second.run().unwrap();
        assert_eq!(check(&second, &roots).skipped, 1);
    }
}

#[test]
fn existing_files_are_skipped() {
    let roots = some_tree();
    let mut first = Pair::new(Config::default(), &roots);
    first.run().unwrap();
    for pull in [false, true] {
        let mut second = Pair::new(Config { pull, ..Config::default() }, &roots);
        second.store.entries = first.store.entries.clone();
        for entry in second.store.entries.values_mut() {
            if let crate::store::StoredEntry::Dir { finished } = entry {
                *finished = None;
            }
        }
        second.run().unwrap();
        let totals = check(&second, &roots);
        assert_eq!((totals.files, totals.skipped), (0, 9));
        assert_eq!(second.store.payload_bytes, 0, "no payload arrives for existing files");
        for progress in [second.sender.progress(), second.receiver.progress()] {
            assert_eq!(
                (progress.bytes_in_place, progress.files_in_place),
                (progress.bytes_offered, progress.files_offered)
            );
        }
        // The sender opens streams before it knows whether the receiver wants anything: this saves a round trip if it does.
        let early = if pull { 0 } else { second.config.streams };
        assert!(second.streams_opened <= early, "{} streams without payload", second.streams_opened);
    }
}

#[test]
fn serial_digests_keep_a_file_on_one_stream() {
    let names: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
    let files: Vec<Node> = names.iter().enumerate().map(|(n, name)| file(name, 4 * MIB + n as u64)).collect();
    let roots = [dir("top", files.clone())];
    for (checksums, most) in [(vec![Algorithm::Md5, Algorithm::Crc32c], 1), (vec![Algorithm::Crc32c], 4)] {
        let mut pair = Pair::new(Config { checksums: checksums.clone(), ..Config::default() }, &roots);
        if checksums.contains(&Algorithm::Md5) {
            for node in &files {
                let NodeKind::File(content) = &node.what else { panic!() };
                let digests = vec![serial_digest(Algorithm::Md5, content)];
                pair.store.serial.insert(path("top").join(&node.name), digests);
            }
        }
        pair.run().unwrap();
        check(&pair, &roots);
        let carriers: Vec<usize> = pair.source.carriers.values().map(|streams| streams.len()).collect();
        assert_eq!(carriers.iter().max(), Some(&most), "streams per file: {carriers:?}");
        let all: std::collections::HashSet<&u32> = pair.source.carriers.values().flatten().collect();
        assert_eq!(all.len(), 4, "all streams have work");
    }
}

#[test]
fn sparse_and_empty_files_have_serial_digests() {
    let checksums = vec![Algorithm::Md5, Algorithm::Adler32, Algorithm::Crc32c];
    run_to_end(Config { checksums, ..Config::default() }, &some_tree());
}

#[test]
fn a_file_of_unknown_size_arrives_with_its_real_size() {
    for len in [0, 1, 1000, MIB, 5 * MIB + 3] {
        for checksums in [vec![Algorithm::Crc32c], vec![Algorithm::Md5]] {
            let roots = [node("pipe", NodeKind::Pipe(Content::new(3, len))), file("after", 10)];
            let pair = run_to_end(Config { checksums, ..Config::default() }, &roots);
            assert_eq!(pair.receiver.totals().bytes, len + 10);
            assert_ne!(pair.sender.progress().bytes_offered, UNKNOWN_SIZE);
        }
    }
}
