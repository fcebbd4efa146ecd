//! Chooses the sizes to try next. Pure; it knows only sizes, not lost probes.

use std::collections::BTreeSet;

/// The usual MTUs of links and tunnels, in bytes of IP: jumbo frames (9216, 9000, and less a header of 28), FDDI and token ring
/// (4352, 4464), Ethernet (1500), PPPoE (1492), GRE, IPsec, WireGuard, the least of IPv6 and of IPv4.
const USUAL: [u32; 14] =
    [9_216, 9_000, 8_972, 8_950, 4_464, 4_352, 1_500, 1_492, 1_476, 1_450, 1_420, 1_400, 1_280, 576];
/// Sizes of one round. With eight, a gap of 4,700 bytes takes four rounds.
const ROUND: u32 = 8;
/// Most hints that are stored: a bound on input from the network.
const HINTS_MAX: usize = 16;

/// The bounds of the largest size, as far as they are known.
#[derive(Clone, Debug)]
pub struct Search {
    /// The largest size that passed.
    passed: u32,
    /// The smallest size above `passed` that did not pass.
    failed: u32,
    /// The largest size to try.
    top: u32,
    hints: BTreeSet<u32>,
    is_first: bool,
}

impl Search {
    /// A search between a size that passes and the largest size to try.
    pub fn new(passed: u32, top: u32) -> Search {
        let top = top.max(passed);
        Search { passed, failed: top + 1, top, hints: BTreeSet::new(), is_first: true }
    }

    /// The largest size that passed.
    pub fn passed(&self) -> u32 {
        self.passed
    }

    /// The largest size to try.
    pub fn top(&self) -> u32 {
        self.top
    }

    /// Whether no size is left between those that passed and those that did not.
    pub fn is_found(&self) -> bool {
        self.passed + 1 >= self.failed
    }

    /// The sizes of the next round, smallest first; empty when the search is over.
    pub fn round(&mut self) -> Vec<u32> {
        let open = (self.passed + 1)..self.failed;
        let mut sizes = BTreeSet::new();
        if std::mem::take(&mut self.is_first) {
            sizes.extend(USUAL.iter().filter(|size| open.contains(size)));
            sizes.insert(self.top);
        } else {
            let gap = self.failed - self.passed;
            let parts = gap.min(ROUND + 1);
            sizes.extend((1..parts).map(|part| self.passed + gap * part / parts));
        }
        // A hint is right if it passes and the next size does not.
        let hints = std::mem::take(&mut self.hints);
        sizes.extend(hints.iter().flat_map(|hint| [*hint, *hint + 1]));
        sizes.retain(|size| open.contains(size));
        sizes.into_iter().collect()
    }

    /// Notes that a size passed. If a smaller size had counted as failed, all larger sizes are open again.
    pub fn pass(&mut self, size: u32) {
        self.passed = self.passed.max(size.min(self.top));
        if self.passed >= self.failed {
            self.failed = self.top + 1;
        }
    }

    /// Notes that a size did not pass.
    pub fn fail(&mut self, size: u32) {
        if size > self.passed {
            self.failed = self.failed.min(size);
        }
    }

    /// Lowers the largest size to try: larger packets cannot be sent.
    pub fn lower_top(&mut self, top: u32) {
        self.top = self.top.min(top).max(self.passed);
        self.failed = self.failed.min(self.top + 1);
    }

    /// Takes a size that a router reports to pass.
    pub fn hint(&mut self, size: u32) {
        if self.hints.len() < HINTS_MAX && size > self.passed && size < self.failed {
            self.hints.insert(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Where sizes up to an MTU pass and others do not, few rounds find it, whatever the hints.
        #[test]
        fn the_largest_size_is_found_in_few_rounds(truth in 60u32..=65_535, top in 576u32..=65_535, hints: Vec<u32>) {
            let truth = truth.min(top);
            let mut search = Search::new(60, top);
            hints.iter().for_each(|hint| search.hint(*hint));
            let mut rounds = 0;
            while !search.is_found() {
                let sizes = search.round();
                prop_assert!(!sizes.is_empty() && sizes.len() <= USUAL.len() + 1 + 2 * HINTS_MAX);
                prop_assert!(sizes.iter().all(|size| (60..=top).contains(size)));
                for size in sizes {
                    if size <= truth { search.pass(size) } else { search.fail(size) }
                }
                rounds += 1;
                prop_assert!(rounds <= 8);
            }
            prop_assert_eq!(search.passed(), truth);
        }
    }

    #[test]
    fn a_hinted_size_is_found_in_two_rounds() {
        let mut search = Search::new(60, 9_216);
        for size in search.round() {
            if size <= 1_437 { search.pass(size) } else { search.fail(size) }
        }
        search.hint(1_437);
        let sizes = search.round();
        assert!(sizes.contains(&1_437) && sizes.contains(&1_438), "{sizes:?}");
        search.pass(1_437);
        search.fail(1_438);
        assert!(search.is_found());
    }

    #[test]
    fn a_size_that_passes_after_all_reopens_the_larger_ones() {
        let mut search = Search::new(60, 2_000);
        search.fail(1_000);
        search.pass(999);
        assert!(search.is_found());
        search.pass(1_000);
        assert!(!search.is_found());
        search.lower_top(1_000);
        assert!(search.is_found());
        assert_eq!((search.passed(), search.top()), (1_000, 1_000));
    }
}
