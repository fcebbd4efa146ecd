//! Jobs whose target already has something: parts that an earlier run left, files to compare.

use model::Algorithm;
use model::checksum::{BlockSum, Digest, crc32c};
use wire::limits::{BLOCK_BYTES, RANGES_MAX};
use wire::receiver::Judgement;

use crate::harness::{Config, Pair};
use crate::tree::{Node, NodeKind, file, path};
use crate::verify::check;

fn content(node: &Node) -> Vec<u8> {
    let NodeKind::File(content) = &node.what else { panic!() };
    content.all()
}

/// Runs a job for one file of which the target has these ranges.
fn run_resumed(config: Config, len: u64, present: &[(u64, u64)]) -> Pair {
    let roots = [file("a", len)];
    let bytes = content(&roots[0]);
    let mut partial = vec![0; bytes.len()];
    let mut known = Vec::new();
    for (offset, len) in present {
        let range = *offset as usize..(offset + len) as usize;
        partial[range.clone()].copy_from_slice(&bytes[range.clone()]);
        known.push((*offset, *len, BlockSum::of(&bytes[range], config.checksums.contains(&Algorithm::Adler32))));
    }
    let mut pair = Pair::new(config, &roots);
    pair.store.partial.insert(path("a"), partial);
    pair.store.judgements.insert(path("a"), Judgement::WantRest(known));
    pair.run().unwrap();
    let totals = check(&pair, &roots);
    assert_eq!((totals.files, totals.failed), (1, 0), "{:?}", pair.receiver.misses());
    pair
}

#[test]
fn only_the_missing_ranges_are_sent() {
    for checksums in [vec![Algorithm::Crc32c], vec![], vec![Algorithm::Md5], vec![Algorithm::Adler32]] {
        for pull in [false, true] {
            let config = Config { checksums: checksums.clone(), pull, ..Config::default() };
            let len = 6 * BLOCK_BYTES + 100;
            let present = [(0, BLOCK_BYTES), (3 * BLOCK_BYTES + 10, BLOCK_BYTES), (len - 50, 50)];
            let pair = run_resumed(config, len, &present);
            assert_eq!(pair.store.payload_bytes, len - 2 * BLOCK_BYTES - 50);
            let totals = pair.receiver.totals();
            assert_eq!((totals.resent_bytes, totals.resumed_bytes), (0, 2 * BLOCK_BYTES + 50));
            for progress in [pair.sender.progress(), pair.receiver.progress()] {
                assert_eq!((progress.bytes_in_place, progress.files_in_place), (2 * BLOCK_BYTES + 50, 0));
            }
        }
    }
}

#[test]
fn a_claimed_range_that_differs_from_the_source_is_sent() {
    for checksums in [vec![Algorithm::Crc32c], vec![Algorithm::Md5], vec![Algorithm::Adler32]] {
        for pull in [false, true] {
            let config = Config { checksums: checksums.clone(), pull, ..Config::default() };
            let len = 6 * BLOCK_BYTES + 100;
            let block = BLOCK_BYTES;
            let roots = [file("a", len)];
            let mut partial = content(&roots[0]);
            // The file was changed after the second claim's block was written, and its time was set back.
            partial[3 * block as usize + 5] ^= 1;
            let with_adler32 = checksums.contains(&Algorithm::Adler32);
            let claim = |at: u64| (at, block, BlockSum::of(&partial[at as usize..(at + block) as usize], with_adler32));
            let known = vec![claim(0), claim(3 * block)];
            let mut pair = Pair::new(config, &roots);
            pair.store.partial.insert(path("a"), partial);
            pair.store.judgements.insert(path("a"), Judgement::WantRest(known));
            pair.run().unwrap();
            let totals = check(&pair, &roots);
            assert_eq!((totals.files, totals.failed, totals.resumed_bytes), (1, 0, block));
            assert_eq!(pair.store.payload_bytes, len - block);
        }
    }
}

#[test]
fn a_file_that_is_complete_at_the_target_needs_no_block() {
    for checksums in [vec![Algorithm::Crc32c], vec![Algorithm::Md5]] {
        let len = 3 * BLOCK_BYTES;
        let pair = run_resumed(Config { checksums, ..Config::default() }, len, &[(0, len)]);
        assert_eq!(pair.store.payload_bytes, 0);
    }
}

#[test]
fn without_claims_the_whole_file_is_sent() {
    for checksums in [vec![Algorithm::Crc32c], vec![Algorithm::Md5, Algorithm::Adler32]] {
        let pair = run_resumed(Config { checksums, ..Config::default() }, 2 * BLOCK_BYTES, &[]);
        assert_eq!(pair.store.payload_bytes, 2 * BLOCK_BYTES);
    }
}

#[test]
fn a_small_file_is_always_sent_whole() {
    for len in [0, 1000] {
        let pair = run_resumed(Config::default(), len, &[(0, len / 2)]);
        assert_eq!(pair.store.payload_bytes, len);
        assert_eq!(pair.streams_opened, 0);
    }
}

#[test]
fn a_file_may_have_more_claims_than_a_verdict_holds() {
    let pieces = RANGES_MAX as u64 + 5;
    let present: Vec<_> = (0..pieces).map(|n| (n * 10, 5)).collect();
    run_resumed(Config::default(), pieces * 10, &present);
}

#[test]
fn a_resumed_file_survives_lost_streams() {
    for seed in 0..20 {
        let config = Config { cut_per_mille: 300, seed, ..Config::default() };
        run_resumed(config, 5 * BLOCK_BYTES + 3, &[(7, BLOCK_BYTES), (3 * BLOCK_BYTES, 10)]);
    }
}

#[test]
fn equal_files_are_found_by_digest() {
    let roots = [file("equal", 3_000_000), file("unlike", 3_000_000), file("small", 10), file("more", 3_000_000)];
    for pull in [false, true] {
        let mut pair = Pair::new(Config { pull, ..Config::default() }, &roots);
        for node in &roots {
            let mut bytes = content(node);
            bytes[0] ^= u8::from(node.name.as_bytes() == b"unlike");
            let known = Digest::crc32c(crc32c(&bytes));
            let at = path(&node.name.to_string());
            let (mode, mtime) = (crate::tree::mode_of(&node.name), crate::tree::mtime_of(&node.name));
            pair.store.entries.insert(at.clone(), crate::store::StoredEntry::File { bytes, mode, mtime });
            pair.store.judgements.insert(at, Judgement::WantUnless(known));
        }
        pair.run().unwrap();
        pair.store.forget_compared(&pair.receiver);
        let totals = check(&pair, &roots);
        // The small file came on the control connection before the receiver could ask for a comparison.
        assert_eq!((totals.files, totals.skipped), (2, 2));
        assert_eq!(pair.store.payload_bytes, 3_000_010);
    }
}
