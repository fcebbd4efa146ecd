//! The byte ranges of a file, one for each connection; a connection that has finished takes half of the largest remaining range.

use std::collections::BTreeMap;

use model::checksum::BlockSum;
use parking_lot::Mutex;

/// A remaining range shorter than this is not divided: a new request costs a round trip.
const DIVIDED_FROM: u64 = 16 << 20;

/// A byte range that one connection fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    at: u64,
    end: u64,
    taken: bool,
}

/// All ranges of a file, and the checksums of the bytes that have arrived.
#[derive(Debug)]
pub(crate) struct RangeQueue {
    parts: Mutex<Vec<ByteRange>>,
    sums: Mutex<BTreeMap<u64, (u64, BlockSum)>>,
}

/// A range that a connection has to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeTask {
    index: usize,
    pub at: u64,
    pub end: u64,
}

impl RangeQueue {
    /// Divides a file of `size` bytes among `connections`.
    pub fn new(size: u64, connections: u64) -> RangeQueue {
        let connections = connections.max(1);
        // A multiple of 1 MiB, so that writes begin at pages.
        let step = size.div_ceil(connections).next_multiple_of(1 << 20).max(1);
        let parts = (0..connections)
            .map(|i| ByteRange { at: (i * step).min(size), end: ((i + 1) * step).min(size), taken: false })
            .filter(|part| part.at < part.end || size == 0)
            .take(if size == 0 { 1 } else { usize::MAX })
            .collect();
        RangeQueue { parts: Mutex::new(parts), sums: Mutex::default() }
    }

    /// The next range to fetch: one that no connection has, else half of the largest remaining range.
    pub fn take(&self) -> Option<RangeTask> {
        let mut parts = self.parts.lock();
        if let Some(index) = parts.iter().position(|part| !part.taken && part.at < part.end) {
            parts[index].taken = true;
            return Some(RangeTask { index, at: parts[index].at, end: parts[index].end });
        }
        let (index, left) = parts.iter().enumerate().map(|(i, p)| (i, p.end - p.at)).max_by_key(|(_, left)| *left)?;
        if left < DIVIDED_FROM {
            return None;
        }
        let middle = (parts[index].at + left / 2).next_multiple_of(1 << 20);
        let end = parts[index].end;
        if middle >= end {
            return None;
        }
        parts[index].end = middle;
        parts.push(ByteRange { at: middle, end, taken: true });
        Some(RangeTask { index: parts.len() - 1, at: middle, end })
    }

    /// The current end of a task's range.
    pub fn end(&self, task: &RangeTask) -> u64 {
        self.parts.lock()[task.index].end
    }

    /// Records bytes of a task that have arrived, with their checksum.
    pub fn record(&self, task: &RangeTask, at: u64, bytes: u64, sum: BlockSum) {
        self.parts.lock()[task.index].at = at + bytes;
        let mut sums = self.sums.lock();
        // Adjacent pieces are merged, so that there are as many entries as ranges.
        if let Some((start, (length, before))) = sums.range(..=at).next_back().map(|(s, v)| (*s, *v))
            && start + length == at
        {
            sums.insert(start, (length + bytes, before.then(sum, bytes)));
            return;
        }
        sums.insert(at, (bytes, sum));
    }

    /// Releases the rest of a range whose connection broke.
    pub fn release(&self, task: &RangeTask) {
        self.parts.lock()[task.index].taken = false;
    }

    /// The checksum of the whole file, if all bytes have arrived.
    pub fn whole(&self, size: u64) -> Option<BlockSum> {
        let sums = self.sums.lock();
        let mut at = 0;
        let mut all = BlockSum::of(&[], true);
        for (start, (length, sum)) in sums.iter() {
            if *start != at {
                return None;
            }
            all = all.then(*sum, *length);
            at += length;
        }
        (at == size).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_fetched_once_and_the_checksum_is_that_of_the_file() {
        let size = 40u64 << 20;
        // One block is computed and copied, with its number in front: this is compiled without optimisation.
        let block: Vec<u8> = (0..1_u64 << 16).map(|i| (i * 7 + i / 1000) as u8).collect();
        let mut data = block.repeat((size >> 16) as usize);
        for (number, block) in data.chunks_mut(1 << 16).enumerate() {
            block[..8].copy_from_slice(&(number as u64).to_le_bytes());
        }
        for connections in 1..6 {
            let parts = RangeQueue::new(size, connections);
            let mut covered = 0;
            // One connection is slow: the others take half of its part, again and again.
            let slow = parts.take().unwrap();
            while let Some(task) = parts.take() {
                let mut at = task.at;
                while at < parts.end(&task) {
                    let bytes = (parts.end(&task) - at).min(3 << 20);
                    let piece = &data[at as usize..(at + bytes) as usize];
                    parts.record(&task, at, bytes, BlockSum::of(piece, true));
                    at += bytes;
                    covered += bytes;
                }
            }
            assert_eq!(parts.whole(size), None);
            let rest = &data[slow.at as usize..parts.end(&slow) as usize];
            parts.record(&slow, slow.at, rest.len() as u64, BlockSum::of(rest, true));
            covered += rest.len() as u64;
            assert!(rest.len() as u64 <= DIVIDED_FROM + (1 << 20), "{connections}: {}", rest.len());
            assert_eq!((covered, parts.whole(size)), (size, Some(BlockSum::of(&data, true))), "{connections}");
        }
    }

    #[test]
    fn a_released_range_is_taken_again_where_it_stopped() {
        let parts = RangeQueue::new(10, 3);
        let task = parts.take().unwrap();
        assert_eq!((task.at, task.end, parts.take()), (0, 10, None));
        parts.record(&task, 0, 4, BlockSum::of(&[1; 4], true));
        parts.release(&task);
        let again = parts.take().unwrap();
        assert_eq!((again.at, again.end), (4, 10));
    }

    #[test]
    fn an_empty_file_has_no_parts_and_a_sum() {
        let parts = RangeQueue::new(0, 4);
        assert_eq!(parts.take(), None);
        assert_eq!(parts.whole(0), Some(BlockSum::of(&[], true)));
    }
}
