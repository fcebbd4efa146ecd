//! What is checked before any test runs: format and dependencies.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::demo::repository;

/// What `cargo deny` is asked: advisories are apart, since their database is not where the crates are.
const DEPENDENCIES: [&str; 4] = ["check", "bans", "licenses", "sources"];

/// `cargo fmt --check`.
///
/// # Errors
/// A file is not formatted.
pub fn format() -> Result<()> {
    cargo(&["fmt", "--check"]).context("`cargo fmt` formats what is shown above")
}

/// Licences, sources, banned and doubled crates (`deny.toml`), and advisories where their database can be fetched. Returns what
/// could not be checked.
///
/// # Errors
/// A dependency is not as it should be.
pub fn dependencies() -> Result<Vec<String>> {
    let Some(program) = cargo_deny() else {
        let remedy = "`cargo install --locked cargo-deny` brings it";
        return Ok(vec![format!("SKIPPED: dependencies: cargo-deny is not here; {remedy}")]);
    };
    let status = Command::new(&program).args(DEPENDENCIES).current_dir(repository()).status()?;
    ensure!(status.success(), "dependencies are not as deny.toml wants them");
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

/// The one that set-up brought, or the machine's.
fn cargo_deny() -> Option<PathBuf> {
    let ours = repository().join("target/tools/bin/cargo-deny");
    let runs =
        |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    [ours, "cargo-deny".into()].into_iter().find(runs)
}

/// Runs cargo in the repository.
///
/// # Errors
/// It fails.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status =
        Command::new(program).args(arguments).current_dir(repository()).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments[0]);
    Ok(())
}
