//! An archive for hosts without Debian's tools. It is unpacked below /usr/local, as its INSTALL.md explains.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{
    COMPLETIONS, DOCUMENTS, Files, GeneratedFiles, PackageCompression, PackageOptions, repository_file, units,
};

/// Paths of the Debian package in units and settings, and those of the archive.
const PATH_REPLACEMENTS: [(&str, &str); 3] = [
    ("/usr/bin/longhaul", "/usr/local/bin/longhaul"),
    ("/usr/lib/longhaul", "/usr/local/lib/longhaul"),
    ("/usr/share/doc", "/usr/local/share/doc"),
];

fn files(generated: &GeneratedFiles) -> Result<Files> {
    let mut files = Files::new();
    let mut add = |path: &str, mode: u32, bytes: Vec<u8>| {
        files.insert(path.to_owned(), (mode, bytes));
    };
    add("bin/longhaul", 0o755, generated.program.clone());
    for (name, page) in &generated.manual {
        add(&format!("share/man/man1/{name}"), 0o644, page.clone());
    }
    for ((_, _, path), text) in COMPLETIONS.iter().zip(&generated.completions) {
        add(path, 0o644, text.clone());
    }
    let with_local_paths = |path: &str| -> Result<Vec<u8>> {
        let text = String::from_utf8(repository_file(path)?)?;
        Ok(PATH_REPLACEMENTS.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes())
    };
    for (name, unit) in units::of_services(&with_local_paths("packaging/longhaul.service")?)? {
        add(&format!("lib/systemd/system/{name}"), 0o644, unit);
    }
    add("lib/systemd/system/longhaul-netns@.service", 0o644, with_local_paths("packaging/longhaul-netns@.service")?);
    add("lib/longhaul/longhaul-netns", 0o755, repository_file("packaging/longhaul-netns")?);
    add("lib/sysusers.d/longhaul.conf", 0o644, repository_file("packaging/sysusers.conf")?);
    add("lib/tmpfiles.d/longhaul.conf", 0o644, repository_file("packaging/tmpfiles.conf")?);
    add("share/longhaul/grafana-dashboard.json", 0o644, repository_file("packaging/grafana-dashboard.json")?);
    for name in ["longhaul.toml", "hub.toml", "watch.toml"] {
        add(&format!("etc/longhaul/{name}"), 0o644, with_local_paths(&format!("packaging/{name}"))?);
    }
    for path in DOCUMENTS {
        let name = path.rsplit('/').next().unwrap_or(path);
        add(&format!("share/doc/longhaul/{name}"), 0o644, repository_file(path)?);
    }
    for name in ["LICENSE", "CHANGELOG.md"] {
        add(&format!("share/doc/longhaul/{name}"), 0o644, repository_file(name)?);
    }
    add("INSTALL.md", 0o644, repository_file("docs/install.md")?);
    Ok(files)
}

/// Writes the archive; returns its path.
///
/// # Errors
/// A file cannot be read or written.
pub fn build(options: &PackageOptions, generated: &GeneratedFiles) -> Result<PathBuf> {
    let name = format!("longhaul-{}-{}", options.version, generated.machine.name());
    write_archive(options, &name, &format!("{name}/"), files(generated)?)
}

/// Writes files into an archive `NAME.tar.gz`, below a directory of it; returns its path. Files are ordered by name, belong to root and have
/// one time.
///
/// # Errors
/// The archive cannot be written.
pub(super) fn write_archive(options: &PackageOptions, name: &str, below: &str, files: Files) -> Result<PathBuf> {
    fs::create_dir_all(&options.out)?;
    let path = options.out.join(format!("{name}.tar.gz"));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let level = if options.compression == PackageCompression::Best { Compression::best() } else { Compression::none() };
    let mut tar = tar::Builder::new(GzEncoder::new(file, level));
    for (path, (mode, bytes)) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(options.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        tar.append_data(&mut header, format!("{below}{path}"), bytes.as_slice())?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(path)
}
