//! `cargo xtask check`: what needs neither root nor system packages.

use anyhow::Result;

use crate::suite;
use crate::suite::checks::{cargo, dependencies, format};

/// Format, dependencies, lints, then the pure tests, the house rules among them.
///
/// # Errors
/// Whatever does not hold.
pub fn run() -> Result<()> {
    format()?;
    let skipped = dependencies()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    suite::run_after(&suite::Request { pure: true, ..Default::default() }, skipped)
}
