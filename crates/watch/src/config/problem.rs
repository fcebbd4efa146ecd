//! The error of a configuration: its place, and what to write instead.

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ConfigError {
    /// The line, table or name.
    pub place: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl ConfigError {
    /// An error at a line, table or name.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> ConfigError {
        ConfigError { place: place.into(), what: what.into() }
    }
}
