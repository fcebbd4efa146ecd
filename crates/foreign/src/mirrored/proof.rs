//! Whether what was put together from several sources is one file: the checksums of its parts make that of the whole, which is
//! held against the digest that a source tells.
//!
//! What the first source brought alone needs no proof: it is what was asked for. Does not know: whether the bytes reach the
//! target as they are; that is the job's.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;
use model::{Algorithm, RelPath};
use store::error::shown;
use store::{Error, Result};

use super::crew::Crew;

/// What sources are asked for, what most of them keep first.
const ASKED: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];
/// How long a digest is waited for when all bytes are there: a server may have to read the file for it.
const WITHIN: Duration = Duration::from_secs(120);

#[derive(Default)]
enum Told {
    #[default]
    Unasked,
    Asked,
    /// By this member.
    Digest(usize, Digest),
    /// None of them tells any.
    Nothing,
}

#[derive(Default)]
struct State {
    /// Offset, length and sum of what came.
    parts: BTreeMap<u64, (u64, BlockSum)>,
    /// Bytes of all parts.
    covered: u64,
    by: u32,
    told: Told,
}

/// What is known of the bytes of one file, for as long as the job.
#[derive(Default)]
pub(super) struct Proof {
    state: Mutex<State>,
    changed: Condvar,
}

impl Proof {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part came, by these members. The sum of the whole, if it is whole now and the first source is not all it is of.
    pub fn add(&self, at: u64, len: u64, sum: BlockSum, by: u32, size: u64) -> Option<BlockSum> {
        let mut state = self.state();
        state.by |= by;
        // What came before and overlaps is not what was read last.
        let end = at + len;
        let over = |(start, (len, _)): (&u64, &(u64, BlockSum))| (start + len > at).then_some((*start, *len));
        let stale: Vec<(u64, u64)> = state.parts.range(..end).rev().map_while(over).collect();
        for (start, len) in stale {
            state.parts.remove(&start);
            state.covered -= len;
        }
        state.parts.insert(at, (len, sum));
        state.covered += len;
        // They do not overlap and none ends behind the file, so that they are the file.
        if state.by & !1 == 0 || state.covered != size {
            return None;
        }
        let parts = state.parts.values().copied();
        parts.reduce(|(before, sum), (len, next)| (before + len, sum.then(next, len))).map(|(_, sum)| sum)
    }

    /// Asks the sources for a digest, beside the bytes: it may take a server as long to make it.
    pub fn ask(self: &Arc<Proof>, crew: &Arc<Crew>, path: &RelPath) {
        let mut state = self.state();
        if !matches!(state.told, Told::Unasked) {
            return;
        }
        state.told = Told::Asked;
        drop(state);
        let (proof, of, path) = (Arc::clone(self), Arc::clone(crew), path.clone());
        let begun = std::thread::Builder::new().name("mirror-digest".into()).spawn(move || {
            let told = (0..of.members.len()).filter(|m| !of.is_doubtful(*m)).find_map(|member| {
                let digests = ASKED.iter().filter_map(|algorithm| digest_of(&of, member, &path, *algorithm));
                digests.take(1).last().map(|digest| Told::Digest(member, digest))
            });
            proof.state().told = told.unwrap_or(Told::Nothing);
            proof.changed.notify_all();
        });
        if begun.is_err() {
            self.state().told = Told::Nothing;
        }
    }

    /// Holds the whole against what a source tells of it.
    pub fn check(&self, crew: &Crew, path: &RelPath, sum: BlockSum) -> Result<()> {
        let waited = self.changed.wait_timeout_while(self.state(), WITHIN, |state| matches!(state.told, Told::Asked));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Told::Digest(member, told) = &state.told else {
            drop(state);
            crew.unproven(path);
            return Ok(());
        };
        let (member, told, by) = (*member, *told, state.by);
        drop(state);
        let made = made(sum, told.algorithm());
        if made.as_ref() == Some(&told) {
            return Ok(());
        }
        let name = |at: usize| crew.members[at].name.as_str();
        let others = (0..crew.members.len()).filter(|at| *at != member && by & (1 << at) != 0);
        let mut liars = Vec::new();
        for other in others {
            if digest_of(crew, other, path, told.algorithm()).is_some_and(|digest| digest != told) {
                crew.accuse(other, &format!("it has other bytes of {} than {}", shown(path), name(member)));
                liars.push(name(other));
            }
        }
        let who = if liars.is_empty() { "one of the sources".to_owned() } else { liars.join(" and ") };
        let made = made.map(|digest| digest.to_string()).unwrap_or_default();
        let why = format!("{who} has other bytes than {}: it came as {made}, and should be {told}", name(member));
        Err(Error::Server { doing: "read", path: shown(path), fault: Fault::Integrity, general: false, why })
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

    #[test]
    fn parts_make_a_whole_in_any_order() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let whole = BlockSum::of(&bytes, true);
        let proof = Proof::default();
        let add = |at: usize, end: usize, by: u32| {
            proof.add(at as u64, (end - at) as u64, BlockSum::of(&bytes[at..end], true), by, bytes.len() as u64)
        };
        assert_eq!(add(50_000, 100_000, 1), None);
        assert_eq!(add(0, 20_000, 2), None);
        assert_eq!(add(10_000, 30_000, 1), None, "what overlaps is read anew");
        assert_eq!(add(30_000, 50_000, 1), None);
        assert_eq!(add(0, 10_000, 1), Some(whole));
    }

    #[test]
    fn the_first_source_alone_needs_no_proof() {
        let proof = Proof::default();
        assert_eq!(proof.add(0, 3, BlockSum::of(b"abc", true), 1, 3), None);
        assert!(proof.add(0, 3, BlockSum::of(b"abc", true), 2, 3).is_some());
    }
}
