//! The messages that documents quote are those that the programs print, so that a user who searches for a message finds the page.
//!
//! Quotes are the words between backticks in the first column of tables with the heading `message`. An ellipsis stands for text
//! that varies. Does not know: when a message is printed, or by which program.

use anyhow::Result;

use super::markdown::documents;
use super::{Breach, Tree};

/// The headings of columns whose cells are quotes.
const HEADS: [&str; 2] = ["message", "in the node's log"];
/// Crates whose messages no user sees.
const NOT_SHIPPED: [&str; 2] = ["xtask", "bench"];
/// The least number of letters of a piece that is looked up.
const PIECE_LETTERS: usize = 4;

/// Every quoted message is in the source of a program.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let printable_text = printable_text(tree);
    let mut breaches = Vec::new();
    for document in documents(tree) {
        let mut is_in_table = false;
        for (n, line) in document.lines.iter().enumerate() {
            let Some(first) = first_cell(line) else {
                is_in_table = false;
                continue;
            };
            if HEADS.contains(&first) {
                is_in_table = true;
            } else if is_in_table {
                for piece in pieces(first).filter(|piece| !printable_text.contains(piece)) {
                    let what =
                        format!("no program prints {piece:?}; quote the message exactly, with … for text that varies");
                    breaches.push(Breach::new(&document.path, n + 1, what));
                }
            }
        }
    }
    Ok(breaches)
}

/// The text that programs may print: their sources without tests, with strings of several lines joined.
fn printable_text(tree: &Tree) -> String {
    let is_shipped =
        |path: &str| !NOT_SHIPPED.iter().any(|crate_name| path.starts_with(&format!("crates/{crate_name}/")));
    let mut all = String::new();
    for source in tree.sources.iter().filter(|source| is_shipped(&source.path)) {
        let mut continues = false;
        for (line, _) in source.raw.iter().zip(&source.test).filter(|(_, is_test)| !**is_test) {
            let line = if continues { line.trim_start() } else { line };
            continues = line.ends_with('\\');
            all.push_str(line.strip_suffix('\\').unwrap_or(line));
            all.push_str(if continues { "" } else { "\n" });
        }
    }
    all
}

/// The first cell of a row of a table.
fn first_cell(line: &str) -> Option<&str> {
    line.trim().strip_prefix('|')?.split('|').next().map(str::trim)
}

/// The quotes of a cell: the texts between backticks, split at ellipses.
fn pieces(cell: &str) -> impl Iterator<Item = &str> {
    let quotes = cell.split('`').skip(1).step_by(2);
    let words = quotes.flat_map(|quote| quote.split('…')).map(|piece| piece.trim_matches([' ', ',', ';', ':']));
    words.filter(|piece| piece.chars().filter(|c| c.is_alphabetic()).count() >= PIECE_LETTERS)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::RepositoryFile;
    use super::*;

    #[test]
    fn a_quote_that_no_program_prints_is_found() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), bytes: text.into() };
        let page = "| message | do |\n|---|---|\n| `cannot read …: no such luck` | `x y z w` |\n| `it never said this` | |\n\
                    | `one … of two lines` | |\n\n| other | |\n|---|---|\n| `nor that` | |\n";
        let code =
            "let a = format!(\"cannot read {path}: no such luck\");\nlet b = \"one half \\\n    of two lines\";\n";
        let files = vec![file("docs/a.md", page), file("crates/a/src/lib.rs", code)];
        let found: Vec<usize> = check(&Tree::of(PathBuf::new(), files)).unwrap().iter().map(|b| b.line).collect();
        assert_eq!(found, [4]);
    }
}
