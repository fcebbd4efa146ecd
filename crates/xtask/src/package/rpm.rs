//! An RPM package, for Enterprise Linux 8 and 9 and its relatives: the files of the Debian package at the same places, with RPM's scripts. A
//! library writes the format, so that the package is made on any system.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::{GeneratedFiles, PackageCompression, PackageOptions, changelog, depends, repository_file, system_files};

/// The path of zsh's completions.
const ZSH: &str = "usr/share/zsh/site-functions/_longhaul";
/// The directories that belong to the package, and to no other one.
const DIRECTORIES: [&str; 5] = [
    "/etc/longhaul",
    "/usr/lib/longhaul",
    "/usr/share/longhaul",
    "/usr/share/doc/longhaul",
    "/usr/share/licenses/longhaul",
];
const DESCRIPTION: &str = "\
Turns an ordinary host into a data transfer node for paths up to 300 ms long:
one job fills the path, verified end to end, encrypted, and resumed where it
stopped. Speaks a protocol of its own, HTTP, WebDAV, XRootD and third-party
copy on one port; measures paths, disks and hosts, and says what limits them.";

/// Builds the package; returns its path.
///
/// # Errors
/// A file cannot be read or written.
pub fn build(options: &PackageOptions, generated: &GeneratedFiles) -> Result<PathBuf> {
    let mut builder = PackageBuilder::new(
        "longhaul",
        &options.version,
        env!("CARGO_PKG_LICENSE"),
        generated.machine.name(),
        "Moves science data between sites",
    );
    let compression = match options.compression {
        PackageCompression::Best => CompressionWithLevel::Gzip(9),
        PackageCompression::None => CompressionWithLevel::None,
    };
    let epoch = u32::try_from(options.epoch).context("the time of the commit is beyond 2106")?;
    builder.using_config(BuildConfig::v4().compression(compression).source_date(epoch));
    builder.description(DESCRIPTION).vendor("The authors of Longhaul").build_host("reproducible");
    let packager = changelog::maintainer();
    builder.packager(&packager).group("Applications/Internet");
    let version = format!("{packager} - {}-1", options.version);
    builder.add_changelog_entry(version, "- See /usr/share/doc/longhaul/CHANGELOG.md.", epoch);
    for directory in DIRECTORIES {
        builder.with_dir_entry(FileOptions::dir(directory).permissions(0o755))?;
    }
    let mut files = system_files(generated, ZSH)?;
    files.insert("usr/share/licenses/longhaul/LICENSE".to_owned(), (0o644, repository_file("LICENSE")?));
    files.insert("usr/share/doc/longhaul/CHANGELOG.md".to_owned(), (0o644, repository_file("CHANGELOG.md")?));
    for (path, (mode, bytes)) in files {
        let mode = u16::try_from(mode).context("a mode has 12 bits")?;
        let file = FileOptions::new(format!("/{path}")).permissions(mode);
        let file = match path.as_str() {
            path if path.starts_with("etc/") => file.config().noreplace(),
            path if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") => file.doc(),
            path if path.starts_with("usr/share/licenses/") => file.license(),
            _ => file,
        };
        builder.with_file_contents(bytes, file)?;
    }
    builder.requires(Dependency::any(depends::glibc(&generated.program)?));
    for needed in ["libgcc_s.so.1()(64bit)", "/bin/sh", "systemd", "shadow-utils"] {
        builder.requires(Dependency::any(needed));
    }
    builder.recommends(Dependency::any("ca-certificates"));
    let script = |name: &str| {
        Ok::<String, anyhow::Error>(String::from_utf8(repository_file(&format!("packaging/rpm/{name}"))?)?)
    };
    builder.post_install_script(script("post")?);
    builder.pre_uninstall_script(script("preun")?);
    builder.post_uninstall_script(script("postun")?);
    fs::create_dir_all(&options.out)?;
    let path = options.out.join(format!("longhaul-{}-1.{}.rpm", options.version, generated.machine.name()));
    builder.build()?.write_file(&path)?;
    Ok(path)
}
