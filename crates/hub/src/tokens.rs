//! Tokens of a submission for one file: one for its source, one for its target. They are sent to these storages only.

use std::fmt;

/// The tokens of a file; an empty one means that the key in the description of the endpoint is used.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FileTokens {
    /// For the storage that is read.
    pub source: String,
    /// For the storage that is written.
    pub target: String,
}

impl FileTokens {
    /// Whether both are empty.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty() && self.target.is_empty()
    }
}

impl fmt::Debug for FileTokens {
    /// Writes only whether the tokens are set: logs and failed tests print claims.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |token: &str| if token.is_empty() { "none" } else { "given" };
        f.debug_struct("FileTokens")
            .field("source", &shown(&self.source))
            .field("target", &shown(&self.target))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_printed() {
        let tokens = FileTokens { source: "s3cret".into(), target: String::new() };
        assert_eq!(format!("{tokens:?}"), r#"FileTokens { source: "given", target: "none" }"#);
    }
}
