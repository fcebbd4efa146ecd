//! A hash that is the same for ever: for names and seeds that must not change from one run to the next.

/// FNV-1a, 64 bits (draft-eastlake-fnv). Not for what strangers choose.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
