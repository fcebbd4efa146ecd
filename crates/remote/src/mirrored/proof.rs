//! Verifies that bytes from several sources make one file. The checksums of its parts are combined and compared with the digest that
//! a source reports. Where no source reports one, samples are compared with the first source's bytes. A source that has other bytes
//! is found and excluded.
//!
//! A file of which all bytes came from the first source needs no proof. Whether the bytes reach the target unchanged, the
//! transfer verifies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;
use model::{Algorithm, RelPath};
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::error::shown;
use store::{Error, Result};

use super::source_set::{MemberRun, SharedFile, SourceSet};
use crate::ahead::CHUNK_BYTES;
use crate::range_source::{MemberFailure, ReadHandle};

/// The digests that sources are asked for, the most common first.
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];
/// The longest wait for a digest when all bytes are there: a server may have to read the file for it.
const DIGEST_WITHIN: Duration = Duration::from_secs(120);
/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Samples of each member's bytes, where no source reports a digest.
const SAMPLES: usize = 4;
/// Samples of each member's bytes, where the file does not have the reported digest.
const SEARCH_SAMPLES: usize = 64;
/// The longest time for comparing samples of one file: the first source may be very slow.
const SAMPLED_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Default)]
enum DigestState {
    #[default]
    NotRequested,
    Requested,
    /// The member that reported it, and the digest.
    Digest(usize, Digest),
    /// No member reports a digest.
    Nothing,
}

/// A part of a file that one member brought, with its checksums.
#[derive(Clone, Copy)]
pub(super) struct PartSum {
    at: u64,
    len: u64,
    sum: BlockSum,
    /// The checksums of its first [`SAMPLE_BYTES`].
    head: BlockSum,
    by: usize,
}

impl PartSum {
    /// The parts of `bytes`, which consist of these runs.
    pub fn all_of(bytes: &[u8], runs: Vec<MemberRun>) -> Vec<PartSum> {
        let from = runs.first().map_or(0, |run| run.span.start);
        let part = |MemberRun { span, by }: MemberRun| {
            let bytes = &bytes[(span.start - from) as usize..(span.end - from) as usize];
            let head = &bytes[..bytes.len().min(SAMPLE_BYTES as usize)];
            let (at, len) = (span.start, span.end - span.start);
            PartSum { at, len, sum: BlockSum::of(bytes, true), head: BlockSum::of(head, true), by }
        };
        runs.into_iter().map(part).collect()
    }

    fn end(&self) -> u64 {
        self.at + self.len
    }

    /// Whether the first source has other bytes there; `None` where it cannot be asked now.
    fn differs(&self, sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>) -> Option<bool> {
        let of_first = read(sources, file, 0, self.at..self.at + self.len.min(SAMPLE_BYTES)).ok()?;
        Some(BlockSum::of(&of_first, true) != self.head)
    }
}

#[derive(Default)]
struct State {
    /// The parts that came, by offset.
    parts: BTreeMap<u64, PartSum>,
    /// Bytes of all parts.
    covered: u64,
    /// The members that brought some of it: a bit for each.
    by: u32,
    digest: DigestState,
    /// The combined bytes do not have the reported digest, and the wrong source was not found: only the first source is read.
    first_alone: bool,
    /// The file failed before: it is verified even if all bytes come from the first source.
    is_doubted: bool,
}

/// The evidence for the bytes of one file. Lives as long as the transfer.
#[derive(Default)]
pub(super) struct Proof {
    state: Mutex<State>,
    changed: Condvar,
}

impl Proof {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds parts. Returns the checksum of the whole file once it is complete and needs a proof.
    pub fn add(&self, parts: Vec<PartSum>, size: u64) -> Option<BlockSum> {
        let mut state = self.state();
        for part in parts {
            state.by |= 1 << part.by;
            // An older part that overlaps was read again, and is replaced.
            let before = state.parts.range(..part.end()).rev();
            let stale: Vec<u64> = before.map_while(|(at, old)| (old.end() > part.at).then_some(*at)).collect();
            for at in stale {
                state.covered -= state.parts.remove(&at).map_or(0, |old| old.len);
            }
            state.covered += part.len;
            state.parts.insert(part.at, part);
        }
        // Parts do not overlap, and none ends behind the file: where they cover its size, they are the whole file.
        let needs_proof = state.by & !1 != 0 || state.is_doubted;
        if !needs_proof || state.covered != size {
            return None;
        }
        let sums = state.parts.values().map(|part| (part.len, part.sum));
        sums.reduce(|(before, sum), (len, next)| (before + len, sum.then(next, len))).map(|(_, sum)| sum)
    }

    /// Asks the sources for a digest and compares a sample while the file is read: a server may take long to compute the digest.
    pub fn request_digest(self: &Arc<Proof>, sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>) {
        let mut state = self.state();
        if !matches!(state.digest, DigestState::NotRequested) {
            return;
        }
        state.digest = DigestState::Requested;
        drop(state);
        // Finds a source with another version before much of it is copied. No reader waits for that: the first source may be slow.
        if file.size() > CHUNK_BYTES {
            let (sources, file) = (Arc::clone(sources), Arc::clone(file));
            let compare = move || compare_middles(&sources, &file);
            drop(std::thread::Builder::new().name("mirror-sample".into()).spawn(compare));
        }
        let (proof, sources, file) = (Arc::clone(self), Arc::clone(sources), Arc::clone(file));
        let begun = std::thread::Builder::new().name("mirror-digest".into()).spawn(move || {
            let reported = (0..sources.members.len()).filter(|m| !sources.is_doubtful(*m)).find_map(|member| {
                let mut digests =
                    ALGORITHMS.iter().map(|algorithm| digest_of(&sources, member, file.path(), *algorithm));
                digests.find_map(|digest| digest.map(|digest| DigestState::Digest(member, digest)))
            });
            proof.state().digest = reported.unwrap_or(DigestState::Nothing);
            proof.changed.notify_all();
        });
        if begun.is_err() {
            self.state().digest = DigestState::Nothing;
        }
    }

    /// Checks that other sources than the first may be read for the file.
    ///
    /// # Errors
    /// Only the first may: the combined bytes of all sources do not have the reported digest.
    pub fn admits(&self, sources: &SourceSet, path: &RelPath) -> std::result::Result<(), MemberFailure> {
        if self.state().first_alone {
            let why = format!("only {} is read: the bytes of all sources make another file", sources.members[0].name);
            return Err(MemberFailure::from(integrity(path, why)));
        }
        Ok(())
    }

    /// Checks that no bytes of the file came from a member that was found to have other bytes.
    ///
    /// # Errors
    /// Some did: the file must be read again.
    pub fn check_members(&self, sources: &SourceSet, path: &RelPath) -> Result<()> {
        let with_other_bytes = self.state().by & sources.with_other_bytes();
        if with_other_bytes == 0 {
            return Ok(());
        }
        Err(self.read_again_error(
            sources,
            path,
            &format!("{} has other bytes than the first source", names(sources, with_other_bytes)),
        ))
    }

    /// Compares the checksum of the whole file with the digest that a source reports.
    ///
    /// # Errors
    /// They differ: the file must be read again.
    pub fn check(&self, sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>, sum: BlockSum) -> Result<()> {
        let mut state = self.state();
        self.changed.wait_while_for(&mut state, |state| matches!(state.digest, DigestState::Requested), DIGEST_WITHIN);
        let reported = state.digest;
        drop(state);
        let DigestState::Digest(reporter, reported) = reported else {
            return self.sample(sources, file);
        };
        let computed = computed(sum, reported.algorithm());
        if computed.as_ref() == Some(&reported) {
            return Ok(());
        }
        if self.state().by & !1 == 0 {
            return check_first_source(sources, file.path(), reporter, computed, reported);
        }
        self.find_wrong_members(sources, file, reporter, reported);
        let with_other_bytes = self.state().by & sources.with_other_bytes();
        if with_other_bytes == 0 {
            self.state().first_alone = true;
        }
        let who =
            if with_other_bytes == 0 { "one of the sources".to_owned() } else { names(sources, with_other_bytes) };
        let than = &sources.members[reporter].name;
        let why = format!("{who} has other bytes than {than}: {}", mismatch(computed, reported));
        Err(self.read_again_error(sources, file.path(), &why))
    }

    /// Finds the members that have other bytes than the first source, by samples of their parts or by the digests that they report.
    fn find_wrong_members(
        &self,
        sources: &Arc<SourceSet>,
        file: &Arc<dyn SharedFile>,
        reporter: usize,
        reported: Digest,
    ) {
        self.compare_parts(sources, file, SEARCH_SAMPLES);
        let by = self.state().by;
        if reporter != 0 || by & sources.with_other_bytes() != 0 {
            return;
        }
        for other in (1..sources.members.len()).filter(|other| by & (1 << other) != 0) {
            if digest_of(sources, other, file.path(), reported.algorithm()).is_some_and(|digest| digest != reported) {
                exclude(sources, other, file.path());
            }
        }
    }

    /// Compares samples of each member's parts with the bytes of the first source, since no source reports a digest.
    fn sample(&self, sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>) -> Result<()> {
        let all_compared = self.compare_parts(sources, file, SAMPLES);
        self.check_members(sources, file.path())?;
        sources.unproven(file.path(), self.state().by, all_compared);
        Ok(())
    }

    /// Compares at most `most` parts of each member, spread over the file. Returns whether all of them could be compared.
    fn compare_parts(&self, sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>, most: usize) -> bool {
        let began = Instant::now();
        let mut all = true;
        for member in 1..sources.members.len() {
            let parts: Vec<PartSum> = self.state().parts.values().filter(|part| part.by == member).copied().collect();
            for part in spread(&parts, most) {
                let differs = (began.elapsed() < SAMPLED_WITHIN).then(|| part.differs(sources, file)).flatten();
                if differs == Some(true) {
                    exclude(sources, member, file.path());
                    break;
                }
                all &= differs.is_some();
            }
        }
        all
    }

    /// Forgets all parts. Returns the error with which the file fails; it may succeed the next time.
    fn read_again_error(&self, sources: &SourceSet, path: &RelPath, why: &str) -> Error {
        let mut state = self.state();
        state.parts.clear();
        state.covered = 0;
        state.by = 0;
        state.is_doubted = true;
        drop(state);
        sources.note_retry_may_succeed();
        integrity(path, why.to_owned())
    }
}

fn mismatch(computed: Option<Digest>, reported: Digest) -> String {
    let computed = computed.map(|digest| digest.to_string()).unwrap_or_default();
    format!("it came as {computed}, and should be {reported}")
}

/// Handles a file all of which came from the first source and whose digest is not the reported one. If another member reported that
/// digest, this member is excluded, since the first source decides. If the first source itself reported it, the file fails.
fn check_first_source(
    sources: &SourceSet,
    path: &RelPath,
    reporter: usize,
    computed: Option<Digest>,
    reported: Digest,
) -> Result<()> {
    if reporter != 0 {
        let first = &sources.members[0].name;
        sources.exclude(reporter, &format!("it reports another digest of {} than {first} has", shown(path)));
        return Ok(());
    }
    let first = &sources.members[0].name;
    Err(integrity(path, format!("{first} has other bytes than its digest says: {}", mismatch(computed, reported))))
}

/// At most `most` of the parts, evenly spread from the first to the last.
fn spread(parts: &[PartSum], most: usize) -> impl Iterator<Item = &PartSum> {
    let taken = parts.len().min(most);
    (0..taken).map(move |at| &parts[at * (parts.len() - 1) / (taken - 1).max(1)])
}

fn exclude(sources: &SourceSet, member: usize, path: &RelPath) {
    sources.exclude(member, &format!("it has other bytes of {} than {}", shown(path), sources.members[0].name));
}

fn names(sources: &SourceSet, members: u32) -> String {
    let named = sources.members.iter().enumerate().filter(|(at, _)| members & (1 << at) != 0);
    named.map(|(_, member)| member.name.as_str()).collect::<Vec<_>>().join(" and ")
}

fn integrity(path: &RelPath, why: String) -> Error {
    Error::Server { doing: "read", path: shown(path), fault: Fault::Integrity, general: false, why }
}

/// Reads bytes from one member.
fn read(
    sources: &Arc<SourceSet>,
    file: &Arc<dyn SharedFile>,
    member: usize,
    span: Range<u64>,
) -> std::result::Result<Vec<u8>, MemberFailure> {
    let len = (span.end - span.start) as usize;
    let mut bytes = Vec::new();
    Arc::clone(file).at(sources, member)?.read_range(span, &ReadHandle::default(), &mut |more| {
        bytes.extend_from_slice(more);
        bytes.len() < len
    })?;
    if bytes.len() < len {
        return Err(MemberFailure::from(integrity(file.path(), "it ended before all bytes came".into())));
    }
    Ok(bytes)
}

/// Compares a sample from the middle of the file at each member with that of the first source.
fn compare_middles(sources: &Arc<SourceSet>, file: &Arc<dyn SharedFile>) {
    let from = (file.size() / 2).min(file.size().saturating_sub(SAMPLE_BYTES));
    let span = from..(from + SAMPLE_BYTES).min(file.size());
    let Ok(of_first) = read(sources, file, 0, span.clone()) else { return };
    for member in (1..sources.members.len()).filter(|member| !sources.is_doubtful(*member)) {
        if read(sources, file, member, span.clone()).is_ok_and(|bytes| bytes != of_first) {
            exclude(sources, member, file.path());
        }
    }
}

fn digest_of(sources: &SourceSet, member: usize, path: &RelPath, algorithm: Algorithm) -> Option<Digest> {
    let member = &sources.members[member];
    let digests = member.store().digests(&member.path(path), &[algorithm]).ok()?;
    digests.into_iter().find(|digest| digest.algorithm() == algorithm)
}

fn computed(sum: BlockSum, algorithm: Algorithm) -> Option<Digest> {
    match algorithm {
        Algorithm::Crc32c => Some(Digest::crc32c(sum.crc32c)),
        _ => Digest::new(algorithm, &sum.adler32?.to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: &[u8], span: Range<usize>, by: usize) -> Vec<PartSum> {
        PartSum::all_of(&bytes[span.clone()], vec![MemberRun { span: span.start as u64..span.end as u64, by }])
    }

    #[test]
    fn parts_in_any_order_make_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let whole = BlockSum::of(&bytes, true);
        let proof = Proof::default();
        let add = |span: Range<usize>, by| proof.add(parts(&bytes, span, by), bytes.len() as u64);
        assert_eq!(add(50_000..100_000, 0), None);
        assert_eq!(add(0..20_000, 1), None);
        assert_eq!(add(10_000..30_000, 0), None, "what overlaps is read anew");
        assert_eq!(add(30_000..50_000, 0), None);
        assert_eq!(add(0..10_000, 0), Some(whole));
    }

    #[test]
    fn a_chunk_from_several_members_is_several_parts() {
        let bytes = b"abcdefgh";
        let runs = vec![MemberRun { span: 10..13, by: 1 }, MemberRun { span: 13..18, by: 0 }];
        let parts = PartSum::all_of(bytes, runs);
        let reported: Vec<_> = parts.iter().map(|part| (part.at, part.len, part.by)).collect();
        assert_eq!(reported, [(10, 3, 1), (13, 5, 0)]);
        assert_eq!(parts[0].sum.then(parts[1].sum, 5), BlockSum::of(bytes, true));
    }

    #[test]
    fn the_first_source_alone_needs_no_proof() {
        let proof = Proof::default();
        assert_eq!(proof.add(parts(b"abc", 0..3, 0), 3), None);
        assert!(proof.add(parts(b"abc", 0..3, 1), 3).is_some());
    }

    #[test]
    fn samples_are_spread_from_the_first_to_the_last() {
        let bytes = [7; 100];
        let all: Vec<PartSum> = (0..100).flat_map(|at| parts(&bytes, at..at + 1, 1)).collect();
        let at = |count: usize, most| spread(&all[..count], most).map(|part| part.at).collect::<Vec<_>>();
        assert_eq!(at(100, 4), [0, 33, 66, 99]);
        assert_eq!((at(3, 4), at(1, 4), at(0, 4)), (vec![0, 1, 2], vec![0], vec![]));
    }
}
