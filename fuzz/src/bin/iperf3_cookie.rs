//! Feeds any bytes to `probe::fuzzing::cookie`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probe::fuzzing::cookie(bytes));
