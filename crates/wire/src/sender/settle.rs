//! Handles the receiver's messages.

use super::{Miss, Phase, ScanEnd, Sender};
use crate::error::WireError;
use crate::frame::{Claim, Frame, Outcome, UNKNOWN_SIZE, Verdict};
use crate::limits::{BAD_BLOCKS_MAX, MISSES_NAMED_MAX};
use model::Refusal;

impl Sender {
    /// Handles a message from the receiver. The caller handles those of the session (pings, aborts).
    ///
    /// # Errors
    /// The message breaks the protocol.
    pub fn handle_frame(&mut self, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::Verdicts(verdicts) => {
                verdicts.into_iter().try_for_each(|(id, verdict)| self.handle_verdict(id, verdict))
            }
            Frame::Outcomes(outcomes) => {
                outcomes.into_iter().try_for_each(|(id, outcome)| self.handle_outcome(id, outcome))
            }
            Frame::Again(ranges) => ranges.into_iter().try_for_each(|range| self.handle_again(range)),
            Frame::Received(counts) => {
                counts.into_iter().try_for_each(|(stream, records)| self.handle_received(stream, records))
            }
            Frame::Missed(misses) => {
                misses.into_iter().for_each(|(path, refusal)| self.note_miss(path, refusal));
                Ok(())
            }
            Frame::Removing(removal) => {
                self.removal = Some(removal);
                Ok(())
            }
            Frame::Plans(plans) => {
                self.plans.extend(plans);
                Ok(())
            }
            Frame::Finished(totals) => {
                if !self.items.is_empty() || self.scan_end != ScanEnd::Sent {
                    return Err(WireError::Unexpected("the receiver finished with entries unsettled"));
                }
                self.finished = Some(totals);
                Ok(())
            }
            _ => Err(WireError::Unexpected("a message that only a sender sends came from the receiver")),
        }
    }

    fn handle_verdict(&mut self, id: u64, verdict: Verdict) -> Result<(), WireError> {
        if id >= self.next_id {
            return Err(WireError::Unexpected("a verdict on an entry that was never offered"));
        }
        // Settled or dropped meanwhile: nothing to do.
        let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { return Ok(()) };
        // A file has one verdict. Inline files are sent without waiting for it.
        if matches!(file.phase, Phase::Compare | Phase::Wanted) {
            return Err(WireError::Unexpected("a second verdict on a file"));
        }
        if file.inline || file.phase != Phase::Offered {
            return Ok(());
        }
        match verdict {
            Verdict::Want => self.make_ready(id, Vec::new()),
            Verdict::WantRest(claims) => {
                if file.pipe {
                    return Err(WireError::Invalid("a claim on a range of a pipe"));
                }
                let mut end = 0;
                for Claim { offset, len, .. } in &claims {
                    let past = offset.checked_add(*len).filter(|past| *len > 0 && *past <= file.size && *offset >= end);
                    end = past.ok_or(WireError::Invalid("a claimed range"))?;
                }
                self.make_ready(id, claims);
            }
            Verdict::WantUnless(known) => {
                file.phase = Phase::Compare;
                self.compare.push_back((id, known));
            }
        }
        Ok(())
    }

    fn handle_outcome(&mut self, id: u64, outcome: Outcome) -> Result<(), WireError> {
        if id >= self.next_id {
            return Err(WireError::Unexpected("an outcome of an entry that was never offered"));
        }
        let Some(item) = self.items.remove(&id) else {
            return Err(WireError::Unexpected("an entry was settled twice"));
        };
        self.item_bytes -= item.cost;
        self.dirs.settled(id, item.parent);
        let path =
            (self.settled_files.is_wanted() || matches!(outcome, Outcome::Failed(_))).then(|| self.display_path(&item));
        if let Some(file) = &item.file {
            self.progress.files_settled += 1;
            let size = if file.size == UNKNOWN_SIZE { 0 } else { file.size };
            self.settled_files.settled(|| path.clone().unwrap_or_default(), size, &outcome);
            let (files, bytes) = match &outcome {
                Outcome::Done => (&mut self.settled.files, Some(&mut self.settled.bytes)),
                Outcome::Skipped => (&mut self.settled.skipped, Some(&mut self.settled.skipped_bytes)),
                Outcome::Failed(_) => (&mut self.settled.failed, None),
            };
            *files += 1;
            if let Some(bytes) = bytes {
                *bytes = bytes.saturating_add(size);
            }
            if !file.todo.is_empty() {
                self.ready.retain(|ready| *ready != id);
            }
            if !matches!(outcome, Outcome::Failed(_)) && file.size != UNKNOWN_SIZE {
                let rest = file.size.saturating_sub(file.arrived);
                self.progress.bytes_arrived = self.progress.bytes_arrived.saturating_add(rest);
                if matches!(outcome, Outcome::Skipped) {
                    self.progress.bytes_in_place = self.progress.bytes_in_place.saturating_add(rest);
                    self.progress.files_in_place += 1;
                }
            }
        }
        if let Outcome::Failed(refusal) = outcome {
            self.note_miss(path.unwrap_or_default(), refusal);
        }
        Ok(())
    }

    fn note_miss(&mut self, path: model::RelPath, refusal: Refusal) {
        if self.misses.len() < MISSES_NAMED_MAX {
            self.misses.push(Miss { path, refusal });
        }
    }

    fn handle_again(&mut self, (id, offset, len): (u64, u64, u64)) -> Result<(), WireError> {
        let Some(file) = self.items.get(&id).and_then(|i| i.file.as_ref()) else { return Ok(()) };
        if offset.checked_add(len).is_none_or(|end| end > file.size) {
            return Err(WireError::Invalid("a range to send again"));
        }
        self.bad_blocks += 1;
        if self.bad_blocks > BAD_BLOCKS_MAX {
            let (got, limit) = (self.bad_blocks, BAD_BLOCKS_MAX);
            return Err(WireError::TooLarge { what: "number of damaged blocks", got, limit });
        }
        self.send_again((id, offset, len));
        Ok(())
    }

    fn handle_received(&mut self, stream: u32, records: u64) -> Result<(), WireError> {
        // A stream that was lost meanwhile has nothing left to acknowledge.
        let Some(state) = self.streams.get_mut(&stream) else { return Ok(()) };
        let new_records = records.checked_sub(state.acknowledged).filter(|n| *n <= state.unacknowledged.len() as u64);
        let Some(new_records) = new_records else {
            return Err(WireError::Unexpected("more records were acknowledged than were sent"));
        };
        state.acknowledged = records;
        let arrived: Vec<_> = state.unacknowledged.drain(..new_records as usize).flatten().collect();
        for (id, _, len) in arrived {
            if let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) {
                let counted = len.min(file.size.saturating_sub(file.arrived));
                file.arrived += counted;
                self.progress.bytes_arrived = self.progress.bytes_arrived.saturating_add(counted);
            }
        }
        Ok(())
    }
}
