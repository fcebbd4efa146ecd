//! Feeds any bytes to `web::fuzzing::lock`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| web::fuzzing::lock(bytes));
