//! Feeds any bytes to `xroot::fuzzing::text`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xroot::fuzzing::text(bytes));
