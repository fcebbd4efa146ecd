//! Names of crates and modules: a name says what is inside, so that nothing else is put there.

use anyhow::Result;

use super::text::words;
use super::{Breach, Tree};

/// Names that do not say what is inside.
const MEANINGLESS: [&str; 10] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared", "stuff"];

/// No crate, file, directory or module has a meaningless name.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let mut report = |path: &str, line: usize, name: &str| {
        let what = format!("`{name}` says nothing; name it after its content, or move the content to where it belongs");
        breaches.push(Breach::new(path, line, what));
    };
    for source in &tree.sources {
        for part in source.path.trim_end_matches(".rs").split('/').filter(|part| MEANINGLESS.contains(part)) {
            report(&source.path, 0, part);
        }
        for (line, code, _) in source.lines() {
            let mut words = words(code).map(|(word, _)| word);
            // Modules within a file; others were found by the paths of their files.
            if words.any(|word| word == "mod") && code.trim_end().ends_with('{') {
                words
                    .next()
                    .filter(|name| MEANINGLESS.contains(name))
                    .iter()
                    .for_each(|name| report(&source.path, line, name));
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
    fn meaningless_names_are_found() {
        assert_eq!(lines(check, "crates/a/src/util.rs", ""), [0]);
        assert_eq!(lines(check, "crates/common/src/a.rs", ""), [0]);
        assert_eq!(lines(check, "crates/a/tests/helpers/mod.rs", ""), [0]);
        assert_eq!(lines(check, "crates/a/src/lib.rs", "mod a;\npub mod misc {\n}\n"), [2]);
        assert!(lines(check, "crates/a/src/utility_meter.rs", "mod common_law {\n}\n").is_empty());
    }
}
