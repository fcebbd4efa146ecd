//! Feeds any bytes to `model::fuzzing::json`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::fuzzing::json(bytes));
