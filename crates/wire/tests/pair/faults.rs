//! Jobs under faults: lost streams, flipped bits, files that vanish, targets that fail.

use model::Algorithm;
use model::name::RelPath;
use wire::WireError;
use wire::frame::Totals;

use crate::harness::{Config, MS, Pair};
use crate::jobs::some_tree;
use crate::tree::{Content, Node, NodeKind, dir, file, node, path};
use crate::verify::{check, names};

const MIB: u64 = 1 << 20;

fn misses(pair: &Pair) -> Vec<String> {
    names(pair.receiver.misses()).iter().map(|p| p.to_string()).collect()
}

/// Runs a job with this setup, and checks the result against the tree.
fn run(config: Config, roots: &[Node], set_up: impl FnOnce(&mut Pair)) -> (Pair, Totals) {
    let mut pair = Pair::new(config, roots);
    set_up(&mut pair);
    pair.run().unwrap();
    let totals = check(&pair, roots);
    (pair, totals)
}

#[test]
fn streams_join_and_leave_midway() {
    for pull in [false, true] {
        let roots = [file("a", 40 * MIB)];
        let config = Config { pull, stream_bytes_s: 20_000_000, ..Config::default() };
        let (pair, totals) = run(config, &roots, |pair| {
            // All four at once, then one of those that replaced them.
            for (after, stream) in [(400, 1), (400, 2), (400, 3), (400, 4), (600, 6)] {
                pair.cut_after(after * MS, stream);
            }
        });
        assert_eq!(totals.bytes, 40 * MIB);
        assert_eq!(pair.streams_opened, 9, "a new stream for each that was lost");
        assert!(pair.sender.resent_bytes() >= 5 * MIB, "{}", pair.sender.resent_bytes());
        assert!(pair.sender.resent_bytes() <= 30 * MIB, "{}", pair.sender.resent_bytes());
    }
}

#[test]
fn every_kind_of_file_survives_lost_streams() {
    for (at, algorithm) in [Algorithm::Crc32c, Algorithm::Md5, Algorithm::Adler32].into_iter().enumerate() {
        let checksums = vec![algorithm];
        let mut roots = some_tree();
        roots.push(node("pipe", NodeKind::Pipe(Content::new(3, 3 * MIB + 5))));
        roots.push(node("short pipe", NodeKind::Pipe(Content::new(4, 500))));
        let mut cut = 0;
        for seed in (0..2).map(|n| at as u64 * 2 + n) {
            let config = Config { cut_per_mille: 150, seed, checksums: checksums.clone(), ..Config::default() };
            let (pair, _) = run(config, &roots, |_| {});
            cut += pair.streams_opened.saturating_sub(4);
            assert!(pair.sender.misses().len() <= 1, "seed {seed}: {:?}", pair.sender.misses());
        }
        assert!(cut > 2, "{cut} streams were cut");
    }
}

#[test]
fn a_lost_hole_is_sent_again_in_a_few_steps() {
    // Block by block, 16 TiB would be 17 million records.
    const HOLE: u64 = 16 << 40;
    let holes = vec![(0, HOLE)];
    let roots = [node("hole", NodeKind::File(Content { seed: 1, len: HOLE + 1, holes }))];
    let mut pair = Pair::new(Config { streams: 1, ..Config::default() }, &roots);
    pair.store.counting = true;
    // The hole is on its way, and no acknowledgement of it has arrived.
    pair.cut_after(25 * MS, 1);
    pair.run().unwrap();
    assert!(pair.sender.resent_bytes() >= HOLE);
    assert_eq!(pair.receiver.totals().files, 1);
}

#[test]
fn flipped_payload_is_asked_for_again() {
    for pull in [false, true] {
        let roots = some_tree();
        let config = Config { pull, ..Config::default() };
        let (pair, totals) = run(config, &roots, |pair| pair.store.flip_per_mille = 300);
        assert!(pair.store.flips > 0);
        assert!(totals.resent_bytes > 0 && pair.sender.resent_bytes() > 0);
        assert_eq!(totals.failed, 0);
    }
}

#[test]
fn a_small_file_damaged_on_the_control_connection_comes_on_a_stream() {
    let roots = [file("a", 1000)];
    let (pair, totals) = run(Config { seed: 3, ..Config::default() }, &roots, |pair| pair.store.flip_per_mille = 500);
    assert!(pair.store.flips > 0 && pair.streams_opened > 0);
    assert_eq!((totals.files, totals.failed), (1, 0));
}

#[test]
fn a_path_that_damages_everything_ends_the_job() {
    let mut pair = Pair::new(Config::default(), &[file("a", MIB)]);
    pair.store.flip_per_mille = 1000;
    assert!(matches!(pair.run(), Err(WireError::TooLarge { .. })));
}

#[test]
fn a_flipped_table_ends_the_job_and_no_file_is_wrong() {
    for seed in 0..30 {
        let roots = [dir("top", vec![file("a", 4 * MIB), file("b", MIB)])];
        let mut pair = Pair::new(Config { flip_table_of: 1 + seed % 5, seed, ..Config::default() }, &roots);
        assert_eq!(pair.run(), Err(WireError::Damaged));
        for (name, entry) in &pair.store.entries {
            if let crate::store::StoredEntry::File { bytes, .. } = entry {
                assert_eq!(bytes.len() as u64, if *name == path("top/a") { 4 * MIB } else { MIB });
            }
        }
    }
}

#[test]
fn a_file_that_vanishes_midway_is_named_and_the_rest_arrives() {
    for pull in [false, true] {
        let roots = some_tree();
        let (pair, totals) = run(Config { pull, ..Config::default() }, &roots, |pair| {
            pair.source.drops.insert((0, path("sub/big")), 3 * MIB);
            pair.source.drops.insert((0, path("a")), 0);
        });
        assert_eq!(misses(&pair), ["top/a", "top/sub/big"]);
        assert_eq!((totals.failed, totals.files), (2, 7));
    }
}

#[test]
fn a_lone_file_that_vanishes_ends_the_job() {
    for len in [10, 3 * MIB] {
        let roots = [file("a", len)];
        let (pair, totals) = run(Config::default(), &roots, |pair| {
            pair.source.drops.insert((0, RelPath::root()), len);
        });
        assert_eq!(misses(&pair), ["a"]);
        assert_eq!((totals.failed, totals.files), (1, 0));
    }
}

#[test]
fn a_target_that_fails_midway_is_named_and_the_rest_arrives() {
    for pull in [false, true] {
        let roots = some_tree();
        let (pair, totals) = run(Config { pull, ..Config::default() }, &roots, |pair| {
            let failures = &mut pair.store.failures;
            failures.write.insert(path("top/sub/big"), 2 * MIB);
            failures.commit.insert(path("top/sub2/a"));
            failures.judge.insert(path("top/a"));
            failures.link.insert(path("top/link"));
            failures.make.insert(path("top/sub/void"));
        });
        assert_eq!(misses(&pair), ["top/a", "top/link", "top/sub/big", "top/sub/void", "top/sub2/a"]);
        assert_eq!((totals.failed, totals.files), (5, 6));
    }
}

#[test]
fn nothing_is_stored_below_a_directory_that_cannot_be_made() {
    for delay in [0, 7] {
        let roots = some_tree();
        let config = Config { action_delay: delay * MS, ..Config::default() };
        let (pair, totals) = run(config, &roots, |pair| {
            pair.store.failures.make.insert(path("top"));
        });
        assert_eq!((totals.failed, totals.files, totals.directories), (14, 1, 0));
        assert!(misses(&pair).contains(&"top/sub2/b".to_string()));
    }
}

#[test]
fn a_directory_whose_mode_cannot_be_set_is_named_at_the_target() {
    let roots = some_tree();
    let (pair, totals) = run(Config::default(), &roots, |pair| {
        pair.store.failures.finish.insert(path("top/sub"));
    });
    assert_eq!((misses(&pair), totals.failed), (vec!["top/sub".to_string()], 1));
}

#[test]
fn a_hard_link_to_a_file_that_failed_fails() {
    let linked = |what| [dir("top", vec![node("f", what), node("g", NodeKind::HardLink(path("f")))])];
    let big = linked(NodeKind::File(Content::new(1, 2 * MIB)));
    let (pair, _) = run(Config::default(), &big, |pair| {
        pair.source.drops.insert((0, path("f")), MIB);
    });
    assert_eq!(misses(&pair), ["top/f", "top/g"]);
    let (pair, _) = run(Config::default(), &big, |pair| {
        pair.store.failures.commit.insert(path("top/f"));
    });
    assert_eq!(misses(&pair), ["top/f", "top/g"]);
    // The file fails at once: when its other name is offered, no entry waits for the file.
    let (pair, _) = run(Config::default(), &linked(NodeKind::Unreadable), |_| {});
    assert_eq!(misses(&pair), ["top/f", "top/g"]);
}

#[test]
fn a_path_too_long_for_the_target_is_named_and_the_rest_arrives() {
    let deep = (0..30).fold(file("last", 10), |inner, n| {
        let name = format!("{n}").repeat(90);
        dir(&name, vec![inner, file("beside", 100_000)])
    });
    let deep = dir("deep", vec![deep, node("special", NodeKind::Special)]);
    let roots = [deep, file("other", 1)];
    // Names of 90 to 180 bytes, 4,500 in all: more than the 4,095 that Linux allows.
    let mut pair = Pair::new(Config::default(), &roots);
    pair.run().unwrap();
    let totals = *pair.receiver.totals();
    assert!(totals.failed >= 3 && totals.files >= 20, "{totals:?}");
    assert_eq!(totals.failed + totals.files + totals.directories + totals.special, pair.source.offered);
    assert_eq!(pair.sender.misses().len() as u64, totals.failed);
}

#[test]
fn a_short_pipe_that_is_sent_again_is_not_marked_as_whole() {
    // The receiver may get the block before the frame on the control connection that says where the pipe ends.
    let mut sender = wire::Sender::new(vec![Algorithm::Crc32c], vec![]);
    let what = wire::frame::Offered::File { mode: 0, mtime: Default::default(), size: wire::frame::UNKNOWN_SIZE };
    let id = sender.offer(0, RelPath::root(), crate::tree::name("pipe"), what);
    sender.handle_frame(wire::Frame::Verdicts(vec![(id, wire::frame::Verdict::Want)])).unwrap();
    sender.stream_joined(1);
    assert!(sender.next_order(1).is_some());
    let sum = model::checksum::BlockSum::of(b"abc", false);
    sender.built(1, &[wire::sender::Built { file: id, offset: 0, len: 3, sum, hole: false, whole: false }]).unwrap();
    sender.found_end(id, 3);
    sender.stream_lost(1);
    sender.stream_joined(2);
    let Some(wire::sender::Order::Send(ranges)) = sender.next_order(2) else { panic!("nothing is sent again") };
    assert!((ranges[0].offset, ranges[0].len) == (0, 3) && !ranges[0].is_whole());
}
