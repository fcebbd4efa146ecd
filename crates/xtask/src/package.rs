//! `cargo xtask deb`, `rpm`, `dist`: packages a built program as a Debian package, as an RPM package or as an archive. [`deb`], [`rpm`] and
//! [`dist`] list the files and write the formats. The same commit and program give the same bytes. `cargo xtask release` makes all of them and
//! checks what is promised of a published program ([`release`]).

mod changelog;
mod deb;
mod depends;
mod dist;
mod machine;
mod program;
mod release;
mod rpm;
mod symbols;
mod units;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use self::machine::ElfMachine;
use crate::demo::{binary, repository};

pub use self::deb::PackageCompression;

/// The documents in a package.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "docs/install.md",
    "docs/operate.md",
    "docs/metrics.md",
    "docs/usage.md",
    "docs/http.md",
    "docs/lab.md",
];
/// Shells, with the path of their completions in a package and in an archive; zsh's is Debian's.
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
    /// A program of the same version that runs on this machine: it writes the manual and the completions.
    pub documented_by: PathBuf,
    /// The version of the package, by default that of the program.
    pub version: String,
    /// The directory for the result.
    pub out: PathBuf,
    /// The modification time of all files in it, seconds since 1970.
    pub epoch: u64,
    /// The compression of the package.
    pub compression: PackageCompression,
}

/// Files by path: mode and content.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// The files that are generated from the program.
struct GeneratedFiles {
    program: Vec<u8>,
    /// The machine that the program is for.
    machine: ElfMachine,
    /// Pages of the manual, by name.
    manual: Vec<(String, Vec<u8>)>,
    /// In the order of [`COMPLETIONS`].
    completions: Vec<Vec<u8>>,
}

impl PackageOptions {
    /// Reads the words of a command line: `--binary FILE`, `--documented-by FILE`, `--version V`, `--out DIR`.
    ///
    /// # Errors
    /// An option is unknown or lacks its value, or the program or the time of the commit cannot be found.
    pub fn parse(words: &[&str]) -> Result<PackageOptions> {
        let mut program = None;
        let mut documented_by = None;
        let mut version = None;
        let mut out = repository().join("target/dist");
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} needs a value"))?;
            match *word {
                "--binary" => program = Some(PathBuf::from(value)),
                "--documented-by" => documented_by = Some(PathBuf::from(value)),
                "--version" => version = Some((*value).to_owned()),
                "--out" => out = PathBuf::from(value),
                _ => bail!(
                    "{word} is not an option; the options are --binary FILE, --documented-by FILE, --version V, --out DIR"
                ),
            }
        }
        let binary = program.map_or_else(|| binary("release"), Ok)?;
        let documented_by = documented_by.unwrap_or_else(|| binary.clone());
        let version = version.map_or_else(|| program::version(&documented_by), Ok)?;
        let (epoch, compression) = (epoch()?, PackageCompression::Best);
        Ok(PackageOptions { binary, documented_by, version, out, epoch, compression })
    }

    /// Makes a Debian package; returns its path.
    ///
    /// # Errors
    /// A file cannot be read or written, or a tool fails.
    pub fn deb(&self) -> Result<PathBuf> {
        let generated = GeneratedFiles::of(self)?;
        let package = deb::build(self, &generated)?;
        write_checksums(&self.out)?;
        Ok(package)
    }

    /// Makes an RPM package; returns its path.
    ///
    /// # Errors
    /// A file cannot be read or written, or a tool fails.
    pub fn rpm(&self) -> Result<PathBuf> {
        let generated = GeneratedFiles::of(self)?;
        let package = rpm::build(self, &generated)?;
        write_checksums(&self.out)?;
        Ok(package)
    }

    /// Makes an archive; returns its path.
    ///
    /// # Errors
    /// A file cannot be read or written, or a tool fails.
    pub fn dist(&self) -> Result<PathBuf> {
        let generated = GeneratedFiles::of(self)?;
        let archive = dist::build(self, &generated)?;
        write_checksums(&self.out)?;
        Ok(archive)
    }

    /// Makes all that is published of a version; returns the directory.
    ///
    /// # Errors
    /// The program breaks a promise, a file cannot be read or written, or a tool fails.
    pub fn release(&self) -> Result<PathBuf> {
        release::build(self)
    }
}

impl GeneratedFiles {
    fn of(options: &PackageOptions) -> Result<GeneratedFiles> {
        let program = program::stripped(&options.binary)?;
        let documented_by = &options.documented_by;
        Ok(GeneratedFiles {
            machine: ElfMachine::of(&program)?,
            program,
            manual: program::manual(documented_by)?,
            completions: COMPLETIONS
                .iter()
                .map(|(shell, ..)| program::completions(documented_by, shell))
                .collect::<Result<_>>()?,
        })
    }
}

/// The files of a package below the root of a system; `zsh` is the path of zsh's completions there.
fn system_files(generated: &GeneratedFiles, zsh: &str) -> Result<Files> {
    let mut files = Files::new();
    let mut add = |path: &str, mode: u32, bytes: Vec<u8>| {
        files.insert(path.to_owned(), (mode, bytes));
    };
    add("usr/bin/longhaul", 0o755, generated.program.clone());
    for (name, page) in &generated.manual {
        add(&format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(page)?);
    }
    for ((shell, path, _), text) in COMPLETIONS.iter().zip(&generated.completions) {
        add(if *shell == "zsh" { zsh } else { path }, 0o644, text.clone());
    }
    for (name, unit) in units::of_services(&repository_file("packaging/longhaul.service")?)? {
        add(&format!("usr/lib/systemd/system/{name}"), 0o644, unit);
    }
    for (path, mode, source) in [
        ("usr/lib/systemd/system/longhaul-netns@.service", 0o644, "packaging/longhaul-netns@.service"),
        ("usr/lib/longhaul/longhaul-netns", 0o755, "packaging/longhaul-netns"),
        ("usr/lib/sysusers.d/longhaul.conf", 0o644, "packaging/sysusers.conf"),
        ("usr/lib/tmpfiles.d/longhaul.conf", 0o644, "packaging/tmpfiles.conf"),
        ("usr/share/longhaul/grafana-dashboard.json", 0o644, "packaging/grafana-dashboard.json"),
        ("etc/longhaul/longhaul.toml", 0o644, "packaging/longhaul.toml"),
        ("etc/longhaul/hub.toml", 0o644, "packaging/hub.toml"),
        ("etc/longhaul/watch.toml", 0o644, "packaging/watch.toml"),
    ] {
        add(path, mode, repository_file(source)?);
    }
    for path in DOCUMENTS {
        let name = path.rsplit('/').next().unwrap_or(path);
        add(&format!("usr/share/doc/longhaul/{name}"), 0o644, repository_file(path)?);
    }
    Ok(files)
}

/// The content of a file of the repository.
fn repository_file(path: &str) -> Result<Vec<u8>> {
    fs::read(repository().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The value of `SOURCE_DATE_EPOCH` (reproducible-builds.org), or else the time of the commit.
fn epoch() -> Result<u64> {
    if let Ok(value) = std::env::var("SOURCE_DATE_EPOCH") {
        return value.trim().parse().context("SOURCE_DATE_EPOCH is not a number of seconds");
    }
    let git = Command::new("git").arg("-C").arg(repository()).args(["log", "-1", "--format=%ct"]).output();
    let git = git.context("cannot ask git for the time of the commit; set SOURCE_DATE_EPOCH")?;
    ensure!(git.status.success(), "git has no commit here; set SOURCE_DATE_EPOCH");
    String::from_utf8(git.stdout)?.trim().parse().context("git printed no time")
}

/// Compresses bytes, without a name and a time in the result.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// Writes SHA256SUMS of the packages, archives and bills of materials in a directory, for `sha256sum --check`.
fn write_checksums(dir: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if [".deb", ".rpm", ".tar.gz", ".cdx.json"].iter().any(|end| name.ends_with(end)) {
            let digest = Sha256::digest(fs::read(dir.join(&name))?);
            let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
            lines.push(format!("{hex}  {name}\n"));
        }
    }
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    fs::write(dir.join("SHA256SUMS"), lines.concat())?;
    Ok(())
}
