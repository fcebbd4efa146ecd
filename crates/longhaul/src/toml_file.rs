//! Files of settings: TOML, of which every key has to be known.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Reads a file of settings.
///
/// # Errors
/// It cannot be read, or a line of it is wrong: in one line, also for a log, where and what.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let fail = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    toml::from_str(&text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        fail(format!("line {}: {}", before.matches('\n').count() + 1, e.message().replace('\n', " ")))
    })
}
