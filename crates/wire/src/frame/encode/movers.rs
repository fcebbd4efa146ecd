//! Encodes the messages between a coordinator and a mover.

use model::checksum::BlockSum;

use super::{Writer, address, list, open, refusal, suite};
use crate::mover::{Answer, DelegatedAddress, DelegatedSession, HOLE, MoverMessage, StreamQuery, WHOLE};
use crate::range::{Built, Range};
use crate::record::Part;

pub(super) fn delegated_address(w: &mut Writer, delegated: &DelegatedAddress) {
    address(w, &delegated.at);
    w.raw(&delegated.session);
}

pub(super) fn delegated_session(w: &mut Writer, delegated: &DelegatedSession) {
    w.raw(&delegated.session);
    w.raw(&delegated.secret);
    w.bool(delegated.suite.is_some());
    if let Some(chosen) = delegated.suite {
        w.u8(suite(chosen));
    }
    open(w, &delegated.order);
}

pub(super) fn message(w: &mut Writer, message: &MoverMessage) {
    match message {
        MoverMessage::Ready => w.u8(1),
        MoverMessage::Beat(at) => {
            w.u8(2);
            w.number(*at);
        }
        MoverMessage::Ask(stream, content) => {
            w.u8(3);
            w.number((*stream).into());
            query(w, content);
        }
        MoverMessage::Answer(stream, content) => {
            w.u8(4);
            w.number((*stream).into());
            answer(w, content);
        }
        MoverMessage::Surplus(streams) => {
            w.u8(5);
            list(w, streams, |w, stream| w.number((*stream).into()));
        }
        MoverMessage::Gone(stream) => {
            w.u8(6);
            w.number((*stream).into());
        }
        MoverMessage::Close(file) => {
            w.u8(7);
            w.number(*file);
        }
        MoverMessage::Closed(file) => {
            w.u8(8);
            w.number(*file);
        }
        MoverMessage::Over => w.u8(9),
    }
}

fn query(w: &mut Writer, query: &StreamQuery) {
    match query {
        StreamQuery::Next => w.u8(1),
        StreamQuery::Claim { file, from, to } => {
            w.u8(2);
            [file, from, to].into_iter().for_each(|number| w.number(*number));
        }
        StreamQuery::Built { parts, bytes, last } => {
            w.u8(3);
            list(w, parts, built);
            w.number(*bytes);
            list(w, last, |w, file| w.number(*file));
        }
        StreamQuery::Unread(file, why) => {
            w.u8(4);
            w.number(*file);
            refusal(w, why);
        }
        StreamQuery::Where(file) => {
            w.u8(5);
            w.number(*file);
        }
        StreamQuery::Pass(record) => {
            w.u8(6);
            w.bytes(record);
        }
        StreamQuery::Took(parts) => {
            w.u8(7);
            list(w, parts, |w, (taken, sum)| {
                part(w, taken);
                w.bool(sum.is_some());
                if let Some(right) = sum {
                    block_sum(w, right);
                }
            });
        }
    }
}

fn answer(w: &mut Writer, answer: &Answer) {
    match answer {
        Answer::Send(ranges) => {
            w.u8(1);
            list(w, ranges, range);
        }
        Answer::Retire => w.u8(2),
        Answer::Over => w.u8(3),
        Answer::Claimed(claimed, last) => {
            w.u8(4);
            w.bool(claimed.is_some());
            if let Some((offset, len)) = claimed {
                w.number(*offset);
                w.number(*len);
            }
            w.bool(*last);
        }
        Answer::Noted => w.u8(5),
        Answer::Here(location) => {
            w.u8(6);
            w.bytes(location.path.as_bytes());
            w.text(&location.tag);
            w.number(location.size);
            w.bool(location.fills_holes);
        }
        Answer::Nowhere => w.u8(7),
    }
}

fn block_sum(w: &mut Writer, sum: &BlockSum) {
    w.number(sum.crc32c.into());
    w.bool(sum.adler32.is_some());
    if let Some(adler32) = sum.adler32 {
        w.number(adler32.into());
    }
}

fn part(w: &mut Writer, part: &Part) {
    [part.file, part.offset, part.len, part.crc32c.into()].into_iter().for_each(|number| w.number(number));
    w.bool(part.hole);
    w.bool(part.whole);
}

fn built(w: &mut Writer, built: &Built) {
    [built.file, built.offset, built.len].into_iter().for_each(|number| w.number(number));
    block_sum(w, &built.sum);
    w.number(if built.whole { WHOLE } else { 0 } | if built.hole { HOLE } else { 0 });
}

fn range(w: &mut Writer, range: &Range) {
    w.number(range.file);
    w.number(range.source.into());
    w.bytes(range.path.as_bytes());
    w.number(range.size);
    w.timestamp(range.mtime);
    w.number(range.offset);
    w.number(range.len);
    w.bool(range.last);
}
