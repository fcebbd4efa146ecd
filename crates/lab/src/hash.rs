//! A hash that never changes: for names and seeds that must be the same from run to run.

/// FNV-1a, 64 bits (draft-eastlake-fnv). Not for input that an attacker can choose.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
