//! Puts the files of the portal into the program, as `npm run build` (crates/hub/portal) left them; without them the hub says how to get them.

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
        // The portal may be built anew while the program is.
        let copy = out.join(format!("portal.{at}.gz"));
        fs::copy(path, &copy)?;
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", copy.display().to_string());
    }
    table.push_str("];\n");
    fs::write(out.join("portal.rs"), table)
}

fn env(name: &str) -> io::Result<String> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var(name).map_err(io::Error::other)
}

/// Names below the directory, without `.gz`, and where each is.
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
