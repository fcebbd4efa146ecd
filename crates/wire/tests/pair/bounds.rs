//! What the machines hold of a large tree: bounded, whatever its size.

use model::name::RelPath;
use wire::limits::ENTRIES_IN_FLIGHT_MAX;

use crate::harness::{Config, MS, Pair};
use crate::tree::{Content, Step, What, name};

/// So many directories of 100 entries each, offered as they are asked for.
fn flat(dirs: u64) -> impl Iterator<Item = Step> {
    let root = RelPath::root();
    let top = Step::Offer { source: 0, path: root.clone(), name: name("top"), what: What::Dir(vec![]) };
    let each = move |at: u64| {
        let dir = name(&format!("d{at}"));
        let path = root.join(&dir);
        let first = Step::Offer { source: 0, path: path.clone(), name: dir, what: What::Dir(vec![]) };
        let inside = (1..100).map(move |n| {
            let name = name(&format!("f{n}"));
            let what = match n % 10 {
                0 => What::Symlink(b"f1".to_vec()),
                _ => What::File(Content::new(n, if at == 0 { 50_000 } else { 8 })),
            };
            Step::Offer { source: 0, path: path.join(&name), name, what }
        });
        std::iter::once(first).chain(inside).chain(std::iter::once(Step::Leave))
    };
    std::iter::once(top).chain((0..dirs).flat_map(each)).chain(std::iter::once(Step::Leave))
}

#[test]
fn a_million_entries_in_bounded_state() {
    let config = Config { rtt: 100 * MS, ..Config::default() };
    let mut pair = Pair::of_steps(config, vec![name("top")], Box::new(flat(10_000)));
    pair.store.counting = true;
    pair.run().unwrap();
    let totals = pair.receiver.totals();
    assert_eq!(pair.source.offered, 1_000_001);
    assert_eq!(totals.files + totals.links + totals.directories, 1_000_001);
    assert_eq!((totals.links, totals.directories, totals.failed), (90_000, 10_001, 0));
    assert!(pair.source.unsettled_max <= ENTRIES_IN_FLIGHT_MAX as u64, "{}", pair.source.unsettled_max);
    assert!(pair.source.unsettled_max > ENTRIES_IN_FLIGHT_MAX as u64 / 2, "the bound was never met");
}

/// A file at the end of its own row of directories.
fn rows(files: u64, depth: u64) -> impl Iterator<Item = Step> {
    (0..files).flat_map(move |n| {
        let mut path = RelPath::root();
        let mut out = Vec::new();
        for level in 0..depth {
            let name = name(&format!("r{n}d{level}"));
            if level > 0 {
                path = path.join(&name);
            }
            out.push(Step::Offer { source: n as u32, path: path.clone(), name, what: What::Dir(vec![]) });
        }
        let last = name("f");
        let what = What::File(Content::new(n, 100_000));
        out.push(Step::Offer { source: n as u32, path: path.join(&last), name: last, what });
        out.extend((0..depth).map(|_| Step::Leave));
        out
    })
}

#[test]
fn more_directories_than_files_are_no_breach() {
    // The path is slow and the scanner quick: directories are settled as soon as they are made, while their files wait.
    let config = Config { stream_bytes_s: 250_000_000, ..Config::default() };
    let names = (0..30_000).map(|n| name(&format!("r{n}d0"))).collect();
    let mut pair = Pair::of_steps(config, names, Box::new(rows(30_000, 4)));
    pair.store.counting = true;
    pair.run().unwrap();
    let totals = pair.receiver.totals();
    assert_eq!((totals.files, totals.directories, totals.failed), (30_000, 120_000, 0));
}
