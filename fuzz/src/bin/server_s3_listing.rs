//! Feeds any bytes to `remote::fuzzing::s3_listing`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remote::fuzzing::s3_listing(bytes));
