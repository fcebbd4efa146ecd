//! docs/http-clients.md, docs/fts.md and docs/rucio.md: their tables are the results of a complete run. They contain
//! only what is the same on every machine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::runner::CaseOutcome;

const BEGIN: &str = "<!-- seen by make test-interop: begin -->";
const END: &str = "<!-- seen by make test-interop: end -->";

/// Whether a document mentions a client.
type Mentions = fn(&str) -> bool;

/// The documents, and the clients that each mentions.
const DOCUMENTS: [(&str, Mentions); 4] = [
    ("docs/http-clients.md", |client| {
        !crate::fts::is_of(client) && !crate::catalogue::is_of(client) && !speaks_root(client)
    }),
    ("docs/root.md", speaks_root),
    ("docs/fts.md", crate::fts::is_of),
    ("docs/rucio.md", crate::catalogue::is_of),
];

/// Whether a client speaks XRootD's own protocol.
fn speaks_root(client: &str) -> bool {
    client.ends_with("-root") || client == "xrootd-front" || client == "python3-xrootd"
}

fn path(document: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(document)
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

/// Writes the tables where that was ordered, else compares them with the results. Skipped cases cannot differ, and prevent writing.
pub fn are_current(cases: &[Case], outcomes: &[CaseOutcome]) -> bool {
    let is_current = |(document, is_of): &(&str, Mentions)| {
        let (cases, outcomes): (Vec<Case>, Vec<CaseOutcome>) =
            cases.iter().cloned().zip(outcomes.iter().cloned()).filter(|(case, _)| is_of(case.client)).unzip();
        document_is_current(document, &cases, &outcomes)
    };
    DOCUMENTS.iter().map(is_current).filter(|is_current| !is_current).count() == 0
}

fn document_is_current(document: &str, cases: &[Case], outcomes: &[CaseOutcome]) -> bool {
    let text = fs::read_to_string(path(document)).unwrap_or_default();
    let Some((head, rest)) = text.split_once(BEGIN) else {
        println!("{document} has no line {BEGIN}");
        return false;
    };
    let Some((table, tail)) = rest.split_once(END) else {
        println!("{document} has no line {END}");
        return false;
    };
    let seen = render(cases);
    if std::env::var("LONGHAUL_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        if outcomes.iter().any(|outcome| *outcome != CaseOutcome::Passed) {
            println!("{document} is not written: not every case passed");
            return false;
        }
        fs::write(path(document), format!("{head}{BEGIN}\n{seen}\n{END}{tail}")).unwrap();
        println!("written: {document}");
        return true;
    }
    let (documented, seen): (Vec<&str>, Vec<&str>) = (rows(table), rows(&seen));
    let more: Vec<_> = seen.iter().filter(|row| !documented.contains(row)).collect();
    let less: Vec<_> = documented.iter().filter(|row| !seen.contains(row)).collect();
    if more.is_empty() && less.is_empty() {
        return true;
    }
    println!("{document} differs from the results; LONGHAUL_WRITE_DOCS=1 make test-interop writes it again");
    more.iter().for_each(|row| println!("  only in the results: {row}"));
    less.iter().for_each(|row| println!("  only in the document: {row}"));
    false
}

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("| ") || line.starts_with("### ")).collect()
}
