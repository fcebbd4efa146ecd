//! The sender's machine as a [`RangeDealer`], and the digests that need a whole file.

use model::Refusal;
use model::checksum::Digest;
use store::digest;
use wire::sender::Range;

use super::Sending;
use super::read::{OpenFile, RangeDealer, storage};

impl RangeDealer for Sending {
    fn claim_hole(&self, file: u64, from: u64, to: u64) -> Option<((u64, u64), bool)> {
        let mut state = self.state();
        let claimed = state.machine.claim_hole(file, from, to)?;
        Some((claimed, state.machine.is_dealt(file)))
    }

    fn is_dealt(&self, file: u64) -> bool {
        self.state().machine.is_dealt(file)
    }

    fn found_end(&self, file: u64, size: u64) {
        self.state().machine.found_end(file, size);
    }

    /// Completes the digests that need the whole file.
    fn end_file(&self, range: &Range, file: &OpenFile, size: u64) -> Result<(), Refusal> {
        let serial = self.open_files.serial();
        if serial.is_empty() {
            return Ok(());
        }
        let digests = match file.take_serial().finish(size) {
            Some(digests) => digests,
            // The file was not read in order: a stream was lost, and its ranges were sent after later ones.
            None => self
                .digesting(&file.path, || digest::of_file(&*file.source, &file.path, &serial))
                .map_err(|e| storage(&e))?,
        };
        self.state().machine.digested(range.file, digests);
        Ok(())
    }
}

impl Sending {
    /// Whether a file equals the receiver's. It must have the expected digest, even where no block of it is sent.
    pub(super) fn compare(&self, range: &Range, known: &Digest) -> Result<bool, Refusal> {
        let file = self.open_files.open_file(range)?;
        let expected = self.state().machine.expected(range.file);
        let second = expected.digest.map(|digest| digest.algorithm()).filter(|second| *second != known.algorithm());
        let algorithms: Vec<_> = [known.algorithm()].into_iter().chain(second).collect();
        let ours = self.digesting(&file.path, || digest::of_file(&*file.source, &file.path, &algorithms));
        let ours = ours.map_err(|e| storage(&e))?;
        expected.check_digests(&ours)?;
        Ok(ours.first() == Some(known))
    }

    /// Makes the serial digests of a file whose last range was not sent by this process: the receiver had it, or a mover sent it.
    pub(super) fn digest_serially(&self, range: &Range) -> Result<(), Refusal> {
        let serial = self.open_files.serial();
        if serial.is_empty() {
            return Ok(());
        }
        let file = self.open_files.open_file(range)?;
        let digests = self.digesting(&file.path, || digest::of_file(&*file.source, &file.path, &serial));
        let digests = digests.map_err(|e| storage(&e))?;
        self.state().machine.digested(range.file, digests);
        Ok(())
    }
}
