//! Feeds any bytes to `xroot::fuzzing::pages`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xroot::fuzzing::pages(bytes));
