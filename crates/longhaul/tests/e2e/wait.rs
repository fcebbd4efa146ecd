//! Waiting for facts, and reporting what could not be tested.

use std::io::Write;
use std::time::{Duration, Instant};

/// The time within which every expected event happens, on a loaded machine.
pub const LONG: Duration = Duration::from_secs(120);

/// Waits until something holds; fails the test with its name if it does not in time.
pub fn until(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {within:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a value exists.
pub fn until_some<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, within, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

/// Reports that a test could not run on this machine. It bypasses the harness, which hides the output of passing tests.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}
