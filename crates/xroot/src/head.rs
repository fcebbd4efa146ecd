//! The heads of requests, and the number by which an answer finds its request.

use crate::Malformed;
use crate::codes::RequestCode;

/// Bytes of the head of a request.
pub const REQUEST_HEAD_BYTES: usize = 24;

/// The number that a client gives a request. Its answer has the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamId(pub [u8; 2]);

/// The number of a session, with which a client binds further connections to it. A server makes it from random bytes, because it is the
/// only proof that a further connection belongs to the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl std::fmt::Debug for SessionId {
    /// Without its bytes: whoever knows them can bind a connection.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionId")
    }
}

/// The number of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileHandle(pub [u8; 4]);

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The number of the request.
    pub stream: StreamId,
    /// What is requested; [`RequestHead::kind`] reads it.
    pub code: u16,
    /// Fields, whose meaning depends on the code.
    pub fields: [u8; 16],
    /// Bytes of the payload that follows.
    pub payload_bytes: u32,
}

impl RequestHead {
    /// Parses a head.
    ///
    /// # Errors
    /// [`Malformed::Length`]: the length of the payload is negative, so that the next request cannot be found.
    pub fn parse(bytes: &[u8; REQUEST_HEAD_BYTES]) -> Result<RequestHead, Malformed> {
        let [s0, s1, c0, c1, fields @ .., l0, l1, l2, l3] = *bytes;
        let payload_bytes = i32::from_be_bytes([l0, l1, l2, l3]);
        Ok(RequestHead {
            stream: StreamId([s0, s1]),
            code: u16::from_be_bytes([c0, c1]),
            fields,
            payload_bytes: u32::try_from(payload_bytes).map_err(|_| Malformed::Length)?,
        })
    }

    /// Writes the head.
    pub fn to_bytes(&self) -> [u8; REQUEST_HEAD_BYTES] {
        let mut bytes = [0; REQUEST_HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0);
        bytes[2..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.fields);
        bytes[20..].copy_from_slice(&self.payload_bytes.to_be_bytes());
        bytes
    }

    /// What is requested.
    ///
    /// # Errors
    /// [`Malformed::Code`]: the code is not known.
    pub fn kind(&self) -> Result<RequestCode, Malformed> {
        RequestCode::from_number(self.code).ok_or(Malformed::Code(self.code))
    }

    /// Bytes of the payload that are data of a file, which follow the head and are not a part of [`crate::RootRequest`].
    pub fn data_bytes(&self) -> u32 {
        match self.kind() {
            Ok(RequestCode::Write | RequestCode::PageWrite) => self.payload_bytes,
            _ => 0,
        }
    }
}
