//! A Debian package: its files in Debian's directories, its control data, and `dpkg-deb`, which builds it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use md5::{Digest, Md5};

use super::program::WorkDirectory;
use super::{Files, GeneratedFiles, PackageOptions, changelog, depends, gzip, repository_file, system_files};

/// The compression of a package or an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageCompression {
    /// The best compression: for releases.
    Best,
    /// No compression: for tests.
    None,
}

/// The scripts and lists of the package's control directory, with their modes.
const CONTROL_FILES: [(&str, u32); 4] =
    [("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755), ("conffiles", 0o644)];

fn files(options: &PackageOptions, generated: &GeneratedFiles) -> Result<Files> {
    let mut files = system_files(generated, "usr/share/zsh/vendor-completions/_longhaul")?;
    let mut add = |path: &str, mode: u32, bytes: Vec<u8>| {
        files.insert(path.to_owned(), (mode, bytes));
    };
    add("usr/share/doc/longhaul/copyright", 0o644, repository_file("packaging/debian/copyright")?);
    let changes = String::from_utf8(repository_file("CHANGELOG.md")?)?;
    let changes = changelog::debian(&changes, &options.version, options.epoch, &changelog::maintainer());
    add("usr/share/doc/longhaul/changelog.gz", 0o644, gzip(changes.as_bytes())?);
    Ok(files)
}

fn control(options: &PackageOptions, generated: &GeneratedFiles, files: &Files) -> Result<String> {
    // In KiB; the size of each file is rounded up, as dpkg-gencontrol does.
    let size: usize = files.values().map(|(_, bytes)| bytes.len().div_ceil(1024)).sum();
    let architecture = generated.machine.debian();
    Ok(format!(
        "Package: longhaul\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\nInstalled-Size: {size}\n\
         Depends: {}, passwd\nRecommends: ca-certificates\nSuggests: iproute2, openssh-client\nSection: net\n\
         Priority: optional\nDescription: moves science data between sites\n Turns an ordinary host into a data transfer node \
         for paths up to 300 ms long:\n one job fills the path, verified end to end, encrypted, and resumed where it\n \
         stopped. Speaks a protocol of its own, HTTP, WebDAV and third-party copy on\n one port; measures paths, disks and \
         hosts, and says what limits them.\n",
        options.version,
        changelog::maintainer(),
        depends::of(&generated.program, generated.machine)?,
    ))
}

/// The MD5 sums of all files, which `dpkg --verify` compares.
fn md5sums(files: &Files) -> String {
    let line = |(path, (_, bytes)): (&String, &(u32, Vec<u8>))| {
        let hex: String = Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        format!("{hex}  {path}\n")
    };
    // The administrator may change settings.
    files.iter().filter(|(path, _)| !path.starts_with("etc/")).map(line).collect()
}

fn make_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // Everybody may read installed files, whatever the umask is.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn write_file(root: &Path, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut dir = root.to_owned();
    make_dir(&dir)?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        dir.push(part);
        make_dir(&dir)?;
    }
    let file = dir.join(name);
    fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Builds the package; returns its path.
///
/// # Errors
/// A file cannot be read or written, or a tool fails.
pub fn build(options: &PackageOptions, generated: &GeneratedFiles) -> Result<PathBuf> {
    let architecture = generated.machine.debian();
    let files = files(options, generated)?;
    let work = WorkDirectory::new("deb")?;
    let root = work.path().join("root");
    for (path, (mode, bytes)) in &files {
        write_file(&root, path, *mode, bytes)?;
    }
    write_file(&root, "DEBIAN/control", 0o644, control(options, generated, &files)?.as_bytes())?;
    write_file(&root, "DEBIAN/md5sums", 0o644, md5sums(&files).as_bytes())?;
    for (name, mode) in CONTROL_FILES {
        write_file(&root, &format!("DEBIAN/{name}"), mode, &repository_file(&format!("packaging/debian/{name}"))?)?;
    }
    fs::create_dir_all(&options.out)?;
    let package = options.out.join(format!("longhaul_{}_{architecture}.deb", options.version));
    let compression = if options.compression == PackageCompression::Best { "-Zxz" } else { "-Znone" };
    // No time is later than the epoch, and one thread compresses, so that the same input gives the same bytes.
    let out = Command::new("dpkg-deb")
        .args(["--build", "--root-owner-group", compression])
        .arg(&root)
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", options.epoch.to_string())
        .env("DPKG_DEB_THREADS_MAX", "1")
        .output()
        .context("cannot run dpkg-deb")?;
    ensure!(out.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(package)
}
