//! Feeds any bytes to `foreign::fuzzing::refusal`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| foreign::fuzzing::refusal(bytes));
