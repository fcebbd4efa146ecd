//! Pages with checksums: a range of a file as units of a CRC32C and up to 4,096 bytes, of which all but the first begin at a multiple of
//! 4,096 in the file.

use std::ops::Range;

use model::checksum::crc32c;

use crate::Malformed;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a checksum.
pub const SUM_BYTES: usize = 4;

/// The pages of a range of a file: the offset of each in the range.
fn pages(offset: u64, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    // The first page may begin within a page of the file.
    let first = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize;
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at;
        let most = if begin == 0 { first } else { PAGE_BYTES };
        at = bytes.min(begin + most);
        (begin < at).then_some(begin..at)
    })
}

/// The number of pages of a range.
pub fn count(offset: u64, bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    ((offset % PAGE_BYTES as u64) as usize + bytes).div_ceil(PAGE_BYTES)
}

/// The length of a range with its checksums, bytes.
pub fn encoded_bytes(offset: u64, bytes: usize) -> usize {
    bytes + count(offset, bytes) * SUM_BYTES
}

/// The longest range whose data with their checksums have at most this length, bytes.
pub fn decoded_bytes(offset: u64, encoded: usize) -> usize {
    let unit = PAGE_BYTES + SUM_BYTES;
    let before = (offset % PAGE_BYTES as u64) as usize;
    // As if the first page were whole.
    let padded = encoded + before;
    let rest = (padded % unit).saturating_sub(SUM_BYTES);
    (padded / unit * PAGE_BYTES + rest).saturating_sub(before)
}

/// Adds the data of a range at an offset of the file, with their checksums.
pub fn encode(offset: u64, data: &[u8], into: &mut Vec<u8>) {
    into.reserve(encoded_bytes(offset, data.len()));
    for page in pages(offset, data.len()) {
        let page = &data[page];
        into.extend_from_slice(&crc32c(page).to_be_bytes());
        into.extend_from_slice(page);
    }
}

/// Removes the checksums of a range, in place; returns the length of the data, and the pages whose checksums are wrong: the offset of
/// each in the file, and its length.
///
/// # Errors
/// [`Malformed::Field`]: the last page has a checksum and no data.
pub fn decode(offset: u64, encoded: &mut [u8]) -> Result<DecodedPages, Malformed> {
    let bytes = decoded_bytes(offset, encoded.len());
    if encoded_bytes(offset, bytes) != encoded.len() {
        return Err(Malformed::Field("the data of the last page"));
    }
    let mut damaged = Vec::new();
    for (number, page) in pages(offset, bytes).enumerate() {
        let from = page.start + number * SUM_BYTES;
        let (sum, data) = encoded[from..from + SUM_BYTES + page.len()].split_at(SUM_BYTES);
        if crc32c(data).to_be_bytes() != sum {
            damaged.push((offset + page.start as u64, page.len() as u32));
        }
        encoded.copy_within(from + SUM_BYTES..from + SUM_BYTES + page.len(), page.start);
    }
    Ok(DecodedPages { bytes, damaged })
}

/// The result of [`decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedPages {
    /// Bytes of data at the beginning of the buffer.
    pub bytes: usize,
    /// Pages with wrong checksums: the offset in the file, and the length.
    pub damaged: Vec<(u64, u32)>,
}

/// What follows the answer to a write of pages of which some have wrong checksums, so that the client sends these again.
pub fn damaged_list(damaged: &[(u64, u32)]) -> Vec<u8> {
    let (Some(first), Some(last)) = (damaged.first(), damaged.last()) else { return Vec::new() };
    let short = |bytes: u32| if bytes as usize == PAGE_BYTES { 0 } else { bytes as u16 };
    let mut list = [short(first.1).to_be_bytes(), short(last.1).to_be_bytes()].concat();
    list.extend(damaged.iter().flat_map(|(offset, _)| offset.to_be_bytes()));
    [&crc32c(&list).to_be_bytes()[..], &list].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_page_ends_at_a_page_of_the_file() {
        let all: Vec<_> = pages(4090, 10_000).collect();
        assert_eq!(all, [0..6, 6..4102, 4102..8198, 8198..10_000]);
        assert_eq!((count(4090, 10_000), count(0, 0), count(0, 4096)), (4, 0, 1));
    }

    #[test]
    fn a_page_with_a_wrong_checksum_is_named() {
        let data: Vec<u8> = (0..9000_u32).map(|at| at as u8).collect();
        let mut encoded = Vec::new();
        encode(100, &data, &mut encoded);
        encoded[5000] ^= 1;
        let decoded = decode(100, &mut encoded).unwrap();
        assert_eq!(decoded, DecodedPages { bytes: 9000, damaged: vec![(4096, 4096)] });
        assert_eq!(damaged_list(&decoded.damaged).len(), 4 + 4 + 8);
        assert!(damaged_list(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn data_are_decoded_as_they_were_encoded(offset in 0..20_000_u64, data in proptest::collection::vec(any::<u8>(), 0..20_000)) {
            let mut encoded = Vec::new();
            encode(offset, &data, &mut encoded);
            prop_assert_eq!(encoded.len(), encoded_bytes(offset, data.len()));
            let decoded = decode(offset, &mut encoded).unwrap();
            prop_assert_eq!(&encoded[..decoded.bytes], &data[..]);
            prop_assert!(decoded.damaged.is_empty());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(offset in 0..20_000_u64, mut bytes in proptest::collection::vec(any::<u8>(), 0..9_000)) {
            let length = bytes.len();
            if let Ok(decoded) = decode(offset, &mut bytes) {
                prop_assert!(decoded.bytes <= length);
            }
        }
    }
}
