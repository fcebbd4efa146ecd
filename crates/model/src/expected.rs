//! The size and digest that a file must have. The order of the transfer states them, from a catalogue. The end that ordered the transfer
//! compares them before the file is committed; they are not sent to the other end.

use crate::Refusal;
use crate::checksum::Digest;
use crate::fault::Fault;

/// The size and digest that a file must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its size in bytes.
    pub bytes: Option<u64>,
    /// A digest of all of it.
    pub digest: Option<Digest>,
}

impl Expected {
    /// Compares the size at the source.
    ///
    /// # Errors
    /// The size differs.
    pub fn check_bytes(&self, found: u64) -> Result<(), Refusal> {
        match self.bytes {
            Some(bytes) if bytes != found => {
                Err(refuse(format!("the source has {found} bytes, and {bytes} were expected")))
            }
            _ => Ok(()),
        }
    }

    /// Compares the digests of the bytes that were read at the source.
    ///
    /// # Errors
    /// The expected digest is not among them, or differs.
    pub fn check_digests(&self, found: &[Digest]) -> Result<(), Refusal> {
        let Some(expected) = &self.digest else { return Ok(()) };
        match found.iter().find(|digest| digest.algorithm() == expected.algorithm()) {
            Some(digest) if digest == expected => Ok(()),
            Some(digest) => Err(refuse(format!("the source has {digest}, and {expected} was expected"))),
            None => Err(refuse(format!("no {} was computed, and {expected} was expected", expected.algorithm()))),
        }
    }
}

fn refuse(reason: String) -> Refusal {
    Refusal::new(Fault::Integrity, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_from_the_expected_one_is_refused_and_nothing_else_is_compared() {
        let expected = Expected { bytes: Some(5), digest: Some(Digest::crc32c(7)) };
        assert_eq!((expected.check_bytes(5), expected.check_digests(&[Digest::crc32c(7)])), (Ok(()), Ok(())));
        let reason = expected.check_bytes(6).unwrap_err().reason;
        assert_eq!(reason, "the source has 6 bytes, and 5 were expected");
        let reason = expected.check_digests(&[Digest::crc32c(8)]).unwrap_err().reason;
        assert_eq!(reason, "the source has crc32c:00000008, and crc32c:00000007 was expected");
        assert!(expected.check_digests(&[]).unwrap_err().reason.starts_with("no crc32c was computed"));
        assert_eq!((Expected::default().check_bytes(9), Expected::default().check_digests(&[])), (Ok(()), Ok(())));
    }
}
