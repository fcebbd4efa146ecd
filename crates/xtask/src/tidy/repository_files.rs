//! Rules for all committed files: the licence, their sizes, and no paths of one machine in documents.

use anyhow::Result;

use super::{Breach, Tree, in_testdata};

/// The largest size of a committed file: larger files are data, not source.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Directories that exist only on the machine of an author.
const MACHINE_PATHS: [&str; 2] = ["/home/", "/root/"];

/// The licence is complete, and every crate has it.
pub fn licence(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let text = |path: &str| {
        let file = tree.files.iter().find(|file| file.path == path);
        file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned()).unwrap_or_default()
    };
    let licence = text("LICENSE");
    let head: Vec<&str> = licence.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    if head != ["Apache License", "Version 2.0, January 2004"] || !licence.contains("END OF TERMS AND CONDITIONS") {
        breaches.push(Breach::new("LICENSE", 1, "must be the full text of the Apache License 2.0"));
    }
    if !has_line(&text("Cargo.toml"), "license = \"Apache-2.0\"") {
        breaches.push(Breach::new("Cargo.toml", 0, "[workspace.package] must say license = \"Apache-2.0\""));
    }
    for file in tree.files.iter().filter(|file| is_member_manifest(&file.path)) {
        if !has_line(&String::from_utf8_lossy(&file.bytes), "license.workspace = true") {
            breaches.push(Breach::new(&file.path, 0, "add `license.workspace = true` to [package]"));
        }
    }
    Ok(breaches)
}

fn has_line(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| line.trim() == wanted)
}

fn is_member_manifest(path: &str) -> bool {
    path.strip_prefix("crates/")
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        .is_some_and(|crate_name| !crate_name.contains('/'))
}

/// Whether a file is a picture of a page, which `make pictures` takes.
fn is_picture(path: &str) -> bool {
    path.starts_with("docs/pictures/") && path.ends_with(".png")
}

/// Committed files are texts of a readable size, except pictures in the documents.
pub fn small_texts(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for file in &tree.files {
        if file.bytes.len() > FILE_BYTES_MAX {
            let what = format!(
                "{} bytes; a file above {FILE_BYTES_MAX} does not belong in git: generate or download it",
                file.bytes.len()
            );
            breaches.push(Breach::new(&file.path, 0, what));
        }
        if file.bytes.contains(&0) && !in_testdata(&file.path) && !is_picture(&file.path) {
            let what =
                "a binary file (it has NUL bytes); golden files belong below testdata/, programs are not committed";
            breaches.push(Breach::new(&file.path, 0, what));
        }
    }
    Ok(breaches)
}

/// Documents name no directory of one machine.
pub fn machine_paths(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        for (n, line) in String::from_utf8_lossy(&file.bytes).lines().enumerate() {
            for path in MACHINE_PATHS.into_iter().filter(|path| names_path(line, path)) {
                let what = format!("names `{path}`, a directory of one machine; use a path that any reader has");
                breaches.push(Breach::new(&file.path, n + 1, what));
            }
        }
    }
    Ok(breaches)
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") || path.starts_with("docs/")
}

/// Whether a line has an absolute path below a directory, and not a part of another path.
fn names_path(line: &str, path: &str) -> bool {
    let inside = |before: char| before.is_alphanumeric() || "._-~/*}$".contains(before);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{lines, tree};
    use super::super::{RepositoryFile, Tree};
    use super::*;

    #[test]
    fn documents_name_no_machine() {
        let text = "See `/root/x`.\n/home/y\nhttps://host/home/z\na/root/b\n~/home/\n(/home/)\n";
        assert_eq!(lines(machine_paths, "docs/guide.md", text), [1, 2, 6]);
        assert!(lines(machine_paths, "crates/a/src/lib.rs", text).is_empty());
    }

    #[test]
    fn a_large_or_binary_file_is_found() {
        assert_eq!(lines(small_texts, "a.txt", &"x".repeat(FILE_BYTES_MAX + 1)), [0]);
        assert_eq!(lines(small_texts, "a.out", "a\0b"), [0]);
        assert_eq!(lines(small_texts, "docs/pictures/a.exe", "a\0b"), [0]);
        assert!(lines(small_texts, "docs/pictures/map-360.png", "a\0b").is_empty());
        assert!(lines(small_texts, "crates/wire/testdata/frame.bin", "a\0b").is_empty());
    }

    #[test]
    fn a_missing_licence_is_found() {
        let files =
            |path: &str| licence(&tree(path, "[package]\n")).unwrap().into_iter().map(|b| b.file).collect::<Vec<_>>();
        assert_eq!(files("crates/a/Cargo.toml"), ["LICENSE", "Cargo.toml", "crates/a/Cargo.toml"]);
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), bytes: text.into() };
        let whole = "\n  Apache License\n  Version 2.0, January 2004\n\nEND OF TERMS AND CONDITIONS\n";
        let files = vec![
            file("LICENSE", whole),
            file("Cargo.toml", "license = \"Apache-2.0\"\n"),
            file("crates/a/Cargo.toml", "license.workspace = true\n"),
        ];
        assert_eq!(licence(&Tree::of("".into(), files)).unwrap(), []);
    }
}
