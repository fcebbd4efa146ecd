//! Feeds any bytes to `remote::fuzzing::dav_listing`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remote::fuzzing::dav_listing(bytes));
