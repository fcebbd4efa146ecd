//! Writes paths as URLs. [`super::parse`] returns exactly the same bytes, whatever they are.

use model::RelPath;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All but the unreserved characters (RFC 3986, section 2.3).
const ALL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As [`ALL_ESCAPED`], without the slash between names and four characters that need no escape in a path. `+` needs none either, but is
/// escaped: many servers read it as a space.
const ESCAPED: &AsciiSet = &ALL_ESCAPED.remove(b'/').remove(b'=').remove(b':').remove(b'@').remove(b',');

/// A name or a value of a query or a form, escaped.
pub fn encode_value(text: &str) -> String {
    percent_encode(text.as_bytes(), ALL_ESCAPED).to_string()
}

/// Bytes of a path, escaped; slashes stay.
pub fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

/// The absolute path of a URL: a slash, the path, and another slash where it is a directory.
pub fn href(path: &RelPath, is_dir: bool) -> String {
    let slash = if is_dir && !path.is_root() { "/" } else { "" };
    format!("/{}{slash}", encode(path.as_bytes()))
}

/// The value of `Location`: `origin` (`https://HOST:PORT`, or empty for the same server), the path, and the unchanged query.
pub fn location(origin: &str, path: &RelPath, is_dir: bool, query: Option<&str>) -> String {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{}{query}", origin.trim_end_matches('/'), href(path, is_dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_escaped_in_urls() {
        let path = RelPath::parse(b"data/a b&c<d>\"%41\xff+\\?#;x=1:2@3").unwrap();
        assert_eq!(href(&path, false), "/data/a%20b%26c%3Cd%3E%22%2541%FF%2B%5C%3F%23%3Bx=1:2@3");
        assert_eq!(href(&RelPath::root(), true), "/");
        let path = RelPath::parse(b"d/e").unwrap();
        assert_eq!(location("https://n:1/", &path, true, Some("a=b")), "https://n:1/d/e/?a=b");
        assert_eq!(location("", &path, false, None), "/d/e");
    }

    proptest! {
        #[test]
        fn a_written_path_is_parsed_unchanged(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_dir in any::<bool>()) {
            if let Ok(path) = RelPath::parse(&bytes) {
                let target = super::super::parse(&href(&path, is_dir)).unwrap();
                prop_assert_eq!(target.is_dir, is_dir || path.is_root());
                prop_assert_eq!(target.path, path);
            }
        }
    }
}
