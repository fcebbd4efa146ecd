//! Feeds any bytes to `lab::fuzzing::packet`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lab::fuzzing::packet(bytes));
