//! The table of what can be spent at a node, in docs/security.md, is held to the code: every row names bounds that stand there to
//! the letter, and tests that are there.
//!
//! Does not know: whether a bound is small enough, or what a test asserts.

use anyhow::Result;

use super::markdown::documents;
use super::{Breach, Tree};

/// Where the table is, and the column that its head begins with.
const DOCUMENT: &str = "docs/security.md";
const HEAD: &str = "who, and what they do";
/// Columns: who, what is spent, in bytes and counts, in time, where the bound stands, what reaches for it.
const COLUMNS: usize = 5;
/// Rows that there are at least: a table that is not found holds nobody to anything.
const ROWS_MIN: usize = 20;

/// Every row has a bound in bytes and in time, in the code and in a test.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let mut rows = 0;
    let Some(document) = documents(tree).into_iter().find(|document| document.path == DOCUMENT) else {
        return Ok(Vec::new());
    };
    let mut inside = false;
    for (n, line) in document.lines.iter().enumerate() {
        let Some(cells) = cells(line) else {
            inside = false;
            continue;
        };
        if cells[0] == HEAD {
            inside = true;
        } else if inside && !cells[0].starts_with("---") {
            rows += 1;
            breaches.extend(faults(tree, &cells).into_iter().map(|what| Breach::new(DOCUMENT, n + 1, what)));
        }
    }
    if rows < ROWS_MIN {
        let what = format!("the table that begins with {HEAD:?} has {rows} rows; it has {ROWS_MIN} at least");
        breaches.push(Breach::new(DOCUMENT, 0, what));
    }
    Ok(breaches)
}

/// The cells of a row of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn faults(tree: &Tree, cells: &[&str]) -> Vec<String> {
    if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
        return vec![format!("a row has {COLUMNS} cells, none of them empty")];
    }
    let (bounds, tests) = (quoted(cells[3]), quoted(cells[4]));
    let mut faults = Vec::new();
    if bounds.is_empty() || tests.is_empty() {
        faults.push("a row names a bound in the code and a test, between backticks".to_owned());
    }
    for bound in bounds {
        let stands = bound.split_once(": ").is_some_and(|(file, text)| {
            let path = format!("crates/{file}");
            tree.sources.iter().any(|source| source.path == path && source.raw.iter().any(|line| line.contains(text)))
        });
        if !stands {
            faults.push(format!("{bound:?} stands nowhere; write CRATE/src/FILE.rs: and a piece of a line there"));
        }
    }
    for test in tests {
        let wanted = format!("fn {test}(");
        let is_there = tree.sources.iter().any(|source| source.raw.iter().any(|line| line.contains(&wanted)));
        if !is_there {
            faults.push(format!("there is no test {test}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Paper;

    fn found(row: &str) -> Vec<String> {
        let paper = |path: &str, text: &str| Paper { path: path.into(), bytes: text.into() };
        let table = format!("| {HEAD} | spent | ends | bound | test |\n|---|---|---|---|---|\n{row}\n");
        let code = "const MOST: usize = 4;\n#[test]\nfn four_are_most() {}\n";
        let tree = Tree::of(Default::default(), vec![paper(DOCUMENT, &table), paper("crates/a/src/b.rs", code)]);
        check(&tree).unwrap().into_iter().filter(|breach| breach.line > 0).map(|breach| breach.what).collect()
    }

    #[test]
    fn a_row_is_held_to_the_code() {
        assert!(found("| a | 4 | 1 s | `a/src/b.rs: MOST: usize = 4` | `four_are_most` |").is_empty());
        assert_eq!(found("| a | 4 | 1 s | `a/src/b.rs: MOST: usize = 5` | `four_are_most` |").len(), 1);
        assert_eq!(found("| a | 4 | 1 s | `a/src/c.rs: MOST` | `five_are_most` |").len(), 2);
        assert_eq!(found("| a | 4 | | `a/src/b.rs: MOST` | `four_are_most` |").len(), 1);
        assert_eq!(found("| a | 4 | 1 s | in the code | by a test |").len(), 1);
    }
}
