//! Feeds any bytes to `model::fuzzing::path`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::fuzzing::path(bytes));
