//! Settings files: TOML, in which an unknown key is an error.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Reads a settings file.
///
/// # Errors
/// The file cannot be read, or is wrong. The message is one line, as a log needs it, and names the line of the file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let fail = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    toml::from_str(&text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        fail(format!("line {}: {}", before.matches('\n').count() + 1, e.message().replace('\n', " ")))
    })
}
