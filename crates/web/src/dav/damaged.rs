//! Inputs for property tests: damaged documents of real clients and servers, and arbitrary bytes.

use proptest::prelude::*;
use proptest::sample::Index;

/// `document` with one byte changed and, half of the time, its end cut off; or just any bytes.
pub fn damaged(document: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let cut = prop_oneof![Just(None), any::<Index>().prop_map(Some)];
    let changed = (any::<Index>(), any::<u8>(), cut).prop_map(|(at, byte, cut)| {
        let mut bytes = document.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    });
    prop_oneof![3 => changed, 1 => proptest::collection::vec(any::<u8>(), 0..300)]
}
