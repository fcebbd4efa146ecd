//! The part of a large file that an attempt leaves for the next one: its bytes so far, and journal rows like the engine's. As in the
//! engine, a row is claimed only if the bytes have its checksum.

use std::collections::BTreeMap;

use model::checksum::BlockSum;
use model::entry::Timestamp;
use wire::receiver::Wanted;
use wire::record::Part;

use crate::rng::Rng;

/// By offset: length and CRC-32C.
pub type Rows = BTreeMap<u64, (u64, u32)>;

/// The unfinished file of an earlier attempt.
#[derive(Clone, Debug)]
pub struct PartialFile {
    size: u64,
    mtime: Timestamp,
    pub bytes: Vec<u8>,
    pub rows: Rows,
}

/// Adds the row of a block that was written. It replaces the rows that it overlaps.
pub fn add_row(rows: &mut Rows, part: &Part, sum: BlockSum) {
    let end = part.offset + part.len;
    rows.retain(|at, (len, _)| at + *len <= part.offset || *at >= end);
    if part.len > 0 {
        rows.insert(part.offset, (part.len, sum.crc32c));
    }
}

impl PartialFile {
    pub fn new(wanted: &Wanted, bytes: Vec<u8>, rows: Rows) -> PartialFile {
        PartialFile { size: wanted.size, mtime: wanted.mtime, bytes, rows }
    }

    pub fn belongs_to(&self, wanted: &Wanted) -> bool {
        (self.size, self.mtime) == (wanted.size, wanted.mtime)
    }

    /// The rows whose checksum the bytes have, as claims. Other rows are removed.
    pub fn verified(&mut self, with_adler32: bool) -> Vec<(u64, u64, BlockSum)> {
        let mut claims = Vec::new();
        self.rows.retain(|at, (len, crc32c)| {
            let Some(bytes) = self.bytes.get(*at as usize..(*at + *len) as usize) else { return false };
            let sum = BlockSum::of(bytes, with_adler32);
            if sum.crc32c == *crc32c {
                claims.push((*at, *len, sum));
            }
            sum.crc32c == *crc32c
        });
        claims
    }

    /// Damages the file as a crash or a bad disk would: rows are lost or wrong, bytes are flipped or cut off. Returns the number of faults.
    pub fn damage(&mut self, rng: &mut Rng) -> u64 {
        let before = self.rows.len();
        self.rows.retain(|_, _| !rng.chance(100));
        let mut faults = (before - self.rows.len()) as u64;
        for (_, crc32c) in self.rows.values_mut() {
            if rng.chance(50) {
                *crc32c ^= 1 << rng.below(32);
                faults += 1;
            }
        }
        while rng.chance(400) && !self.bytes.is_empty() {
            let at = rng.below(self.bytes.len() as u64) as usize;
            self.bytes[at] ^= 1 << rng.below(8);
            faults += 1;
        }
        if rng.chance(150) {
            self.bytes.truncate(rng.below(self.bytes.len() as u64 + 1) as usize);
            faults += 1;
        }
        faults
    }
}
