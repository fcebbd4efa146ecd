//! The block ledger: the ranges of a file that have arrived (or been sent), and the checksum of each merged range.
//!
//! Ranges may arrive in any order from any stream. Touching ranges merge, and their checksums with them, so that a file
//! that arrives nearly in order costs one span, and the whole file's digest is known with the last block, without
//! reading anything again.

use std::collections::BTreeMap;

use model::checksum::BlockSum;

use crate::error::WireError;
use crate::limits::LEDGER_SPANS_MAX;

#[derive(Clone, Copy, Debug)]
struct Span {
    len: u64,
    sum: BlockSum,
}

/// Ranges of one file with their checksums.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    spans: BTreeMap<u64, Span>,
}

/// The result of entering a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was new.
    New,
    /// The whole range was entered before.
    Known,
}

impl Ledger {
    /// Enters a range.
    ///
    /// # Errors
    /// The range overlaps another one in part (blocks are cut only once), or there are more than [`LEDGER_SPANS_MAX`] spans.
    pub fn add(&mut self, offset: u64, len: u64, sum: BlockSum) -> Result<Added, WireError> {
        let end = offset.checked_add(len).ok_or(WireError::Invalid("a block's range"))?;
        if len == 0 {
            return Ok(Added::Known);
        }
        let mut start = offset;
        let mut merged = Span { len, sum };
        if let Some((&before, span)) = self.spans.range(..=offset).next_back() {
            let before_end = before + span.len;
            if before_end >= end {
                return Ok(Added::Known);
            }
            if before_end > offset {
                return Err(WireError::Unexpected("a block overlaps another in part"));
            }
            if before_end == offset {
                start = before;
                merged = Span { len: span.len + len, sum: span.sum.then(sum, len) };
            }
        }
        if let Some((&after, span)) = self.spans.range(offset + 1..).next() {
            if after < end {
                return Err(WireError::Unexpected("a block overlaps another in part"));
            }
            if after == end {
                merged = Span { len: merged.len + span.len, sum: merged.sum.then(span.sum, span.len) };
                self.spans.remove(&after);
            }
        }
        self.spans.insert(start, merged);
        if self.spans.len() > LEDGER_SPANS_MAX {
            let got = self.spans.len() as u64;
            return Err(WireError::TooLarge { what: "ranges out of order", got, limit: LEDGER_SPANS_MAX as u64 });
        }
        Ok(Added::New)
    }

    /// Whether all of a range is entered already.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        let before = self.spans.range(..=offset).next_back();
        before.is_some_and(|(start, span)| offset.checked_add(len).is_some_and(|end| start + span.len >= end))
    }

    /// Whether any of a range is entered already.
    pub fn overlaps(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let before = self.spans.range(..end).next_back();
        len > 0 && before.is_some_and(|(start, span)| start + span.len > offset)
    }

    /// The checksum of the whole file, once ranges cover all of `size`.
    pub fn whole(&self, size: u64) -> Option<BlockSum> {
        if size == 0 {
            return Some(BlockSum::of_zeros(0, true));
        }
        let span = self.spans.get(&0)?;
        (span.len == size && self.spans.len() == 1).then_some(span.sum)
    }

    /// Bytes entered.
    pub fn bytes(&self) -> u64 {
        self.spans.values().map(|s| s.len).sum()
    }

    /// The end of the last range.
    pub fn end(&self) -> u64 {
        self.spans.last_key_value().map_or(0, |(start, span)| start + span.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_that_overlaps_another_in_part_is_refused() {
        let sum = BlockSum::of_zeros(10, false);
        let mut ledger = Ledger::default();
        assert_eq!(ledger.add(10, 10, sum), Ok(Added::New));
        assert!(ledger.add(5, 10, sum).is_err());
        assert!(ledger.add(15, 10, sum).is_err());
        assert!(ledger.add(5, 20, sum).is_err());
        assert_eq!(ledger.add(12, 3, sum), Ok(Added::Known));
        assert!(ledger.add(u64::MAX, 2, sum).is_err());
        assert!(ledger.covers(10, 10) && !ledger.overlaps(0, 10) && !ledger.overlaps(20, 10));
    }

    proptest! {
        #[test]
        fn any_order_gives_the_digest_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 1..5000),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
            seed: u64,
        ) {
            let mut edges: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len())).collect();
            edges.extend([0, bytes.len()]);
            edges.sort_unstable();
            edges.dedup();
            let mut blocks: Vec<(usize, usize)> = edges.windows(2).map(|w| (w[0], w[1])).collect();
            let mut state = seed;
            for at in (1..blocks.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                blocks.swap(at, (state >> 33) as usize % (at + 1));
            }
            let mut ledger = Ledger::default();
            for (n, (start, end)) in blocks.iter().enumerate() {
                prop_assert_eq!(ledger.whole(bytes.len() as u64), None, "complete after {} of {}", n, blocks.len());
                let sum = BlockSum::of(&bytes[*start..*end], true);
                prop_assert_eq!(ledger.add(*start as u64, (end - start) as u64, sum), Ok(Added::New));
                prop_assert_eq!(ledger.add(*start as u64, (end - start) as u64, sum), Ok(Added::Known));
            }
            prop_assert_eq!(ledger.whole(bytes.len() as u64), Some(BlockSum::of(&bytes, true)));
        }
    }
}
