//! Ranges of a representation (RFC 9110, section 14), and `multipart/byteranges`.
//!
//! `Range` is parsed without the size and then resolved with it: a malformed header is ignored (section 14.2), while a well-formed
//! one that no byte satisfies is 416.

mod content;

pub use content::{ContentRange, Multipart};

use model::Timestamp;

use crate::conditions::ETag;
use crate::date;

/// The most ranges that one request may ask for.
pub const RANGES_MAX: usize = 1024;

/// The most ranges that may overlap an earlier range of the request. RFC 9110, section 14.2, calls more than two overlapping ranges an
/// indication of a broken client or an attack.
pub const OVERLAPS_MAX: usize = 2;

/// A range of fewer bytes than the head of its part is tiny. More than `TINY_MAX` tiny ranges out of order are refused
/// (RFC 9110, section 17.15).
const TINY_BYTES: u64 = 80;
const TINY_MAX: usize = 16;

/// One range of a request, before the size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// `a-b`, both ends included; a <= b.
    Between(u64, u64),
    /// `a-`: from this byte to the end.
    From(u64),
    /// `-n`: the last n bytes.
    Last(u64),
}

/// A contiguous range within the representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The number of bytes; at least 1.
    pub len: u64,
}

impl Span {
    /// The position after the last byte.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// The position of the last byte.
    pub fn last(self) -> u64 {
        self.end().saturating_sub(1)
    }
}

/// The ranges of a request, resolved for a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedRanges {
    /// The whole representation: 200.
    Whole,
    /// These ranges, in the order of the request: 206. One range is the body; several are `multipart/byteranges`.
    Parts(Vec<Span>),
    /// No range lies within the size: 416 with `Content-Range: bytes */SIZE`.
    Unsatisfiable,
    /// Too many ranges, or too many that overlap or are tiny and out of order. The RFC permits 416, or to ignore the header and answer 200
    /// with the whole representation (section 14.2). The header is ignored: davix reads a 416 to a request for several ranges as
    /// "0 bytes, no error" and returns an unfilled buffer to its caller (`HttpIOVecOps::performMultirange`), while on a 200 that is too
    /// long it closes the connection and asks for one range at a time.
    Excessive,
}

/// Parses a number; one that is too large for 64 bits counts as the largest, since no file is longer.
fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn spec(text: &str) -> Option<RangeSpec> {
    let (first, last) = text.split_once('-')?;
    match (first, last) {
        ("", last) => Some(RangeSpec::Last(number(last)?)),
        (first, "") => Some(RangeSpec::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::Between(first, last))
        }
    }
}

/// Parses the value of `Range`. `None` where it must be ignored: another unit, or a malformed range (RFC 9110, sections 14.1.2 and
/// 14.2). Of more than [`RANGES_MAX`] ranges one more than that is returned, which [`resolve`] refuses.
pub fn parse(value: &str) -> Option<Vec<RangeSpec>> {
    let (unit, set) = value.trim().split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specs = Vec::new();
    // Empty elements of a list are allowed and mean nothing (RFC 9110, section 5.6.1.2).
    for element in set.split(',').map(|e| e.trim_matches([' ', '\t'])).filter(|e| !e.is_empty()) {
        let spec = spec(element)?;
        if specs.len() <= RANGES_MAX {
            specs.push(spec);
        }
    }
    (!specs.is_empty()).then_some(specs)
}

impl RangeSpec {
    /// The range within `size` bytes; `None` where it begins after the end, or is `-0`.
    fn within(self, size: u64) -> Option<Span> {
        let (start, end) = match self {
            RangeSpec::Between(first, last) => (first, last.saturating_add(1).min(size)),
            RangeSpec::From(first) => (first, size),
            RangeSpec::Last(len) => (size.saturating_sub(len), size),
        };
        (start < end).then(|| Span { start, len: end - start })
    }
}

/// Resolves the ranges for a representation of `size` bytes.
pub fn resolve(specs: &[RangeSpec], size: u64) -> ResolvedRanges {
    if specs.len() > RANGES_MAX {
        return ResolvedRanges::Excessive;
    }
    // By the RFC a suffix of an empty representation is satisfiable, but no Content-Range can express it. The whole representation,
    // which is empty, is sent.
    if size == 0 && specs.iter().any(|spec| matches!(spec, RangeSpec::Last(1..))) {
        return ResolvedRanges::Whole;
    }
    let parts: Vec<Span> = specs.iter().filter_map(|spec| spec.within(size)).collect();
    if parts.is_empty() {
        return ResolvedRanges::Unsatisfiable;
    }
    if is_excessive(&parts) {
        return ResolvedRanges::Excessive;
    }
    ResolvedRanges::Parts(parts)
}

/// Whether too many ranges overlap, or are tiny and out of order.
fn is_excessive(parts: &[Span]) -> bool {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|span| span.start);
    let mut reached = 0;
    let mut overlaps = 0;
    for span in &sorted {
        overlaps += usize::from(span.start < reached);
        reached = reached.max(span.end());
    }
    let tiny = parts.iter().filter(|span| span.len < TINY_BYTES).count();
    overlaps > OVERLAPS_MAX || (tiny > TINY_MAX && !parts.is_sorted_by_key(|span| span.start))
}

/// Whether this `If-Range` holds, so that `Range` is applied (RFC 9110, section 13.1.5): the strong tags are the same, or the dates are
/// the same and strong. A date is strong if it lies at least a second before `now` (section 8.8.2.2): any later change has another date.
pub fn if_range_holds(if_range: &str, etag: Option<&ETag>, modified: Option<Timestamp>, now: Timestamp) -> bool {
    let value = if_range.trim();
    if value.starts_with('"') || value.starts_with("W/") {
        return ETag::parse(value).zip(etag).is_some_and(|(expected, present)| expected.is_same_strong(present));
    }
    let (Some(expected), Some(present)) = (date::parse_http(value), modified) else { return false };
    expected.seconds == present.seconds && present.seconds < now.seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(value: &str, size: u64) -> ResolvedRanges {
        resolve(&parse(value).unwrap(), size)
    }

    fn parts(spans: &[(u64, u64)]) -> ResolvedRanges {
        ResolvedRanges::Parts(spans.iter().map(|(start, len)| Span { start: *start, len: *len }).collect())
    }

    #[test]
    fn the_examples_of_the_rfc_are_resolved() {
        assert_eq!(ask("bytes=0-499", 10_000), parts(&[(0, 500)]));
        assert_eq!(ask("bytes=-500", 10_000), parts(&[(9500, 500)]));
        assert_eq!(ask("bytes=9500-", 10_000), parts(&[(9500, 500)]));
        assert_eq!(ask("bytes=0-0,-1", 10_000), parts(&[(0, 1), (9999, 1)]));
        assert_eq!(ask("bytes= 0-999, 4500-5499, -1000", 10_000), parts(&[(0, 1000), (4500, 1000), (9000, 1000)]));
        assert_eq!(ask("Bytes=500-600,,601-999 ,", 10_000), parts(&[(500, 101), (601, 399)]));
    }

    #[test]
    fn ranges_at_the_end_of_a_file_are_resolved() {
        // An existing server answers each of these wrongly.
        assert_eq!(ask("bytes=35-", 40), parts(&[(35, 5)]));
        assert_eq!(ask("bytes=-5", 40), parts(&[(35, 5)]));
        assert_eq!(ask("bytes=100-200", 40), ResolvedRanges::Unsatisfiable);
        assert_eq!(ask("bytes=35-99", 40), parts(&[(35, 5)]));
    }

    #[test]
    fn empty_and_very_large_ranges_are_resolved() {
        assert_eq!(ask("bytes=-0", 40), ResolvedRanges::Unsatisfiable);
        assert_eq!(ask("bytes=40-", 40), ResolvedRanges::Unsatisfiable);
        assert_eq!(ask("bytes=-100", 40), parts(&[(0, 40)]));
        assert_eq!(ask("bytes=0-", 0), ResolvedRanges::Unsatisfiable);
        assert_eq!(ask("bytes=-1", 0), ResolvedRanges::Whole);
        assert_eq!(ask("bytes=39-18446744073709551615", 40), parts(&[(39, 1)]));
        assert_eq!(ask("bytes=0-99999999999999999999999", u64::MAX), parts(&[(0, u64::MAX)]));
        assert_eq!(ask("bytes=100-200,3-4", 40), parts(&[(3, 2)]));
    }

    #[test]
    fn malformed_ranges_are_ignored() {
        for value in ["", "bytes", "bytes=", "bytes=,", "bytes=a-b", "bytes=5-4", "bytes=-", "bytes=1", "bytes=0-1-2"] {
            assert_eq!(parse(value), None, "{value}");
        }
        for value in ["lines=0-4", "bytes=+1-2", "bytes=0-1;2-3", "bytes =0-1", "bytes=0-1,x", "bytes=1 -2"] {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    #[test]
    fn too_many_or_overlapping_ranges_are_refused() {
        let many = |n: u64| {
            let list: Vec<String> = (0..n).map(|i| format!("{}-{}", i * 100, i * 100 + 9)).collect();
            format!("bytes={}", list.join(","))
        };
        assert!(matches!(ask(&many(RANGES_MAX as u64), 1 << 20), ResolvedRanges::Parts(p) if p.len() == RANGES_MAX));
        assert_eq!(ask(&many(RANGES_MAX as u64 + 1), 1 << 20), ResolvedRanges::Excessive);
        assert_eq!(parse(&many(100_000)).unwrap().len(), RANGES_MAX + 1);
        assert_eq!(ask("bytes=0-,0-,0-,0-", 100), ResolvedRanges::Excessive);
        assert_eq!(ask("bytes=0-,0-,0-", 100), parts(&[(0, 100); 3]));
        let backwards: Vec<String> = (0..17).rev().map(|i| format!("{i}-{i}")).collect();
        assert_eq!(ask(&format!("bytes={}", backwards.join(",")), 100), ResolvedRanges::Excessive);
    }

    #[test]
    fn if_range_compares_strong_tags_and_strong_dates() {
        let at = |seconds| Timestamp { seconds, nanos: 7 };
        let (tag, modified, now) = (ETag::parse("\"a\""), Some(at(784_111_777)), at(784_111_778));
        let holds = |value| if_range_holds(value, tag.as_ref(), modified, now);
        assert!(holds("\"a\""));
        assert!(holds("Sun, 06 Nov 1994 08:49:37 GMT"));
        for no in ["\"b\"", "W/\"a\"", "a", "", "Sun, 06 Nov 1994 08:49:38 GMT", "Sun, 06 Nov 1994 08:49:36 GMT"] {
            assert!(!holds(no), "{no}");
        }
        // The file changed within the present second: the date is weak.
        assert!(!if_range_holds("Sun, 06 Nov 1994 08:49:37 GMT", None, modified, at(784_111_777)));
        assert!(!if_range_holds("\"a\"", None, None, now));
    }

    proptest! {
        #[test]
        fn every_part_lies_within(value in "bytes=([0-9]{0,20}-[0-9]{0,20},){1,5}", size in any::<u64>()) {
            crate::fuzzing::range([&size.to_le_bytes()[..], value.as_bytes()].concat().as_slice());
        }

        #[test]
        fn a_range_covers_exactly_its_bytes(first in 0u64..100, len in 1u64..100, size in 1u64..150) {
            let bytes: Vec<u64> = (0..size).filter(|at| (first..first + len).contains(at)).collect();
            match ask(&format!("bytes={first}-{}", first + len - 1), size) {
                ResolvedRanges::Parts(parts) => prop_assert_eq!((parts[0].start..parts[0].end()).collect::<Vec<_>>(), bytes),
                other => prop_assert!(bytes.is_empty() && other == ResolvedRanges::Unsatisfiable),
            }
        }
    }
}
