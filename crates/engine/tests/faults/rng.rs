//! A small seeded generator (xorshift64*, Vigna 2016), so that a failing run can be repeated from its seed.

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        // SplitMix64 makes neighbouring seeds unlike. The state must not be zero: zero only gives zeros.
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Rng((z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// True with a probability of `per_cent` in a hundred.
    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }

    /// One block is computed and copied, each copy with its own number in front: the tests are compiled without optimisation, so
    /// that random numbers for all the bytes would take too long.
    pub fn bytes(&mut self, len: u64) -> Vec<u8> {
        let len = len as usize;
        let first = self.next();
        let block: Vec<u8> = (0..512).flat_map(|_| self.next().to_le_bytes()).collect();
        let mut bytes = Vec::with_capacity(len + block.len());
        while bytes.len() < len {
            let at = bytes.len();
            bytes.extend_from_slice(&block);
            bytes[at..at + 8].copy_from_slice(&first.wrapping_add(at as u64).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
