//! A Debian package: files where Debian has them, what the package says of itself, and `dpkg-deb`, which binds it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use md5::{Digest, Md5};

use super::program::Workplace;
use super::{COMPLETIONS, DOCUMENTS, Files, GeneratedFiles, PackageOptions, changelog, depends, gzip, instance, ours};

/// How hard a package or an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squeeze {
    /// As packages are that travel.
    Hard,
    /// Not at all: for tests.
    None,
}

/// What belongs to the package's own script directory, with its mode.
const SCRIPTS: [(&str, u32); 4] = [("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755), ("conffiles", 0o644)];

fn files(order: &PackageOptions, parts: &GeneratedFiles) -> Result<Files> {
    let mut files = Files::new();
    let mut add = |path: &str, mode: u32, bytes: Vec<u8>| {
        files.insert(path.to_owned(), (mode, bytes));
    };
    add("usr/bin/longhaul", 0o755, parts.program.clone());
    for (name, page) in &parts.manual {
        add(&format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(page)?);
    }
    for ((_, path, _), text) in COMPLETIONS.iter().zip(&parts.completions) {
        add(path, 0o644, text.clone());
    }
    add("usr/lib/systemd/system/longhaul.service", 0o644, ours("packaging/longhaul.service")?);
    add("usr/lib/systemd/system/longhaul@.service", 0o644, instance::unit(&ours("packaging/longhaul.service")?)?);
    add("usr/lib/systemd/system/longhaul-netns@.service", 0o644, ours("packaging/longhaul-netns@.service")?);
    add("usr/lib/longhaul/longhaul-netns", 0o755, ours("packaging/longhaul-netns")?);
    add("usr/lib/sysusers.d/longhaul.conf", 0o644, ours("packaging/sysusers.conf")?);
    add("usr/lib/tmpfiles.d/longhaul.conf", 0o644, ours("packaging/tmpfiles.conf")?);
    add("usr/share/longhaul/grafana-dashboard.json", 0o644, ours("packaging/grafana-dashboard.json")?);
    add("etc/longhaul/longhaul.toml", 0o644, ours("packaging/longhaul.toml")?);
    for path in DOCUMENTS {
        let name = path.rsplit('/').next().unwrap_or(path);
        add(&format!("usr/share/doc/longhaul/{name}"), 0o644, ours(path)?);
    }
    add("usr/share/doc/longhaul/copyright", 0o644, ours("packaging/debian/copyright")?);
    let changes = String::from_utf8(ours("CHANGELOG.md")?)?;
    let changes = changelog::debian(&changes, &order.version, order.epoch, &changelog::maintainer());
    add("usr/share/doc/longhaul/changelog.gz", 0o644, gzip(changes.as_bytes())?);
    Ok(files)
}

fn control(order: &PackageOptions, parts: &GeneratedFiles, files: &Files, architecture: &str) -> Result<String> {
    // In KiB, each file's own rounded up, as dpkg-gencontrol counts.
    let size: usize = files.values().map(|(_, bytes)| bytes.len().div_ceil(1024)).sum();
    Ok(format!(
        "Package: longhaul\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\nInstalled-Size: {size}\n\
         Depends: {}, passwd\nRecommends: ca-certificates\nSuggests: iproute2, openssh-client\nSection: net\n\
         Priority: optional\nDescription: moves science data between sites\n Turns an ordinary host into a data transfer node \
         for paths up to 300 ms long:\n one job fills the path, verified end to end, encrypted, and resumed where it\n \
         stopped. Speaks a protocol of its own, HTTP, WebDAV and third-party copy on\n one port; measures paths, disks and \
         hosts, and says what limits them.\n",
        order.version,
        changelog::maintainer(),
        depends::of(&parts.program)?,
    ))
}

/// `MD5SUMS` of all files, by which `dpkg --verify` knows them.
fn md5sums(files: &Files) -> String {
    let line = |(path, (_, bytes)): (&String, &(u32, Vec<u8>))| {
        let hex: String = Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        format!("{hex}  {path}\n")
    };
    // Settings are the administrator's to change.
    files.iter().filter(|(path, _)| !path.starts_with("etc/")).map(line).collect()
}

fn make_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // Whatever the umask: what is installed is for all to read.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn put(root: &Path, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut dir = root.to_owned();
    make_dir(&dir)?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        dir.push(part);
        make_dir(&dir)?;
    }
    let at = dir.join(name);
    fs::write(&at, bytes).with_context(|| format!("cannot write {}", at.display()))?;
    fs::set_permissions(&at, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn architecture() -> Result<String> {
    let out = Command::new("dpkg")
        .arg("--print-architecture")
        .output()
        .context("cannot run dpkg; Debian packages want it")?;
    ensure!(out.status.success(), "dpkg knows no architecture");
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

/// Binds it.
pub fn build(order: &PackageOptions, parts: &GeneratedFiles) -> Result<PathBuf> {
    let (architecture, files) = (architecture()?, files(order, parts)?);
    let work = Workplace::new("deb")?;
    let root = work.path().join("root");
    for (path, (mode, bytes)) in &files {
        put(&root, path, *mode, bytes)?;
    }
    put(&root, "DEBIAN/control", 0o644, control(order, parts, &files, &architecture)?.as_bytes())?;
    put(&root, "DEBIAN/md5sums", 0o644, md5sums(&files).as_bytes())?;
    for (name, mode) in SCRIPTS {
        put(&root, &format!("DEBIAN/{name}"), mode, &ours(&format!("packaging/debian/{name}"))?)?;
    }
    fs::create_dir_all(&order.out)?;
    let package = order.out.join(format!("longhaul_{}_{architecture}.deb", order.version));
    let squeeze = if order.squeeze == Squeeze::Hard { "-Zxz" } else { "-Znone" };
    // Times are not later than the epoch, and one thread compresses, so that the bytes are the same again.
    let out = Command::new("dpkg-deb")
        .args(["--build", "--root-owner-group", squeeze])
        .arg(&root)
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", order.epoch.to_string())
        .env("DPKG_DEB_THREADS_MAX", "1")
        .output()
        .context("cannot run dpkg-deb")?;
    ensure!(out.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(package)
}
