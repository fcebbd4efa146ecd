//! The shape of files: their first line, and the lengths of files, functions and lines.

use anyhow::Result;

use super::{Breach, Tree};

/// The longest file: a longer one is split.
const FILE_LINES: usize = 500;
/// The longest file that [`LONG_FILES`] may permit.
const FILE_LINES_MAX: usize = 900;
/// The longest function: a longer one does two things.
const FUNCTION_LINES: usize = 70;
/// The longest test.
const TEST_FUNCTION_LINES: usize = 120;
/// The longest line. rustfmt breaks at 120, except strings and comments.
const LINE_CHARS: usize = 200;

/// Files above [`FILE_LINES`], each with its length today. The table is a ratchet: a length here only ever falls.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions above their limit, as `path::name`, each with its length today; a ratchet as well.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Every file begins with its purpose.
pub fn openings(tree: &Tree) -> Result<Vec<Breach>> {
    let opens = |raw: &[String]| raw.first().is_some_and(|line| line.starts_with("//!"));
    let without_purpose = tree.sources.iter().filter(|source| !opens(&source.raw));
    let what = "the first line must be `//!` and say what this file is for, and what it does not know";
    Ok(without_purpose.map(|source| Breach::new(&source.path, 1, what)).collect())
}

/// No file is long.
pub fn file_lengths(tree: &Tree) -> Result<Vec<Breach>> {
    let lengths = tree.sources.iter().map(|source| (source.path.clone(), 1, source.raw.len(), FILE_LINES));
    let mut breaches = ratchet(lengths.collect(), LONG_FILES, "file");
    for source in tree.sources.iter().filter(|source| source.raw.len() > FILE_LINES_MAX) {
        let what = format!("{} lines; above {FILE_LINES_MAX} no table helps: split it", source.raw.len());
        breaches.push(Breach::new(&source.path, 1, what));
    }
    Ok(breaches)
}

/// No function is long.
pub fn function_lengths(tree: &Tree) -> Result<Vec<Breach>> {
    let mut lengths = Vec::new();
    for source in &tree.sources {
        for function in &source.functions {
            let test = source.test.get(function.line - 1).copied().unwrap_or(false);
            let limit = if test { TEST_FUNCTION_LINES } else { FUNCTION_LINES };
            lengths.push((format!("{}::{}", source.path, function.name), function.line, function.lines, limit));
        }
    }
    Ok(ratchet(lengths, LONG_FUNCTIONS, "function"))
}

/// Compares lengths (name, line, length, limit) with their limits, or with the table.
fn ratchet(lengths: Vec<(String, usize, usize, usize)>, table: &[(&str, usize)], noun: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (name, line, length, limit) in &lengths {
        let file = name.split("::").next().unwrap_or(name);
        let what = match table.iter().find(|(known, _)| known == name) {
            None if length > limit => {
                format!("{name}: a {noun} of {length} lines; the limit is {limit}: split it by what its parts do")
            }
            Some((_, known)) if length > known => {
                format!("{name}: {length} lines, {known} before; what is above the limit may only shrink")
            }
            Some((_, known)) if length < known => {
                format!("{name}: now {length} lines; put that in the table instead of {known}, so that it stays")
            }
            _ => continue,
        };
        breaches.push(Breach::new(file, *line, what));
    }
    for (name, _) in table.iter().filter(|(known, _)| !lengths.iter().any(|(name, ..)| name == known)) {
        breaches.push(Breach::new(name, 0, "in the table of long ones, but no longer there: take it out"));
    }
    breaches
}

/// No line is too long to read.
pub fn line_lengths(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        for (n, line) in source.raw.iter().enumerate().filter(|(_, line)| line.chars().count() > LINE_CHARS) {
            let what = format!("{} characters; break it below {LINE_CHARS}", line.chars().count());
            breaches.push(Breach::new(&source.path, n + 1, what));
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::super::samples::lines;
    use super::*;

    const FILE: &str = "crates/a/src/b.rs";

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert!(lines(openings, FILE, "//! Purpose.\n").is_empty());
        for bad in ["", "// Purpose.\n", "\n//! Purpose.\n", "use a;\n//! Purpose.\n"] {
            assert_eq!(lines(openings, FILE, bad), [1], "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_limited() {
        assert!(lines(file_lengths, FILE, &"\n".repeat(500)).is_empty());
        assert_eq!(lines(file_lengths, FILE, &"\n".repeat(501)), [1]);
        assert_eq!(lines(file_lengths, FILE, &"\n".repeat(901)), [1, 1]);
        let function = |lines: usize| format!("\nfn f() {{{}}}\n", "\n".repeat(lines - 1));
        assert!(lines(function_lengths, FILE, &function(70)).is_empty());
        assert_eq!(lines(function_lengths, FILE, &function(71)), [2]);
        assert!(lines(function_lengths, "crates/a/tests/b.rs", &function(120)).is_empty());
        assert_eq!(lines(function_lengths, "crates/a/tests/b.rs", &function(121)), [2]);
        assert!(lines(line_lengths, FILE, &"ü".repeat(200)).is_empty());
        assert_eq!(lines(line_lengths, FILE, &"\n".repeat(2).replace('\n', &format!("{}\n", "x".repeat(201)))), [1, 2]);
    }

    #[test]
    fn a_ratchet_only_shrinks() {
        let breaches_of = |length| ratchet(vec![("a.rs".into(), 1, length, 500)], &[("a.rs", 600)], "file").len();
        assert_eq!((breaches_of(601), breaches_of(600), breaches_of(599), breaches_of(400)), (1, 0, 1, 1));
        assert_eq!(ratchet(Vec::new(), &[("gone.rs", 600)], "file").len(), 1);
    }
}
