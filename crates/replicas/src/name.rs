//! Names of data: `scope:name`.

use std::fmt;
use std::str::FromStr;

/// The longest scope.
pub const SCOPE_BYTES_MAX: usize = 64;
/// The longest name within a scope: with the directories of an endpoint before it, it is still a path.
pub const NAME_BYTES_MAX: usize = 500;

/// The name of a file, a dataset or a container: a scope, which has an owner, and a name within it. A name may have slashes, but it cannot
/// leave its directory as a path: no part of it is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataName {
    scope: String,
    name: String,
}

/// Why a text is not a name of data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no scope.
    #[error("{0:?} has no scope: names are scope:name")]
    NoScope(String),
    /// The scope is empty, too long, or has characters that a scope may not have.
    #[error(
        "{0:?} is not a valid scope: letters, digits, '.', '_' and '-', {SCOPE_BYTES_MAX} bytes at most, and a letter or digit first"
    )]
    Scope(String),
    /// The name is too long.
    #[error("a name has {NAME_BYTES_MAX} bytes at most, and this one has {bytes}: {beginning:?}…")]
    Long {
        /// Its length.
        bytes: usize,
        /// How it begins.
        beginning: String,
    },
    /// The name has a part or a character that a name may not have.
    #[error(
        "{0:?} is not a valid name: no empty part between slashes, no part '.' or '..', no '\\', ':' or control character, no outer space"
    )]
    Name(String),
}

/// The part of a text that an error quotes.
fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Checks a scope.
///
/// # Errors
/// It is empty, too long, or has other characters than a scope has.
pub fn check_scope(scope: &str) -> Result<(), NameError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = scope.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && scope.len() <= SCOPE_BYTES_MAX && scope.chars().all(is_plain) {
        return Ok(());
    }
    Err(NameError::Scope(beginning(scope)))
}

fn check_name(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::Long { bytes: name.len(), beginning: beginning(name) });
    }
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_plain = |c: char| !c.is_control() && c != '\\' && c != ':';
    if name.split('/').all(is_part) && name.chars().all(is_plain) && name.trim() == name {
        return Ok(());
    }
    Err(NameError::Name(beginning(name)))
}

impl DataName {
    /// Makes a name of a scope and a name within it.
    ///
    /// # Errors
    /// The scope or the name is not valid.
    pub fn new(scope: &str, name: &str) -> Result<DataName, NameError> {
        check_scope(scope)?;
        check_name(name)?;
        Ok(DataName { scope: scope.to_owned(), name: name.to_owned() })
    }

    /// The scope.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The name within the scope.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for DataName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<DataName, NameError> {
        let (scope, name) = text.split_once(':').ok_or_else(|| NameError::NoScope(beginning(text)))?;
        DataName::new(scope, name)
    }
}

impl fmt::Display for DataName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scope, self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_a_scope_and_a_path() {
        let name: DataName = "ska.low:scan-7/beam 3/visibilities.ms".parse().unwrap();
        assert_eq!((name.scope(), name.name()), ("ska.low", "scan-7/beam 3/visibilities.ms"));
        assert_eq!(name.to_string(), "ska.low:scan-7/beam 3/visibilities.ms");
    }

    #[test]
    fn an_error_says_why_a_text_is_not_a_name() {
        let long = format!("s:{}", "x".repeat(10_000));
        for (text, why) in [
            ("scan-7", "has no scope"),
            (":scan-7", "is not a valid scope"),
            ("a b:scan-7", "is not a valid scope"),
            ("-a:scan-7", "is not a valid scope"),
            ("s:", "is not a valid name"),
            ("s:/etc", "is not a valid name"),
            ("s:a//b", "is not a valid name"),
            ("s:a/../b", "is not a valid name"),
            ("s:a\nb", "is not a valid name"),
            ("s:a:b", "is not a valid name"),
            ("s: a", "is not a valid name"),
            (long.as_str(), "has 10000"),
        ] {
            let error = text.parse::<DataName>().unwrap_err().to_string();
            assert!(error.contains(why) && error.len() < 400, "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_read_is_written_as_it_was(text in "\\PC{0,40}") {
            if let Ok(name) = text.parse::<DataName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }

        #[test]
        fn no_name_leaves_its_directory(name in "[a./]{1,12}") {
            if let Ok(name) = DataName::new("s", &name) {
                prop_assert!(name.name().split('/').all(|part| part != ".." && part != "." && !part.is_empty()));
            }
        }
    }
}
