//! `cargo xtask deb`, `cargo xtask dist`: packages a built program as a Debian package or an archive. The files and their places are listed here;
//! [`deb`] and [`dist`] write the two formats. The same commit and program give the same bytes.

mod changelog;
mod deb;
mod depends;
mod dist;
mod instance;
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::demo::{binary, repository};

pub use self::deb::Squeeze;

/// Documents that go along, and what they are called there.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "docs/install.md",
    "docs/operate.md",
    "docs/metrics.md",
    "docs/usage.md",
    "docs/http.md",
    "docs/lab.md",
];
/// Shells, and where each looks for completions below `share`.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/longhaul", "share/bash-completion/completions/longhaul"),
    ("zsh", "usr/share/zsh/vendor-completions/_longhaul", "share/zsh/site-functions/_longhaul"),
    ("fish", "usr/share/fish/vendor_completions.d/longhaul.fish", "share/fish/vendor_completions.d/longhaul.fish"),
];

/// Options of a package.
#[derive(Clone, Debug)]
pub struct PackageOptions {
    /// The program.
    pub binary: PathBuf,
    /// The version of the package: that of the program, or another one.
    pub version: String,
    /// Where the result goes.
    pub out: PathBuf,
    /// The modification time of all files in it, seconds since 1970.
    pub epoch: u64,
    /// How hard it is compressed.
    pub squeeze: Squeeze,
}

/// Files by path: mode and content.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// The files that are generated from the program.
struct GeneratedFiles {
    program: Vec<u8>,
    /// By page.
    manual: Vec<(String, Vec<u8>)>,
    /// In the order of [`COMPLETIONS`].
    completions: Vec<Vec<u8>>,
}

impl PackageOptions {
    /// From the words of a command line: `--binary FILE`, `--version V`, `--out DIR`.
    pub fn parse(words: &[&str]) -> Result<PackageOptions> {
        let mut program = None;
        let mut version = None;
        let mut out = repository().join("target/dist");
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} wants a value"))?;
            match *word {
                "--binary" => program = Some(PathBuf::from(value)),
                "--version" => version = Some((*value).to_owned()),
                "--out" => out = PathBuf::from(value),
                _ => bail!("{word} is no option; there are --binary FILE, --version V, --out DIR"),
            }
        }
        let binary = program.map_or_else(|| binary("release"), Ok)?;
        let version = version.map_or_else(|| program::version(&binary), Ok)?;
        Ok(PackageOptions { binary, version, out, epoch: epoch()?, squeeze: Squeeze::Hard })
    }

    /// A Debian package; where it lies.
    pub fn deb(&self) -> Result<PathBuf> {
        let parts = GeneratedFiles::of(&self.binary)?;
        let package = deb::build(self, &parts)?;
        sums(&self.out)?;
        Ok(package)
    }

    /// An archive; where it lies.
    pub fn dist(&self) -> Result<PathBuf> {
        let parts = GeneratedFiles::of(&self.binary)?;
        let archive = dist::build(self, &parts)?;
        sums(&self.out)?;
        Ok(archive)
    }
}

impl GeneratedFiles {
    fn of(binary: &Path) -> Result<GeneratedFiles> {
        Ok(GeneratedFiles {
            program: program::stripped(binary)?,
            manual: program::manual(binary)?,
            completions: COMPLETIONS
                .iter()
                .map(|(shell, ..)| program::completions(binary, shell))
                .collect::<Result<_>>()?,
        })
    }
}

/// A file of the repository.
fn ours(path: &str) -> Result<Vec<u8>> {
    fs::read(repository().join(path)).with_context(|| format!("cannot read {path}"))
}

/// When the commit was made; `SOURCE_DATE_EPOCH` says otherwise (reproducible-builds.org).
fn epoch() -> Result<u64> {
    if let Ok(said) = std::env::var("SOURCE_DATE_EPOCH") {
        return said.trim().parse().context("SOURCE_DATE_EPOCH is not a number of seconds");
    }
    let git = Command::new("git").arg("-C").arg(repository()).args(["log", "-1", "--format=%ct"]).output();
    let git = git.context("cannot ask git for the time of the commit; set SOURCE_DATE_EPOCH")?;
    ensure!(git.status.success(), "git knows no commit here; set SOURCE_DATE_EPOCH");
    String::from_utf8(git.stdout)?.trim().parse().context("git says no time")
}

/// Compressed, without name and time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// SHA256SUMS of the packages and archives in a directory, for `sha256sum --check`.
fn sums(dir: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".deb") || name.ends_with(".tar.gz") {
            let digest = Sha256::digest(fs::read(dir.join(&name))?);
            let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
            lines.push(format!("{hex}  {name}\n"));
        }
    }
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    fs::write(dir.join("SHA256SUMS"), lines.concat())?;
    Ok(())
}
