//! Feeds any bytes to `web::fuzzing::proppatch`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| web::fuzzing::proppatch(bytes));
