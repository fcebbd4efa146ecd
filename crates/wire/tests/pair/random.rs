//! Random small trees, random paths, random faults: every run ends, and every entry is right at the target or named as a miss.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use model::Algorithm;
use model::checksum::{BlockSum, Digest, crc32c};
use model::name::RelPath;
use wire::receiver::Judgement;

use crate::harness::{Config, MS, Pair};
use crate::rng::Rng;
use crate::store::StoredEntry;
use crate::tree::{Content, Node, NodeKind, mode_of, mtime_of, name, node};
use crate::verify::check;

/// Seeds of an ordinary run.
const SEEDS: u64 = 40;
/// Seeds of `make soak` (`PROPTEST_CASES`).
const SEEDS_OF_SOAK: u64 = 4_000;

fn content(rng: &mut Rng) -> Content {
    let len = match rng.below(8) {
        0 => 0,
        1..4 => rng.below(2000),
        4 => rng.below(64 << 10),
        5 => rng.below(600 << 10),
        6 => rng.below(3 << 20),
        _ => (1 + rng.below(3)) << 20,
    };
    let mut content = Content::new(rng.next(), len);
    let mut at = 0;
    while rng.chance(300) && at < len {
        let from = at + rng.below(len - at);
        let hole = 1 + rng.below(len - from);
        content.holes.push((from, hole));
        at = from + hole + 1;
    }
    content
}

fn children(rng: &mut Rng, depth: u64, below: &RelPath) -> Vec<Node> {
    let mut out: Vec<Node> = Vec::new();
    for n in 0..rng.below(9) {
        let text = format!("{}{n}", (b'a' + rng.below(3) as u8) as char);
        let first =
            out.iter().find(|n| matches!(n.what, NodeKind::File(_) | NodeKind::Unreadable)).map(|n| n.name.clone());
        let what = match rng.below(16) {
            0..3 if depth > 0 => NodeKind::Dir(children(rng, depth - 1, &below.join(&name(&text)))),
            3 => NodeKind::Symlink(text.clone().into_bytes()),
            4 => NodeKind::Special,
            5 => NodeKind::Unreadable,
            6 => NodeKind::Pipe(content(rng)),
            7 | 8 if first.is_some() => NodeKind::HardLink(below.join(&first.unwrap())),
            _ => NodeKind::File(content(rng)),
        };
        out.push(node(&text, what));
    }
    out
}

pub fn roots(rng: &mut Rng) -> Vec<Node> {
    let each = |n: u64, rng: &mut Rng| {
        let what = if rng.chance(700) {
            NodeKind::Dir(children(rng, 3, &RelPath::root()))
        } else {
            NodeKind::File(content(rng))
        };
        node(&format!("root{n}"), what)
    };
    (0..1 + rng.below(3)).map(|n| each(n, rng)).collect()
}

pub fn config(rng: &mut Rng) -> Config {
    let checksums = match rng.below(5) {
        0 => vec![],
        1 => vec![Algorithm::Md5],
        2 => vec![Algorithm::Adler32, Algorithm::Sha256],
        _ => vec![Algorithm::Crc32c],
    };
    Config {
        rtt: rng.below(300) as u32 * MS,
        stream_bytes_s: 1_000_000 << rng.below(10),
        streams: 1 + rng.below(6) as u32,
        pull: rng.chance(500),
        checksums,
        scan_gap: if rng.chance(300) { rng.below(50) as u32 * MS } else { Duration::ZERO },
        action_delay: if rng.chance(300) { rng.below(50) as u32 * MS } else { Duration::ZERO },
        cut_per_mille: if rng.chance(300) { rng.below(300) } else { 0 },
        seed: rng.next(),
        ..Config::default()
    }
}

/// An entry: its path at the target, its place at the source, its kind, its node.
pub type TreeEntry = (RelPath, (u32, RelPath), NodeKind, Node);

/// Adds the entries of a tree.
fn add_entries(at: &RelPath, source: (u32, RelPath), node: &Node, out: &mut Vec<TreeEntry>) {
    out.push((at.clone(), source.clone(), node.what.clone(), node.clone()));
    if let NodeKind::Dir(children) = &node.what {
        for child in children {
            add_entries(&at.join(&child.name), (source.0, source.1.join(&child.name)), child, out);
        }
    }
}

/// Puts an earlier version of a file at the target: an equal file, one to compare by digest, or a part.
fn put_earlier_version(pair: &mut Pair, rng: &mut Rng, at: RelPath, content: &Content, node: &Node) {
    let mut bytes = content.all();
    let (mode, mtime) = (mode_of(&node.name), mtime_of(&node.name));
    match rng.below(3) {
        // Only at the root: elsewhere its directories would have to exist too.
        0 if at.parent().is_root() => {
            pair.store.entries.insert(at, StoredEntry::File { bytes, mode, mtime });
        }
        1 if at.parent().is_root() => {
            if rng.chance(500) && !bytes.is_empty() {
                bytes[0] ^= 1;
            }
            let known = Digest::crc32c(crc32c(&bytes));
            pair.store.judgements.insert(at.clone(), Judgement::WantUnless(known));
            pair.store.entries.insert(at, StoredEntry::File { bytes, mode, mtime });
        }
        _ => {
            let mut known = Vec::new();
            let mut partial = vec![0; bytes.len()];
            let mut from = 0;
            while rng.chance(700) && from < content.len {
                let start = from + rng.below(content.len - from);
                let len = 1 + rng.below(content.len - start);
                let range = start as usize..(start + len) as usize;
                partial[range.clone()].copy_from_slice(&bytes[range.clone()]);
                known.push((start, len, BlockSum::of(&bytes[range], pair.store.with_adler32)));
                from = start + len;
            }
            pair.store.partial.insert(at.clone(), partial);
            pair.store.judgements.insert(at, Judgement::WantRest(known));
        }
    }
}

/// Every entry of these trees.
pub fn entries(roots: &[Node]) -> Vec<TreeEntry> {
    let mut all = Vec::new();
    for (n, root) in roots.iter().enumerate() {
        add_entries(&RelPath::root().join(&root.name), (n as u32, RelPath::root()), root, &mut all);
    }
    all
}

/// Draws earlier versions at the target, and the faults of the run.
fn draw_faults(pair: &mut Pair, rng: &mut Rng, roots: &[Node]) {
    let all = entries(roots);
    for (at, _, what, node) in &all {
        if let NodeKind::File(content) = what
            && rng.chance(200)
        {
            put_earlier_version(pair, rng, at.clone(), content, node);
        }
    }
    let per_mille = rng.below(200);
    fail_some(pair, rng, all, per_mille);
    if rng.chance(300) {
        pair.store.flip_per_mille = rng.below(150);
    }
}

/// Makes some entries fail: they cannot be made, or change while they are read. Returns their number.
pub fn fail_some(pair: &mut Pair, rng: &mut Rng, all: Vec<TreeEntry>, per_mille: u64) -> u64 {
    let mut faults = 0;
    for (at, source, what, _) in all {
        if !rng.chance(per_mille) {
            continue;
        }
        faults += 1;
        let failures = &mut pair.store.failures;
        match what {
            NodeKind::Dir(_) if rng.chance(500) => drop(failures.make.insert(at)),
            NodeKind::Dir(_) => drop(failures.finish.insert(at)),
            NodeKind::File(content) | NodeKind::Pipe(content) => match rng.below(4) {
                0 => drop(failures.judge.insert(at)),
                1 => drop(failures.commit.insert(at)),
                2 => drop(failures.write.insert(at, rng.below(content.len + 1))),
                _ => drop(pair.source.drops.insert(source, rng.below(content.len + 1))),
            },
            _ => drop(failures.link.insert(at)),
        }
    }
    faults
}

/// Runs one seed. Returns the misses and the bytes sent again.
fn run_seed(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let roots = roots(&mut rng);
    let config = config(&mut rng);
    let mut pair = Pair::new(config, &roots);
    draw_faults(&mut pair, &mut rng, &roots);
    match pair.run() {
        Ok(()) => {
            pair.store.forget_compared(&pair.receiver);
            let totals = check(&pair, &roots);
            (totals.failed, totals.resent_bytes)
        }
        // These faults fail entries, never the job.
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn any_tree_ends_right_under_any_faults() {
    let seeds = if std::env::var_os("PROPTEST_CASES").is_some() { SEEDS_OF_SOAK } else { SEEDS };
    let mut failed = 0;
    let mut resent = 0;
    for seed in 0..seeds {
        let result = catch_unwind(AssertUnwindSafe(|| run_seed(seed)));
        let (misses, bytes) = result.unwrap_or_else(|_| panic!("seed {seed} fails"));
        failed += u64::from(misses > 0);
        resent += u64::from(bytes > 0);
    }
    // The generator did draw faults.
    assert!(failed > seeds / 10 && resent > seeds / 20, "{failed} with misses, {resent} with bytes sent again");
}
