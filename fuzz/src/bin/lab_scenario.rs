//! Feeds any bytes to `lab::fuzzing::scenario`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lab::fuzzing::scenario(bytes));
