//! Answers, as a server writes them and a client parses them.

use crate::Malformed;
use crate::bytes::{Fields, before_nul};
use crate::codes::{ASYNC_ANSWER, ErrorCode, RequestCode, Status};
use crate::entry::EntryFacts;
use crate::head::{FileHandle, SessionId, StreamId};
use crate::limits::ANSWER_BYTES_MAX;

/// Bytes of the head of an answer.
pub const ANSWER_HEAD_BYTES: usize = 8;
/// Bytes between the head of an answer with checksums and its data, for an answer about a range: the status, and the offset.
pub const CHECKED_BYTES: usize = 24;
/// Bytes of the status of an answer with checksums, without what follows it.
const CHECKED_STATUS_BYTES: usize = 16;

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The number of the request.
    pub stream: StreamId,
    /// How it went.
    pub status: Status,
    /// Bytes that follow; the data of an answer with checksums are not among them.
    pub bytes: u32,
}

impl AnswerHead {
    /// Parses a head.
    ///
    /// # Errors
    /// The length is negative, or the status is not known.
    pub fn parse(bytes: &[u8; ANSWER_HEAD_BYTES]) -> Result<AnswerHead, Malformed> {
        let [s0, s1, status @ .., l0, l1, l2, l3] = *bytes;
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        Ok(AnswerHead {
            stream: StreamId([s0, s1]),
            status: Status::from_number(u16::from_be_bytes(status)).ok_or(Malformed::Field("the status"))?,
            bytes: u32::try_from(length).map_err(|_| Malformed::Length)?,
        })
    }

    /// Writes the head.
    pub fn to_bytes(self) -> [u8; ANSWER_HEAD_BYTES] {
        let mut bytes = [0; ANSWER_HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0);
        bytes[2..4].copy_from_slice(&self.status.number().to_be_bytes());
        bytes[4..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }
}

/// An answer with a body in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootAnswer {
    /// The request is done.
    Ok(Vec<u8>),
    /// A part of the answer.
    Partial(Vec<u8>),
    /// The server wants another round of authentication.
    AuthenticateMore(Vec<u8>),
    /// The request failed.
    Error {
        /// Why.
        code: u32,
        /// Why, for people.
        text: String,
    },
    /// Another server has it.
    Redirect {
        /// Its port.
        port: u16,
        /// Its host, and parameters that the client adds to the path: `HOST?name=value`.
        host: String,
    },
    /// The client is to ask again.
    Wait {
        /// After this number of seconds.
        seconds: u32,
        /// Why.
        text: String,
    },
    /// The answer follows later, within this number of seconds.
    WaitForAnswer(u32),
    /// The answer of an earlier request.
    Async {
        /// That request.
        stream: StreamId,
        /// Its answer, which is no `Async` itself.
        answer: Box<RootAnswer>,
    },
    /// A message that says nothing about a request.
    Notice,
}

impl RootAnswer {
    /// An error.
    pub fn error(code: ErrorCode, text: impl Into<String>) -> RootAnswer {
        RootAnswer::Error { code: code.number(), text: text.into() }
    }

    /// Writes the answer to a request.
    pub fn to_bytes(&self, stream: StreamId) -> Vec<u8> {
        let (status, body) = match self {
            RootAnswer::Ok(body) => (Status::Ok, body.clone()),
            RootAnswer::Partial(body) => (Status::Partial, body.clone()),
            RootAnswer::AuthenticateMore(body) => (Status::AuthenticateMore, body.clone()),
            RootAnswer::Error { code, text } => {
                (Status::Error, [&code.to_be_bytes()[..], text.as_bytes(), &[0]].concat())
            }
            RootAnswer::Redirect { port, host } => {
                (Status::Redirect, [&u32::from(*port).to_be_bytes()[..], host.as_bytes()].concat())
            }
            RootAnswer::Wait { seconds, text } => {
                (Status::Wait, [&seconds.to_be_bytes()[..], text.as_bytes(), &[0]].concat())
            }
            RootAnswer::WaitForAnswer(seconds) => (Status::WaitForAnswer, seconds.to_be_bytes().to_vec()),
            RootAnswer::Async { stream, answer } => {
                let head = [&ASYNC_ANSWER.to_be_bytes()[..], &[0; 4]].concat();
                (Status::Attention, [head, answer.to_bytes(*stream)].concat())
            }
            RootAnswer::Notice => (Status::Attention, vec![0; 8]),
        };
        // A message that the server begins has no request.
        let stream = if status == Status::Attention { StreamId::default() } else { stream };
        let head = AnswerHead { stream, status, bytes: u32::try_from(body.len()).unwrap_or(u32::MAX) };
        [&head.to_bytes()[..], &body].concat()
    }

    /// Parses the body of an answer without checksums.
    ///
    /// # Errors
    /// A field is missing, or the status is that of an answer with checksums.
    pub fn parse(head: &AnswerHead, body: &[u8]) -> Result<RootAnswer, Malformed> {
        let mut fields = Fields(body);
        Ok(match head.status {
            Status::Ok => RootAnswer::Ok(body.to_vec()),
            Status::Partial => RootAnswer::Partial(body.to_vec()),
            Status::AuthenticateMore => RootAnswer::AuthenticateMore(body.to_vec()),
            Status::Error => RootAnswer::Error { code: fields.u32("the code of the error")?, text: text(fields.0) },
            Status::Redirect => {
                let port = fields.u32("the port")?;
                // A negative number marks a redirect that names its target otherwise.
                let port = u16::try_from(port).map_err(|_| Malformed::Field("the port"))?;
                RootAnswer::Redirect { port, host: text(fields.0) }
            }
            Status::Wait => RootAnswer::Wait { seconds: fields.u32("the seconds")?, text: text(fields.0) },
            Status::WaitForAnswer => RootAnswer::WaitForAnswer(fields.u32("the seconds").unwrap_or(0)),
            Status::Attention if fields.u32("the action")? == ASYNC_ANSWER => {
                fields.take(4, "the reserved bytes")?;
                let inner = AnswerHead::parse(&fields.array("the head of the answer")?)?;
                if inner.status == Status::Attention || inner.bytes > ANSWER_BYTES_MAX {
                    return Err(Malformed::Field("the answer within a message"));
                }
                let body = fields.take(inner.bytes as usize, "the body of the answer")?;
                RootAnswer::Async { stream: inner.stream, answer: Box::new(RootAnswer::parse(&inner, body)?) }
            }
            Status::Attention => RootAnswer::Notice,
            Status::Checked => return Err(Malformed::Field("the checksum of the answer")),
        })
    }
}

/// Text for people: what comes before a NUL.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(before_nul(bytes)).trim().to_owned()
}

/// The answer to a request for the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolAnswer {
    /// The version of the server.
    pub version: u32,
    /// [`crate::codes::server_flags`].
    pub flags: u32,
}

impl ProtocolAnswer {
    /// Writes the body; `with_security` adds that no request needs a signature.
    pub fn to_bytes(self, with_security: bool) -> Vec<u8> {
        let security: &[u8] = if with_security { &[b'S', 0, 0, 0, 0, 0] } else { &[] };
        [&self.version.to_be_bytes()[..], &self.flags.to_be_bytes(), security].concat()
    }

    /// Parses the body.
    ///
    /// # Errors
    /// It is too short.
    pub fn parse(body: &[u8]) -> Result<ProtocolAnswer, Malformed> {
        let mut fields = Fields(body);
        Ok(ProtocolAnswer { version: fields.u32("the version")?, flags: fields.u32("the flags")? })
    }
}

/// The answer to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginAnswer {
    /// The session.
    pub session: SessionId,
    /// The kinds of credentials that the server takes, `&P=ztn,0:4096:&P=unix`; empty if it wants none.
    pub security: String,
}

impl LoginAnswer {
    /// Writes the body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let nul: &[u8] = if self.security.is_empty() { &[] } else { &[0] };
        [&self.session.0[..], self.security.as_bytes(), nul].concat()
    }

    /// Parses the body.
    ///
    /// # Errors
    /// It is too short.
    pub fn parse(body: &[u8]) -> Result<LoginAnswer, Malformed> {
        let mut fields = Fields(body);
        Ok(LoginAnswer { session: SessionId(fields.array("the session")?), security: text(fields.0) })
    }
}

/// The answer to an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAnswer {
    /// The number of the file.
    pub file: FileHandle,
    /// Its facts, if they were asked for.
    pub facts: Option<EntryFacts>,
}

impl OpenAnswer {
    /// Writes the body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let facts = self.facts.as_ref().map_or_else(Vec::new, |facts| {
            // Between the handle and the facts are the size and the type of compressed files: none.
            [&[0; 8][..], facts.to_string().as_bytes(), &[0]].concat()
        });
        [&self.file.0[..], &facts].concat()
    }

    /// Parses the body.
    ///
    /// # Errors
    /// It is too short, or the facts are not valid.
    pub fn parse(body: &[u8]) -> Result<OpenAnswer, Malformed> {
        let mut fields = Fields(body);
        let file = FileHandle(fields.array("the file handle")?);
        let facts = match fields.take(8, "the compression") {
            Ok(_) if !fields.0.is_empty() => Some(EntryFacts::parse(&text(fields.0))?),
            _ => None,
        };
        Ok(OpenAnswer { file, facts })
    }
}

/// What follows the head of an answer with checksums, before its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedAnswer {
    /// The number of the request.
    pub stream: StreamId,
    /// The kind of the request.
    pub code: RequestCode,
    /// Whether this is the last part.
    pub is_last: bool,
    /// The offset in the file.
    pub offset: u64,
    /// Bytes of data that follow.
    pub data_bytes: u32,
}

impl CheckedAnswer {
    /// Writes head and status.
    pub fn to_bytes(self) -> [u8; ANSWER_HEAD_BYTES + CHECKED_BYTES] {
        let mut bytes = [0; ANSWER_HEAD_BYTES + CHECKED_BYTES];
        let head = AnswerHead { stream: self.stream, status: Status::Checked, bytes: CHECKED_BYTES as u32 };
        bytes[..8].copy_from_slice(&head.to_bytes());
        bytes[12..14].copy_from_slice(&self.stream.0);
        bytes[14] = (self.code.number() - RequestCode::Auth.number()) as u8;
        bytes[15] = u8::from(!self.is_last);
        bytes[20..24].copy_from_slice(&self.data_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_be_bytes());
        let checksum = model::checksum::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Parses the status behind a head.
    ///
    /// # Errors
    /// It is too short, its checksum is wrong, or a field is not valid.
    pub fn parse(body: &[u8]) -> Result<CheckedAnswer, Malformed> {
        let mut fields = Fields(body);
        if fields.u32("the checksum of the answer")? != model::checksum::crc32c(fields.0) {
            return Err(Malformed::Field("the checksum of the answer"));
        }
        let stream = StreamId(fields.array("the number of the request")?);
        let code =
            RequestCode::from_number(RequestCode::Auth.number() + u16::from(fields.u8("the kind of the request")?));
        let code = code.ok_or(Malformed::Field("the kind of the request"))?;
        let is_last = fields.u8("the kind of the answer")? == 0;
        fields.take(4, "the reserved bytes")?;
        let data_bytes = fields.length("the length")?;
        // An answer to a write without an offset is that of a close.
        let offset = if body.len() > CHECKED_STATUS_BYTES { fields.offset("the offset")? } else { 0 };
        Ok(CheckedAnswer { stream, code, is_last, offset, data_bytes })
    }
}

#[cfg(test)]
mod tests;
