//! Feeds any bytes to `watch::fuzzing::psconfig`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| watch::fuzzing::psconfig(bytes));
