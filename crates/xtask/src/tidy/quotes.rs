//! Messages that documents quote are those that the programs print: whoever searches for one finds the page.
//!
//! Quoted are the words between backticks in the first column of tables that are headed `message`. An ellipsis stands for
//! what differs from time to time. Does not know: when a message is printed, or by which program.

use anyhow::Result;

use super::markdown::documents;
use super::{Breach, Tree};

/// Heads of columns whose cells are quotes.
const HEADS: [&str; 2] = ["message", "in the node's log"];
/// Crates that nobody else runs.
const NOT_SHIPPED: [&str; 2] = ["xtask", "bench"];
/// Letters from which on a piece between two ellipses says something.
const PIECE_LETTERS: usize = 4;

/// Every message that is quoted is in the source of a program.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let said = said(tree);
    let mut breaches = Vec::new();
    for document in documents(tree) {
        let mut quoting = false;
        for (n, line) in document.lines.iter().enumerate() {
            let Some(first) = first_cell(line) else {
                quoting = false;
                continue;
            };
            if HEADS.contains(&first) {
                quoting = true;
            } else if quoting {
                for piece in pieces(first).filter(|piece| !said.contains(piece)) {
                    let what = format!("no program says {piece:?}; quote it as it is, with … for what differs");
                    breaches.push(Breach::new(&document.path, n + 1, what));
                }
            }
        }
    }
    Ok(breaches)
}

/// All that programs may print: their sources without tests, with strings that go over several lines put together.
fn said(tree: &Tree) -> String {
    let shipped = |path: &str| !NOT_SHIPPED.iter().any(|room| path.starts_with(&format!("crates/{room}/")));
    let mut all = String::new();
    for source in tree.sources.iter().filter(|source| shipped(&source.path)) {
        let mut goes_on = false;
        for (line, _) in source.raw.iter().zip(&source.test).filter(|(_, is_test)| !**is_test) {
            let line = if goes_on { line.trim_start() } else { line };
            goes_on = line.ends_with('\\');
            all.push_str(line.strip_suffix('\\').unwrap_or(line));
            all.push_str(if goes_on { "" } else { "\n" });
        }
    }
    all
}

/// The first cell of a row of a table.
fn first_cell(line: &str) -> Option<&str> {
    line.trim().strip_prefix('|')?.split('|').next().map(str::trim)
}

/// What is quoted in a cell: what stands between backticks, cut where it differs.
fn pieces(cell: &str) -> impl Iterator<Item = &str> {
    let quotes = cell.split('`').skip(1).step_by(2);
    let words = quotes.flat_map(|quote| quote.split('…')).map(|piece| piece.trim_matches([' ', ',', ';', ':']));
    words.filter(|piece| piece.chars().filter(|c| c.is_alphabetic()).count() >= PIECE_LETTERS)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Paper;
    use super::*;

    #[test]
    fn a_quote_is_what_is_said() {
        let paper = |path: &str, text: &str| Paper { path: path.into(), bytes: text.into() };
        let page = "| message | do |\n|---|---|\n| `cannot read …: no such luck` | `x y z w` |\n| `it never said this` | |\n\
                    | `one … of two lines` | |\n\n| other | |\n|---|---|\n| `nor that` | |\n";
        let code =
            "let a = format!(\"cannot read {path}: no such luck\");\nlet b = \"one half \\\n    of two lines\";\n";
        let papers = vec![paper("docs/a.md", page), paper("crates/a/src/lib.rs", code)];
        let found: Vec<usize> = check(&Tree::of(PathBuf::new(), papers)).unwrap().iter().map(|b| b.line).collect();
        assert_eq!(found, [4]);
    }
}
