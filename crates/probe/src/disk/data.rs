//! The bytes that are written: random, so that no store compresses them; different in each page, so that no store deduplicates
//! them; and verifiable when they are read.
//!
//! New random bytes for every block would take a third of a processor at 2 GB/s, and would be measured with the disk. So each
//! worker reuses a few random blocks, and stamps each page of them, 16 bytes in 4 KiB, with a hash of the file and the page's
//! number: a store that searches for equal blocks of 4 KiB or more finds none, nor does one that searches for repetition within a
//! few MiB.

use sys::files::{ALIGNMENT, Aligned};

/// Most random blocks of one worker, and most bytes of all workers together; each worker has at least one block.
const BLOCKS_MAX: u64 = 16;
const BYTES_MAX: u64 = 256 << 20;
/// Bytes of a stamp.
const STAMP: usize = 16;

/// SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of the number.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Makes and verifies the stamps of one file's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    key: u64,
}

impl Stamp {
    /// The stamps of a file. Files of one run have different numbers.
    pub(super) fn new(seed: u64, file: u64) -> Stamp {
        Stamp { key: mixed(seed ^ mixed(file)) }
    }

    /// The stamp of a page, by its number in the file.
    fn page(self, number: u64) -> [u8; STAMP] {
        let low = mixed(self.key ^ number);
        let high = mixed(low ^ self.key);
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
    }

    fn put(self, block: &mut [u8], offset: u64) {
        for (page, number) in block.chunks_mut(ALIGNMENT).zip(offset / ALIGNMENT as u64..) {
            let length = page.len().min(STAMP);
            page[..length].copy_from_slice(&self.page(number)[..length]);
        }
    }

    /// The offset of the first page that differs from the bytes that were written there.
    pub(super) fn first_wrong(self, block: &[u8], offset: u64) -> Option<u64> {
        let mut pages = block.chunks(ALIGNMENT).zip(offset / ALIGNMENT as u64..);
        let found = pages.find(|(page, number)| {
            let length = page.len().min(STAMP);
            page[..length] != self.page(*number)[..length]
        });
        found.map(|(_, number)| number * ALIGNMENT as u64)
    }
}

/// The random blocks of one worker.
#[derive(Debug)]
pub(super) struct RandomBlocks {
    memory: Aligned,
    block: usize,
    turn: usize,
}

impl RandomBlocks {
    /// Blocks of `block_bytes`, a multiple of a page, for one of `workers`.
    pub(super) fn new(block_bytes: u64, workers: u32, seed: u64, worker: u64) -> RandomBlocks {
        let blocks = (BYTES_MAX / (block_bytes * u64::from(workers.max(1)))).clamp(1, BLOCKS_MAX);
        let mut memory = Aligned::zeroed((blocks * block_bytes) as usize);
        fastrand::Rng::with_seed(mixed(seed) ^ mixed(worker)).fill(&mut memory);
        RandomBlocks { memory, block: block_bytes as usize, turn: 0 }
    }

    /// The bytes for an offset of a file: a block of them, or less. `offset` is a multiple of a page.
    pub(super) fn block(&mut self, stamp: Stamp, offset: u64, length: usize) -> &[u8] {
        let start = self.turn * self.block;
        self.turn = (self.turn + 1) % (self.memory.len() / self.block);
        let block = &mut self.memory[start..start + length.min(self.block)];
        stamp.put(block, offset);
        block
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_page_differs_from_all_others() {
        let mut seen = HashSet::new();
        for worker in 0..2 {
            let mut blocks = RandomBlocks::new(1 << 20, 2, 1, worker);
            for file in 0..2 {
                let stamp = Stamp::new(1, 2 * worker + file);
                for offset in (0..40u64 << 20).step_by(1 << 20) {
                    let block = blocks.block(stamp, offset, 1 << 20);
                    assert!(block.chunks(ALIGNMENT).all(|page| seen.insert(page[..64].to_vec())));
                }
            }
        }
        assert_eq!(seen.len(), 4 * 40 * 256);
    }

    #[test]
    fn byte_values_are_equally_frequent() {
        // Of 4 Mi random bytes, each value occurs 16,384 times, plus or minus six standard deviations of 128.
        let mut blocks = RandomBlocks::new(4 << 20, 1, 5, 0);
        let mut counts = [0u32; 256];
        blocks.block(Stamp::new(5, 0), 0, 4 << 20).iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(16_384) < 6 * 128), "{counts:?}");
    }

    #[test]
    fn wrong_pages_are_detected() {
        let stamp = Stamp::new(3, 4);
        let mut block = RandomBlocks::new(1 << 20, 1, 3, 0).block(stamp, 5 << 20, 1 << 20).to_vec();
        assert_eq!(stamp.first_wrong(&block, 5 << 20), None);
        assert_eq!(stamp.first_wrong(&block, 6 << 20), Some(6 << 20), "bytes of another offset");
        assert_eq!(Stamp::new(3, 5).first_wrong(&block, 5 << 20), Some(5 << 20), "bytes of another file");
        block[3 * ALIGNMENT + 1] ^= 1;
        assert_eq!(stamp.first_wrong(&block, 5 << 20), Some((5 << 20) + 3 * ALIGNMENT as u64));
        let mut short = RandomBlocks::new(4096, 1, 3, 0);
        assert_eq!(stamp.first_wrong(short.block(stamp, 0, 7), 0), None);
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(RandomBlocks::new(1 << 20, 1, 0, 0).memory.len(), 16 << 20);
        assert_eq!(RandomBlocks::new(1 << 20, 64, 0, 0).memory.len(), 4 << 20);
        assert_eq!(RandomBlocks::new(4 << 20, 256, 0, 0).memory.len(), 4 << 20);
    }
}
