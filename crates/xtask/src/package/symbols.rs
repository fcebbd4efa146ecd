//! The debugging symbols of a program, apart from it: debuggers find them below `/usr/lib/debug` by the program's build id.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::program::{WorkDirectory, readelf};
use super::{Files, GeneratedFiles, PackageOptions, dist};

/// Writes the archive of the symbols; returns its path.
///
/// # Errors
/// The program has no build id, or a tool fails.
pub fn build(options: &PackageOptions, generated: &GeneratedFiles) -> Result<PathBuf> {
    let id = build_id(&options.binary)?;
    let (directory, name) = id.split_at(2);
    let path = format!("usr/lib/debug/.build-id/{directory}/{name}.debug");
    let files = Files::from([(path, (0o644, symbols(&options.binary)?))]);
    dist::write_archive(options, &format!("longhaul-debug-{}-{}", options.version, generated.machine.name()), "", files)
}

/// The symbols of a program, compressed.
fn symbols(binary: &Path) -> Result<Vec<u8>> {
    let work = WorkDirectory::new("symbols")?;
    let out = work.path().join("symbols");
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--only-keep-debug", "--compress-debug-sections=zlib"]).arg(binary).arg(&out);
    ensure!(objcopy.status().context("cannot run objcopy (package binutils)")?.success(), "objcopy failed");
    Ok(fs::read(out)?)
}

/// The build id of a program, in hexadecimal digits.
fn build_id(binary: &Path) -> Result<String> {
    let notes = readelf("--notes", binary)?;
    let id = notes.lines().find_map(|line| line.split_once("Build ID: ")).map(|(_, id)| id.trim().to_owned());
    let id = id.context("the program has no build id; scripts/release.sh has it linked with one")?;
    ensure!(id.len() > 2 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id:?} is no build id");
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbols_of_this_program_are_what_it_loses() {
        let this_program = std::env::current_exe().unwrap();
        assert!(build_id(&this_program).unwrap().len() >= 16);
        let symbols = symbols(&this_program).unwrap();
        assert!(symbols.starts_with(b"\x7fELF"));
        assert!(symbols.windows(11).any(|bytes| bytes == b".debug_line"));
    }
}
