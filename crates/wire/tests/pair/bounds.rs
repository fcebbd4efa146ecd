//! The state that the machines keep for a large tree is bounded, for any size of the tree.

use model::Refusal;
use model::fault::Fault;
use model::name::RelPath;
use wire::Frame;
use wire::frame::{Entry, Offered, Outcome};
use wire::limits::{DIRS_OPEN_MAX, ENTRIES_IN_FLIGHT_MAX};
use wire::receiver::{Action, Receiver, Target};

use crate::harness::{Config, MS, Pair};
use crate::tree::{Content, NodeKind, Step, name};

/// Steps of a scan of `dirs` directories with 100 entries each, made while they are scanned.
fn flat(dirs: u64) -> impl Iterator<Item = Step> {
    let root = RelPath::root();
    let top = Step::Offer { source: 0, path: root.clone(), name: name("top"), what: NodeKind::Dir(vec![]) };
    let each = move |at: u64| {
        let dir = name(&format!("d{at}"));
        let path = root.join(&dir);
        let first = Step::Offer { source: 0, path: path.clone(), name: dir, what: NodeKind::Dir(vec![]) };
        let inside = (1..100).map(move |n| {
            let name = name(&format!("f{n}"));
            let what = match n % 10 {
                0 => NodeKind::Symlink(b"f1".to_vec()),
                _ => NodeKind::File(Content::new(n, if at == 0 { 50_000 } else { 8 })),
            };
            Step::Offer { source: 0, path: path.join(&name), name, what }
        });
        std::iter::once(first).chain(inside).chain(std::iter::once(Step::Leave))
    };
    std::iter::once(top).chain((0..dirs).flat_map(each)).chain(std::iter::once(Step::Leave))
}

/// A hundred thousand entries by default: more than may be in flight. `make soak` (`PROPTEST_CASES`) runs the million.
#[test]
fn a_million_entries_take_bounded_state() {
    let dirs = if std::env::var_os("PROPTEST_CASES").is_some() { 10_000 } else { 1_000 };
    let all = dirs * 100 + 1;
    assert!(all > ENTRIES_IN_FLIGHT_MAX as u64, "too few entries to reach the bound");
    let config = Config { rtt: 100 * MS, ..Config::default() };
    let mut pair = Pair::of_steps(config, vec![name("top")], Box::new(flat(dirs)));
    pair.store.counting = true;
    pair.run().unwrap();
    let totals = pair.receiver.totals();
    assert_eq!(pair.source.offered, all);
    assert_eq!(totals.files + totals.links + totals.directories, all);
    assert_eq!((totals.links, totals.directories, totals.failed), (dirs * 9, dirs + 1, 0));
    assert!(pair.source.unsettled_max <= ENTRIES_IN_FLIGHT_MAX as u64, "{}", pair.source.unsettled_max);
    assert!(pair.source.unsettled_max > ENTRIES_IN_FLIGHT_MAX as u64 / 2, "the bound was never reached");
}

/// Steps of a scan of `files` files, each at the end of its own chain of nested directories.
fn chains(files: u64, depth: u64) -> impl Iterator<Item = Step> {
    (0..files).flat_map(move |n| {
        let mut path = RelPath::root();
        let mut out = Vec::new();
        for level in 0..depth {
            let name = name(&format!("r{n}d{level}"));
            if level > 0 {
                path = path.join(&name);
            }
            out.push(Step::Offer { source: n as u32, path: path.clone(), name, what: NodeKind::Dir(vec![]) });
        }
        let last = name("f");
        let what = NodeKind::File(Content::new(n, 100_000));
        out.push(Step::Offer { source: n as u32, path: path.join(&last), name: last, what });
        out.extend((0..depth).map(|_| Step::Leave));
        out
    })
}

#[test]
fn directories_that_wait_for_their_files_do_not_count_as_open() {
    // More directories wait for their files than may be open.
    const CHAINS: u64 = DIRS_OPEN_MAX as u64 / 4 + 500;
    // The path is slow and the scanner is fast: directories are settled as soon as they are made, while their files wait.
    let config = Config { stream_bytes_s: 250_000_000, ..Config::default() };
    let names = (0..CHAINS).map(|n| name(&format!("r{n}d0"))).collect();
    let mut pair = Pair::of_steps(config, names, Box::new(chains(CHAINS, 4)));
    pair.store.counting = true;
    pair.run().unwrap();
    let totals = pair.receiver.totals();
    assert_eq!((totals.files, totals.directories, totals.failed), (CHAINS, 4 * CHAINS, 0));
}

/// A receiver whose actions are all to be refused.
fn refusing() -> Receiver {
    Receiver::new(Target { path: RelPath::root(), into: true, is_dir: true }, vec![])
}

/// Fails all the receiver's actions, and discards its frames.
fn refuse_all(receiver: &mut Receiver) {
    while let Some(action) = receiver.poll_action() {
        let no = Refusal::new(Fault::Storage, "no");
        match action {
            Action::MakeDir { id, .. } => receiver.dir_made(id, Err(no)),
            Action::Judge(wanted) => receiver.settled(wanted.id, Outcome::Failed(no)),
            other => panic!("{other:?}"),
        }
    }
    while receiver.poll_frame().is_some() {}
}

fn new(id: u64, parent: u64, what: Offered) -> Frame {
    Frame::Entries(vec![Entry::New { id, parent, name: name(&"x".repeat(255)), what, attributes: None }])
}

#[test]
fn directories_nested_without_end_take_neither_stack_nor_memory() {
    let dir = || Offered::Dir { mode: 0, mtime: Default::default() };
    let deepest = DIRS_OPEN_MAX as u64;
    let mut receiver = refusing();
    // Threads have small stacks.
    let run = move || {
        for id in 1..=deepest {
            receiver.handle_frame(new(id, id - 1, dir())).unwrap();
            refuse_all(&mut receiver);
        }
        for id in 1..=deepest {
            receiver.handle_frame(Frame::Entries(vec![Entry::Leave(id)])).unwrap();
        }
        receiver.handle_frame(Frame::ScanEnd(deepest)).unwrap();
        refuse_all(&mut receiver);
        assert!(receiver.is_finished());
        assert_eq!(receiver.totals().failed, deepest);
        let longest = receiver.misses().iter().map(|m| m.path.as_bytes().len()).max();
        assert!(longest < Some(5000), "{longest:?}");
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn more_open_directories_or_entries_than_the_bound_are_a_breach() {
    let mut receiver = refusing();
    let symlink = |id| new(id, 0, Offered::Symlink { mtime: Default::default(), target: b"x".to_vec() });
    for id in 1..=ENTRIES_IN_FLIGHT_MAX as u64 {
        receiver.handle_frame(symlink(id)).unwrap();
    }
    assert!(receiver.handle_frame(symlink(ENTRIES_IN_FLIGHT_MAX as u64 + 1)).is_err());
}

#[test]
fn a_hard_link_to_a_file_that_was_not_offered_before_is_a_breach() {
    let link = |id, to| new(id, 0, Offered::HardLink { to, path: RelPath::root() });
    let file = || new(1, 0, Offered::File { mode: 0, mtime: Default::default(), size: 1 });
    for frames in [vec![link(1, 1)], vec![link(1, 7)], vec![file(), link(2, 1), link(3, 2)]] {
        let mut receiver = refusing();
        let results: Vec<_> = frames.into_iter().map(|frame| receiver.handle_frame(frame)).collect();
        assert!(results.last().unwrap().is_err() && results.iter().rev().skip(1).all(Result::is_ok), "{results:?}");
    }
    // A file that fails may have any number of names.
    let mut receiver = refusing();
    receiver.handle_frame(file()).unwrap();
    for id in 2..=15_000 {
        receiver.handle_frame(link(id, 1)).unwrap();
    }
    refuse_all(&mut receiver);
    assert_eq!(receiver.totals().failed, 15_000);
}
