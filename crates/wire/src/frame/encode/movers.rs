//! What head and mover say to each other.

use model::checksum::BlockSum;

use super::{Writer, address, list, open, refusal, suite};
use crate::mover::{Answer, DelegatedAddress, DelegatedSession, HOLE, MoverMessage, StreamQuery, WHOLE};
use crate::range::{Built, Range};
use crate::record::Part;

pub(super) fn loan(w: &mut Writer, loan: &DelegatedAddress) {
    address(w, &loan.at);
    w.raw(&loan.session);
}

pub(super) fn lend(w: &mut Writer, lend: &DelegatedSession) {
    w.raw(&lend.session);
    w.raw(&lend.secret);
    w.bool(lend.suite.is_some());
    if let Some(chosen) = lend.suite {
        w.u8(suite(chosen));
    }
    open(w, &lend.order);
}

pub(super) fn word(w: &mut Writer, word: &MoverMessage) {
    match word {
        MoverMessage::Ready => w.u8(1),
        MoverMessage::Beat(at) => {
            w.u8(2);
            w.number(*at);
        }
        MoverMessage::Ask(stream, asked) => {
            w.u8(3);
            w.number((*stream).into());
            ask(w, asked);
        }
        MoverMessage::Answer(stream, answered) => {
            w.u8(4);
            w.number((*stream).into());
            answer(w, answered);
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

fn ask(w: &mut Writer, ask: &StreamQuery) {
    match ask {
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
        Answer::Here(here) => {
            w.u8(6);
            w.bytes(here.path.as_bytes());
            w.text(&here.tag);
            w.number(here.size);
            w.bool(here.fills_holes);
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
