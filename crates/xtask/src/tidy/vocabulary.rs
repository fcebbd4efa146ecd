//! The words of types, modules and sentences: one noun for each concept, the usual one of the field (docs/glossary.md).
//!
//! Does not know: the meaning of words. It has lists of vague and picturesque words, with better ones.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::text::words;
use super::{Breach, Tree};

/// Names of types that could be the name of anything, with what to write instead.
const VAGUE_TYPES: &[(&str, &str)] = &[
    ("Line", "what it is a line of: `ReceiptLine`, `SampleLine`"),
    ("Said", "`Report`, `Reply`, or what is said"),
    ("Told", "`Report`, `Event`, or what is told"),
    ("Asked", "`Query`, `Request`, or what is asked for"),
    ("Way", "`Path`, `Direction`, `Method`"),
    ("Ways", "`Paths`, `Directions`, `Methods`"),
    ("Place", "the kind of place: `Offset`, `Directory`, `Endpoint`"),
    ("Run", "what runs: `TestRun`, `SweepRun`"),
    ("Seat", "`Permit`, `Slot`"),
    ("Desk", "what is kept there: `TestService`, `SeriesTable`"),
    ("Stable", "`JobSource`"),
    ("Visitor", "`Principal`, `Client`"),
    ("Crowd", "`ConnectionLimits`, `OpenFiles`"),
    ("Sight", "`Sample`"),
    ("Act", "`Action`"),
    ("About", "what it is about"),
    ("There", "`RemoteEnd`, `Target`"),
    ("Here", "`LocalEnd`, `Source`"),
];

/// Names of std's prelude that no type may have. `Result` is not among them: a crate may alias it with its own error.
const PRELUDE: [&str; 14] = [
    "Option", "Some", "None", "Ok", "Vec", "String", "Box", "From", "Into", "Iterator", "Drop", "Default", "Clone",
    "Send",
];

/// Names that each crate or program may use, by convention.
const CONVENTIONAL: [&str; 3] = ["Error", "Result", "Args"];

/// The most types of one name.
const SAME_NAME_MAX: usize = 2;

/// Picturesque names of modules, with what to write instead.
const PICTURESQUE_NAMES: &[(&str, &str)] = &[
    ("hall", "admission_queue"),
    ("lounge", "idle_connections"),
    ("clerk", "metadata_worker"),
    ("porter", "resume_verifier"),
    ("keeper", "authenticator"),
    ("crowd", "connection_limits"),
    ("shelf", "open_files"),
    ("reins", "job_control"),
    ("stable", "job_source"),
    ("errand", "delegated_transfer"),
    ("abroad", "remote_stores"),
    ("desk", "test_service"),
];

/// Phrases that need a second reading, with what to write instead.
const UNCLEAR_PHRASES: &[(&str, &str)] = &[
    ("is not to be had", "`is not available`, `cannot be reached`"),
    ("that does not read", "`that cannot be read`, `that is not valid JSON`"),
    ("does not read:", "`cannot be read:`"),
    ("nobody has asked who", "`not authenticated yet`"),
    ("Somebody of whom", "name the person: a client, a principal, an operator"),
    ("Hears of it", "name what is done: `Applies the change`"),
];

/// The table of names that more than [`SAME_NAME_MAX`] types have, with their numbers. It is a ratchet: a number here only ever falls.
const RATCHET: &str = "crates/xtask/type_names.toml";

/// No type has a vague name, or one of the prelude.
pub fn type_names(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for (path, line, name) in types(tree) {
        let vague = VAGUE_TYPES.iter().find(|(vague, _)| *vague == name);
        if let Some((_, instead)) = vague {
            breaches.push(Breach::new(path, line, format!("`{name}` is vague; write {instead}")));
        }
        if PRELUDE.contains(&name) {
            breaches.push(Breach::new(path, line, format!("`{name}` is a name of std; use another one")));
        }
    }
    Ok(breaches)
}

/// At most two types have the same name, or as many as the table permits.
///
/// # Errors
/// The table is not valid TOML.
pub fn one_name_one_thing(tree: &Tree) -> Result<Vec<Breach>> {
    let table = match tree.files.iter().find(|file| file.path == RATCHET) {
        Some(file) => toml::from_str(&String::from_utf8_lossy(&file.bytes)).context(RATCHET)?,
        None => BTreeMap::new(),
    };
    Ok(judge(&types(tree), &table))
}

fn judge(types: &[(&str, usize, &str)], table: &BTreeMap<String, usize>) -> Vec<Breach> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (path, line, name) in types.iter().filter(|(.., name)| !CONVENTIONAL.contains(name)) {
        places.entry(name).or_default().push((path, *line));
    }
    let mut breaches = Vec::new();
    for (name, places) in &places {
        let (count, known) = (places.len(), table.get(*name).copied());
        let (path, line) = places[count - 1];
        let what = match known {
            None if count > SAME_NAME_MAX => {
                let others: Vec<String> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
                format!("{count} types are called `{name}`; {SAME_NAME_MAX} may be: {}", others.join(", "))
            }
            Some(known) if count > known => {
                format!("{count} types are called `{name}`, {known} before: use a more exact name")
            }
            Some(known) if count < known => {
                format!("{count} types are called `{name}`: put that into {RATCHET} instead of {known}")
            }
            _ => continue,
        };
        breaches.push(Breach::new(path, line, what));
    }
    let gone = table.keys().filter(|name| !places.contains_key(name.as_str()));
    breaches
        .extend(gone.map(|name| Breach::new(RATCHET, 0, format!("no type is called `{name}` any more: take it out"))));
    breaches
}

/// The types that are defined in the tree: path, line, name. Associated types in implementations are left out: the trait names them.
fn types(tree: &Tree) -> Vec<(&str, usize, &str)> {
    let mut types = Vec::new();
    for source in &tree.sources {
        for (line, code, _) in source.lines() {
            let is_indented = code.starts_with(' ');
            let mut words = words(code)
                .map(|(word, _)| word)
                .skip_while(|word| ["pub", "crate", "super", "in", "unsafe"].contains(word));
            match words.next() {
                Some("struct" | "enum" | "trait" | "union") => {
                    types.extend(words.next().map(|name| (source.path.as_str(), line, name)))
                }
                Some("type") if !is_indented => {
                    types.extend(words.next().map(|name| (source.path.as_str(), line, name)))
                }
                _ => {}
            }
        }
    }
    types
}

/// No module has a picturesque name.
pub fn module_names(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        for part in source.path.trim_end_matches(".rs").split('/') {
            if let Some((_, instead)) = PICTURESQUE_NAMES.iter().find(|(picture, _)| *picture == part) {
                breaches.push(Breach::new(&source.path, 0, format!("`{part}` is picturesque; write `{instead}`")));
            }
        }
    }
    Ok(breaches)
}

/// No comment, message or document has a phrase that needs a second reading.
pub fn sentences(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    // These files quote such phrases, so the rule does not read them.
    let is_exempt = |path: &str| {
        path.ends_with("tidy/vocabulary.rs") || path.ends_with("CHANGELOG.md") || path.ends_with("CONTRIBUTING.md")
    };
    let texts = tree
        .files
        .iter()
        .filter(|file| (file.path.ends_with(".rs") || file.path.ends_with(".md")) && !is_exempt(&file.path));
    for file in texts {
        for (at, line) in String::from_utf8_lossy(&file.bytes).lines().enumerate() {
            for (phrase, instead) in UNCLEAR_PHRASES.iter().filter(|(phrase, _)| line.contains(phrase)) {
                breaches.push(Breach::new(
                    &file.path,
                    at + 1,
                    format!("{phrase:?} needs a second reading; write {instead}"),
                ));
            }
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
    fn vague_names_and_names_of_std_are_found() {
        let text = "struct Line;\npub(crate) enum Told {}\n// struct Way\npub struct PathLine;\npub trait From {}\nimpl A {\n    type Err = B;\n}\n";
        assert_eq!(lines(type_names, FILE, text), [1, 2, 5]);
    }

    #[test]
    fn at_most_two_types_have_the_same_name() {
        let types = [("a.rs", 1, "Reading"), ("b.rs", 2, "Reading"), ("c.rs", 3, "Reading"), ("d.rs", 4, "Error")];
        let table = |count: Option<usize>| count.map(|count| ("Reading".to_owned(), count)).into_iter().collect();
        let found = judge(&types, &table(None));
        assert_eq!((found.len(), found[0].what.contains("a.rs:1, b.rs:2, c.rs:3")), (1, true));
        assert!(judge(&types[..2], &table(None)).is_empty() && judge(&types, &table(Some(3))).is_empty());
        assert!(judge(&types, &table(Some(4)))[0].what.contains("put that into"));
        assert!(judge(&[], &table(Some(3)))[0].what.contains("take it out"));
        let four: Vec<_> = (0..4).map(|line| ("a.rs", line, "Reading")).collect();
        assert!(judge(&four, &table(Some(3)))[0].what.contains("3 before"));
    }

    #[test]
    fn picturesque_modules_and_unclear_phrases_are_found() {
        assert_eq!(lines(module_names, "crates/a/src/lounge/mod.rs", ""), [0]);
        assert!(lines(module_names, "crates/a/src/lounges.rs", "").is_empty());
        assert_eq!(lines(sentences, FILE, "//! A file.\n// The key is not to be had there.\n"), [2]);
    }
}
