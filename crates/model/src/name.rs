//! Names and relative paths as bytes: any byte but `/` and NUL may stand in a file name, and names that are not UTF-8 must
//! arrive unchanged.
//!
//! No value of these types leads out of a directory: a [`Name`] is never empty, `.`, `..` or a path, and a [`RelPath`] is
//! a sequence of names.

use std::fmt;

/// The longest file name that Linux file systems allow, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest path that Linux takes in one call, bytes, without its NUL.
pub const PATH_BYTES_MAX: usize = 4095;

/// One component of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

/// Why bytes are not a name or a relative path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, `.`, `..`, or with `/` or NUL.
    #[error("{0:?} is not a file name")]
    NotAName(String),
    /// `..`, or an absolute path, where a path below a directory is expected.
    #[error("{0:?} leads out of its directory")]
    Escapes(String),
    /// Longer than the system allows.
    #[error("{what} of {bytes} bytes is longer than the {limit} that Linux allows")]
    TooLong {
        /// "name" or "path".
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
}

/// Bytes as one line to be shown: bytes that are not UTF-8 and characters that steer a terminal are escaped as `\xNN`.
pub fn show_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| show_char(c, steers_terminal(c), &mut out));
        out.extend(chunk.invalid().iter().map(|b| format!("\\x{b:02x}")));
    }
    out
}

/// A text to be shown, parts of which may come from a peer: line ends and tabs stay, other characters that steer a terminal are escaped.
pub fn show_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| show_char(c, steers_terminal(c) && c != '\n' && c != '\t', &mut out));
    out
}

/// A text as one line for a peer's terminal or log: each character that steers a terminal is replaced by a space.
pub fn to_plain_line(text: &str) -> String {
    text.replace(steers_terminal, " ")
}

/// Whether a text has neither line ends nor other characters that steer a terminal.
pub fn is_plain_line(text: &str) -> bool {
    !text.contains(steers_terminal)
}

/// Whether it is a control character, or one that changes the writing direction: with these a text can be made to look like another one.
fn steers_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn show_char(c: char, escaped: bool, out: &mut String) {
    if escaped { out.extend(c.to_string().bytes().map(|b| format!("\\x{b:02x}"))) } else { out.push(c) }
}

impl Name {
    /// Checks that the bytes are one component of a path.
    ///
    /// # Errors
    /// The bytes are empty, `.`, `..`, longer than [`NAME_BYTES_MAX`], or hold `/` or NUL.
    pub fn new(bytes: &[u8]) -> Result<Name, NameError> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong { what: "name", bytes: bytes.len(), limit: NAME_BYTES_MAX });
        }
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') || bytes.contains(&0) {
            return Err(NameError::NotAName(show_bytes(bytes)));
        }
        Ok(Name(bytes.into()))
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_bytes(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", show_bytes(&self.0))
    }
}

/// A path below some root: names joined by single slashes; empty for the root itself.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Box<[u8]>);

impl RelPath {
    /// The root itself.
    pub fn root() -> RelPath {
        RelPath::default()
    }

    /// Reads a path below a root: empty parts and `.` are dropped. A leading slash means the root.
    ///
    /// # Errors
    /// A part is `..` or not a name, or the path is longer than [`PATH_BYTES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<RelPath, NameError> {
        let mut out = Vec::with_capacity(bytes.len());
        for part in bytes.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".") {
            if part == b".." {
                return Err(NameError::Escapes(show_bytes(bytes)));
            }
            Name::new(part)?;
            if !out.is_empty() {
                out.push(b'/');
            }
            out.extend_from_slice(part);
        }
        if out.len() > PATH_BYTES_MAX {
            return Err(NameError::TooLong { what: "path", bytes: out.len(), limit: PATH_BYTES_MAX });
        }
        Ok(RelPath(out.into()))
    }

    /// This path with one more component.
    pub fn join(&self, name: &Name) -> RelPath {
        let mut out = Vec::with_capacity(self.0.len() + 1 + name.0.len());
        out.extend_from_slice(&self.0);
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(&name.0);
        RelPath(out.into())
    }

    /// This path with another below it.
    pub fn join_path(&self, below: &RelPath) -> RelPath {
        if self.is_root() {
            return below.clone();
        }
        if below.is_root() {
            return self.clone();
        }
        RelPath([&self.0[..], b"/", &below.0[..]].concat().into())
    }

    /// The last component; none for the root.
    pub fn name(&self) -> Option<Name> {
        self.0.rsplit(|b| *b == b'/').next().and_then(|part| Name::new(part).ok())
    }

    /// The path without its last component; the root is its own parent.
    pub fn parent(&self) -> RelPath {
        match self.0.iter().rposition(|b| *b == b'/') {
            Some(at) => RelPath(self.0[..at].into()),
            None => RelPath::root(),
        }
    }

    /// Whether this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` is `prefix` or lies below it, on component boundaries.
    pub fn starts_with(&self, prefix: &RelPath) -> bool {
        prefix.is_root()
            || (self.0.starts_with(&prefix.0)
                && (self.0.len() == prefix.0.len() || self.0.get(prefix.0.len()) == Some(&b'/')))
    }

    /// The rest of this path below `prefix`; none where it does not lie there.
    pub fn below(&self, prefix: &RelPath) -> Option<RelPath> {
        if !self.starts_with(prefix) {
            return None;
        }
        RelPath::parse(&self.0[prefix.0.len()..]).ok()
    }

    /// The raw bytes, without a leading slash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_bytes(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", show_bytes(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_or_path_leads_out_of_its_directory() {
        for bad in ["", ".", "..", "a/b", "a\0b"] {
            assert!(Name::new(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Name::new(&[b'x'; 256]).is_err());
        assert!(Name::new(&[0xff, 0xfe, b'\n']).is_ok());
        for bad in ["..", "a/../b", "../x", "/.."] {
            assert!(RelPath::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(RelPath::parse(b"/a//./b/").map(|p| p.as_bytes().to_vec()), Ok(b"a/b".to_vec()));
    }

    #[test]
    fn prefixes_end_at_components() {
        let path = |s: &str| RelPath::parse(s.as_bytes()).expect("valid");
        assert!(path("a/b").starts_with(&path("a")));
        assert!(path("a").starts_with(&path("a")));
        assert!(!path("ab").starts_with(&path("a")));
        assert!(path("x").starts_with(&RelPath::root()));
        assert_eq!(path("a/b").parent(), path("a"));
        assert_eq!(path("a").parent(), RelPath::root());
        assert_eq!(path("a/b").name(), Name::new(b"b").ok());
        assert_eq!(path("a").join_path(&path("b/c")), path("a/b/c"));
    }

    #[test]
    fn no_text_steers_a_terminal() {
        let text = "\u{1b}[2Jgone\u{9b}31m\r\n\tnext \u{202e}gpj.exe";
        assert_eq!(show_text(text), "\\x1b[2Jgone\\xc2\\x9b31m\\x0d\n\tnext \\xe2\\x80\\xaegpj.exe");
        assert_eq!(show_text("Größe: 3 µs → 5"), "Größe: 3 µs → 5");
        assert_eq!(show_bytes("a\nb".as_bytes()), "a\\x0ab");
        assert_eq!(to_plain_line(text), " [2Jgone 31m   next  gpj.exe");
        assert!(is_plain_line(&to_plain_line(text)) && !is_plain_line(text));
    }

    #[test]
    fn odd_bytes_are_shown_escaped() {
        assert_eq!(show_bytes(b"a\xffb\n"), "a\\xffb\\x0a");
        assert_eq!(show_bytes("grün".as_bytes()), "grün");
    }
}
