//! The table in docs/security.md of the resources that a client can use up at a node agrees with the code: every row names bounds that
//! are literally in the code, and tests that exist.
//!
//! Does not know: whether a bound is small enough, or what a test asserts.

use anyhow::Result;

use super::markdown::documents;
use super::{Breach, Tree};

/// The document with the table.
const DOCUMENT: &str = "docs/security.md";
/// The first column of the table's heading.
const HEAD: &str = "who, and what they do";
/// The number of columns: the client and its action, the bound in bytes and counts, the bound in time, the bounds in the code, the tests.
const COLUMNS: usize = 5;
/// The least number of rows. With fewer, the table was not found.
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

/// The texts between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn faults(tree: &Tree, cells: &[&str]) -> Vec<String> {
    if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
        return vec![format!("a row must have {COLUMNS} cells, none of them empty")];
    }
    let bounds = quoted(cells[3]);
    let tests = quoted(cells[4]);
    let mut faults = Vec::new();
    if bounds.is_empty() || tests.is_empty() {
        faults.push("a row must name a bound in the code and a test, between backticks".to_owned());
    }
    for bound in bounds {
        let is_in_code = bound.split_once(": ").is_some_and(|(file, text)| {
            let path = format!("crates/{file}");
            tree.sources.iter().any(|source| source.path == path && source.raw.iter().any(|line| line.contains(text)))
        });
        if !is_in_code {
            faults.push(format!("{bound:?} is not in the code; write CRATE/src/FILE.rs: and a piece of a line of it"));
        }
    }
    for test in tests {
        let wanted = format!("fn {test}(");
        let exists = tree.sources.iter().any(|source| source.raw.iter().any(|line| line.contains(&wanted)));
        if !exists {
            faults.push(format!("there is no test {test}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::RepositoryFile;

    fn found(row: &str) -> Vec<String> {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), bytes: text.into() };
        let table = format!("| {HEAD} | spent | ends | bound | test |\n|---|---|---|---|---|\n{row}\n");
        let code = "const MOST: usize = 4;\n#[test]\nfn four_are_most() {}\n";
        let tree = Tree::of(Default::default(), vec![file(DOCUMENT, &table), file("crates/a/src/b.rs", code)]);
        check(&tree).unwrap().into_iter().filter(|breach| breach.line > 0).map(|breach| breach.what).collect()
    }

    #[test]
    fn a_row_whose_bound_or_test_does_not_exist_is_found() {
        assert!(found("| a | 4 | 1 s | `a/src/b.rs: MOST: usize = 4` | `four_are_most` |").is_empty());
        assert_eq!(found("| a | 4 | 1 s | `a/src/b.rs: MOST: usize = 5` | `four_are_most` |").len(), 1);
        assert_eq!(found("| a | 4 | 1 s | `a/src/c.rs: MOST` | `five_are_most` |").len(), 2);
        assert_eq!(found("| a | 4 | | `a/src/b.rs: MOST` | `four_are_most` |").len(), 1);
        assert_eq!(found("| a | 4 | 1 s | in the code | by a test |").len(), 1);
    }
}
