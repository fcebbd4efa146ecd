//! A fault in a scenario: where it is, and the remedy.
//!
//! Does not know: what a scenario may say.

use std::fmt;

/// A fault in a scenario. All faults are found before anything is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 where there is none (a command line).
    pub line: usize,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Problem {
    pub(super) fn new(line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem { line, what: what.into(), remedy: remedy.into() }
    }
}

/// The word of `known` that was probably meant.
fn nearest<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// The least similarity; 1 is the same word. Two wrong letters in five are too many.
    const SIMILARITY_MIN: f64 = 0.65;
    let rated = known.into_iter().map(|word| (strsim::normalized_damerau_levenshtein(unknown, word), word));
    rated
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// The remedy for a word that is none of `known`: the word that was probably meant, else all known words.
pub(super) fn instead<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    const SHOWN: usize = 20;
    if let Some(word) = nearest(unknown, known.clone()) {
        return format!("did you mean {word:?}?");
    }
    let mut words: Vec<&str> = known.into_iter().collect();
    let dots = if words.len() > SHOWN { ", …" } else { "" };
    words.truncate(SHOWN);
    if words.is_empty() { "leave it out".to_owned() } else { format!("write one of: {}{dots}", words.join(", ")) }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.what, self.remedy),
            line => write!(f, "line {line}: {}: {}", self.what, self.remedy),
        }
    }
}

impl std::error::Error for Problem {}
