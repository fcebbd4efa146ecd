//! The paths in a Rust file, in full. Does not know: what they lead to.

use super::text::{Source, is_word};

/// All paths of a file with their lines; groups such as `std::{fs, time::Instant}` are expanded.
pub fn paths(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The prefixes of the open groups.
    let mut groups = Vec::<String>::new();
    // The path that is being read.
    let mut path = String::new();
    for (line, code, _) in source.lines() {
        let mut rest = code;
        while let Some(c) = rest.chars().next() {
            let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
            if !word.is_empty() {
                if !path.is_empty() && !path.ends_with("::") {
                    found.push((line, std::mem::take(&mut path)));
                }
                path.push_str(word);
                rest = &rest[word.len()..];
            } else if let Some(after) = rest.strip_prefix("::") {
                path.push_str("::");
                rest = after;
            } else {
                rest = &rest[c.len_utf8()..];
                take_delimiter(c, line, &mut groups, &mut path, &mut found);
            }
        }
        if !path.is_empty() && !path.ends_with("::") {
            end_path(line, &groups, &mut path, &mut found);
        }
    }
    found
}

fn end_path(line: usize, groups: &[String], path: &mut String, found: &mut Vec<(usize, String)>) {
    let whole = groups.concat() + &std::mem::take(path);
    found.push((line, whole.trim_start_matches("::").to_string()));
}

/// Ends a path, or begins or ends a group, at a character that is not part of a path.
fn take_delimiter(c: char, line: usize, groups: &mut Vec<String>, path: &mut String, found: &mut Vec<(usize, String)>) {
    match c {
        // A group, if the path ends with `::`; otherwise a block, which has no prefix.
        '{' => {
            if !path.ends_with("::") && !path.is_empty() {
                end_path(line, groups, path, found);
            }
            groups.push(std::mem::take(path));
        }
        _ => {
            if !path.is_empty() {
                end_path(line, groups, path, found);
            }
            if c == '}' {
                groups.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_expanded() {
        let text = "use std::{\n  fs, time::{self, Instant},\n};\nfn a() { crate::b::c(d) }\n";
        let found = paths(&Source::new("crates/a/src/lib.rs", text));
        let found: Vec<_> =
            found.iter().filter(|(_, path)| path.contains("::")).map(|(line, path)| (*line, path.as_str())).collect();
        let wanted = [(2, "std::fs"), (2, "std::time::self"), (2, "std::time::Instant"), (4, "crate::b::c")];
        assert_eq!(found, wanted);
    }
}
