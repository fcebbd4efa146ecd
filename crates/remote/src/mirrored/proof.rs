//! Whether what was put together from several sources is one file: the checksums of its parts make that of the whole, which is
//! held against the digest that a source tells; where none tells any, samples are held against the first source's bytes. Who
//! has other bytes is found out and left out.
//!
//! What the first source brought alone needs no proof: it is what was asked for. Does not know: whether the bytes reach the
//! target as they are; that is the job's.

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

use super::crew::{Crew, Run, Whole};
use crate::ahead::CHUNK_BYTES;
use crate::pieces::{Flight, Trouble};

/// What sources are asked for, what most of them keep first.
const ASKED: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];
/// How long a digest is waited for when all bytes are there: a server may have to read the file for it.
const WITHIN: Duration = Duration::from_secs(120);
/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Samples of what one member brought, where no source tells a digest; and where one does, and the whole is not that.
const SAMPLES: usize = 4;
const SEARCHED: usize = 64;
/// How long samples of one file are compared: the first source may be one that crawls.
const SAMPLED_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Default)]
enum Told {
    #[default]
    Unasked,
    Asked,
    /// By this member.
    Digest(usize, Digest),
    /// None of them tells any.
    Nothing,
}

/// A part of a file as it came.
#[derive(Clone, Copy)]
pub(super) struct Part {
    at: u64,
    len: u64,
    sum: BlockSum,
    /// Of its first [`SAMPLE_BYTES`].
    head: BlockSum,
    by: usize,
}

impl Part {
    /// Of bytes that these runs are.
    pub fn all_of(bytes: &[u8], runs: Vec<Run>) -> Vec<Part> {
        let from = runs.first().map_or(0, |run| run.span.start);
        let part = |Run { span, by }: Run| {
            let bytes = &bytes[(span.start - from) as usize..(span.end - from) as usize];
            let head = &bytes[..bytes.len().min(SAMPLE_BYTES as usize)];
            let (at, len) = (span.start, span.end - span.start);
            Part { at, len, sum: BlockSum::of(bytes, true), head: BlockSum::of(head, true), by }
        };
        runs.into_iter().map(part).collect()
    }

    fn end(&self) -> u64 {
        self.at + self.len
    }

    /// Whether the first source has other bytes there; none where it cannot be asked now.
    fn is_lie(&self, crew: &Arc<Crew>, file: &Arc<dyn Whole>) -> Option<bool> {
        let truth = read(crew, file, 0, self.at..self.at + self.len.min(SAMPLE_BYTES)).ok()?;
        Some(BlockSum::of(&truth, true) != self.head)
    }
}

#[derive(Default)]
struct State {
    /// What came, by its offset.
    parts: BTreeMap<u64, Part>,
    /// Bytes of all parts.
    covered: u64,
    /// Who brought some of it: a bit for each member.
    by: u32,
    told: Told,
    /// The sources make no whole together, and none of them is found out.
    first_alone: bool,
    /// It was something else before: whoever brings it now, it is held against what is told of it.
    is_doubted: bool,
}

/// What is known of the bytes of one file, for as long as the job.
#[derive(Default)]
pub(super) struct Proof {
    state: Mutex<State>,
    changed: Condvar,
}

impl Proof {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Parts came. The sum of the whole, if it is whole now and the first source is not all it is of.
    pub fn add(&self, parts: Vec<Part>, size: u64) -> Option<BlockSum> {
        let mut state = self.state();
        for part in parts {
            state.by |= 1 << part.by;
            // What came before and overlaps is not what was read last.
            let before = state.parts.range(..part.end()).rev();
            let stale: Vec<u64> = before.map_while(|(at, old)| (old.end() > part.at).then_some(*at)).collect();
            for at in stale {
                state.covered -= state.parts.remove(&at).map_or(0, |old| old.len);
            }
            state.covered += part.len;
            state.parts.insert(part.at, part);
        }
        // They do not overlap and none ends behind the file, so that they are the file.
        let needs_proof = state.by & !1 != 0 || state.is_doubted;
        if !needs_proof || state.covered != size {
            return None;
        }
        let sums = state.parts.values().map(|part| (part.len, part.sum));
        sums.reduce(|(before, sum), (len, next)| (before + len, sum.then(next, len))).map(|(_, sum)| sum)
    }

    /// Asks the sources for a digest, and compares a sample, beside the bytes: it may take a server as long to make the digest.
    pub fn ask(self: &Arc<Proof>, crew: &Arc<Crew>, file: &Arc<dyn Whole>) {
        let mut state = self.state();
        if !matches!(state.told, Told::Unasked) {
            return;
        }
        state.told = Told::Asked;
        drop(state);
        // Who has another edition is found out before much of it is copied. Nobody waits for that: the first may be one that crawls.
        if file.size() > CHUNK_BYTES {
            let (of, file) = (Arc::clone(crew), Arc::clone(file));
            let compare = move || compare_middles(&of, &file);
            drop(std::thread::Builder::new().name("mirror-sample".into()).spawn(compare));
        }
        let (proof, of, file) = (Arc::clone(self), Arc::clone(crew), Arc::clone(file));
        let begun = std::thread::Builder::new().name("mirror-digest".into()).spawn(move || {
            let told = (0..of.members.len()).filter(|m| !of.is_doubtful(*m)).find_map(|member| {
                let mut digests = ASKED.iter().map(|algorithm| digest_of(&of, member, file.path(), *algorithm));
                digests.find_map(|digest| digest.map(|digest| Told::Digest(member, digest)))
            });
            proof.state().told = told.unwrap_or(Told::Nothing);
            proof.changed.notify_all();
        });
        if begun.is_err() {
            self.state().told = Told::Nothing;
        }
    }

    /// Whether others than the first source may bring bytes of the file.
    ///
    /// # Errors
    /// They may not.
    pub fn admits(&self, crew: &Crew, path: &RelPath) -> std::result::Result<(), Trouble> {
        if self.state().first_alone {
            let why = format!("all of it comes from {}: together the sources make another file", crew.members[0].name);
            return Err(Trouble::from(integrity(path, why)));
        }
        Ok(())
    }

    /// Nothing of the file came from a member that was found out since.
    ///
    /// # Errors
    /// Some of it did: the file is to be read again.
    pub fn not_lied_to(&self, crew: &Crew, path: &RelPath) -> Result<()> {
        let liars = self.state().by & crew.liars();
        if liars == 0 {
            return Ok(());
        }
        Err(self.to_be_read_again(crew, path, &format!("{} has other bytes than the first source", names(crew, liars))))
    }

    /// Holds the whole against what a source tells of it.
    ///
    /// # Errors
    /// It is not that, and the file is to be read again.
    pub fn check(&self, crew: &Arc<Crew>, file: &Arc<dyn Whole>, sum: BlockSum) -> Result<()> {
        let mut state = self.state();
        self.changed.wait_while_for(&mut state, |state| matches!(state.told, Told::Asked), WITHIN);
        let told = state.told;
        drop(state);
        let Told::Digest(teller, told) = told else {
            return self.sample(crew, file);
        };
        let made = made(sum, told.algorithm());
        if made.as_ref() == Some(&told) {
            return Ok(());
        }
        if self.state().by & !1 == 0 {
            return of_the_first(crew, file.path(), teller, made, told);
        }
        self.find_out(crew, file, teller, told);
        let liars = self.state().by & crew.liars();
        if liars == 0 {
            self.state().first_alone = true;
        }
        let who = if liars == 0 { "one of the sources".to_owned() } else { names(crew, liars) };
        let than = &crew.members[teller].name;
        let why = format!("{who} has other bytes than {than}: {}", came(made, told));
        Err(self.to_be_read_again(crew, file.path(), &why))
    }

    /// Finds out who has other bytes than the first source: by what it brought, or by the digest that it tells.
    fn find_out(&self, crew: &Arc<Crew>, file: &Arc<dyn Whole>, teller: usize, told: Digest) {
        self.compare_parts(crew, file, SEARCHED);
        let by = self.state().by;
        if teller != 0 || by & crew.liars() != 0 {
            return;
        }
        for other in (1..crew.members.len()).filter(|other| by & (1 << other) != 0) {
            if digest_of(crew, other, file.path(), told.algorithm()).is_some_and(|digest| digest != told) {
                accuse(crew, other, file.path());
            }
        }
    }

    /// No source tells a digest: samples of what each has brought are held against the first's bytes.
    fn sample(&self, crew: &Arc<Crew>, file: &Arc<dyn Whole>) -> Result<()> {
        let all_compared = self.compare_parts(crew, file, SAMPLES);
        self.not_lied_to(crew, file.path())?;
        crew.unproven(file.path(), self.state().by, all_compared);
        Ok(())
    }

    /// Compares so many parts of each member, spread over the file. Whether all of them could be.
    fn compare_parts(&self, crew: &Arc<Crew>, file: &Arc<dyn Whole>, most: usize) -> bool {
        let (began, mut all) = (Instant::now(), true);
        for member in 1..crew.members.len() {
            let parts: Vec<Part> = self.state().parts.values().filter(|part| part.by == member).copied().collect();
            for part in spread(&parts, most) {
                let is_lie = (began.elapsed() < SAMPLED_WITHIN).then(|| part.is_lie(crew, file)).flatten();
                if is_lie == Some(true) {
                    accuse(crew, member, file.path());
                    break;
                }
                all &= is_lie.is_some();
            }
        }
        all
    }

    /// All that came is forgotten: the file fails, and fares better the next time.
    fn to_be_read_again(&self, crew: &Crew, path: &RelPath, why: &str) -> Error {
        let mut state = self.state();
        (state.parts, state.covered, state.by, state.is_doubted) = (BTreeMap::new(), 0, 0, true);
        drop(state);
        crew.will_fare_better();
        integrity(path, why.to_owned())
    }
}

fn came(made: Option<Digest>, told: Digest) -> String {
    let made = made.map(|digest| digest.to_string()).unwrap_or_default();
    format!("it came as {made}, and should be {told}")
}

/// All of a file came from the first source, and is not what was told of it. The first is the truth: another that tells otherwise is
/// left out. But what the first itself tells must hold.
fn of_the_first(crew: &Crew, path: &RelPath, teller: usize, made: Option<Digest>, told: Digest) -> Result<()> {
    if teller != 0 {
        let first = &crew.members[0].name;
        crew.accuse(teller, &format!("it tells another digest of {} than {first} has", shown(path)));
        return Ok(());
    }
    Err(integrity(path, format!("{} does not have what it tells: {}", crew.members[0].name, came(made, told))))
}

/// So many of them, from the first to the last.
fn spread(parts: &[Part], most: usize) -> impl Iterator<Item = &Part> {
    let taken = parts.len().min(most);
    (0..taken).map(move |at| &parts[at * (parts.len() - 1) / (taken - 1).max(1)])
}

fn accuse(crew: &Crew, member: usize, path: &RelPath) {
    crew.accuse(member, &format!("it has other bytes of {} than {}", shown(path), crew.members[0].name));
}

fn names(crew: &Crew, members: u32) -> String {
    let of = crew.members.iter().enumerate().filter(|(at, _)| members & (1 << at) != 0);
    of.map(|(_, member)| member.name.as_str()).collect::<Vec<_>>().join(" and ")
}

fn integrity(path: &RelPath, why: String) -> Error {
    Error::Server { doing: "read", path: shown(path), fault: Fault::Integrity, general: false, why }
}

/// Bytes of one member alone.
fn read(
    crew: &Arc<Crew>,
    file: &Arc<dyn Whole>,
    member: usize,
    span: Range<u64>,
) -> std::result::Result<Vec<u8>, Trouble> {
    let (len, mut bytes) = ((span.end - span.start) as usize, Vec::new());
    Arc::clone(file).at(crew, member)?.bring(span, &Flight::default(), &mut |more| {
        bytes.extend_from_slice(more);
        bytes.len() < len
    })?;
    if bytes.len() < len {
        return Err(Trouble::from(integrity(file.path(), "it ended before all bytes came".into())));
    }
    Ok(bytes)
}

/// Compares what each has in the middle of the file with what the first has there.
fn compare_middles(crew: &Arc<Crew>, file: &Arc<dyn Whole>) {
    let from = (file.size() / 2).min(file.size().saturating_sub(SAMPLE_BYTES));
    let span = from..(from + SAMPLE_BYTES).min(file.size());
    let Ok(truth) = read(crew, file, 0, span.clone()) else { return };
    for member in (1..crew.members.len()).filter(|member| !crew.is_doubtful(*member)) {
        if read(crew, file, member, span.clone()).is_ok_and(|bytes| bytes != truth) {
            accuse(crew, member, file.path());
        }
    }
}

fn digest_of(crew: &Crew, member: usize, path: &RelPath, algorithm: Algorithm) -> Option<Digest> {
    let member = &crew.members[member];
    let digests = member.store().digests(&member.path(path), &[algorithm]).ok()?;
    digests.into_iter().find(|digest| digest.algorithm() == algorithm)
}

fn made(sum: BlockSum, algorithm: Algorithm) -> Option<Digest> {
    match algorithm {
        Algorithm::Crc32c => Some(Digest::crc32c(sum.crc32c)),
        _ => Digest::new(algorithm, &sum.adler32?.to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: &[u8], span: Range<usize>, by: usize) -> Vec<Part> {
        Part::all_of(&bytes[span.clone()], vec![Run { span: span.start as u64..span.end as u64, by }])
    }

    #[test]
    fn parts_make_a_whole_in_any_order() {
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
    fn a_chunk_of_several_members_is_several_parts() {
        let bytes = b"abcdefgh";
        let runs = vec![Run { span: 10..13, by: 1 }, Run { span: 13..18, by: 0 }];
        let parts = Part::all_of(bytes, runs);
        let told: Vec<_> = parts.iter().map(|part| (part.at, part.len, part.by)).collect();
        assert_eq!(told, [(10, 3, 1), (13, 5, 0)]);
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
        let all: Vec<Part> = (0..100).flat_map(|at| parts(&bytes, at..at + 1, 1)).collect();
        let at = |count: usize, most| spread(&all[..count], most).map(|part| part.at).collect::<Vec<_>>();
        assert_eq!(at(100, 4), [0, 33, 66, 99]);
        assert_eq!((at(3, 4), at(1, 4), at(0, 4)), (vec![0, 1, 2], vec![0], vec![]));
    }
}
