//! Feeds any bytes to `probe::fuzzing::iperf3_datagrams`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probe::fuzzing::iperf3_datagrams(bytes));
