//! What is wrong with a scenario, where, and what to do about it.

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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.what, self.remedy),
            line => write!(f, "line {line}: {}: {}", self.what, self.remedy),
        }
    }
}

impl std::error::Error for Problem {}
