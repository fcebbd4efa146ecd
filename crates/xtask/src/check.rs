//! `cargo xtask check`: all checks that need neither root nor system packages.

use anyhow::Result;

use crate::suite;
use crate::suite::checks::{cargo, dependencies, format};

/// Checks format, dependencies and lints, then runs the pure tests, which include the house rules.
///
/// # Errors
/// A check or a test fails.
pub fn run() -> Result<()> {
    format()?;
    let skipped = dependencies()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    suite::run_after(&suite::Request { pure: true, ..Default::default() }, skipped)
}
