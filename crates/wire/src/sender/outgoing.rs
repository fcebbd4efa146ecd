//! The sender's outgoing messages, in the order in which the receiver must get them.

use model::entry::Attributes;

use super::{ScanEnd, Sender};
use crate::frame::{Entry, Frame, Offered};
use crate::limits;

impl Sender {
    /// The next message for the receiver.
    pub fn poll_frame(&mut self) -> Option<Frame> {
        if !self.out_entries.is_empty() {
            return Some(Frame::Entries(self.take_entries()));
        }
        if let Some(record) = self.out_inline.pop_front() {
            return Some(Frame::Inline(record));
        }
        // Before the ends of files: the receiver must have all ranges of a file when it gets the file's end.
        if !self.out_held.is_empty() {
            let end = self.out_held.len().min(limits::RANGES_MAX);
            return Some(Frame::Held(self.out_held.drain(..end).collect()));
        }
        if !self.out_ends.is_empty() {
            let end = self.out_ends.len().min(limits::FRAME_BYTES_AIM / 64);
            return Some(Frame::Ends(self.out_ends.drain(..end).collect()));
        }
        if !self.out_drops.is_empty() {
            let end = self.out_drops.len().min(64);
            return Some(Frame::Drops(self.out_drops.drain(..end).collect()));
        }
        if !self.out_same.is_empty() {
            return Some(Frame::Same(std::mem::take(&mut self.out_same)));
        }
        if self.scan_end == ScanEnd::Due {
            self.scan_end = ScanEnd::Sent;
            return Some(Frame::ScanEnd(self.next_id - 1));
        }
        None
    }

    fn take_entries(&mut self) -> Vec<Entry> {
        let mut bytes = 0;
        let mut out = Vec::new();
        while bytes < limits::FRAME_BYTES_AIM {
            let Some(entry) = self.out_entries.pop_front() else { break };
            bytes += match &entry {
                Entry::Leave(_) => 10,
                Entry::New { name, what, attributes, .. } => {
                    40 + name.as_bytes().len()
                        + attributes.as_deref().map_or(0, attribute_bytes)
                        + match what {
                            Offered::Symlink { target, .. } => target.len(),
                            Offered::HardLink { path, .. } => path.as_bytes().len(),
                            Offered::Failed(refusal) => refusal.reason.len(),
                            _ => 0,
                        }
                }
            };
            out.push(entry);
        }
        out
    }
}

/// Bytes that attributes take on the wire, roughly.
pub(super) fn attribute_bytes(attributes: &Attributes) -> usize {
    let owner = attributes.owner.as_ref().map_or(0, |o| 24 + o.user.len() + o.group.len());
    owner + attributes.xattrs.iter().map(|x| 16 + x.name.len() + x.value.len()).sum::<usize>()
}
