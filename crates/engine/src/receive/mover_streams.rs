//! Streams of this side that a mover carries: the mover receives records and writes their blocks; this side gives it the files' locations,
//! keeps the ledger and commits files.

use model::checksum::BlockSum;
use wire::WireError;
use wire::mover::{Answer, FileLocation, StreamQuery};
use wire::record::Part;

use super::Receiving;
use super::file::Payload;
use crate::error::Error;
use crate::meter::Meter;
use crate::movers::MoverStream;
use crate::stream::RecordBuffer;

impl Receiving {
    /// Answers a stream of a mover until it is over. Blocks that it had not reported by then are sent again on other streams.
    pub(super) fn answer_mover(&self, stream: &MoverStream) {
        let mut buffer = None;
        let meter = Meter::default();
        while let Some(query) = stream.next_query() {
            let done = match query {
                StreamQuery::Where(file) => {
                    // Noted first: the commit of the file waits for this mover from here on.
                    stream.note_open(file);
                    stream.answer_location(file, self.location_of(file));
                    Ok(())
                }
                StreamQuery::Pass(record) => {
                    let buffer = buffer.get_or_insert_with(RecordBuffer::default);
                    let taken = self.take_passed(&record, buffer, &meter);
                    stream.answer(Answer::Noted);
                    taken.map(|()| self.record_done(stream.id()))
                }
                StreamQuery::Took(parts) => self.take_written(&parts).map(|()| self.record_done(stream.id())),
                StreamQuery::Next | StreamQuery::Claim { .. } | StreamQuery::Built { .. } | StreamQuery::Unread(..) => {
                    return stream.expel("a stream that receives does not ask that");
                }
            };
            if let Err(source) = done {
                return self.fail(Error::Protocol { peer: "the sender".into(), source });
            }
        }
    }

    fn record_done(&self, stream: u32) {
        self.state().machine.record_done(stream);
        self.waker.wake();
    }

    fn take_passed(&self, record: &[u8], buffer: &mut RecordBuffer, meter: &Meter) -> Result<(), WireError> {
        buffer.clear();
        let parts = buffer.from_inline(record)?;
        self.take_record(&parts, buffer.payload(), meter)
    }

    /// Enters the parts that a mover has written. Damaged parts are requested again.
    fn take_written(&self, parts: &[(Part, Option<BlockSum>)]) -> Result<(), WireError> {
        for (part, sum) in parts {
            let expected = self.state().machine.expects(part)?;
            match sum {
                _ if !expected => {}
                None => {
                    self.state().machine.damaged(part)?;
                    self.waker.wake();
                }
                Some(sum) => self.take_part(part, Payload::Written, *sum)?,
            }
        }
        Ok(())
    }

    /// The location of a file; the unfinished file is made if this is its first block.
    fn location_of(&self, file: u64) -> Option<FileLocation> {
        let incoming = self.incoming().get(&file).cloned()?;
        match incoming.location(self) {
            Ok(location) => location,
            Err(error) => {
                self.file_failed(file, error);
                None
            }
        }
    }

    /// Makes sure that no mover writes to a file any more. Returns whether their blocks are certainly in the file.
    pub(super) fn fence(&self, file: u64) -> bool {
        let movers = self.movers.lock().clone();
        movers.is_none_or(|movers| movers.fence(file))
    }
}
