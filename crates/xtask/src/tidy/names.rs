//! Names of crates and modules: nouns that say what is inside, so that nothing else is put there.

use anyhow::Result;

use super::text::words;
use super::{Breach, Tree};

/// Names that mean "whatever did not fit elsewhere".
const EMPTY: [&str; 10] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared", "stuff"];

/// No crate, file, directory or module has an empty name.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let mut blame = |path: &str, line: usize, name: &str| {
        let what = format!("`{name}` says nothing; name it after what is inside, or move that to where it belongs");
        breaches.push(Breach::new(path, line, what));
    };
    for source in &tree.sources {
        for part in source.path.trim_end_matches(".rs").split('/').filter(|part| EMPTY.contains(part)) {
            blame(&source.path, 0, part);
        }
        for (line, code, _) in source.lines() {
            let mut words = words(code).map(|(word, _)| word);
            // Modules within a file; those with a file of their own were seen by its path.
            if words.any(|word| word == "mod") && code.trim_end().ends_with('{') {
                words
                    .next()
                    .filter(|name| EMPTY.contains(name))
                    .iter()
                    .for_each(|name| blame(&source.path, line, name));
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::super::samples::lines;
    use super::*;

    #[test]
    fn empty_names_are_found() {
        assert_eq!(lines(check, "crates/a/src/util.rs", ""), [0]);
        assert_eq!(lines(check, "crates/common/src/a.rs", ""), [0]);
        assert_eq!(lines(check, "crates/a/tests/helpers/mod.rs", ""), [0]);
        assert_eq!(lines(check, "crates/a/src/lib.rs", "mod a;\npub mod misc {\n}\n"), [2]);
        assert!(lines(check, "crates/a/src/utility_meter.rs", "mod common_law {\n}\n").is_empty());
    }
}
