//! The sending side of a delegated session: reads the ranges that the coordinator deals out, and sends them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Progress;
use model::spec::LiveSettings;
use model::{Algorithm, Refusal};
use sys::waker::Waker;
use wire::limits::BLOCK_BYTES;
use wire::mover::{Answer, MoverMessage, StreamQuery};
use wire::sender::Range;
use wire::{Frame, WireError};

use super::channel::{CoordinatorChannel, StreamChannel};
use crate::error::{Error, Result};
use crate::meter::Stage;
use crate::scan::SourceRoot;
use crate::send::read::{OpenFile, OpenFiles, Pending, RangeDealer};
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, RecordBuffer};

/// Files that are kept open though no stream reads them now: only the coordinator knows which of them are done.
const IDLE_MAX: usize = 64;

/// The sending side at a mover.
pub(crate) struct Reader {
    coordinator: CoordinatorChannel,
    open_files: OpenFiles,
}

impl RangeDealer for StreamChannel<'_> {
    fn claim_hole(&self, file: u64, from: u64, to: u64) -> Option<((u64, u64), bool)> {
        match self.query(StreamQuery::Claim { file, from, to })? {
            Answer::Claimed(claimed, last) => Some((claimed?, last)),
            _ => None,
        }
    }

    fn is_dealt(&self, _file: u64) -> bool {
        false
    }

    fn found_end(&self, _file: u64, _size: u64) {}

    /// Nothing to do: the coordinator learns of the end with the record, and makes the digests that need the whole file.
    fn end_file(&self, _range: &Range, _file: &OpenFile, _size: u64) -> std::result::Result<(), Refusal> {
        Ok(())
    }
}

impl Reader {
    /// The side for a job from these sources.
    pub fn new(roots: Vec<SourceRoot>, checksums: &[Algorithm], waker: Waker) -> Arc<Reader> {
        // Digests that need a file in order are made by the coordinator; the receiver checks a block's checksum if the job has any digest.
        let mut own: Vec<Algorithm> = checksums.iter().copied().filter(|a| !a.is_serial()).collect();
        if own.is_empty() && !checksums.is_empty() {
            own.push(Algorithm::Crc32c);
        }
        Arc::new(Reader { coordinator: CoordinatorChannel::new(waker), open_files: OpenFiles::new(roots, own) })
    }

    /// Sends until the coordinator retires the stream or the job is over. A mover's stream carries one job only.
    fn send_loop(&self, stream: &mut DataStream) -> Result<()> {
        let meter = Arc::clone(stream.meter());
        let handle = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
        let is_lost = || sys::tcp::is_closed_by_peer(&handle);
        let channel = self.coordinator.stream_channel(stream.id(), &is_lost);
        let mut buffer = RecordBuffer::default();
        loop {
            meter.enter(Stage::Idle);
            let ranges = match channel.query(StreamQuery::Next) {
                Some(Answer::Send(ranges)) => ranges,
                Some(Answer::Retire) => {
                    stream.finish();
                    return Ok(());
                }
                Some(_) | None => return Ok(()),
            };
            if !self.fits(&ranges) {
                let source = WireError::Unexpected("ranges that do not fit into a record");
                self.coordinator.fail(Error::Protocol { peer: "the coordinator".into(), source });
                return Ok(());
            }
            meter.enter(Stage::Compute);
            let Some(pending) = self.build(&channel, &ranges, &mut buffer, Pending::new(&meter)) else { return Ok(()) };
            self.open_files.close_idle(IDLE_MAX);
            if pending.parts.is_empty() {
                continue;
            }
            let bytes = buffer.payload().len() as u64;
            meter.enter(Stage::Pace);
            let built = StreamQuery::Built { parts: pending.built, bytes, last: pending.last };
            if channel.query(built) != Some(Answer::Noted) {
                return Ok(());
            }
            stream.send(&pending.parts, &mut buffer)?;
            self.coordinator.note_moved(bytes);
        }
    }

    fn fits(&self, ranges: &[Range]) -> bool {
        let bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.len));
        bytes <= BLOCK_BYTES && ranges.iter().all(|range| (range.source as usize) < self.open_files.roots.len())
    }

    /// Reads ranges into a record; none where the job is over, or the coordinator does not answer.
    fn build<'m>(
        &self,
        channel: &StreamChannel<'_>,
        ranges: &[Range],
        buffer: &mut RecordBuffer,
        mut pending: Pending<'m>,
    ) -> Option<Pending<'m>> {
        buffer.clear();
        for (at, range) in ranges.iter().enumerate() {
            let mark = pending.mark();
            if let Err(refusal) = self.open_files.read_range(channel, range, ranges.len() - at, buffer, &mut pending) {
                pending.rewind(mark, buffer);
                match channel.query(StreamQuery::Unread(range.file, refusal)) {
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
        match self.coordinator.handle(frame)? {
            None => Ok(()),
            Some(_) => Err(WireError::Unexpected("a file was to be closed that is only read")),
        }
    }

    fn poll_frame(&self) -> Option<Frame> {
        self.coordinator.poll()
    }

    fn pump(&self) -> Result<()> {
        Ok(())
    }

    fn tick(&self) {
        self.coordinator.tick();
    }

    fn steer(&self, _to: &LiveSettings) {}

    fn sends(&self) -> bool {
        true
    }

    fn retire(&self, streams: &BTreeSet<u32>) {
        self.coordinator.send(MoverMessage::Surplus(streams.iter().copied().collect()));
    }

    fn watches_progress(&self) -> bool {
        false
    }

    fn wants_streams(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.coordinator.is_finished()
    }

    fn progress(&self) -> Progress {
        self.coordinator.progress()
    }

    fn take_failure(&self) -> Option<Error> {
        self.coordinator.take_failure()
    }

    fn close(&self) {
        self.coordinator.close();
    }

    fn run_stream(&self, mut stream: DataStream) -> StreamEnd {
        let result = self.send_loop(&mut stream);
        StreamEnd::of(stream, result.map(|()| false))
    }
}
