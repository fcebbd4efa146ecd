//! Forms of browsers: names and values, or parts with files (RFC 7578), which are read while they arrive.
//!
//! Does not know: the connection, and the purpose of the form.

use crate::headers::Headers;

/// The most bytes of a part's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Bytes of one read.
const PIECE_BYTES: usize = 64 << 10;

/// The media type of a form without files.
pub const PAIRS: &str = "application/x-www-form-urlencoded";
/// The media type of a form with files.
pub const PARTS: &str = "multipart/form-data";

/// The media type of a body, without its parameters.
fn kind(headers: &Headers) -> &str {
    headers.get("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Whether a form has files; `None` where the body is not a form.
pub fn has_files(headers: &Headers) -> Option<bool> {
    [(PAIRS, false), (PARTS, true)]
        .iter()
        .find(|(name, _)| kind(headers).eq_ignore_ascii_case(name))
        .map(|(_, has)| *has)
}

/// The head of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The field's name.
    pub name: String,
    /// The file's name, where the part is a file: the last component of the name that the browser sent.
    pub file: Option<String>,
}

/// Why a form is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The form ended before its last boundary.
    #[error("the form ended in the middle of a part")]
    Cut,
    /// A malformed head of a part.
    #[error("a part of the form has no name, or its head is malformed")]
    Head,
}

/// A form with files, read part by part.
#[derive(Debug)]
pub struct Parts {
    /// The delimiter after a part: line end, two dashes, boundary.
    delimiter: Vec<u8>,
    unread: Vec<u8>,
    in_part: bool,
}

impl Parts {
    /// A reader for a body with these headers; `None` where it is not a form with files.
    pub fn of(headers: &Headers) -> Option<Parts> {
        let value = headers.get("content-type").filter(|_| has_files(headers) == Some(true))?;
        let boundary = parameter(value, "boundary").filter(|boundary| (1..=70).contains(&boundary.len()))?;
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        // The first boundary has no line before it.
        Some(Parts { delimiter, unread: b"\r\n".to_vec(), in_part: true })
    }

    /// Skips the rest of the present part and reads the head of the next one; `None` after the last part. `read` reads more bytes of
    /// the body, and returns 0 at its end.
    ///
    /// # Errors
    /// [`FormError`], and the errors of `read`.
    pub fn next<E: From<FormError>>(
        &mut self,
        read: &mut impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Option<PartHead>, E> {
        let mut rest = [0; 4096];
        while self.read(&mut rest, read)? > 0 {}
        loop {
            if self.unread.starts_with(b"--") {
                return Ok(None);
            }
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let head = head(&self.unread[..end]).ok_or(FormError::Head)?;
                self.unread.drain(..end + 4);
                self.in_part = true;
                return Ok(Some(head));
            }
            if self.unread.len() > HEAD_BYTES_MAX {
                return Err(FormError::Head.into());
            }
            self.more(read)?;
        }
    }

    /// Reads bytes of the part; returns 0 at its end.
    ///
    /// # Errors
    /// As [`Parts::next`].
    pub fn read<E: From<FormError>>(
        &mut self,
        into: &mut [u8],
        read: &mut impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        while self.in_part {
            let end = find(&self.unread, &self.delimiter);
            // The last bytes may be the beginning of a boundary, so they are not returned before more bytes have come.
            let available = end.unwrap_or_else(|| self.unread.len().saturating_sub(self.delimiter.len() - 1));
            let taken = available.min(into.len());
            if taken > 0 {
                into[..taken].copy_from_slice(&self.unread[..taken]);
                self.unread.drain(..taken);
                return Ok(taken);
            }
            match end {
                Some(_) => {
                    self.unread.drain(..self.delimiter.len());
                    self.in_part = false;
                }
                None => self.more(read)?,
            }
        }
        Ok(0)
    }

    fn more<E: From<FormError>>(&mut self, read: &mut impl FnMut(&mut [u8]) -> Result<usize, E>) -> Result<(), E> {
        let before = self.unread.len();
        self.unread.resize(before + PIECE_BYTES, 0);
        let got = read(&mut self.unread[before..]);
        self.unread.truncate(before + *got.as_ref().unwrap_or(&0));
        if got? == 0 { Err(FormError::Cut.into()) } else { Ok(()) }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

/// Parses the head of a part: the lines after the boundary.
fn head(bytes: &[u8]) -> Option<PartHead> {
    let text = String::from_utf8_lossy(bytes);
    let disposition = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then(|| value.trim().to_owned())
    })?;
    let file = parameter(&disposition, "filename");
    let file = file.map(|name| name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned());
    Some(PartHead { name: parameter(&disposition, "name")?, file })
}

/// A parameter of a field, in quotation marks or not. Browsers escape the characters that would end it as `%22`, `%0D` and `%0A`.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (text, more) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(';').map_or((after, ""), |(text, _)| (text, &after[text.len()..])),
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(text.trim().replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"));
        }
        rest = more.trim_start().strip_prefix(';')?;
    }
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a Headers, wanted: &str) -> Option<&'a str> {
    let pairs = headers.all("cookie").flat_map(|field| field.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(boundary: &str) -> Headers {
        Headers::new().with("Content-Type", format!("multipart/form-data; charset=utf-8; boundary=\"{boundary}\""))
    }

    /// All parts of a body that arrives in pieces of this size.
    fn parts(headers: &Headers, body: &[u8], step: usize) -> Result<Vec<(PartHead, Vec<u8>)>, FormError> {
        let (mut parts, mut at) = (Parts::of(headers).unwrap(), 0);
        let mut read = |into: &mut [u8]| {
            let got = step.min(into.len()).min(body.len() - at);
            into[..got].copy_from_slice(&body[at..at + got]);
            at += got;
            Ok::<usize, FormError>(got)
        };
        let mut all = Vec::new();
        while let Some(head) = parts.next(&mut read)? {
            let (mut bytes, mut some) = (Vec::new(), [0; 7]);
            loop {
                let got = parts.read(&mut some, &mut read)?;
                if got == 0 {
                    break;
                }
                bytes.extend_from_slice(&some[..got]);
            }
            all.push((head, bytes));
        }
        Ok(all)
    }

    #[test]
    fn the_form_of_a_browser_is_read_and_a_malformed_one_refused() {
        let body = b"--XX\r\nContent-Disposition: form-data; name=\"what\"\r\n\r\nupload\r\n--XX\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"C:\\d\\a %22b%22.bin\"\r\nContent-Type: x/y\r\n\r\n\
            \r\n--X\r\n--XY--\r\n\r\n--XX--\r\nafter";
        for step in [1, 3, 17, 1 << 20] {
            let read = parts(&form("XX"), body, step).unwrap();
            assert_eq!(read.len(), 2);
            assert_eq!(read[0], (PartHead { name: "what".into(), file: None }, b"upload".to_vec()));
            assert_eq!(read[1].0, PartHead { name: "file".into(), file: Some("a \"b\".bin".into()) });
            assert_eq!(read[1].1, b"\r\n--X\r\n--XY--\r\n");
        }
        for end in [10, 60, body.len() - 20] {
            assert!(parts(&form("XX"), &body[..end], 5).is_err(), "{end}");
        }
        let nameless = b"--XX\r\nContent-Type: a/b\r\n\r\nx\r\n--XX--";
        assert_eq!(parts(&form("XX"), nameless, 9), Err(FormError::Head));
        let endless = [&b"--XX\r\nA: "[..], &vec![b'a'; 3 * HEAD_BYTES_MAX]].concat();
        assert_eq!(parts(&form("XX"), &endless, 1 << 20), Err(FormError::Head));
    }

    #[test]
    fn forms_are_recognised_by_their_media_type() {
        let with = |kind: &str| Headers::new().with("Content-Type", kind);
        assert_eq!(has_files(&with("Multipart/Form-Data; boundary=x")), Some(true));
        assert_eq!(has_files(&with("application/x-www-form-urlencoded;charset=UTF-8")), Some(false));
        assert_eq!(has_files(&with("application/json")), None);
        assert!(Parts::of(&with("multipart/form-data")).is_none());
        assert!(Parts::of(&form(&"b".repeat(71))).is_none());
    }

    #[test]
    fn cookies_are_found_by_name() {
        let headers = Headers::new().with("Cookie", "a=1; __Host-x=2;b=3").with("Cookie", "c=4");
        let found = ["a", "__Host-x", "b", "c", "x"].map(|name| cookie(&headers, name));
        assert_eq!(found, [Some("1"), Some("2"), Some("3"), Some("4"), None]);
    }

    proptest! {
        #[test]
        fn files_of_any_bytes_are_read_unchanged(
            files in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..4),
            step in 1..200_usize,
        ) {
            let mut body = Vec::new();
            for file in &files {
                body.extend_from_slice(b"--q-9\r\nContent-Disposition: form-data; name=f; filename=g\r\n\r\n");
                body.extend_from_slice(file);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"--q-9--\r\n");
            let clash = files.iter().any(|file| find(file, b"\r\n--q-9").is_some());
            prop_assume!(!clash);
            let read = parts(&form("q-9"), &body, step).unwrap();
            prop_assert_eq!(read.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), files);
        }

        #[test]
        fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..400), step in 1..50_usize) {
            let _ = parts(&form("a"), &body, step);
        }
    }
}
