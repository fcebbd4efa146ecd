//! Streams of this side that a mover carries: it takes records in and writes their blocks, this side says where, keeps the
//! ledger and puts files in place.

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
    /// Answers a stream of a mover until it is over. What it had not told then comes again on others.
    pub(super) fn answer_mover(&self, stream: &MoverStream) {
        let (mut buffer, meter) = (None, Meter::default());
        while let Some(ask) = stream.hear() {
            let done = match ask {
                StreamQuery::Where(file) => {
                    // Said first: a file that is complete from here on waits for this mover.
                    stream.holds(file);
                    stream.tell_where(file, self.place_of(file));
                    Ok(())
                }
                StreamQuery::Pass(record) => {
                    let buffer = buffer.get_or_insert_with(RecordBuffer::default);
                    let taken = self.take_passed(&record, buffer, &meter);
                    stream.answer(Answer::Noted);
                    taken.map(|()| self.record_done(stream.id()))
                }
                StreamQuery::Took(parts) => self.took_of_mover(&parts).map(|()| self.record_done(stream.id())),
                StreamQuery::Next | StreamQuery::Claim { .. } | StreamQuery::Built { .. } | StreamQuery::Unread(..) => {
                    return stream.expel("it asks what no stream that receives asks");
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

    /// A record that a mover has taken in. What it found damaged is asked for again.
    fn took_of_mover(&self, parts: &[(Part, Option<BlockSum>)]) -> Result<(), WireError> {
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

    /// Where the blocks of a file go; the unfinished file is made if this is the first of them.
    fn place_of(&self, file: u64) -> Option<FileLocation> {
        let incoming = self.incoming().get(&file).cloned()?;
        match incoming.place(self) {
            Ok(here) => here,
            Err(error) => {
                self.file_failed(file, error);
                None
            }
        }
    }

    /// Makes sure that no mover writes to a file any more. Says whether what they have written is there for sure.
    pub(super) fn fence(&self, file: u64) -> bool {
        let movers = self.movers.lock().clone();
        movers.is_none_or(|movers| movers.fence(file))
    }
}
