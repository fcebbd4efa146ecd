//! Jobs of several attempts: the session is cut at a random moment, and the next attempt has new machines and resumes from what the
//! store holds. A seed mixes the faults: full stores, damaged unfinished files, files that change between attempts and keep their length
//! and time, lost streams, flipped payload and tables.
//!
//! `LONGHAUL_SEED=n` runs one seed again, `LONGHAUL_FAULTS=n` runs n seeds.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::name::RelPath;
use wire::WireError;

use crate::harness::{Config, Pair};
use crate::random::{config, entries, fail_some, roots};
use crate::rng::Rng;
use crate::store::{Store, StoredEntry};
use crate::tree::{Content, Node, NodeKind};
use crate::verify::check;

/// Seeds of a run by default; `make soak` runs more.
const SEEDS: u64 = 20;

/// The most attempts of a job that are cut, before its last one.
const CUTS_MAX: u64 = 5;

/// Counts of one run, or of all.
#[derive(Default, Debug)]
struct RunCounts {
    faults: u64,
    attempts: u64,
    cut: u64,
    full: u64,
    claimed_bytes: u64,
    resumed_bytes: u64,
    misses: u64,
}

/// The contents that a file had in any attempt, by its path at the target.
type Versions = HashMap<RelPath, Vec<Content>>;

/// One job, run to its end in some attempts.
struct AttemptRun {
    rng: Rng,
    roots: Vec<Node>,
    config: Config,
    versions: Versions,
    counts: RunCounts,
}

/// Asserts that every stored file is one of its contents, and no mixture of two.
fn assert_whole(store: &Store, versions: &Versions) {
    for (path, entry) in &store.entries {
        let StoredEntry::File { bytes, .. } = entry else { continue };
        let known = versions.get(path).unwrap_or_else(|| panic!("{path} was never offered"));
        let same = |content: &Content| content.len == bytes.len() as u64 && content.all() == *bytes;
        assert!(known.iter().any(same), "{path} is a mixture");
    }
}

/// Changes some files, most of them without changing their length or time. Returns their number.
fn change(node: &mut Node, rng: &mut Rng) -> u64 {
    match &mut node.what {
        NodeKind::Dir(children) => children.iter_mut().map(|child| change(child, rng)).sum(),
        NodeKind::File(content) if rng.chance(80) => {
            match rng.below(4) {
                0 => *content = Content::new(content.seed, rng.below(4 << 20)),
                1 if content.len > 0 => {
                    let from = rng.below(content.len);
                    content.holes = vec![(from, 1 + rng.below(content.len - from))];
                }
                2 => content.holes.clear(),
                _ => content.seed = rng.next(),
            }
            1
        }
        _ => 0,
    }
}

impl AttemptRun {
    fn new(seed: u64) -> AttemptRun {
        let mut rng = Rng::new(seed ^ 0x5eed_0000);
        let mut roots = roots(&mut rng);
        // Every job has a file that is large enough for a journal.
        let large = Content::new(rng.next(), (2 << 20) + rng.below(6 << 20));
        roots.push(crate::tree::node("large", NodeKind::File(large)));
        let config = config(&mut rng);
        AttemptRun { rng, roots, config, versions: HashMap::new(), counts: RunCounts::default() }
    }

    fn note_versions(&mut self) {
        let all = entries(&self.roots);
        let contents: HashMap<RelPath, Content> = all
            .iter()
            .filter_map(|(at, _, what, _)| match what {
                NodeKind::File(content) | NodeKind::Pipe(content) => Some((at.clone(), content.clone())),
                _ => None,
            })
            .collect();
        for (at, content) in &contents {
            self.versions.entry(at.clone()).or_default().push(content.clone());
        }
        for (at, (_, below), what, _) in &all {
            let NodeKind::HardLink(to) = what else { continue };
            // Both lie below the same root: what is above `below` in `at` is above `to` as well.
            let above = at.as_bytes().len() - below.as_bytes().len();
            let first = [&at.as_bytes()[..above], to.as_bytes()].concat();
            if let Some(content) = contents.get(&RelPath::parse(&first).unwrap()) {
                self.versions.entry(at.clone()).or_default().push(content.clone());
            }
        }
    }

    /// New state machines for the next attempt, with the store of the last one.
    fn attempt(&mut self, store: Store, last: bool) -> Pair {
        let rng = &mut self.rng;
        self.config.seed = rng.next();
        self.config.cut_per_mille = if rng.chance(300) { rng.below(300) } else { 0 };
        self.config.flip_table_of = if !last && rng.chance(150) { 1 + rng.below(6) } else { 0 };
        self.counts.faults += u64::from(self.config.flip_table_of > 0);
        self.counts.attempts += 1;
        self.note_versions();
        let mut pair = Pair::new(self.config.clone(), &self.roots);
        pair.store = Store { with_adler32: pair.store.with_adler32, flips: 0, ..store };
        let rng = &mut self.rng;
        let often = if rng.chance(300) { rng.below(150) } else { 0 };
        self.counts.faults += fail_some(&mut pair, rng, entries(&self.roots), often);
        pair.store.flip_per_mille = if rng.chance(300) { rng.below(150) } else { 0 };
        pair.store.room = (!last && rng.chance(200)).then(|| rng.below(6 << 20));
        pair
    }

    /// Draws what happens between two attempts: damaged unfinished files, changed source files.
    fn draw_changes(&mut self, store: &mut Store) {
        store.by_digest = true;
        let rng = &mut self.rng;
        if rng.chance(400) {
            let mut files: Vec<_> = store.journaled.as_mut().unwrap().iter_mut().collect();
            files.sort_by_key(|(path, _)| (*path).clone());
            self.counts.faults += files.into_iter().map(|(_, file)| file.damage(rng)).sum::<u64>();
        }
        if rng.chance(400) {
            self.counts.faults += self.roots.iter_mut().map(|root| change(root, rng)).sum::<u64>();
        }
    }

    fn run(mut self) -> RunCounts {
        let mut store = Store { journaled: Some(HashMap::new()), ..Store::default() };
        let cuts = self.rng.below(CUTS_MAX + 1);
        for at in 0..=cuts {
            let last = at == cuts;
            let mut pair = self.attempt(store, last);
            // Most jobs have some hundred events.
            let scale = self.rng.below(8);
            let events = if last { u64::MAX } else { self.rng.below(8 << scale) };
            let ended = match pair.run_for(events) {
                Ok(ended) => ended,
                Err(WireError::Damaged) if pair.config.flip_table_of > 0 => false,
                Err(error) => panic!("{error:?}"),
            };
            self.count(&pair, ended);
            if ended {
                pair.store.forget_compared(&pair.receiver);
                check(&pair, &self.roots);
                assert_whole(&pair.store, &self.versions);
                return self.counts;
            }
            assert!(!last, "the last attempt is never cut");
            store = pair.store;
            store.end_session();
            assert_whole(&store, &self.versions);
            self.draw_changes(&mut store);
        }
        unreachable!("the last attempt ends")
    }

    fn count(&mut self, pair: &Pair, ended: bool) {
        let counts = &mut self.counts;
        counts.cut += u64::from(!ended);
        counts.full += u64::from(pair.store.full);
        let streams = u64::from(pair.streams_opened.saturating_sub(pair.config.streams));
        counts.faults += u64::from(!ended) + pair.store.flips + streams;
        let totals = pair.receiver.totals();
        counts.resumed_bytes += totals.resumed_bytes;
        counts.claimed_bytes = pair.store.claimed_bytes;
        counts.misses += pair.receiver.misses().len() as u64;
        assert!(counts.resumed_bytes <= counts.claimed_bytes, "more bytes are resumed than were claimed");
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]
fn a_job_of_several_cut_attempts_ends_right() {
    let seeds = match number("LONGHAUL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LONGHAUL_FAULTS").unwrap_or(SEEDS),
    };
    let mut all = RunCounts::default();
    for seed in seeds.clone() {
        let counts = catch_unwind(AssertUnwindSafe(|| AttemptRun::new(seed).run()));
        let counts = counts.unwrap_or_else(|_| panic!("it fails again with LONGHAUL_SEED={seed}"));
        all.faults += counts.faults;
        all.attempts += counts.attempts;
        all.cut += counts.cut;
        all.full += counts.full;
        all.claimed_bytes += counts.claimed_bytes;
        all.resumed_bytes += counts.resumed_bytes;
        all.misses += counts.misses;
    }
    let jobs = seeds.end - seeds.start;
    let RunCounts { attempts, faults, cut, misses, .. } = &all;
    let resumed = all.resumed_bytes >> 20;
    println!(
        "virtual time: {jobs} jobs in {attempts} attempts ({cut} cut) met {faults} faults and resumed {resumed} MiB; \
         {misses} entries were named as failed"
    );
    // A large sample is near the mean; a small one may be further from it.
    if jobs >= 10 * SEEDS {
        assert!(all.faults >= jobs * 10 / 3 && all.cut > jobs / 2 && all.full > jobs / 20, "{all:?}");
        assert!(all.resumed_bytes > jobs << 18, "{all:?}");
    }
    if jobs >= SEEDS {
        assert!(all.faults >= 2 * jobs && all.cut > jobs / 3 && all.full > 0, "{all:?}");
        assert!(all.resumed_bytes > jobs << 16 && all.resumed_bytes < all.claimed_bytes, "{all:?}");
    }
}
