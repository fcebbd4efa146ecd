//! docs/http-clients.md: its table is what a complete run saw. Only what is the same on every machine is in it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::runner::Ending;

const BEGIN: &str = "<!-- seen by make test-interop: begin -->";
const END: &str = "<!-- seen by make test-interop: end -->";

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("docs/http-clients.md")
}

fn row(case: &Case) -> String {
    format!("| {} | {} |", case.does, case.outcome)
}

/// The table, of all cases.
fn render(cases: &[Case]) -> String {
    let mut out = String::new();
    let mut client = "";
    for case in cases {
        if case.client != client {
            client = case.client;
            write!(out, "\n### {client}\n\n| what it does | what comes of it |\n|---|---|\n").unwrap();
        }
        writeln!(out, "{}", row(case)).unwrap();
    }
    out
}

/// Writes the table if asked to, else compares it with what was seen. What was skipped cannot differ, and stops a writing.
pub fn holds(cases: &[Case], endings: &[Ending]) -> bool {
    let text = fs::read_to_string(document()).unwrap_or_default();
    let Some((head, rest)) = text.split_once(BEGIN) else {
        println!("docs/http-clients.md has no line {BEGIN}");
        return false;
    };
    let Some((table, tail)) = rest.split_once(END) else {
        println!("docs/http-clients.md has no line {END}");
        return false;
    };
    let seen = render(cases);
    if std::env::var("LONGHAUL_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        if endings.iter().any(|ending| *ending != Ending::Passed) {
            println!("docs/http-clients.md is not written: not every case passed");
            return false;
        }
        fs::write(document(), format!("{head}{BEGIN}\n{seen}\n{END}{tail}")).unwrap();
        println!("written: docs/http-clients.md");
        return true;
    }
    let (said, seen): (Vec<&str>, Vec<&str>) = (rows(table), rows(&seen));
    let more: Vec<_> = seen.iter().filter(|row| !said.contains(row)).collect();
    let less: Vec<_> = said.iter().filter(|row| !seen.contains(row)).collect();
    if more.is_empty() && less.is_empty() {
        return true;
    }
    println!("docs/http-clients.md is not what was seen; LONGHAUL_WRITE_DOCS=1 make test-interop writes it anew");
    more.iter().for_each(|row| println!("  seen, and not there: {row}"));
    less.iter().for_each(|row| println!("  there, and not seen: {row}"));
    false
}

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("| ") || line.starts_with("### ")).collect()
}
