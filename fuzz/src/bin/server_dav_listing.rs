//! Feeds any bytes to `foreign::fuzzing::dav_listing`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| foreign::fuzzing::dav_listing(bytes));
