//! Streams of this side that a mover carries: the mover reads and sends; this side deals ranges and keeps account of them.

use model::Refusal;
use std::io;

use wire::limits::BLOCK_BYTES;
use wire::mover::{Answer, StreamQuery};
use wire::sender::{Built, Range};

use super::read::RangeDealer;
use super::{NextRanges, Sending, SendingStream};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::movers::MoverStream;
use crate::stream::RecordBuffer;

impl SendingStream for MoverStream {
    fn id(&self) -> u32 {
        MoverStream::id(self)
    }

    fn is_lost(&self) -> bool {
        MoverStream::is_lost(self)
    }

    fn is_surplus(&self) -> bool {
        MoverStream::is_surplus(self)
    }

    fn lost(&self) -> Error {
        MoverStream::lost(self)
    }
}

/// The ranges that a stream was dealt and has not built into a record yet.
#[derive(Default)]
struct DealtRanges {
    ranges: Vec<Range>,
    holes: Vec<(u64, u64, u64)>,
}

impl DealtRanges {
    fn take(&mut self) -> impl Iterator<Item = (u64, u64, u64)> {
        let ranges = std::mem::take(&mut self.ranges).into_iter().map(|range| (range.file, range.offset, range.len));
        ranges.chain(std::mem::take(&mut self.holes))
    }
}

impl Sending {
    /// Answers a stream of a mover until it is over. Ranges that it had not sent by then are sent on other streams.
    pub(super) fn answer_mover(&self, stream: &MoverStream) {
        self.state().machine.stream_joined(stream.id());
        let mut dealt = DealtRanges::default();
        let mut buffer = RecordBuffer::default();
        let meter = Meter::default();
        while let Some(query) = stream.next_query() {
            match self.answer_one(stream, query, &mut dealt, &mut buffer, &meter) {
                Ok(answer) => stream.answer(answer),
                // The stream is over already; its mover may have other streams.
                Err(_) if stream.is_lost() => break,
                Err(error) => {
                    stream.expel(&model::fault::with_causes(&error));
                    break;
                }
            }
        }
        let mut state = self.state();
        state.machine.not_sent(dealt.take());
        state.machine.stream_lost(stream.id());
        drop(state);
        self.work.notify_all();
        self.waker.wake();
    }

    fn answer_one(
        &self,
        stream: &MoverStream,
        query: StreamQuery,
        dealt: &mut DealtRanges,
        buffer: &mut RecordBuffer,
        meter: &Meter,
    ) -> Result<Answer> {
        Ok(match query {
            StreamQuery::Next => match self.next_ranges(stream, meter, buffer)? {
                NextRanges::Ranges(ranges) => {
                    *dealt = DealtRanges { ranges: ranges.clone(), holes: Vec::new() };
                    Answer::Send(ranges)
                }
                NextRanges::Retire => Answer::Retire,
                NextRanges::Over => Answer::Over,
            },
            StreamQuery::Claim { file, from, to } => match self.claim_hole(file, from, to) {
                Some(((offset, len), last)) => {
                    dealt.holes.push((file, offset, len));
                    Answer::Claimed(Some((offset, len)), last)
                }
                None => Answer::Claimed(None, false),
            },
            StreamQuery::Built { parts, bytes, last } => self.note_built(stream, dealt, &parts, bytes, &last)?,
            StreamQuery::Unread(file, why) => self.note_unread(dealt, file, &why)?,
            StreamQuery::Where(_) | StreamQuery::Pass(_) | StreamQuery::Took(_) => return Err(wrong_query()),
        })
    }

    fn note_built(
        &self,
        stream: &MoverStream,
        dealt: &mut DealtRanges,
        parts: &[Built],
        bytes: u64,
        last: &[u64],
    ) -> Result<Answer> {
        for file in last {
            let Some(range) = dealt.ranges.iter().find(|range| range.file == *file) else { return Err(wrong_query()) };
            if let Err(refusal) = self.digest_serially(range) {
                self.drop_file(*file, refusal);
            }
        }
        // From here on the machine keeps account of these ranges, and deals them again itself if the stream is lost.
        dealt.take().for_each(drop);
        self.state().machine.built(stream.id(), parts).map_err(Error::Bookkeeping)?;
        if !last.is_empty() {
            self.waker.wake();
        }
        Ok(if self.pace.wait(bytes.min(BLOCK_BYTES)) { Answer::Noted } else { Answer::Over })
    }

    /// Handles a file that a mover could not read. If it can be read here, the fault is the mover's.
    fn note_unread(&self, dealt: &mut DealtRanges, file: u64, why: &Refusal) -> Result<Answer> {
        let Some(at) = dealt.ranges.iter().position(|range| range.file == file) else { return Err(wrong_query()) };
        match self.open_files.open_file(&dealt.ranges[at]) {
            Ok(_) => Err(Error::MoverCannotRead { why: why.reason.clone() }),
            Err(refusal) => {
                dealt.ranges.remove(at);
                self.drop_file(file, refusal);
                Ok(Answer::Noted)
            }
        }
    }
}

fn wrong_query() -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidData, "a stream that sends does not ask that");
    Error::Broken { peer: "the mover".into(), source }
}
