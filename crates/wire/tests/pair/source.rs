//! The source end: scans, reads ranges, builds records, and drops the files that the test names.

use std::collections::{HashMap, HashSet};

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;
use model::name::RelPath;
use model::{Algorithm, Refusal};
use wire::frame::{Frame, Offered, UNKNOWN_SIZE};
use wire::record::{self, HEAD_BYTES, Head, Part};
use wire::sender::{Built, Range};
use wire::{Sender, WireError};

use crate::rng::mix;
use crate::tree::{Content, NodeKind, Step, mode_of, mtime_of};

pub struct Source {
    steps: Box<dyn Iterator<Item = Step>>,
    pub serial: Vec<Algorithm>,
    pub with_adler32: bool,
    /// Files (source, path) that vanish at the first read at or behind this offset.
    pub drops: HashMap<(u32, RelPath), u64>,
    pub dropped: HashSet<RelPath>,
    contents: HashMap<u64, Content>,
    first_names: HashMap<(u32, RelPath), u64>,
    /// The offset up to which each file was digested, in order.
    digested: HashMap<u64, u64>,
    /// The end of the last order of each file, including claimed holes.
    order_end: HashMap<u64, u64>,
    pub offered: u64,
    pub unsettled: u64,
    pub unsettled_max: u64,
    /// The record that was built last, until it is sent on its stream.
    pub ready: Option<Vec<u8>>,
    ended: HashSet<u64>,
    /// The streams on which each file's blocks were sent.
    pub carriers: HashMap<u64, HashSet<u32>>,
}

/// The serial digest of these tests: any bytes that both ends agree on.
pub fn serial_digest(algorithm: Algorithm, content: &Content) -> Digest {
    let value: Vec<u8> = (0..4).flat_map(|n| mix(content.seed ^ n ^ content.len).to_be_bytes()).collect();
    Digest::new(algorithm, &value[..algorithm.value_bytes()]).unwrap()
}

impl Source {
    pub fn new(steps: Box<dyn Iterator<Item = Step>>, checksums: &[Algorithm]) -> Source {
        Source {
            steps,
            serial: checksums.iter().copied().filter(|a| a.is_serial()).collect(),
            with_adler32: checksums.contains(&Algorithm::Adler32),
            drops: HashMap::new(),
            dropped: HashSet::new(),
            contents: HashMap::new(),
            first_names: HashMap::new(),
            digested: HashMap::new(),
            order_end: HashMap::new(),
            offered: 0,
            unsettled: 0,
            unsettled_max: 0,
            ready: None,
            ended: HashSet::new(),
            carriers: HashMap::new(),
        }
    }

    /// Offers one entry, or leaves a directory. Returns false at the end of the tree.
    pub fn scan(&mut self, sender: &mut Sender) -> bool {
        let Some(step) = self.steps.next() else {
            sender.scan_end();
            return false;
        };
        let Step::Offer { source, path, name, what } = step else {
            sender.leave();
            return true;
        };
        let mode = mode_of(&name);
        let mtime = mtime_of(&name);
        let mut content = None;
        let mut may_have_links = matches!(what, NodeKind::Unreadable);
        let offered = match what {
            NodeKind::Dir(_) => Offered::Dir { mode, mtime },
            NodeKind::File(bytes) => {
                let size = bytes.len;
                content = Some(bytes);
                may_have_links = true;
                Offered::File { mode, mtime, size }
            }
            NodeKind::Pipe(bytes) => {
                content = Some(bytes);
                Offered::File { mode, mtime, size: UNKNOWN_SIZE }
            }
            NodeKind::Symlink(target) => Offered::Symlink { mtime, target },
            NodeKind::HardLink(to) => {
                let first = self.first_names.get(&(source, to.clone())).copied().unwrap();
                Offered::HardLink { to: first, path: to }
            }
            NodeKind::Special => Offered::Special,
            NodeKind::Unreadable => Offered::Failed(Refusal::new(Fault::Storage, "permission denied")),
        };
        let id = sender.offer(source, path.clone(), name, offered);
        if may_have_links {
            self.first_names.insert((source, path), id);
        }
        self.offered += 1;
        self.unsettled += 1;
        self.unsettled_max = self.unsettled_max.max(self.unsettled);
        if let Some(content) = content {
            self.contents.insert(id, content);
        }
        true
    }

    /// Notes the outcomes in a frame of the receiver, for the count of unsettled entries.
    pub fn note_outcomes(&mut self, frame: &Frame) {
        if let Frame::Outcomes(outcomes) = frame {
            self.unsettled -= outcomes.len() as u64;
            for (id, _) in outcomes {
                self.contents.remove(id);
                self.digested.remove(id);
            }
        }
    }

    pub fn equals(&self, id: u64, known: &Digest) -> bool {
        self.contents.get(&id).is_some_and(|c| Digest::crc32c(model::checksum::crc32c(&c.all())) == *known)
    }

    /// Compares a range that the receiver claims to have with the content.
    pub fn check(&mut self, sender: &mut Sender, range: &Range, crc32c: u32) {
        let Some(content) = self.contents.get(&range.file).cloned() else { return };
        let sum = BlockSum::of(&content.read(range.offset, range.len), self.with_adler32);
        let same = (sum.crc32c == crc32c).then_some(sum);
        let last = sender.checked(range.file, (range.offset, range.len), Ok(same));
        if last && !self.serial.is_empty() {
            let digests = self.serial.iter().map(|a| serial_digest(*a, &content)).collect();
            sender.digested(range.file, digests);
        }
    }

    /// Reads ranges and builds their record. Builds none if nothing is left to send.
    pub fn build(&mut self, sender: &mut Sender, stream: u32, ranges: &[Range]) -> Result<(), WireError> {
        if let Some((record, built)) = self.record(sender, ranges) {
            for part in &built {
                self.carriers.entry(part.file).or_default().insert(stream);
            }
            match stream {
                0 => sender.built_inline(record, &built)?,
                _ => {
                    sender.built(stream, &built)?;
                    self.ready = Some(record);
                }
            }
        }
        for range in ranges {
            self.note_read(sender, range);
        }
        Ok(())
    }

    fn record(&mut self, sender: &mut Sender, ranges: &[Range]) -> Option<(Vec<u8>, Vec<Built>)> {
        let mut parts = Vec::new();
        let mut built = Vec::new();
        let mut payload = Vec::new();
        for range in ranges {
            let key = (range.source, range.path.clone());
            if self.drops.get(&key).is_some_and(|at| range.offset + range.len >= *at) {
                sender.drop_file(range.file, Refusal::new(Fault::Storage, "it changed while it was read"));
                self.dropped.insert(range.path.clone());
                continue;
            }
            // The file was settled after the order was given.
            let Some(content) = self.contents.get(&range.file).cloned() else { continue };
            for (offset, len, whole, hole) in pieces(&content, range, sender) {
                self.order_end.insert(range.file, offset + len);
                let sum = if hole {
                    BlockSum::of_zeros(len, self.with_adler32)
                } else {
                    let bytes = content.read(offset, len);
                    payload.extend_from_slice(&bytes);
                    BlockSum::of(&bytes, self.with_adler32)
                };
                parts.push(Part { file: range.file, offset, len, crc32c: sum.crc32c, hole, whole });
                built.push(Built { file: range.file, offset, len, sum, hole, whole });
            }
        }
        if parts.is_empty() {
            return None;
        }
        let head = Head::new(parts.len(), payload.len());
        let mut record = head.encode().to_vec();
        record.resize(HEAD_BYTES + head.table_len(), 0);
        record::encode_table(&head, &parts, &mut record[HEAD_BYTES..]);
        record.extend_from_slice(&payload);
        Some((record, built))
    }

    /// After a range was read: reports serial digests, and the end of a file of unknown size.
    fn note_read(&mut self, sender: &mut Sender, range: &Range) {
        let Some(content) = self.contents.get(&range.file) else { return };
        let order_end = self.order_end.remove(&range.file).unwrap_or(0);
        let end = range.offset.saturating_add(range.len).max(order_end).min(content.len);
        if range.last && range.size != UNKNOWN_SIZE && !self.serial.is_empty() {
            let digests = self.serial.iter().map(|a| serial_digest(*a, content)).collect();
            return sender.digested(range.file, digests);
        }
        let at = self.digested.entry(range.file).or_default();
        if range.offset > *at || end < *at {
            return;
        }
        *at = end;
        if end == content.len {
            if !self.serial.is_empty() {
                let digests = self.serial.iter().map(|a| serial_digest(*a, content)).collect();
                sender.digested(range.file, digests);
            }
            if range.size == UNKNOWN_SIZE && self.ended.insert(range.file) {
                sender.found_end(range.file, content.len);
            }
        }
    }
}

/// The parts of a range: offset, length, whole file, hole.
fn pieces(content: &Content, range: &Range, sender: &mut Sender) -> Vec<(u64, u64, bool, bool)> {
    let len = range.len.min(content.len.saturating_sub(range.offset));
    if len == 0 && range.len > 0 {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (offset, piece, hole) in content.pieces(range.offset, len) {
        out.push((offset, piece, range.is_whole() && piece == range.len, hole.is_some()));
        let end = range.offset + len;
        if let Some(to) = hole.filter(|to| offset + piece == end && *to > end && range.size != UNKNOWN_SIZE) {
            while let Some((from, more)) = sender.claim_hole(range.file, end, to) {
                out.push((from, more, false, true));
            }
        }
    }
    out
}
