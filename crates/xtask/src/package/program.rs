//! The parts of a package that are made from a built program: the program without debugging symbols, its manual, completions and version.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The output of the program with these arguments.
fn output_of(binary: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let out = Command::new(binary).args(words).output().with_context(|| format!("cannot run {}", binary.display()))?;
    ensure!(out.status.success(), "{} {words:?}: {}", binary.display(), String::from_utf8_lossy(&out.stderr).trim());
    Ok(out.stdout)
}

/// A temporary directory that is removed when it is dropped.
pub(super) struct WorkDirectory(std::path::PathBuf);

impl WorkDirectory {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(what: &str) -> Result<WorkDirectory> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("longhaul-{what}-{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(WorkDirectory(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The version of the program: `0.1.0`, if it prints `longhaul 0.1.0`.
///
/// # Errors
/// The program cannot be run, or prints no version.
pub fn version(binary: &Path) -> Result<String> {
    let text = String::from_utf8(output_of(binary, &["--version"])?)?;
    let version = text.trim().strip_prefix("longhaul ").with_context(|| format!("{text:?} is not a version"))?;
    Ok(version.to_owned())
}

/// The program without debugging symbols. `strip` is in binutils, which every C compiler needs.
///
/// # Errors
/// The program cannot be copied, or strip(1) fails.
pub fn stripped(binary: &Path) -> Result<Vec<u8>> {
    let work = WorkDirectory::new("strip")?;
    let copy = work.path().join("longhaul");
    fs::copy(binary, &copy).with_context(|| format!("cannot copy {}", binary.display()))?;
    let strip = Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(&copy).status();
    ensure!(strip.context("cannot run strip (package binutils)")?.success(), "strip failed");
    Ok(fs::read(copy)?)
}

/// What readelf(1), of binutils, tells of a program.
///
/// # Errors
/// It cannot be run, or cannot read the program.
pub fn readelf(option: &str, program: &Path) -> Result<String> {
    let out = Command::new("readelf").args([option, "--wide"]).arg(program).env("LC_ALL", "C").output();
    let out = out.context("cannot run readelf (package binutils)")?;
    ensure!(out.status.success(), "readelf: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The pages of the manual with their names, sorted.
///
/// # Errors
/// The program fails, or writes no first page.
pub fn manual(binary: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let work = WorkDirectory::new("manual")?;
    output_of(binary, &["man", "--out", &work.path().display().to_string()])?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(work.path())? {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    pages.sort();
    ensure!(pages.iter().any(|(name, _)| name == "longhaul.1"), "the manual has no first page");
    Ok(pages)
}

/// The completion script for a shell.
///
/// # Errors
/// The program fails.
pub fn completions(binary: &Path, shell: &str) -> Result<Vec<u8>> {
    output_of(binary, &["completions", shell])
}
