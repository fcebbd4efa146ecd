//! Words that belong in some rooms only: `unsafe`, printing, unwrapping, and the outside world in pure crates.

use anyhow::Result;

use super::paths::paths;
use super::text::{Source, words};
use super::{Breach, Tree};

/// Crates that never see a clock, a file, a socket, a thread or chance: all of it comes in as arguments.
const PURE: [&str; 7] = ["model", "wire", "auth", "pilot", "sched", "replicas", "plan"];
/// Crates that are programs, and so may print.
const PROGRAMS: [&str; 4] = ["longhaul", "xtask", "bench", "examples"];

/// `unsafe` is in `sys` only.
pub fn unsafe_code(tree: &Tree) -> Result<Vec<Breach>> {
    let what = "`unsafe` outside crates/sys; move the system call there behind a safe function";
    Ok(find(tree, |source| source.room() != "sys", |line| words(line).any(|(word, _)| word == "unsafe"), true, what))
}

/// Libraries do not print.
pub fn prints(tree: &Tree) -> Result<Vec<Breach>> {
    let macros = ["println", "eprintln", "print", "eprint", "dbg"];
    let says = |line: &str| words(line).any(|(word, rest)| macros.contains(&word) && rest.starts_with('!'));
    let what = "a library does not print; return the fact, or hand it to `tracing`";
    // What a build script has to say to cargo, it prints.
    let is_library = |source: &Source| !PROGRAMS.contains(&source.room()) && !source.path.ends_with("build.rs");
    Ok(find(tree, is_library, says, false, what))
}

/// Nothing but a test panics on an error.
pub fn unwraps(tree: &Tree) -> Result<Vec<Breach>> {
    let says = |line: &str| line.contains(".unwrap()") || line.contains(".expect(");
    let what = "no unwrap outside tests: return the error, or allow clippy::unwrap_used just above with the reason";
    let mut found = find(tree, |source| source.room() != "xtask", says, false, what);
    found.retain(|breach| {
        let source = tree.sources.iter().find(|source| source.path == breach.file);
        !source.is_some_and(|source| is_allowed(source, breach.line))
    });
    Ok(found)
}

/// Whether the lines just above allow it. An attribute with its reason may take three lines.
fn is_allowed(source: &Source, line: usize) -> bool {
    let above = &source.raw[line.saturating_sub(5)..line - 1];
    above.iter().any(|l| l.contains("allow(") || l.contains("expect("))
        && above.iter().any(|l| l.contains("clippy::unwrap_used") || l.contains("clippy::expect_used"))
}

/// The pure crates know nothing of the world.
pub fn impurities(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for source in tree.sources.iter().filter(|source| PURE.contains(&source.room())) {
        for (line, path) in paths(source).into_iter().filter(|(line, _)| !source.test[line - 1]) {
            if let Some(world) = world_of(&path) {
                let what = format!("`{path}` in a pure crate: {world} comes in as an argument, from the caller");
                breaches.push(Breach::new(&source.path, line, what));
            }
        }
    }
    Ok(breaches)
}

/// The part of the outside world that a path leads to, if any.
fn world_of(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split("::").collect();
    match parts[..] {
        // An address is a value; only what opens or asks is the world.
        ["std", "net", "IpAddr" | "Ipv4Addr" | "Ipv6Addr" | "SocketAddr" | "AddrParseError", ..] => None,
        ["std", "net", ..] => Some("what sockets say"),
        ["std", "fs", ..] => Some("what files hold"),
        ["std", "thread", ..] => Some("what runs beside"),
        ["std", "time", "Instant" | "SystemTime", ..] | ["Instant" | "SystemTime", ..] => Some("the time"),
        ["tokio", ..] => Some("what a runtime does"),
        ["rand" | "getrandom", _, ..] => Some("chance"),
        _ => None,
    }
}

/// The lines where something is said, in crates of interest.
fn find(
    tree: &Tree,
    concerns: impl Fn(&Source) -> bool,
    says: impl Fn(&str) -> bool,
    in_tests: bool,
    what: &str,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in tree.sources.iter().filter(|source| concerns(source)) {
        for (line, code, test) in source.lines() {
            if (in_tests || !test) && says(code) {
                breaches.push(Breach::new(&source.path, line, what));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::super::samples::lines;
    use super::*;

    #[test]
    fn unsafe_stays_in_sys() {
        let text = "// unsafe\nlet unsafe_code = \"unsafe\";\nunsafe { x }\n";
        assert_eq!(lines(unsafe_code, "crates/store/src/a.rs", text), [3]);
        assert_eq!(lines(unsafe_code, "crates/store/tests/a.rs", text), [3]);
        assert!(lines(unsafe_code, "crates/sys/src/a.rs", text).is_empty());
    }

    #[test]
    fn libraries_do_not_print() {
        let text = "println!(\"a\");\nlet println = 1;\nx::dbg!(y);\n#[cfg(test)]\nmod t {\n  eprintln!(\"a\");\n}\n";
        assert_eq!(lines(prints, "crates/store/src/a.rs", text), [1, 3]);
        assert!(lines(prints, "crates/longhaul/src/a.rs", text).is_empty());
        assert!(lines(prints, "crates/store/benches/a.rs", text).is_empty());
    }

    #[test]
    fn only_tests_unwrap() {
        let text = "a.unwrap();\na.unwrap_or(b);\na\n  .expect(\"b\");\n#[cfg(test)]\nmod t {\n  a.unwrap();\n}\n";
        assert_eq!(lines(unwraps, "crates/store/src/a.rs", text), [1, 4]);
        let allowed = "#[allow(clippy::unwrap_used, reason = \"a literal\")]\nlet a = b.unwrap();\n";
        assert!(lines(unwraps, "crates/store/src/a.rs", allowed).is_empty());
        assert!(lines(unwraps, "crates/store/tests/a.rs", text).is_empty());
    }

    #[test]
    fn the_world_is_not_named() {
        let text = "use std::time::{Duration, Instant};
use std::{
  fs::File,
  fmt,
};
fn a() { let n = 1; std::thread::sleep(b) }
use ::tokio::net;
let rand = 1;
rand::random();
SystemTime::now();
use std::io;
struct A { fs: u8 }
use std::net::{IpAddr, TcpStream};
";
        assert_eq!(lines(impurities, "crates/wire/src/a.rs", text), [1, 3, 6, 7, 9, 10, 13]);
        assert!(lines(impurities, "crates/wire/tests/a.rs", text).is_empty());
        assert!(lines(impurities, "crates/engine/src/a.rs", text).is_empty());
    }
}
