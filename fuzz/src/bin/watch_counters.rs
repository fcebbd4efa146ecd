//! Feeds any bytes to `watch::fuzzing::counters`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| watch::fuzzing::counters(bytes));
