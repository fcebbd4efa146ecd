//! Feeds any bytes to `scenario::fuzzing::text`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scenario::fuzzing::text(bytes));
