//! Includes the files of the portal in the program, as `npm run build` in crates/hub/portal made them. Without them, the hub answers how to
//! build them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let built = PathBuf::from(env("CARGO_MANIFEST_DIR")?).join("../../target/portal");
    println!("cargo::rerun-if-changed={}", built.display());
    let mut files = Vec::new();
    if built.is_dir() {
        collect(&built, &built, &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env("OUT_DIR")?);
    let mut table = String::from("pub(super) static FILES: &[(&str, &[u8])] = &[\n");
    for (at, (name, path)) in files.into_iter().enumerate() {
        // A copy is included, because the portal may be rebuilt while the program is built.
        let copy = out.join(format!("portal.{at}.gz"));
        fs::copy(path, &copy)?;
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", copy.display().to_string());
    }
    table.push_str("];\n");
    fs::write(out.join("portal.rs"), table)
}

/// A variable that cargo sets. It is not named as an input of this script: a test that runs cargo has another value of its own, and the hub
/// would be compiled again for it.
fn env(name: &str) -> io::Result<String> {
    std::env::var(name).map_err(io::Error::other)
}

/// Collects the files below a directory: the name of each, without `.gz`, and its path.
fn collect(dir: &Path, root: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, root, files)?;
        } else if path.extension().is_some_and(|end| end == "gz") {
            let name = path.strip_prefix(root).map_err(io::Error::other)?.with_extension("");
            files.push((name.to_string_lossy().into_owned(), path));
        }
    }
    Ok(())
}
