//! Streams of this side that a mover carries: it reads and sends, this side deals and keeps the books.

use model::Refusal;
use std::io;

use wire::limits::BLOCK_BYTES;
use wire::mover::{Answer, StreamQuery};
use wire::sender::{Built, Range};

use super::read::RangeDealer;
use super::{Carrying, NextRanges, Sending};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::movers::MoverStream;
use crate::stream::RecordBuffer;

impl Carrying for MoverStream {
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

/// What a stream was dealt and has not built yet.
#[derive(Default)]
struct Owed {
    ranges: Vec<Range>,
    holes: Vec<(u64, u64, u64)>,
}

impl Owed {
    fn take(&mut self) -> impl Iterator<Item = (u64, u64, u64)> {
        let ranges = std::mem::take(&mut self.ranges).into_iter().map(|range| (range.file, range.offset, range.len));
        ranges.chain(std::mem::take(&mut self.holes))
    }
}

impl Sending {
    /// Answers a stream of a mover until it is over. What it had of the job then goes out on others.
    pub(super) fn answer_mover(&self, stream: &MoverStream) {
        self.state().machine.stream_joined(stream.id());
        let mut owed = Owed::default();
        let (mut buffer, meter) = (RecordBuffer::default(), Meter::default());
        while let Some(ask) = stream.hear() {
            match self.answer_one(stream, ask, &mut owed, (&mut buffer, &meter)) {
                Ok(answer) => stream.answer(answer),
                // It is over already, for whatever reason: its mover has other streams.
                Err(_) if stream.is_lost() => break,
                Err(error) => {
                    stream.expel(&model::fault::with_causes(&error));
                    break;
                }
            }
        }
        let mut state = self.state();
        state.machine.not_sent(owed.take());
        state.machine.stream_lost(stream.id());
        drop(state);
        self.work.notify_all();
        self.waker.wake();
    }

    fn answer_one(
        &self,
        stream: &MoverStream,
        ask: StreamQuery,
        owed: &mut Owed,
        (buffer, meter): (&mut RecordBuffer, &Meter),
    ) -> Result<Answer> {
        Ok(match ask {
            StreamQuery::Next => match self.next_ranges(stream, meter, buffer)? {
                NextRanges::Ranges(ranges) => {
                    *owed = Owed { ranges: ranges.clone(), holes: Vec::new() };
                    Answer::Send(ranges)
                }
                NextRanges::Retire => Answer::Retire,
                NextRanges::Over => Answer::Over,
            },
            StreamQuery::Claim { file, from, to } => match self.claim_hole(file, from, to) {
                Some(((offset, len), last)) => {
                    owed.holes.push((file, offset, len));
                    Answer::Claimed(Some((offset, len)), last)
                }
                None => Answer::Claimed(None, false),
            },
            StreamQuery::Built { parts, bytes, last } => self.built_of_mover(stream, owed, &parts, bytes, &last)?,
            StreamQuery::Unread(file, why) => self.unread_of_mover(owed, file, &why)?,
            StreamQuery::Where(_) | StreamQuery::Pass(_) | StreamQuery::Took(_) => return Err(nonsense()),
        })
    }

    fn built_of_mover(
        &self,
        stream: &MoverStream,
        owed: &mut Owed,
        parts: &[Built],
        bytes: u64,
        last: &[u64],
    ) -> Result<Answer> {
        for file in last {
            let Some(range) = owed.ranges.iter().find(|range| range.file == *file) else { return Err(nonsense()) };
            if let Err(refusal) = self.digest_serially(range) {
                self.drop_file(*file, refusal);
            }
        }
        // Taken before the machine owes them: what it is told now it deals out again itself.
        owed.take().for_each(drop);
        self.state().machine.built(stream.id(), parts).map_err(Error::Bookkeeping)?;
        if !last.is_empty() {
            self.waker.wake();
        }
        Ok(if self.pace.wait(bytes.min(BLOCK_BYTES)) { Answer::Noted } else { Answer::Over })
    }

    /// A mover could not read a file. If it can be read here, that is the mover's fault, and not the file's.
    fn unread_of_mover(&self, owed: &mut Owed, file: u64, why: &Refusal) -> Result<Answer> {
        let Some(at) = owed.ranges.iter().position(|range| range.file == file) else { return Err(nonsense()) };
        match self.open_files.open_file(&owed.ranges[at]) {
            Ok(_) => Err(Error::MoverCannotRead { why: why.reason.clone() }),
            Err(refusal) => {
                owed.ranges.remove(at);
                self.drop_file(file, refusal);
                Ok(Answer::Noted)
            }
        }
    }
}

fn nonsense() -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidData, "it asks what no stream of its kind asks");
    Error::Broken { peer: "the mover".into(), source }
}
