//! `cargo xtask try-deb`: the package on a system of its own, with a real systemd, from installing to purging. The work is
//! `packaging/try.sh`'s; this builds the two packages that it upgrades between.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::demo::repository;
use crate::package::{PackageOptions, Squeeze};

/// Builds, and tries. The later package differs by its version alone.
pub fn run(words: &[&str]) -> Result<()> {
    let order = PackageOptions { squeeze: Squeeze::None, ..PackageOptions::parse(words)? };
    let out = order.out.join("try");
    let first = PackageOptions { out: out.clone(), ..order.clone() }.deb()?;
    let later = PackageOptions { out, version: format!("{}+later", order.version), ..order }.deb()?;
    println!("{} and {}", first.display(), later.display());
    let status = Command::new("sh").arg(repository().join("packaging/try.sh")).arg(&first).arg(&later).status();
    ensure!(status.context("cannot run packaging/try.sh")?.success(), "the package did not stand the trial");
    Ok(())
}
