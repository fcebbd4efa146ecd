//! A path as requests have it: `/export/dir/file?name=value&name=value`.

use model::RelPath;
use percent_encoding::percent_decode_str;

use crate::Malformed;
use crate::bytes::before_nul;
use crate::head::FileHandle;
use crate::limits::PLACE_BYTES_MAX;

/// A path below the root of the server, with the parameters behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootPath {
    /// The path. Its bytes are those of the names; nothing in it is encoded.
    pub path: RelPath,
    /// Names and values, as they were written.
    parameters: Vec<(String, String)>,
}

impl RootPath {
    /// A path without parameters.
    pub fn new(path: RelPath) -> RootPath {
        RootPath { path, parameters: Vec::new() }
    }

    /// Parses a path.
    ///
    /// # Errors
    /// [`Malformed::Field`]: the path leads upwards, has a line end in it, or its parameters are not text.
    pub fn parse(bytes: &[u8]) -> Result<RootPath, Malformed> {
        let bytes = before_nul(bytes);
        if bytes.len() > PLACE_BYTES_MAX {
            return Err(Malformed::TooLong { bytes: bytes.len() as u64, limit: PLACE_BYTES_MAX as u64 });
        }
        let (path, parameters) = match bytes.iter().position(|byte| *byte == b'?') {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (bytes, &b""[..]),
        };
        // Lists of paths are separated by line ends.
        if path.contains(&b'\n') {
            return Err(Malformed::Field("the path"));
        }
        let path = RelPath::parse(path).map_err(|_| Malformed::Field("the path"))?;
        let parameters = std::str::from_utf8(parameters).map_err(|_| Malformed::Field("the text behind ?"))?;
        Ok(RootPath { path, parameters: pairs(parameters) })
    }

    /// The value of a parameter, percent-decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let found = self.parameters.iter().find(|(known, _)| known == name)?;
        Some(percent_decode_str(&found.1).decode_utf8_lossy().into_owned())
    }

    /// The value of a parameter, as it was written.
    pub fn raw_parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Names and values, as they were written.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The same path with this value of a parameter, and no other one.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> RootPath {
        self.parameters.retain(|(known, _)| known != name);
        self.with(name, value)
    }

    /// The same path with one more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> RootPath {
        self.parameters.push((name.to_owned(), value.into()));
        self
    }

    /// Writes the path as a request has it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![b'/'];
        bytes.extend_from_slice(self.path.as_bytes());
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            bytes.push(if at == 0 { b'?' } else { b'&' });
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }
}

/// An open file, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOrPath {
    /// An open file.
    File(FileHandle),
    /// A path.
    Path(RootPath),
}

/// The names and values of a list `name=value&name=value`; a part without `=` is left out.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_its_parameters_are_parsed() {
        let place = RootPath::parse(b"//data/run 7/f%20?authz=Bearer%20a.b.c&oss.asize=7&x\0ignored").unwrap();
        assert_eq!(place.path.as_bytes(), b"data/run 7/f%20", "a name is as it is written");
        assert_eq!(place.parameter("authz").as_deref(), Some("Bearer a.b.c"));
        assert_eq!(place.raw_parameter("authz"), Some("Bearer%20a.b.c"));
        assert_eq!(place.parameter("x"), None);
        assert_eq!(place.to_bytes(), b"/data/run 7/f%20?authz=Bearer%20a.b.c&oss.asize=7");
    }

    #[test]
    fn no_path_leads_upwards() {
        for bad in [&b"/data/../../etc"[..], b"..", b"/a\nb", b"/a?\xff=1"] {
            assert!(RootPath::parse(bad).is_err(), "{bad:?}");
        }
        assert!(RootPath::parse(b"").unwrap().path.is_root());
    }
}
