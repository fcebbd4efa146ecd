//! The public JSON, version 1, is compared with the golden files in `json_v1/`: one file for each document, with every field it can have.
//!
//! Scripts and other programs rely on these documents. To rename or remove a field, or a word of an enum, breaks them: it needs an entry in
//! CHANGELOG.md. A new one is added to the files. `LONGHAUL_BLESS=1 cargo test -p model --test json_v1` rewrites the files: fields that a
//! document lacks get made-up values, which are then replaced by realistic ones by hand.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

#[path = "json_v1/documents.rs"]
mod documents;
#[path = "json_v1/walk.rs"]
mod walk;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use model::v1;
use serde_json::Value;

use documents::{DOCUMENTS, Document};
use walk::Notes;

const ADVICE: &str =
    "scripts rely on it: if the change is meant, LONGHAUL_BLESS=1 rewrites the file, and CHANGELOG.md says so";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json_v1").join(format!("{name}.json"))
}

/// The text of a golden file. With `LONGHAUL_BLESS` all of them are rewritten before the first one is read.
fn golden(name: &str) -> String {
    static BLESSED: Once = Once::new();
    BLESSED.call_once(|| {
        if std::env::var_os("LONGHAUL_BLESS").is_some() {
            DOCUMENTS.iter().for_each(bless);
        }
    });
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}; {ADVICE}"))
}

fn bless(document: &Document) {
    let old = fs::read_to_string(file(document.name)).ok();
    let old: Option<Value> = old.map(|text| serde_json::from_str(&text).unwrap());
    let new = (document.rewrite)(old.as_ref(), &RefCell::default());
    fs::write(file(document.name), new.unwrap_or_else(|error| panic!("{}: {error}", document.name))).unwrap();
}

#[test]
fn documents_are_those_of_the_golden_files() {
    for document in DOCUMENTS {
        let (name, text, notes) = (document.name, golden(document.name), RefCell::new(Notes::default()));
        let value: Value = serde_json::from_str(&text).unwrap();
        let rewritten = (document.rewrite)(Some(&value), &notes).unwrap_or_else(|e| panic!("{name}: {e}; {ADVICE}"));
        let missing = notes.into_inner().missing;
        assert!(missing.is_empty(), "{name}: the golden file lacks {missing:?}; {ADVICE}");
        let lines = rewritten.lines().zip(text.lines()).enumerate();
        for (line, (ours, golden)) in lines {
            assert_eq!(ours, golden, "{name}, line {}: the type writes another line; {ADVICE}", line + 1);
        }
        assert_eq!(rewritten.len(), text.len(), "{name}: the type writes another length; {ADVICE}");
    }
}

/// The notes of a walk over all golden files.
fn notes_of_all() -> Notes {
    let notes = RefCell::new(Notes::default());
    for document in DOCUMENTS {
        let value: Value = serde_json::from_str(&golden(document.name)).unwrap();
        (document.rewrite)(Some(&value), &notes).unwrap_or_else(|e| panic!("{}: {e}; {ADVICE}", document.name));
    }
    notes.into_inner()
}

#[test]
fn every_word_of_every_enum_is_in_a_golden_file() {
    for ((name, words), met) in notes_of_all().met {
        let unmet: Vec<_> = words.iter().filter(|word| !met.contains(**word)).collect();
        assert!(
            unmet.is_empty(),
            "{name}: no golden file has {unmet:?}; words.json lists those without fields. {ADVICE}"
        );
    }
}

/// Types that the walk does not meet: those that are only written, flattened ones, and enums tagged by a field.
const UNMET: [&str; 9] =
    ["FileOutcome", "NotPlaced", "NotPromised", "Planned", "Progress", "ProbeDocument", "Total", "User", "UdpPace"];

#[test]
fn every_type_is_in_a_golden_file() {
    let notes = notes_of_all();
    let met: BTreeSet<&str> = notes.met.keys().map(|(name, _)| *name).chain(notes.structs).chain(UNMET).collect();
    let mut types = 0;
    for source in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/v1")) {
        for line in source.lines() {
            let Some(rest) = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum ")) else { continue };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            assert!(met.contains(name), "no golden file has a {name}: add its document to documents.rs");
            types += 1;
        }
    }
    assert!(types > 100, "the types are found: {types}");
}

/// The texts of `v1.rs` and of all files below `v1/`.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts: Vec<String> = fs::read_to_string(folder.with_extension("rs")).into_iter().collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if !path.with_extension("").is_dir() {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    texts
}

/// Flattened structs: serde does not report their fields, so they are read once more by themselves.
#[test]
fn flattened_structs_are_whole() {
    let read = |name: &str| -> Value { serde_json::from_str(&golden(name)).unwrap() };
    let (flows, tcp, notes) = (read("flows"), read("probe-tcp"), RefCell::default());
    walk::read::<v1::flows::Volume>(flows.pointer("/windows/0/users/0"), &notes).unwrap();
    for total in ["/near/totals/0", "/far/totals/0"] {
        walk::read::<v1::probe::tcp::Flow>(tcp.pointer(total), &notes).unwrap();
    }
    assert_eq!(notes.into_inner().missing, Vec::<String>::new(), "{ADVICE}");
}

#[test]
fn every_pace_of_datagrams_is_in_the_golden_file() {
    use v1::probe::udp::UdpPace;
    let paces: Vec<UdpPace> = serde_json::from_str(&golden("probe-udp-paces")).unwrap();
    // A new one is added to the file and to this list.
    let number = |pace: &UdpPace| match pace {
        UdpPace::Spacing { .. } => 0,
        UdpPace::Rate { .. } => 1,
        UdpPace::Bursts { .. } => 2,
        UdpPace::Max => 3,
    };
    assert_eq!(paces.iter().map(number).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn every_golden_file_is_a_document() {
    let named: BTreeSet<String> = DOCUMENTS.iter().map(|document| format!("{}.json", document.name)).collect();
    let there = fs::read_dir(file("x").parent().unwrap()).unwrap();
    let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(there.filter(|name| name.ends_with(".json")).collect::<BTreeSet<_>>(), named);
}
