//! `cargo xtask try-deb`: tries the package on a system of its own, with a real systemd, from installing to purging. Builds two packages;
//! `packaging/try.sh` installs the first and upgrades to the second.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::demo::repository;
use crate::package::{PackageCompression, PackageOptions};

/// Builds both packages, and tries them. They differ only in their versions.
///
/// # Errors
/// A package cannot be built, or the trial fails.
pub fn run(words: &[&str]) -> Result<()> {
    let options = PackageOptions { compression: PackageCompression::None, ..PackageOptions::parse(words)? };
    let out = options.out.join("try");
    let first = PackageOptions { out: out.clone(), ..options.clone() }.deb()?;
    let later = PackageOptions { out, version: format!("{}+later", options.version), ..options }.deb()?;
    println!("{} and {}", first.display(), later.display());
    let status = Command::new("sh").arg(repository().join("packaging/try.sh")).arg(&first).arg(&later).status();
    ensure!(status.context("cannot run packaging/try.sh")?.success(), "the trial of the package failed");
    Ok(())
}
