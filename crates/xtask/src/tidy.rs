//! The house rules as tests, so that no reviewer has to look for breaches. A rule reads the tree and names each breach by file
//! and line, with the remedy.
//!
//! Does not know: types. It reads text and the manifests; the compiler and clippy check the rest.

pub mod arrows;
mod budgets;
mod circles;
mod links;
mod markdown;
mod names;
mod paths;
mod picture;
mod quotes;
mod repository_files;
mod shape;
mod spending;
mod text;
mod versions;
mod vocabulary;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use text::Source;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The path of the file, below the root.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub what: String,
}

impl Breach {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Breach {
        Breach { file: file.into(), line, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// A file of the repository: committed, or new and not ignored.
#[derive(Clone, Debug)]
pub struct RepositoryFile {
    /// The path below the root, with slashes.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The repository, as the rules read it.
#[derive(Debug)]
pub struct Tree {
    /// Its root directory.
    pub root: PathBuf,
    /// All files.
    pub files: Vec<RepositoryFile>,
    /// The parsed Rust files.
    pub sources: Vec<Source>,
}

/// A rule: its name, and the function that finds its breaches. The function fails if the rule cannot be checked.
pub type Rule = (&'static str, fn(&Tree) -> Result<Vec<Breach>>);

/// All rules.
pub const RULES: &[Rule] = &[
    ("arrows_point_down", arrows::check),
    ("modules_have_no_circles", circles::check),
    ("files_open_with_their_purpose", shape::openings),
    ("files_are_short", shape::file_lengths),
    ("functions_are_short", shape::function_lengths),
    ("lines_are_not_endless", shape::line_lengths),
    ("unsafe_is_in_sys", words::unsafe_code),
    ("only_programs_print", words::prints),
    ("nothing_unwraps", words::unwraps),
    ("pure_crates_stay_pure", words::impurities),
    ("names_say_something", names::check),
    ("types_are_nouns", vocabulary::type_names),
    ("one_name_is_one_thing", vocabulary::one_name_one_thing),
    ("modules_are_no_pictures", vocabulary::module_names),
    ("sentences_are_plain", vocabulary::sentences),
    ("the_licence_is_there", repository_files::licence),
    ("committed_files_are_small_texts", repository_files::small_texts),
    ("documents_name_no_machine", repository_files::machine_paths),
    ("packaging_names_the_version", versions::check),
    ("links_lead_somewhere", links::lead_somewhere),
    ("messages_are_quoted_as_they_are", quotes::check),
    ("what_can_be_spent_is_bounded", spending::check),
    ("the_picture_shows_the_crates", picture::check),
    ("test_programs_have_budgets", budgets::check),
];

impl Tree {
    /// Loads the repository that this program was built from.
    ///
    /// # Errors
    /// git cannot list the files.
    pub fn load() -> Result<Tree> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        // New files are checked before they are committed.
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let output = Command::new("git").arg("-C").arg(&root).args(list).output().context("cannot run git")?;
        ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
        let mut files = Vec::new();
        for path in output.stdout.split(|b| *b == 0).filter(|path| !path.is_empty()) {
            let path = String::from_utf8_lossy(path).into_owned();
            // git also lists a deleted file until the deletion is committed.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.push(RepositoryFile { path, bytes });
            }
        }
        Ok(Tree::of(root, files))
    }

    /// Makes a tree of these files.
    pub fn of(root: PathBuf, files: Vec<RepositoryFile>) -> Tree {
        let rust = files.iter().filter(|p| p.path.ends_with(".rs") && !in_testdata(&p.path));
        let sources = rust.map(|p| Source::new(&p.path, &String::from_utf8_lossy(&p.bytes))).collect();
        Tree { root, files, sources }
    }
}

fn in_testdata(path: &str) -> bool {
    path.split('/').any(|part| part == "testdata")
}

/// Checks one rule; the report is empty if the rule holds.
///
/// # Errors
/// The rule cannot be checked.
pub fn run(tree: &Tree, (name, check): &Rule) -> Result<String> {
    let breaches = check(tree).with_context(|| format!("the rule {name} could not be checked"))?;
    Ok(breaches.iter().map(|breach| format!("{name}: {breach}\n")).collect())
}

/// Checks all rules; the report is empty if all hold.
///
/// # Errors
/// The tree cannot be read, or a rule cannot be checked.
pub fn run_all() -> Result<String> {
    let tree = Tree::load()?;
    RULES.iter().map(|rule| run(&tree, rule)).collect()
}

#[cfg(test)]
mod samples {
    use super::*;

    /// A tree of one file.
    pub fn tree(path: &str, text: &str) -> Tree {
        Tree::of(PathBuf::new(), vec![RepositoryFile { path: path.into(), bytes: text.into() }])
    }

    /// The lines of a file that break a rule.
    pub fn lines(rule: fn(&Tree) -> Result<Vec<Breach>>, path: &str, text: &str) -> Vec<usize> {
        rule(&tree(path, text)).unwrap().iter().map(|breach| breach.line).collect()
    }
}
