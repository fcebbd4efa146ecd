//! Feeds any bytes to `auth::fuzzing::certificates`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| auth::fuzzing::certificates(bytes));
