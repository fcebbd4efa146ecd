//! Decodes the messages between a coordinator and a mover.

use model::checksum::BlockSum;

use super::{Reader, Result, WireError, address, list, open, refusal, stream_id, suite};
use crate::limits::{FRAME_BYTES_MAX, PATHS_MAX, RECORD_PARTS_MAX, STREAMS_MAX};
use crate::mover::{Answer, DelegatedAddress, DelegatedSession, FileLocation, HOLE, MoverMessage, StreamQuery, WHOLE};
use crate::range::{Built, Range};
use crate::record::Part;

pub(super) fn delegated_address(r: &mut Reader) -> Result<DelegatedAddress> {
    Ok(DelegatedAddress { at: address(r)?, session: r.array("a session's id")? })
}

pub(super) fn delegated_session(r: &mut Reader) -> Result<DelegatedSession> {
    let session = r.array("a session's id")?;
    let secret = r.array("a session's secret")?;
    let suite = if r.bool("a seal")? { Some(suite(r)?) } else { None };
    Ok(DelegatedSession { session, secret, suite, order: open(r)? })
}

pub(super) fn message(r: &mut Reader) -> Result<MoverMessage> {
    Ok(match r.u8("a mover's message")? {
        1 => MoverMessage::Ready,
        2 => MoverMessage::Beat(r.number("a time")?),
        3 => MoverMessage::Ask(stream_id(r)?, query(r)?),
        4 => MoverMessage::Answer(stream_id(r)?, answer(r)?),
        5 => MoverMessage::Surplus(list(r, STREAMS_MAX as usize, "streams", stream_id)?),
        6 => MoverMessage::Gone(stream_id(r)?),
        7 => MoverMessage::Close(r.number("a file")?),
        8 => MoverMessage::Closed(r.number("a file")?),
        9 => MoverMessage::Over,
        _ => return Err(WireError::Invalid("a mover's message")),
    })
}

fn query(r: &mut Reader) -> Result<StreamQuery> {
    Ok(match r.u8("a stream's question")? {
        1 => StreamQuery::Next,
        2 => StreamQuery::Claim { file: r.number("a file")?, from: r.number("an offset")?, to: r.number("an offset")? },
        3 => StreamQuery::Built {
            parts: list(r, RECORD_PARTS_MAX, "parts", built)?,
            bytes: r.number("a length")?,
            last: list(r, RECORD_PARTS_MAX, "files", |r| r.number("a file"))?,
        },
        4 => StreamQuery::Unread(r.number("a file")?, refusal(r)?),
        5 => StreamQuery::Where(r.number("a file")?),
        6 => StreamQuery::Pass(r.bytes(FRAME_BYTES_MAX, "a record")?.to_vec()),
        7 => StreamQuery::Took(list(r, RECORD_PARTS_MAX, "parts", |r| {
            let part = part(r)?;
            let is_right = r.bool("a checksum")?;
            Ok((part, if is_right { Some(block_sum(r)?) } else { None }))
        })?),
        _ => return Err(WireError::Invalid("a stream's question")),
    })
}

fn answer(r: &mut Reader) -> Result<Answer> {
    Ok(match r.u8("an answer to a stream")? {
        1 => Answer::Send(list(r, RECORD_PARTS_MAX, "ranges", range)?),
        2 => Answer::Retire,
        3 => Answer::Over,
        4 => {
            let claimed = if r.bool("a hole")? { Some((r.number("an offset")?, r.number("a length")?)) } else { None };
            Answer::Claimed(claimed, r.bool("the last of a file")?)
        }
        5 => Answer::Noted,
        6 => Answer::Here(FileLocation {
            path: r.path("a path")?,
            tag: r.text("a tag")?,
            size: r.number("a size")?,
            fills_holes: r.bool("holes")?,
        }),
        7 => Answer::Nowhere,
        _ => return Err(WireError::Invalid("an answer to a stream")),
    })
}

fn checksum(r: &mut Reader) -> Result<u32> {
    Ok(r.number_max(u32::MAX.into(), "a checksum")? as u32)
}

fn block_sum(r: &mut Reader) -> Result<BlockSum> {
    let crc32c = checksum(r)?;
    let adler32 = if r.bool("a checksum")? { Some(checksum(r)?) } else { None };
    Ok(BlockSum { crc32c, adler32 })
}

/// The offset and length of a range, whose end must be a length that a file can have.
fn span(r: &mut Reader) -> Result<(u64, u64)> {
    let (offset, len) = (r.number("an offset")?, r.number("a length")?);
    match offset.checked_add(len) {
        Some(end) if end <= i64::MAX as u64 => Ok((offset, len)),
        _ => Err(WireError::Invalid("a range")),
    }
}

fn part(r: &mut Reader) -> Result<Part> {
    let file = r.number("a file")?;
    let (offset, len) = span(r)?;
    let crc32c = checksum(r)?;
    Ok(Part { file, offset, len, crc32c, hole: r.bool("a hole")?, whole: r.bool("a whole file")? })
}

fn built(r: &mut Reader) -> Result<Built> {
    let file = r.number("a file")?;
    let (offset, len) = span(r)?;
    let sum = block_sum(r)?;
    let (hole, whole) = match r.number("flags of a part")? {
        flags @ 0..4 => (flags & HOLE != 0, flags & WHOLE != 0),
        _ => return Err(WireError::Invalid("flags of a part")),
    };
    Ok(Built { file, offset, len, sum, hole, whole })
}

fn range(r: &mut Reader) -> Result<Range> {
    let file = r.number("a file")?;
    let source = r.number_max(PATHS_MAX as u64, "a source")? as u32;
    let path = r.path("a path")?;
    let size = r.number("a size")?;
    let mtime = r.timestamp("a time")?;
    let (offset, len) = span(r)?;
    let last = r.bool("the last of a file")?;
    Ok(Range { file, source, path, size, mtime, changed: None, offset, len, last })
}
