//! Feeds any bytes to `probe::fuzzing::twamp_request`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probe::fuzzing::twamp_request(bytes));
