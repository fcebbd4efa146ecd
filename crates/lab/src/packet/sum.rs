//! The Internet checksum (RFC 1071): 16-bit words added in ones' complement.
//!
//! Does not know: where a checksum is, or which bytes it covers.

/// Adds two sums, carry and all.
pub fn plus(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry the sum is at most 0xfffe: there is no second carry.
    sum.wrapping_add(u16::from(carry))
}

/// The sum of bytes taken as big-endian words; a last odd byte is the upper half of its word.
pub fn sum(bytes: &[u8]) -> u16 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let words: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    let mut total = words + odd.first().map_or(0, |byte| u64::from(*byte) << 8);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// The new value of `sum`, which covers `old`, after `old` became `new`.
pub fn replaced(sum: u16, old: u16, new: u16) -> u16 {
    plus(plus(sum, !old), new)
}

/// The checksum field `check` after a word under it changed from `old` to `new` (RFC 1624, equation 3).
pub fn repaired(check: u16, old: u16, new: u16) -> u16 {
    !replaced(!check, old, new)
}

/// A checksum as UDP writes it, for which 0 means "none".
pub fn never_zero(check: u16) -> u16 {
    if check == 0 { 0xffff } else { check }
}
