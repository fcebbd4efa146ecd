//! The sending side of a lent session: reads what the head deals out, and sends it.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Progress;
use model::spec::Steer;
use model::{Algorithm, Refusal};
use sys::waker::Waker;
use wire::limits::BLOCK_BYTES;
use wire::mover::{Answer, Ask, Word};
use wire::sender::Range;
use wire::{Frame, WireError};

use super::talk::{Line, Talk};
use crate::error::{Error, Result};
use crate::meter::Stage;
use crate::scan::SourceRoot;
use crate::send::read::{Deals, OpenFile, Pending, Shelf};
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, RecordBuffer};

/// Files that are kept open though nobody reads them now: which of them are done only the head knows.
const IDLE_MAX: usize = 64;

/// The side.
pub(crate) struct Reader {
    talk: Talk,
    shelf: Shelf,
}

impl Deals for Line<'_> {
    fn claim_hole(&self, file: u64, from: u64, to: u64) -> Option<((u64, u64), bool)> {
        match self.ask(Ask::Claim { file, from, to })? {
            Answer::Claimed(claimed, last) => Some((claimed?, last)),
            _ => None,
        }
    }

    fn is_dealt(&self, _file: u64) -> bool {
        false
    }

    fn found_end(&self, _file: u64, _size: u64) {}

    /// The head is told with the record, and makes the digests that need all of the file.
    fn last_of(&self, _range: &Range, _file: &OpenFile, _size: u64) -> std::result::Result<(), Refusal> {
        Ok(())
    }
}

impl Reader {
    /// For a job from these sources.
    pub fn new(roots: Vec<SourceRoot>, checksums: &[Algorithm], waker: Waker) -> Arc<Reader> {
        // Digests that need a file in order are the head's; the receiver looks at a block's checksum where there are any.
        let mut own: Vec<Algorithm> = checksums.iter().copied().filter(|a| !a.is_serial()).collect();
        if own.is_empty() && !checksums.is_empty() {
            own.push(Algorithm::Crc32c);
        }
        Arc::new(Reader { talk: Talk::new(waker), shelf: Shelf::new(roots, own) })
    }

    /// Says whether the stream could carry another job: it cannot.
    fn send_loop(&self, stream: &mut DataStream) -> Result<()> {
        let meter = Arc::clone(stream.meter());
        let handle = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
        let is_lost = || sys::tcp::is_closed_by_peer(&handle);
        let line = self.talk.line(stream.id(), &is_lost);
        let mut buffer = RecordBuffer::default();
        loop {
            meter.enter(Stage::Idle);
            let ranges = match line.ask(Ask::Next) {
                Some(Answer::Send(ranges)) => ranges,
                Some(Answer::Retire) => {
                    stream.finish();
                    return Ok(());
                }
                Some(_) | None => return Ok(()),
            };
            if !self.fits(&ranges) {
                let source = WireError::Unexpected("ranges that do not fit into a record");
                self.talk.fail(Error::Protocol { peer: "the coordinator".into(), source });
                return Ok(());
            }
            meter.enter(Stage::Compute);
            let Some(pending) = self.build(&line, &ranges, &mut buffer, Pending::new(&meter)) else { return Ok(()) };
            self.shelf.close_idle(IDLE_MAX);
            if pending.parts.is_empty() {
                continue;
            }
            let bytes = buffer.payload().len() as u64;
            meter.enter(Stage::Pace);
            let built = Ask::Built { parts: pending.built, bytes, last: pending.last };
            if line.ask(built) != Some(Answer::Noted) {
                return Ok(());
            }
            stream.send(&pending.parts, &mut buffer)?;
            self.talk.moved(bytes);
        }
    }

    fn fits(&self, ranges: &[Range]) -> bool {
        let bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.len));
        bytes <= BLOCK_BYTES && ranges.iter().all(|range| (range.source as usize) < self.shelf.roots.len())
    }

    /// Reads ranges into a record; none where the job is over, or this side is of no use to it.
    fn build<'m>(
        &self,
        line: &Line<'_>,
        ranges: &[Range],
        buffer: &mut RecordBuffer,
        mut pending: Pending<'m>,
    ) -> Option<Pending<'m>> {
        buffer.clear();
        for (at, range) in ranges.iter().enumerate() {
            let mark = pending.mark();
            if let Err(refusal) = self.shelf.read_range(line, range, ranges.len() - at, buffer, &mut pending) {
                pending.rewind(mark, buffer);
                match line.ask(Ask::Unread(range.file, refusal)) {
                    Some(Answer::Noted) => {}
                    _ => return None,
                }
            }
        }
        Some(pending)
    }
}

impl Side for Reader {
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError> {
        match self.talk.hear(frame)? {
            None => Ok(()),
            Some(_) => Err(WireError::Unexpected("a file was to be closed that is only read")),
        }
    }

    fn poll_frame(&self) -> Option<Frame> {
        self.talk.poll()
    }

    fn pump(&self) -> Result<()> {
        Ok(())
    }

    fn tick(&self) {
        self.talk.tick();
    }

    fn steer(&self, _to: &Steer) {}

    fn sends(&self) -> bool {
        true
    }

    fn retire(&self, streams: &BTreeSet<u32>) {
        self.talk.say(Word::Surplus(streams.iter().copied().collect()));
    }

    fn watches_progress(&self) -> bool {
        false
    }

    fn wants_streams(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.talk.is_finished()
    }

    fn progress(&self) -> Progress {
        self.talk.progress()
    }

    fn take_failure(&self) -> Option<Error> {
        self.talk.take_failure()
    }

    fn close(&self) {
        self.talk.close();
    }

    fn run_stream(&self, mut stream: DataStream) -> StreamEnd {
        let result = self.send_loop(&mut stream);
        StreamEnd::of(stream, result.map(|()| false))
    }
}
