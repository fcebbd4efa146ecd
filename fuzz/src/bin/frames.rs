//! Feeds any bytes to `wire::fuzzing::frames`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::frames(bytes));
