//! Header fields. Names are compared without regard to case; values and their order are kept.

use std::fmt::Write;

/// Trims optional white space (RFC 9110, section 5.6.3): spaces and tabs, and no other white space of Unicode. A server that trims more
/// could read another message than the next server on the path.
pub(crate) fn ows(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Whether this is a token (RFC 9110, section 5.6.2), as a field's name must be.
pub(crate) fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

/// Header fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// No fields.
    pub fn new() -> Headers {
        Headers::default()
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Every value of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether a comma-separated list names a token, without regard to case.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.all(name).any(|value| value.split(',').any(|item| ows(item).eq_ignore_ascii_case(token)))
    }

    /// Whether a response may have this content coding (`Accept-Encoding`, RFC 9110, section 12.5.3): the coding, or `*`, is listed
    /// and not refused (`q=0`).
    pub fn accepts_coding(&self, coding: &str) -> bool {
        let items = || self.all("accept-encoding").flat_map(|value| value.split(',')).map(ows);
        let weight = |wanted: &str| {
            items().find_map(|item| {
                let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
                let named = ows(name).eq_ignore_ascii_case(wanted);
                let quality = ows(parameters).strip_prefix("q=").map_or(Some(1.0), |q| ows(q).parse::<f32>().ok());
                named.then_some(quality.unwrap_or(0.0))
            })
        };
        weight(coding).or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
    }

    /// Adds a field. CR, LF and NUL become spaces, so that no value can begin a new line.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let mut value = value.into();
        if value.contains(['\r', '\n', '\0']) {
            value = value.replace(['\r', '\n', '\0'], " ");
        }
        self.0.push((name.into(), value));
    }

    /// As [`Headers::add`], for a chain of calls.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Headers {
        self.add(name, value);
        self
    }

    /// Sets a field, in place of all fields of this name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.add(name, value);
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Writes the fields as lines of a head, without the empty line after them.
    pub fn write(&self, to: &mut String) {
        for (name, value) in self.iter() {
            let _ = write!(to, "{name}: {value}\r\n");
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Headers {
        let mut headers = Headers::default();
        pairs.into_iter().for_each(|(name, value)| headers.add(name, value));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_coding_is_accepted_only_if_it_is_listed_and_not_refused() {
        let accepts = |value: &str| Headers::new().with("Accept-Encoding", value).accepts_coding("gzip");
        for yes in ["gzip", "deflate, GZIP;q=0.5", "*", "br, *;q=0.1", "identity, gzip; q=1.0"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "*;q=0", "gzip;q=0, *", "gzip;q=x", "xgzip"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!Headers::new().accepts_coding("gzip"));
    }

    #[test]
    fn names_are_compared_without_case_and_values_cannot_add_lines() {
        let mut headers = Headers::new().with("Want-Digest", "md5").with("X", "a\r\nEvil: b");
        headers.add("x", "c, Close");
        assert_eq!(headers.get("want-digest"), Some("md5"));
        assert_eq!(headers.all("X").collect::<Vec<_>>(), ["a  Evil: b", "c, Close"]);
        assert!(headers.lists("x", "close") && !headers.lists("x", "los"));
        headers.set("X", "d");
        let mut text = String::new();
        headers.write(&mut text);
        assert_eq!(text, "Want-Digest: md5\r\nX: d\r\n");
    }
}
