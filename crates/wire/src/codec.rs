//! The encoding of fields: numbers as LEB128, byte strings with their length, each read within a bound.
//!
//! What this module does not know: the meaning of fields.

use model::entry::Timestamp;
use model::name::{Name, RelPath};

use crate::error::WireError;
use crate::limits::TEXT_BYTES_MAX;

/// Writes fields behind one another.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A truth value, as one byte.
    pub fn bool(&mut self, value: bool) {
        self.0.push(value.into());
    }

    /// A number, seven bits to the byte, lowest first.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A signed number: zig-zag, then as a number.
    pub fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Bytes whose length both sides know.
    pub fn raw(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// Text, cut between two characters at [`TEXT_BYTES_MAX`].
    pub fn text(&mut self, value: &str) {
        let mut end = value.len().min(TEXT_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&value.as_bytes()[..end]);
    }

    /// Text for people at the other end: one line, without control characters for a terminal.
    pub fn plain_line(&mut self, value: &str) {
        self.text(&model::name::to_plain_line(value));
    }

    /// A point in time.
    pub fn timestamp(&mut self, value: Timestamp) {
        self.signed(value.seconds);
        self.number(value.nanos.into());
    }
}

/// Reads fields behind one another; every method fails rather than read past the end or a bound.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Fails if anything is left.
    ///
    /// # Errors
    /// Bytes are left.
    pub fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }

    /// Bytes whose length both sides know.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn raw(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(WireError::Short(what))?;
        self.rest = tail;
        Ok(head)
    }

    /// Bytes into an array.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N, what)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// No byte is left.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.raw(1, what)?[0])
    }

    /// A truth value.
    ///
    /// # Errors
    /// No byte is left, or it is neither 0 nor 1.
    pub fn bool(&mut self, what: &'static str) -> Result<bool, WireError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Invalid(what)),
        }
    }

    /// A number. Only the shortest form is accepted, so that every value has one spelling.
    ///
    /// # Errors
    /// The bytes end, or the number is not in its shortest form or has more than 64 bits.
    pub fn number(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut value = 0u64;
        for at in 0..10 {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 || at > 0 && byte == 0 {
                return Err(WireError::Invalid(what));
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Invalid(what))
    }

    /// A number with a bound.
    ///
    /// # Errors
    /// The number cannot be read, or is above the bound.
    pub fn number_max(&mut self, limit: u64, what: &'static str) -> Result<u64, WireError> {
        let got = self.number(what)?;
        if got > limit { Err(WireError::TooLarge { what, got, limit }) } else { Ok(got) }
    }

    /// A signed number.
    ///
    /// # Errors
    /// The number cannot be read.
    pub fn signed(&mut self, what: &'static str) -> Result<i64, WireError> {
        let raw = self.number(what)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A count of things that take at least one byte each: never more than bytes are left, so that a count alone
    /// cannot make the reader reserve memory.
    ///
    /// # Errors
    /// The count cannot be read, is above the bound, or is more than the bytes that are left.
    pub fn count(&mut self, limit: usize, what: &'static str) -> Result<usize, WireError> {
        let count = self.number_max(limit as u64, what)? as usize;
        if count > self.rest.len() { Err(WireError::Short(what)) } else { Ok(count) }
    }

    /// Bytes behind their length.
    ///
    /// # Errors
    /// The length cannot be read, is above the bound, or is more than the bytes that are left.
    pub fn bytes(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let len = self.number_max(limit as u64, what)? as usize;
        self.raw(len, what)
    }

    /// Text.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not UTF-8.
    pub fn text(&mut self, what: &'static str) -> Result<String, WireError> {
        let bytes = self.bytes(TEXT_BYTES_MAX, what)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Invalid(what))
    }

    /// Text for people, which goes to logs and terminals. The peer may be hostile.
    ///
    /// # Errors
    /// The text cannot be read, or has control characters.
    pub fn plain_line(&mut self, what: &'static str) -> Result<String, WireError> {
        let line = self.text(what)?;
        if model::name::is_plain_line(&line) { Ok(line) } else { Err(WireError::Invalid(what)) }
    }

    /// A file name.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not a file name.
    pub fn name(&mut self, what: &'static str) -> Result<Name, WireError> {
        Name::new(self.bytes(model::name::NAME_BYTES_MAX, what)?).map_err(|_| WireError::Invalid(what))
    }

    /// A path below a root, in its one canonical form.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not a path in its canonical form.
    pub fn path(&mut self, what: &'static str) -> Result<RelPath, WireError> {
        let bytes = self.bytes(model::name::PATH_BYTES_MAX, what)?;
        let path = RelPath::parse(bytes).map_err(|_| WireError::Invalid(what))?;
        if path.as_bytes() == bytes { Ok(path) } else { Err(WireError::Invalid(what)) }
    }

    /// A point in time.
    ///
    /// # Errors
    /// A number cannot be read, or the nanoseconds are a second or more.
    pub fn timestamp(&mut self, what: &'static str) -> Result<Timestamp, WireError> {
        let seconds = self.signed(what)?;
        let nanos = self.number_max(999_999_999, what)? as u32;
        Ok(Timestamp { seconds, nanos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_written(value: u64, signed: i64) {
            let mut writer = Writer::default();
            writer.number(value);
            writer.signed(signed);
            let mut reader = Reader::new(&writer.0);
            prop_assert_eq!(reader.number("n"), Ok(value));
            prop_assert_eq!(reader.signed("n"), Ok(signed));
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn a_number_has_one_encoding() {
        assert_eq!(Reader::new(&[0x80, 0x00]).number("n"), Err(WireError::Invalid("n")));
        assert_eq!(Reader::new(&[0xff; 10]).number("n"), Err(WireError::Invalid("n")));
        assert_eq!(Reader::new(&[0xff; 3]).number("n"), Err(WireError::Short("n")));
    }

    #[test]
    fn a_count_alone_reserves_no_memory() {
        let mut writer = Writer::default();
        writer.number(1_000_000);
        assert_eq!(Reader::new(&writer.0).count(2_000_000, "things"), Err(WireError::Short("things")));
    }
}
