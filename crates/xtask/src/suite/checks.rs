//! The checks before any test runs: format and dependencies.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::demo::repository;

/// The checks of `cargo deny` that need no network. Advisories are checked separately: their database must be fetched.
const DEPENDENCIES: [&str; 4] = ["check", "bans", "licenses", "sources"];

/// `cargo fmt --check`.
///
/// # Errors
/// A file is not formatted.
pub fn format() -> Result<()> {
    cargo(&["fmt", "--check"]).context("run `cargo fmt` to format the files above")
}

/// Checks licences, sources, banned and duplicate crates (`deny.toml`), and advisories if their database can be fetched. Returns the
/// checks that were skipped.
///
/// # Errors
/// A dependency breaks a rule of deny.toml, or has an advisory.
pub fn dependencies() -> Result<Vec<String>> {
    let Some(program) = cargo_deny() else {
        let remedy = "`cargo install --locked cargo-deny` installs it";
        return Ok(vec![format!("SKIPPED: dependencies: cargo-deny is not installed; {remedy}")]);
    };
    let status = Command::new(&program).args(DEPENDENCIES).current_dir(repository()).status()?;
    ensure!(status.success(), "a dependency breaks a rule of deny.toml");
    advisories(&program)
}

fn advisories(program: &PathBuf) -> Result<Vec<String>> {
    let fetched =
        Command::new(program).args(["fetch", "db"]).current_dir(repository()).stderr(Stdio::null()).status()?;
    if !fetched.success() {
        return Ok(vec!["SKIPPED: advisories: the RustSec database cannot be fetched from here".to_owned()]);
    }
    let status = Command::new(program).args(["check", "advisories"]).current_dir(repository()).status()?;
    ensure!(status.success(), "a dependency has an advisory");
    Ok(Vec::new())
}

/// The cargo-deny that scripts/setup.sh installed, or the machine's.
fn cargo_deny() -> Option<PathBuf> {
    let installed = repository().join("target/tools/bin/cargo-deny");
    let runs =
        |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    [installed, "cargo-deny".into()].into_iter().find(runs)
}

/// Runs cargo in the repository.
///
/// # Errors
/// cargo cannot be run, or fails.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status =
        Command::new(program).args(arguments).current_dir(repository()).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments[0]);
    Ok(())
}
