//! Packaging and guides name the version of Cargo.toml: an image or a package of another version does not exist.

use anyhow::{Context, Result};

use super::{Breach, Tree};

/// What precedes a version of Longhaul: names of packages and images, the chart's field, the output of `--version`.
const PREFIXES: [&str; 4] = ["longhaul_", "longhaul:", "appVersion: \"", "`longhaul "];

/// Every version of Longhaul in packaging and guides is the present one. Results keep the version that was measured.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let manifest = tree.files.iter().find(|file| file.path == "Cargo.toml").context("there is no Cargo.toml")?;
    let manifest = text(&manifest.bytes);
    let present = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let present = present.context("Cargo.toml has no line `version = \"…\"`")?;
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| is_present(&file.path)) {
        for (n, line) in text(&file.bytes).lines().enumerate() {
            for version in PREFIXES.into_iter().flat_map(|prefix| versions_after(line, prefix)) {
                if version != present {
                    let what = format!("names version {version}; the version in Cargo.toml is {present}");
                    breaches.push(Breach::new(&file.path, n + 1, what));
                }
            }
        }
    }
    Ok(breaches)
}

/// Whether a file describes the present version, and not a measurement of its time.
fn is_present(path: &str) -> bool {
    path.starts_with("packaging/") || path.starts_with("docs/") && !path.starts_with("docs/results/")
}

/// The versions `1.2.3` that follow a text in a line.
fn versions_after<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    line.split(prefix).skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let version = rest[..end].trim_end_matches('.');
        (version.split('.').count() == 3).then_some(version)
    })
}

#[cfg(test)]
mod tests {
    use super::super::RepositoryFile;
    use super::*;

    #[test]
    fn another_version_is_found() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), bytes: text.into() };
        let files = vec![
            file("Cargo.toml", "[workspace.package]\nversion = \"0.2.0\"\n"),
            file("packaging/a.yaml", "image: longhaul:0.1.0\nappVersion: \"0.2.0\"\nappVersion: \"0.2.1\"\n"),
            file("docs/a.md", "Install longhaul_0.2.0_amd64.deb, longhaul_VERSION.\nExpect `longhaul 0.1.9`.\n"),
            file("docs/results/a.md", "`longhaul 0.1.0`\n"),
        ];
        let breaches = check(&Tree::of("".into(), files)).unwrap();
        let found: Vec<_> = breaches.iter().map(|breach| (breach.file.as_str(), breach.line)).collect();
        assert_eq!(found, [("packaging/a.yaml", 1), ("packaging/a.yaml", 3), ("docs/a.md", 2)]);
    }
}
