//! What is wrong with a configuration: where, and what to write instead.

/// A configuration that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ConfigError {
    /// The line, table or name.
    pub place: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl ConfigError {
    /// At a place.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> ConfigError {
        ConfigError { place: place.into(), what: what.into() }
    }
}
