//! Compares the target with the source tree, except for the entries that are named as misses.

use std::collections::BTreeSet;

use model::name::RelPath;
use wire::frame::Totals;
use wire::sender::Miss;

use crate::harness::Pair;
use crate::store::StoredEntry;
use crate::tree::{Node, NodeKind, mode_of, mtime_of};

/// The paths of the misses.
pub fn names(misses: &[Miss]) -> BTreeSet<RelPath> {
    misses.iter().map(|m| m.path.clone()).collect()
}

/// Asserts that every entry is at the target as in the tree, or named as a miss by both ends, and that the totals are right. Returns
/// the totals.
pub fn check(pair: &Pair, roots: &[Node]) -> Totals {
    let totals = *pair.receiver.totals();
    assert_eq!(pair.sender.finished(), Some(&totals), "both ends have the same totals");
    let missed = names(pair.receiver.misses());
    // Directories that were made but not finished are misses of the receiver only: the sender knows that they were made. A single
    // root may be stored at the target itself: then the store's paths lack its name.
    let top = if pair.config.into { RelPath::root() } else { RelPath::root().join(&roots[0].name) };
    let unfinished: BTreeSet<RelPath> = pair.store.unfinished.iter().map(|path| top.join_path(path)).collect();
    let by_receiver: BTreeSet<RelPath> = missed.difference(&unfinished).cloned().collect();
    let by_sender: BTreeSet<RelPath> = names(pair.sender.misses()).difference(&unfinished).cloned().collect();
    assert_eq!(by_receiver, by_sender, "both ends name the same misses");
    let mut walk =
        Walk { pair, missed: &missed, unfinished: &unfinished, arrived_bytes: 0, arrived: Totals::default() };
    for root in roots {
        let at = if pair.config.into { RelPath::root().join(&root.name) } else { RelPath::root() };
        walk.node(&at, &RelPath::root().join(&root.name), root, roots);
    }
    let arrived = walk.arrived;
    assert_eq!(totals.files + totals.skipped, arrived.files, "files");
    assert_eq!(totals.bytes + totals.skipped_bytes, walk.arrived_bytes, "bytes");
    assert_eq!((totals.directories, totals.links), (arrived.directories, arrived.links), "directories and links");
    assert_eq!(totals.special, arrived.special, "specials");
    assert_eq!(totals.special, pair.receiver.specials().len() as u64, "specials are named");
    assert_eq!(totals.failed, missed.len() as u64, "failures");
    assert_eq!(pair.store.staged_count(), 0, "no file is left half received");
    assert_eq!(pair.source.unsettled, 0);
    totals
}

struct Walk<'a> {
    pair: &'a Pair,
    missed: &'a BTreeSet<RelPath>,
    unfinished: &'a BTreeSet<RelPath>,
    arrived_bytes: u64,
    arrived: Totals,
}

impl Walk<'_> {
    fn node(&mut self, at: &RelPath, display_path: &RelPath, node: &Node, siblings: &[Node]) {
        let stored = self.pair.store.entries.get(at);
        let missed = self.missed.contains(display_path);
        if let NodeKind::Dir(children) = &node.what {
            for child in children {
                self.node(&at.join(&child.name), &display_path.join(&child.name), child, children);
            }
            if self.unfinished.contains(display_path) {
                self.arrived.directories += 1;
            } else if !missed {
                self.arrived.directories += 1;
                let finished = Some((mode_of(&node.name), mtime_of(&node.name)));
                assert_eq!(stored, Some(&StoredEntry::Dir { finished }), "{display_path}");
            }
            return;
        }
        if matches!(node.what, NodeKind::Special) && !missed {
            self.arrived.special += 1;
            assert_eq!(stored, None, "{display_path}");
            return;
        }
        if missed {
            return;
        }
        self.arrived_node(at, display_path, node, siblings);
    }

    fn arrived_node(&mut self, at: &RelPath, display_path: &RelPath, node: &Node, siblings: &[Node]) {
        let stored = self.pair.store.entries.get(at);
        match &node.what {
            NodeKind::File(content) | NodeKind::Pipe(content) => {
                let Some(StoredEntry::File { bytes, mode, mtime }) = stored else {
                    panic!("{display_path} did not arrive: {stored:?}")
                };
                assert!(*bytes == content.all(), "{display_path} is not what it was");
                assert_eq!((*mode, *mtime), (mode_of(&node.name), mtime_of(&node.name)), "{display_path}");
                self.arrived.files += 1;
                self.arrived_bytes += content.len;
            }
            NodeKind::Symlink(target) => {
                let link = StoredEntry::Symlink { target: target.clone(), mtime: mtime_of(&node.name) };
                assert_eq!(stored, Some(&link), "{display_path}");
                self.arrived.links += 1;
            }
            NodeKind::HardLink(to) => {
                let first = siblings.iter().find(|n| to.name().as_ref() == Some(&n.name));
                let Some(NodeKind::File(content)) = first.map(|n| &n.what) else {
                    panic!("{display_path} links to no file")
                };
                let Some(StoredEntry::File { bytes, .. }) = stored else {
                    panic!("{display_path} did not arrive: {stored:?}")
                };
                assert!(*bytes == content.all(), "{display_path} is not what it was");
                self.arrived.links += 1;
            }
            NodeKind::Unreadable => panic!("{display_path} cannot have arrived"),
            NodeKind::Dir(_) | NodeKind::Special => {}
        }
    }
}
