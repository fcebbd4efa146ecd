//! An archive for hosts without Debian's tools: to be unpacked below /usr/local, with notes that say how.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{COMPLETIONS, DOCUMENTS, Files, GeneratedFiles, PackageOptions, Squeeze, instance, ours};

/// Where the unit of the package looks for the program and its documents, and where those of the archive lie.
const PLACES: [(&str, &str); 3] = [
    ("/usr/bin/longhaul", "/usr/local/bin/longhaul"),
    ("/usr/lib/longhaul", "/usr/local/lib/longhaul"),
    ("/usr/share/doc", "/usr/local/share/doc"),
];

fn files(parts: &GeneratedFiles) -> Result<Files> {
    let mut files = Files::new();
    let mut add = |path: &str, mode: u32, bytes: Vec<u8>| {
        files.insert(path.to_owned(), (mode, bytes));
    };
    add("bin/longhaul", 0o755, parts.program.clone());
    for (name, page) in &parts.manual {
        add(&format!("share/man/man1/{name}"), 0o644, page.clone());
    }
    for ((_, _, path), text) in COMPLETIONS.iter().zip(&parts.completions) {
        add(path, 0o644, text.clone());
    }
    let moved = |path: &str| -> Result<Vec<u8>> {
        let text = String::from_utf8(ours(path)?)?;
        Ok(PLACES.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes())
    };
    add("lib/systemd/system/longhaul.service", 0o644, moved("packaging/longhaul.service")?);
    add("lib/systemd/system/longhaul@.service", 0o644, instance::unit(&moved("packaging/longhaul.service")?)?);
    add("lib/systemd/system/longhaul-netns@.service", 0o644, moved("packaging/longhaul-netns@.service")?);
    add("lib/longhaul/longhaul-netns", 0o755, ours("packaging/longhaul-netns")?);
    add("lib/sysusers.d/longhaul.conf", 0o644, ours("packaging/sysusers.conf")?);
    add("lib/tmpfiles.d/longhaul.conf", 0o644, ours("packaging/tmpfiles.conf")?);
    add("share/longhaul/grafana-dashboard.json", 0o644, ours("packaging/grafana-dashboard.json")?);
    add("etc/longhaul/longhaul.toml", 0o644, moved("packaging/longhaul.toml")?);
    for path in DOCUMENTS {
        let name = path.rsplit('/').next().unwrap_or(path);
        add(&format!("share/doc/longhaul/{name}"), 0o644, ours(path)?);
    }
    for name in ["LICENSE", "CHANGELOG.md"] {
        add(&format!("share/doc/longhaul/{name}"), 0o644, ours(name)?);
    }
    add("INSTALL.md", 0o644, ours("docs/install.md")?);
    Ok(files)
}

/// Packs it: in the order of names, everything root's and of one time.
pub fn build(order: &PackageOptions, parts: &GeneratedFiles) -> Result<PathBuf> {
    let name = format!("longhaul-{}-{}", order.version, std::env::consts::ARCH);
    fs::create_dir_all(&order.out)?;
    let path = order.out.join(format!("{name}.tar.gz"));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let level = if order.squeeze == Squeeze::Hard { Compression::best() } else { Compression::none() };
    let mut tar = tar::Builder::new(GzEncoder::new(file, level));
    for (below, (mode, bytes)) in files(parts)? {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(order.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        tar.append_data(&mut header, format!("{name}/{below}"), bytes.as_slice())?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(path)
}
