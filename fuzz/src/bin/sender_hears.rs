//! Feeds any bytes to `wire::fuzzing::sender_hears`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::sender_hears(bytes));
