//! Feeds any bytes to `probe::fuzzing::stream_replies`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probe::fuzzing::stream_replies(bytes));
