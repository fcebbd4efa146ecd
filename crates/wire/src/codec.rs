//! The alphabet of the wire: numbers as LEB128, byte strings with their length, and nothing read past its bound.
//!
//! Does not know: what the fields mean.

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

    /// A yes or no, as one byte.
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

    /// Text, cut at the bound on a character's edge.
    pub fn text(&mut self, value: &str) {
        let mut end = value.len().min(TEXT_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&value.as_bytes()[..end]);
    }

    /// Words for people at the other end: on one line, and nothing in them steers a terminal.
    pub fn words(&mut self, value: &str) {
        self.text(&model::name::tame(value));
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
    pub fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }

    /// Bytes whose length both sides know.
    pub fn raw(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(WireError::Short(what))?;
        self.rest = tail;
        Ok(head)
    }

    /// Bytes into an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N, what)?);
        Ok(out)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.raw(1, what)?[0])
    }

    /// A yes or no.
    pub fn bool(&mut self, what: &'static str) -> Result<bool, WireError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Invalid(what)),
        }
    }

    /// A number. Only the shortest form is accepted, so that every value has one spelling.
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
    pub fn number_max(&mut self, limit: u64, what: &'static str) -> Result<u64, WireError> {
        let got = self.number(what)?;
        if got > limit { Err(WireError::TooLarge { what, got, limit }) } else { Ok(got) }
    }

    /// A signed number.
    pub fn signed(&mut self, what: &'static str) -> Result<i64, WireError> {
        let raw = self.number(what)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A count of things that take at least one byte each: never more than bytes are left, so that a count alone
    /// cannot make the reader reserve memory.
    pub fn count(&mut self, limit: usize, what: &'static str) -> Result<usize, WireError> {
        let count = self.number_max(limit as u64, what)? as usize;
        if count > self.rest.len() { Err(WireError::Short(what)) } else { Ok(count) }
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let len = self.number_max(limit as u64, what)? as usize;
        self.raw(len, what)
    }

    /// Text.
    pub fn text(&mut self, what: &'static str) -> Result<String, WireError> {
        let bytes = self.bytes(TEXT_BYTES_MAX, what)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Invalid(what))
    }

    /// Words for people, which go to logs and terminals: who says them may be no friend.
    pub fn words(&mut self, what: &'static str) -> Result<String, WireError> {
        let words = self.text(what)?;
        if model::name::is_tame(&words) { Ok(words) } else { Err(WireError::Invalid(what)) }
    }

    /// A file name.
    pub fn name(&mut self, what: &'static str) -> Result<Name, WireError> {
        Name::new(self.bytes(model::name::NAME_BYTES_MAX, what)?).map_err(|_| WireError::Invalid(what))
    }

    /// A path below a root, in its one canonical form.
    pub fn path(&mut self, what: &'static str) -> Result<RelPath, WireError> {
        let bytes = self.bytes(model::name::PATH_BYTES_MAX, what)?;
        let path = RelPath::parse(bytes).map_err(|_| WireError::Invalid(what))?;
        if path.as_bytes() == bytes { Ok(path) } else { Err(WireError::Invalid(what)) }
    }

    /// A point in time.
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
        fn numbers_read_back(value: u64, signed: i64) {
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
    fn one_spelling_per_number() {
        assert_eq!(Reader::new(&[0x80, 0x00]).number("n"), Err(WireError::Invalid("n")));
        assert_eq!(Reader::new(&[0xff; 10]).number("n"), Err(WireError::Invalid("n")));
        assert_eq!(Reader::new(&[0xff; 3]).number("n"), Err(WireError::Short("n")));
    }

    #[test]
    fn a_count_reserves_nothing() {
        let mut writer = Writer::default();
        writer.number(1_000_000);
        assert_eq!(Reader::new(&writer.0).count(2_000_000, "things"), Err(WireError::Short("things")));
    }
}
