//! What a program needs of a Debian system: shared libraries, by package and version. `dpkg-shlibdeps` knows where it is there;
//! else the three libraries that a Rust program links are known here, and any other one is an error.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::program::Workplace;

/// The libraries that may be linked: everything else is in the program itself.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];

/// The packages, for `Depends`.
pub fn of(program: &[u8]) -> Result<String> {
    let work = Workplace::new("depends")?;
    let copy = work.path().join("longhaul");
    fs::write(&copy, program)?;
    let linked = linked(&copy)?;
    let odd: Vec<&String> =
        linked.iter().filter(|name| !LIBRARIES.contains(&name.as_str()) && !is_loader(name)).collect();
    ensure!(odd.is_empty(), "the program links {odd:?}; only {LIBRARIES:?} are expected");
    match by_dpkg(&copy, work.path())? {
        Some(depends) => Ok(depends),
        None => by_symbols(program),
    }
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld64")
}

/// The libraries that it names (`readelf`, of binutils).
fn linked(program: &Path) -> Result<Vec<String>> {
    let out = Command::new("readelf").args(["--dynamic", "--wide"]).arg(program).env("LC_ALL", "C").output();
    let out = out.context("cannot run readelf (package binutils)")?;
    ensure!(out.status.success(), "readelf: {}", String::from_utf8_lossy(&out.stderr).trim());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    Ok(needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect())
}

/// As the system's own packages say; none where dpkg-dev is not there.
fn by_dpkg(program: &Path, work: &Path) -> Result<Option<String>> {
    fs::create_dir(work.join("debian"))?;
    fs::write(work.join("debian/control"), "Source: longhaul\n\nPackage: longhaul\nArchitecture: any\n")?;
    let out =
        Command::new("dpkg-shlibdeps").arg("-O").arg(format!("-e{}", program.display())).current_dir(work).output();
    let Ok(out) = out else { return Ok(None) };
    ensure!(out.status.success(), "dpkg-shlibdeps: {}", String::from_utf8_lossy(&out.stderr).trim());
    let text = String::from_utf8(out.stdout)?;
    let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(Some(depends.context("dpkg-shlibdeps says nothing")?.to_owned()))
}

/// By the newest symbol of the C library that it asks for: their versions are those of the library.
fn by_symbols(program: &[u8]) -> Result<String> {
    let (major, minor) = newest(program).context("the program asks for no symbol of the C library")?;
    Ok(format!("libc6 (>= {major}.{minor}), libgcc-s1 (>= 4.2)"))
}

fn newest(program: &[u8]) -> Option<(u32, u32)> {
    let mark = b"GLIBC_";
    let read = |at: usize| {
        let rest = &program[at + mark.len()..];
        let end = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
        let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
        let minor = minor.split('.').next().unwrap_or(minor);
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let places = program.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    places.filter_map(|(at, _)| read(at)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_decides() {
        assert_eq!(newest(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(newest(b"nothing"), None);
    }

    #[test]
    fn both_ways_agree_on_a_program_of_ours() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let (said, read) = (of(&own).unwrap(), by_symbols(&own).unwrap());
        let libc = |text: &str| {
            let part = text.split(", ").find(|part| part.starts_with("libc6 "))?;
            let (major, minor) = part.strip_prefix("libc6 (>= ")?.strip_suffix(')')?.split_once('.')?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        };
        // Debian may know that a symbol changed later, never that it came earlier.
        assert!(libc(&read).is_some() && libc(&said) >= libc(&read), "{said} {read}");
    }
}
