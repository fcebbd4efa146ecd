//! The message by which a data stream joins a session: one fixed message in clear, whose code only the two ends of the session can
//! make.
//!
//! The code is a MAC over the other fields under a key exported from the session's TLS connection; the engine computes
//! it. The client opens every stream, in either direction of the data, so that only the node needs an open port.

use crate::codec::Reader;
use crate::error::WireError;
use crate::limits::STREAMS_MAX;

/// The first bytes of a data stream. TLS starts with 0x16, and no HTTP method starts like this.
pub const MAGIC: [u8; 4] = *b"LHS1";
/// Length of the message.
pub const JOIN_BYTES: usize = 4 + 16 + 4 + 1 + 32;

/// A session's name, chosen at random by the client.
pub type SessionId = [u8; 16];

/// A stream's request to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The session's id.
    pub session: SessionId,
    /// The stream's number, never used twice in a session; 0 is the control connection.
    pub stream: u32,
    /// Whether records are sealed.
    pub sealed: bool,
    /// The code over all other fields.
    pub code: [u8; 32],
}

impl Join {
    /// The fields that the code covers.
    pub fn covered(&self) -> [u8; JOIN_BYTES - 32] {
        let mut out = [0; JOIN_BYTES - 32];
        out[..4].copy_from_slice(&MAGIC);
        out[4..20].copy_from_slice(&self.session);
        out[20..24].copy_from_slice(&self.stream.to_be_bytes());
        out[24] = self.sealed.into();
        out
    }

    /// Encodes the message.
    pub fn encode(&self) -> [u8; JOIN_BYTES] {
        let mut out = [0; JOIN_BYTES];
        out[..JOIN_BYTES - 32].copy_from_slice(&self.covered());
        out[JOIN_BYTES - 32..].copy_from_slice(&self.code);
        out
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// The magic, the stream's number or the length is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Join, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.array("a stream's magic")? != MAGIC {
            return Err(WireError::Invalid("a stream's magic"));
        }
        let session = reader.array("a session's id")?;
        let stream = u32::from_be_bytes(reader.array("a stream's number")?);
        if stream == 0 || stream > STREAMS_MAX {
            return Err(WireError::Invalid("a stream's number"));
        }
        let join =
            Join { session, stream, sealed: reader.bool("a stream's seal")?, code: reader.array("a stream's code")? };
        reader.finish()?;
        Ok(join)
    }
}
