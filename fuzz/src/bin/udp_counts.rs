//! Feeds any bytes to `probe::fuzzing::udp_counts`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probe::fuzzing::udp_counts(bytes));
