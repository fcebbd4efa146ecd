//! The Debian packages that a program depends on: those of its shared libraries, with versions. `dpkg-shlibdeps` finds them if it is
//! installed. Otherwise the libraries that a Rust program links are known here. Any other library is an error.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::machine::ElfMachine;
use super::program::{WorkDirectory, readelf};

/// The libraries that the program may link dynamically. Before version 2.34 the C library had some of its functions in libraries of their own.
const LIBRARIES: [&str; 6] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// The value of `Depends`.
///
/// # Errors
/// The program links an unexpected library, or a tool fails.
pub fn of(program: &[u8], machine: ElfMachine) -> Result<String> {
    let work = WorkDirectory::new("depends")?;
    let copy = work.path().join("longhaul");
    fs::write(&copy, program)?;
    let linked = linked(&copy)?;
    let unexpected: Vec<&String> =
        linked.iter().filter(|name| !LIBRARIES.contains(&name.as_str()) && !is_loader(name)).collect();
    ensure!(unexpected.is_empty(), "the program links {unexpected:?}; only {LIBRARIES:?} are expected");
    // The system's data are about its own libraries, and not about those that a program for an older C library links.
    let is_for_older = linked.iter().any(|name| name == "libpthread.so.0");
    let is_for_here = ElfMachine::here() == Some(machine) && !is_for_older;
    let known = if is_for_here { by_dpkg(&copy, work.path())? } else { None };
    known.map_or_else(|| by_symbols(program, linked.iter().any(|name| name == "libgcc_s.so.1")), Ok)
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld64")
}

/// The libraries that a program links.
fn linked(program: &Path) -> Result<Vec<String>> {
    let text = readelf("--dynamic", program)?;
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    Ok(needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect())
}

/// The packages by the system's own data; none if dpkg-dev is not installed.
fn by_dpkg(program: &Path, work: &Path) -> Result<Option<String>> {
    fs::create_dir(work.join("debian"))?;
    fs::write(work.join("debian/control"), "Source: longhaul\n\nPackage: longhaul\nArchitecture: any\n")?;
    let out =
        Command::new("dpkg-shlibdeps").arg("-O").arg(format!("-e{}", program.display())).current_dir(work).output();
    let Ok(out) = out else { return Ok(None) };
    ensure!(out.status.success(), "dpkg-shlibdeps: {}", String::from_utf8_lossy(&out.stderr).trim());
    let text = String::from_utf8(out.stdout)?;
    let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(Some(depends.context("dpkg-shlibdeps printed no dependencies")?.to_owned()))
}

/// The packages by the newest symbol of the C library that the program uses: versions of symbols are versions of the library.
fn by_symbols(program: &[u8], links_libgcc: bool) -> Result<String> {
    let (major, minor) = newest_symbol(program).context("the program uses no symbol of the C library")?;
    let libgcc = if links_libgcc { ", libgcc-s1 (>= 4.2)" } else { "" };
    Ok(format!("libc6 (>= {major}.{minor}){libgcc}"))
}

/// The dependency of an RPM package on the C library of 64-bit systems.
///
/// # Errors
/// The program uses no symbol of the C library.
pub fn glibc(program: &[u8]) -> Result<String> {
    let (major, minor) = newest_symbol(program).context("the program uses no symbol of the C library")?;
    Ok(format!("libc.so.6(GLIBC_{major}.{minor})(64bit)"))
}

/// The version of the C library that has the newest of its symbols that the program uses; none if it uses none.
pub(super) fn newest_symbol(program: &[u8]) -> Option<(u32, u32)> {
    let mark = b"GLIBC_";
    let read = |at: usize| {
        let rest = &program[at + mark.len()..];
        let end = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
        let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
        let minor = minor.split('.').next().unwrap_or(minor);
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let marks = program.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    marks.filter_map(|(at, _)| read(at)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_decides() {
        assert_eq!(newest_symbol(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(newest_symbol(b"nothing"), None);
        assert_eq!(glibc(b"GLIBC_2.28\0").unwrap(), "libc.so.6(GLIBC_2.28)(64bit)");
    }

    #[test]
    fn dpkg_and_the_symbols_agree_on_this_program() {
        let this_program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let by_dpkg = of(&this_program, ElfMachine::here().unwrap()).unwrap();
        let by_symbols = by_symbols(&this_program, true).unwrap();
        let libc = |text: &str| {
            let part = text.split(", ").find(|part| part.starts_with("libc6 "))?;
            let (major, minor) = part.strip_prefix("libc6 (>= ")?.strip_suffix(')')?.split_once('.')?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        };
        // Debian's version of a symbol may be later, if the symbol has changed; it is never earlier.
        assert!(libc(&by_symbols).is_some() && libc(&by_dpkg) >= libc(&by_symbols), "{by_dpkg} {by_symbols}");
    }
}
