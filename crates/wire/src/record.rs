//! Data records: blocks of files on a stream.
//!
//! ```text
//! head    8 bytes   "LR" | parts u16 | body length u32          (big-endian; authenticated when sealed)
//! table   parts*32  file u64 | offset u64 | length u64 | crc32c u32 | flags u32
//! check   4 bytes   CRC-32C of head and table
//! payload           the bytes of every part that is not a hole, one after another
//! tag     16 bytes  only when sealed: table, check and payload are then ciphertext
//! ```
//!
//! The body is table, check and payload; the tag is not counted. A record without parts marks the end of a job's records;
//! those of the session's next job follow. Sizes are fixed, so that a receiver knows from the head
//! alone where in its buffer the payload will lie.

use model::checksum::crc32c;

use crate::codec::Reader;
use crate::error::WireError;
use crate::limits::{RECORD_PARTS_MAX, RECORD_PAYLOAD_BYTES_MAX};

/// Length of the head.
pub const HEAD_BYTES: usize = 8;
/// Length of a part's row in the table.
pub const ROW_BYTES: usize = 32;
/// Length of the table's check.
pub const CHECK_BYTES: usize = 4;
/// The most a body holds.
pub const BODY_BYTES_MAX: usize = RECORD_PARTS_MAX * ROW_BYTES + CHECK_BYTES + RECORD_PAYLOAD_BYTES_MAX;

const MAGIC: [u8; 2] = *b"LR";
const FLAG_HOLE: u32 = 1;
const FLAG_WHOLE: u32 = 2;

/// How a record's bytes are protected on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305, for processors without AES.
    ChaCha20Poly1305,
    /// AEGIS-128L (draft-irtf-cfrg-aegis-aead), for processors with AES.
    Aegis128L,
}

/// One range of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file's id in the job.
    pub file: u64,
    /// The offset of the range, bytes.
    pub offset: u64,
    /// Its length, bytes: any for a hole, at most one block for data.
    pub len: u64,
    /// CRC-32C of the range (of zeros, for a hole).
    pub crc32c: u32,
    /// A hole: no payload, nothing to write.
    pub hole: bool,
    /// The range is the whole file, so its checksum is the file's.
    pub whole: bool,
}

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Rows in the table.
    pub parts: usize,
    /// Bytes of the body, without the tag.
    pub body_len: usize,
}

impl Head {
    /// The head of a record with a table of `parts` rows and `payload_len` bytes of payload.
    pub fn new(parts: usize, payload_len: usize) -> Head {
        Head { parts, body_len: parts * ROW_BYTES + CHECK_BYTES + payload_len }
    }

    /// The head of the record that marks the end of a job's records on a stream that is kept.
    pub fn mark() -> Head {
        Head::new(0, 0)
    }

    /// Bytes of table and check.
    pub fn table_len(&self) -> usize {
        self.parts * ROW_BYTES + CHECK_BYTES
    }

    /// Bytes of payload.
    pub fn payload_len(&self) -> usize {
        self.body_len - self.table_len()
    }

    /// The head's bytes.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..2].copy_from_slice(&MAGIC);
        out[2..4].copy_from_slice(&(self.parts as u16).to_be_bytes());
        out[4..].copy_from_slice(&(self.body_len as u32).to_be_bytes());
        out
    }

    /// Decodes a head and checks its bounds, before memory is reserved for the body.
    ///
    /// # Errors
    /// The magic is wrong, or a length is beyond its bound.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, WireError> {
        if bytes[..2] != MAGIC {
            return Err(WireError::Invalid("a record's head"));
        }
        let parts = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let body_len = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        if parts > RECORD_PARTS_MAX {
            let (got, limit) = (parts as u64, RECORD_PARTS_MAX as u64);
            return Err(WireError::TooLarge { what: "a record's count of parts", got, limit });
        }
        let least = parts * ROW_BYTES + CHECK_BYTES;
        let most = if parts == 0 { least } else { least + RECORD_PAYLOAD_BYTES_MAX };
        if body_len < least || body_len > most {
            return Err(WireError::TooLarge { what: "a record's length", got: body_len as u64, limit: most as u64 });
        }
        Ok(Head { parts, body_len })
    }
}

/// Writes table and check into the first `head.table_len()` bytes of `body`.
pub fn encode_table(head: &Head, parts: &[Part], body: &mut [u8]) {
    debug_assert_eq!(head.parts, parts.len());
    for (part, row) in parts.iter().zip(body.chunks_exact_mut(ROW_BYTES)) {
        row[..8].copy_from_slice(&part.file.to_be_bytes());
        row[8..16].copy_from_slice(&part.offset.to_be_bytes());
        row[16..24].copy_from_slice(&part.len.to_be_bytes());
        row[24..28].copy_from_slice(&part.crc32c.to_be_bytes());
        let flags = if part.hole { FLAG_HOLE } else { 0 } | if part.whole { FLAG_WHOLE } else { 0 };
        row[28..32].copy_from_slice(&flags.to_be_bytes());
    }
    let at = parts.len() * ROW_BYTES;
    let check = table_check(head, &body[..at]);
    body[at..at + CHECK_BYTES].copy_from_slice(&check.to_be_bytes());
}

fn table_check(head: &Head, table: &[u8]) -> u32 {
    model::checksum::crc32c_combine(crc32c(&head.encode()), crc32c(table), table.len() as u64)
}

/// Decodes the table at the start of `body`, and verifies its check, its bounds and the payload's length.
///
/// # Errors
/// The check is wrong, or a row or the payload's length is invalid.
pub fn decode_table(head: &Head, body: &[u8]) -> Result<Vec<Part>, WireError> {
    let at = head.parts * ROW_BYTES;
    let mut reader = Reader::new(body);
    let table = reader.raw(at, "a record's table")?;
    let check = u32::from_be_bytes(reader.array("a record's check")?);
    if table_check(head, table) != check {
        return Err(WireError::Damaged);
    }
    let mut parts = Vec::with_capacity(head.parts);
    let mut payload = 0u64;
    for row in table.chunks_exact(ROW_BYTES) {
        let part = decode_row(row)?;
        if !part.hole {
            payload = payload.saturating_add(part.len);
        }
        parts.push(part);
    }
    if payload != head.payload_len() as u64 {
        return Err(WireError::Invalid("a record's payload length"));
    }
    Ok(parts)
}

fn decode_row(row: &[u8]) -> Result<Part, WireError> {
    let mut reader = Reader::new(row);
    let file = u64::from_be_bytes(reader.array("a part's file")?);
    let offset = u64::from_be_bytes(reader.array("a part's offset")?);
    let len = u64::from_be_bytes(reader.array("a part's length")?);
    let crc32c = u32::from_be_bytes(reader.array("a part's checksum")?);
    let flags = u32::from_be_bytes(reader.array("a part's flags")?);
    if flags & !(FLAG_HOLE | FLAG_WHOLE) != 0 || offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
        return Err(WireError::Invalid("a part's range or flags"));
    }
    let whole = flags & FLAG_WHOLE != 0;
    if whole && offset != 0 {
        return Err(WireError::Invalid("a part's flags"));
    }
    Ok(Part { file, offset, len, crc32c, hole: flags & FLAG_HOLE != 0, whole })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn part()(file: u64, offset in 0u64..1 << 50, len in 0u64..4096, crc32c: u32, hole: bool, whole: bool) -> Part {
            Part { file, offset: if whole { 0 } else { offset }, len, crc32c, hole, whole }
        }
    }

    fn encoded(parts: &[Part]) -> (Head, Vec<u8>) {
        let payload = parts.iter().filter(|p| !p.hole).map(|p| p.len as usize).sum();
        let head = Head::new(parts.len(), payload);
        let mut body = vec![0; head.body_len];
        encode_table(&head, parts, &mut body);
        (head, body)
    }

    proptest! {
        #[test]
        fn tables_are_read_as_written(parts in proptest::collection::vec(part(), 1..=RECORD_PARTS_MAX)) {
            let (head, body) = encoded(&parts);
            prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
            prop_assert_eq!(decode_table(&head, &body), Ok(parts));
        }

        #[test]
        fn any_flipped_bit_is_detected(parts in proptest::collection::vec(part(), 1..8), bit: prop::sample::Index) {
            let (head, mut body) = encoded(&parts);
            let bit = bit.index(head.table_len() * 8);
            body[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode_table(&head, &body), Err(WireError::Damaged));
        }

        #[test]
        fn any_bytes_are_read_or_refused(head: [u8; HEAD_BYTES], body in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(head) = Head::decode(&head) {
                let _ = decode_table(&head, &body);
            }
        }
    }

    #[test]
    fn absurd_lengths_are_refused() {
        let head = |parts: u16, len: u32| {
            let mut bytes = [b'L', b'R', 0, 0, 0, 0, 0, 0];
            bytes[2..4].copy_from_slice(&parts.to_be_bytes());
            bytes[4..].copy_from_slice(&len.to_be_bytes());
            Head::decode(&bytes)
        };
        assert!(head(1, 36).is_ok());
        assert_eq!(head(0, 4), Ok(Head::mark()));
        for (parts, len) in [(0, 3), (0, 5), (0, 36), (257, 9000), (1, u32::MAX), (1, 35), (u16::MAX, u32::MAX)] {
            assert!(head(parts, len).is_err(), "{parts} parts, {len} bytes");
        }
    }
}
