//! What a built program gives to its package: itself without what only debuggers read, its manual, its completions, its version.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What the program prints for these words.
fn says(binary: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let out = Command::new(binary).args(words).output().with_context(|| format!("cannot run {}", binary.display()))?;
    ensure!(out.status.success(), "{} {words:?}: {}", binary.display(), String::from_utf8_lossy(&out.stderr).trim());
    Ok(out.stdout)
}

/// A directory that goes when this does.
pub(super) struct Workplace(std::path::PathBuf);

impl Workplace {
    /// An empty one.
    pub fn new(what: &str) -> Result<Workplace> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("longhaul-{what}-{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Workplace(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `0.1.0`, of `longhaul 0.1.0`.
pub fn version(binary: &Path) -> Result<String> {
    let said = String::from_utf8(says(binary, &["--version"])?)?;
    let version = said.trim().strip_prefix("longhaul ").with_context(|| format!("{said:?} is no version"))?;
    Ok(version.to_owned())
}

/// The program without symbols and lines of source, which no user reads. binutils, which every C compiler needs, has `strip`.
pub fn stripped(binary: &Path) -> Result<Vec<u8>> {
    let work = Workplace::new("strip")?;
    let copy = work.path().join("longhaul");
    fs::copy(binary, &copy).with_context(|| format!("cannot copy {}", binary.display()))?;
    let strip = Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(&copy).status();
    ensure!(strip.context("cannot run strip (package binutils)")?.success(), "strip failed");
    Ok(fs::read(copy)?)
}

/// The manual: names and pages, sorted.
pub fn manual(binary: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let work = Workplace::new("manual")?;
    says(binary, &["man", "--out", &work.path().display().to_string()])?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(work.path())? {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    pages.sort();
    ensure!(pages.iter().any(|(name, _)| name == "longhaul.1"), "the manual has no first page");
    Ok(pages)
}

/// What a shell reads to complete words.
pub fn completions(binary: &Path, shell: &str) -> Result<Vec<u8>> {
    says(binary, &["completions", shell])
}
