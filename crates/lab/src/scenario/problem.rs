//! What is wrong with a scenario, where, and what to do about it.
//!
//! Does not know: what a scenario may say.

use std::fmt;

/// What is wrong with a scenario. All of it is found before anything is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 where no line is meant (a command line).
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Problem {
    pub(super) fn new(line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem { line, what: what.into(), remedy: remedy.into() }
    }
}

/// The one of `known` that was probably meant.
fn nearest<'k>(said: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Alike enough; 1 is the same. Two wrong letters in five are not.
    const ALIKE: f64 = 0.65;
    let rated = known.into_iter().map(|word| (strsim::normalized_damerau_levenshtein(said, word), word));
    rated.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

/// What to do about a word that is none of `known`: the one that was probably meant, else all there are.
pub(super) fn instead<'k>(said: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    const SHOWN: usize = 20;
    if let Some(word) = nearest(said, known.clone()) {
        return format!("did you mean {word:?}?");
    }
    let mut words: Vec<&str> = known.into_iter().collect();
    let dots = if words.len() > SHOWN { ", …" } else { "" };
    words.truncate(SHOWN);
    match words.is_empty() {
        true => "leave it out".to_owned(),
        false => format!("write one of: {}{dots}", words.join(", ")),
    }
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
