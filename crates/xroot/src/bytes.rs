//! A cursor over the fields of a message, each read within the bytes that are there.

use crate::Malformed;

/// The bytes of a message that are left.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next bytes.
    pub fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::Field(what))?;
        self.0 = rest;
        Ok(head)
    }

    /// The next bytes, as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed::Field(what))?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    /// A length: a signed number that is not negative.
    pub fn length(&mut self, what: &'static str) -> Result<u32, Malformed> {
        let number = i32::from_be_bytes(self.array(what)?);
        u32::try_from(number).map_err(|_| Malformed::Field(what))
    }

    /// An offset in a file: a signed number that is not negative.
    pub fn offset(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let number = i64::from_be_bytes(self.array(what)?);
        u64::try_from(number).map_err(|_| Malformed::Field(what))
    }

    /// Bytes up to a NUL, which is taken too.
    pub fn until_nul(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed::Field(what))?;
        let text = self.take(end, what)?;
        self.take(1, what)?;
        Ok(text)
    }
}

/// Text without the NUL that may end it, and what follows it.
pub(crate) fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
