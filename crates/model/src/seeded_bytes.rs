//! The content of files that a node makes for an exercise: bytes that follow from a seed, a path and an offset. Anybody can compute them
//! again, at any offset, and they do not compress.
//!
//! The generator is that of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), which here counts
//! words instead of stepping a state. All arithmetic is of 64 bits and wraps; words are little-endian.
//!
//! ```text
//! GAMMA   = 0x9e3779b97f4a7c15
//! mix(x):   x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9;  x ^= x >> 27;  x *= 0x94d049bb133111eb;  x ^= x >> 31
//!
//! file    = mix(seed + GAMMA)
//!           for each 8 bytes w of the path, the last ones followed by zeros:  file = mix(file ^ w) + GAMMA
//!           file = mix(file ^ length of the path in bytes)
//! block n = mix(file + (n + 1) * GAMMA)                 bytes n * 2^20 to (n + 1) * 2^20 of the file
//! word j of block n = mix(block n + (j + 1) * GAMMA)    8 bytes, j from 0 to 2^17 - 1
//! ```
//!
//! The generator is made for speed, and keeps no secret: whoever sees the bytes can find the seed.
//!
//! ```
//! let mut whole = [0; 100];
//! model::seeded_bytes::fill(7, "run/file", 0, &mut whole);
//! let mut part = [0; 10];
//! model::seeded_bytes::fill(7, "run/file", 33, &mut part);
//! assert_eq!(part, whole[33..43]);
//! ```

/// The increment of SplitMix64: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes of a block, all of which follow from one key.
const BLOCK_BYTES: u64 = 1 << 20;
/// Bytes of a word.
const WORD_BYTES: usize = 8;

/// Fills the buffer with the bytes from `offset` on of the file with this seed and path.
pub fn fill(seed: u64, path: &str, offset: u64, buffer: &mut [u8]) {
    let file = file_key(seed, path);
    let mut at = offset;
    let mut rest = buffer;
    while !rest.is_empty() {
        let within = (at % BLOCK_BYTES) as usize;
        let bytes = rest.len().min(BLOCK_BYTES as usize - within);
        let (piece, after) = rest.split_at_mut(bytes);
        fill_from(block_key(file, at / BLOCK_BYTES), within, piece);
        at = at.wrapping_add(bytes as u64);
        rest = after;
    }
}

/// Fills a piece of one block, from the byte `within` of the block on.
fn fill_from(block: u64, within: usize, piece: &mut [u8]) {
    let skipped = within % WORD_BYTES;
    // The bytes up to the first whole word.
    let head_bytes = if skipped == 0 { 0 } else { (WORD_BYTES - skipped).min(piece.len()) };
    let (head, body) = piece.split_at_mut(head_bytes);
    let first = within / WORD_BYTES;
    head.copy_from_slice(&word(block, first).to_le_bytes()[skipped..][..head_bytes]);
    let first = first + usize::from(head_bytes > 0);
    let mut words = body.chunks_exact_mut(WORD_BYTES);
    let mut index = first;
    for out in words.by_ref() {
        out.copy_from_slice(&word(block, index).to_le_bytes());
        index += 1;
    }
    let tail = words.into_remainder();
    let bytes = tail.len();
    tail.copy_from_slice(&word(block, index).to_le_bytes()[..bytes]);
}

fn file_key(seed: u64, path: &str) -> u64 {
    let mut key = mix(seed.wrapping_add(GAMMA));
    for part in path.as_bytes().chunks(WORD_BYTES) {
        let mut word = [0; WORD_BYTES];
        word[..part.len()].copy_from_slice(part);
        key = mix(key ^ u64::from_le_bytes(word)).wrapping_add(GAMMA);
    }
    mix(key ^ path.len() as u64)
}

fn block_key(file: u64, block: u64) -> u64 {
    mix(file.wrapping_add(block.wrapping_add(1).wrapping_mul(GAMMA)))
}

fn word(block: u64, index: usize) -> u64 {
    mix(block.wrapping_add((index as u64 + 1).wrapping_mul(GAMMA)))
}

/// The output function of SplitMix64.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(seed: u64, path: &str, offset: u64, count: usize) -> Vec<u8> {
        let mut buffer = vec![0; count];
        fill(seed, path, offset, &mut buffer);
        buffer
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_bytes(
            offset in prop_oneof![0u64..100, BLOCK_BYTES - 50..BLOCK_BYTES + 50, Just(u64::MAX - 5000)],
            cuts in proptest::collection::vec(0usize..200, 0..4),
        ) {
            let count: usize = cuts.iter().sum();
            let whole = bytes(3, "d/f", offset, count);
            let mut parts = Vec::new();
            for cut in cuts {
                parts.extend(bytes(3, "d/f", offset + parts.len() as u64, cut));
            }
            prop_assert_eq!(parts, whole);
        }
    }

    /// The values were computed by another implementation of the description above, in Python.
    #[test]
    fn the_bytes_are_those_of_the_description() {
        assert_eq!(bytes(0, "a", 0, 8), 0xcfe2_034d_9ce3_b919_u64.to_le_bytes());
        assert_eq!(bytes(7, "run/file-1.dat", 3 * BLOCK_BYTES + 40, 8), 0xc426_6e9e_2085_f1fc_u64.to_le_bytes());
    }

    #[test]
    fn the_bytes_of_a_file_are_evenly_distributed_and_no_word_repeats() {
        let content = bytes(1, "f", BLOCK_BYTES / 2, BLOCK_BYTES as usize);
        let mut counts = [0u32; 256];
        content.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4,096 of each value are expected, with a standard deviation of 64: six of them.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 384), "{counts:?}");
        let words: std::collections::HashSet<&[u8]> = content.chunks_exact(WORD_BYTES).collect();
        assert_eq!(words.len(), content.len() / WORD_BYTES);
    }

    #[test]
    fn seeds_paths_and_blocks_have_bytes_of_their_own() {
        let base = bytes(1, "a/b", 0, 64);
        let others = [bytes(2, "a/b", 0, 64), bytes(1, "a/c", 0, 64), bytes(1, "a/b\0", 0, 64), bytes(1, "", 0, 64)];
        assert!(others.iter().all(|other| *other != base));
        assert_ne!(bytes(1, "a/b", BLOCK_BYTES, 64), base);
    }
}
