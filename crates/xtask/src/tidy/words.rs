//! Words that are permitted in some crates only: `unsafe`, printing, unwrapping, and input and output in pure crates.

use anyhow::Result;

use super::paths::paths;
use super::text::{Source, words};
use super::{Breach, Tree};

/// Crates that never use a clock, a file, a socket, a thread or random numbers: they get such values as arguments.
const PURE: [&str; 8] = ["model", "wire", "auth", "pilot", "sched", "replicas", "plan", "xroot"];
/// Crates that are programs, and so may print.
const PROGRAMS: [&str; 4] = ["longhaul", "xtask", "bench", "examples"];

/// `unsafe` is in `sys` only.
pub fn unsafe_code(tree: &Tree) -> Result<Vec<Breach>> {
    let what = "`unsafe` outside crates/sys; move the system call there behind a safe function";
    Ok(find(
        tree,
        |source| source.crate_name() != "sys",
        |line| words(line).any(|(word, _)| word == "unsafe"),
        true,
        what,
    ))
}

/// Libraries do not print.
pub fn prints(tree: &Tree) -> Result<Vec<Breach>> {
    let macros = ["println", "eprintln", "print", "eprint", "dbg"];
    let matches = |line: &str| words(line).any(|(word, rest)| macros.contains(&word) && rest.starts_with('!'));
    let what = "a library does not print; return the fact, or hand it to `tracing`";
    // A build script prints its instructions to cargo.
    let is_library = |source: &Source| !PROGRAMS.contains(&source.crate_name()) && !source.path.ends_with("build.rs");
    Ok(find(tree, is_library, matches, false, what))
}

/// Only tests panic on an error.
pub fn unwraps(tree: &Tree) -> Result<Vec<Breach>> {
    let matches = |line: &str| line.contains(".unwrap()") || line.contains(".expect(");
    let what = "no unwrap outside tests: return the error, or allow clippy::unwrap_used just above with the reason";
    let mut found = find(tree, |source| source.crate_name() != "xtask", matches, false, what);
    found.retain(|breach| {
        let source = tree.sources.iter().find(|source| source.path == breach.file);
        !source.is_some_and(|source| is_allowed(source, breach.line))
    });
    Ok(found)
}

/// Whether an attribute just above a line allows to unwrap. With its reason, it may take three lines.
fn is_allowed(source: &Source, line: usize) -> bool {
    let above = &source.raw[line.saturating_sub(5)..line - 1];
    above.iter().any(|l| l.contains("allow(") || l.contains("expect("))
        && above.iter().any(|l| l.contains("clippy::unwrap_used") || l.contains("clippy::expect_used"))
}

/// Pure crates have no input and output.
pub fn impurities(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for source in tree.sources.iter().filter(|source| PURE.contains(&source.crate_name())) {
        for (line, path) in paths(source).into_iter().filter(|(line, _)| !source.test[line - 1]) {
            if let Some(input) = input_of(&path) {
                let what = format!("`{path}` in a pure crate: take {input} as an argument from the caller");
                breaches.push(Breach::new(&source.path, line, what));
            }
        }
    }
    Ok(breaches)
}

/// The kind of input or output that a path leads to, if any.
fn input_of(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split("::").collect();
    match parts[..] {
        // An address is a value, not input or output.
        ["std", "net", "IpAddr" | "Ipv4Addr" | "Ipv6Addr" | "SocketAddr" | "AddrParseError", ..] => None,
        ["std", "net", ..] => Some("data from sockets"),
        ["std", "fs", ..] => Some("data from files"),
        ["std", "thread", ..] => Some("results of threads"),
        ["std", "time", "Instant" | "SystemTime", ..] | ["Instant" | "SystemTime", ..] => Some("the time"),
        ["tokio", ..] => Some("results of a runtime"),
        ["rand" | "getrandom", _, ..] => Some("random numbers"),
        _ => None,
    }
}

/// The lines that match, in the wanted files.
fn find(
    tree: &Tree,
    is_wanted: impl Fn(&Source) -> bool,
    matches: impl Fn(&str) -> bool,
    in_tests: bool,
    what: &str,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in tree.sources.iter().filter(|source| is_wanted(source)) {
        for (line, code, test) in source.lines() {
            if (in_tests || !test) && matches(code) {
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
    fn a_pure_crate_names_no_clock_file_socket_or_thread() {
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
