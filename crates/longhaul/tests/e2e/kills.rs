//! Killed programs: client, node or both, at random moments of a job, by a seed. The same command continues, and in
//! the end the copy is equal and nothing else is left.
//!
//! `LONGHAUL_SEED=n` runs one seed again, `LONGHAUL_FAULTS=n` kills n / 10 times.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::{Client, Running, unfinished, words};
use crate::node::Node;
use crate::tree::{assert_copied, pattern, set_time};
use crate::wait::{LONG, until};

/// Kills in an ordinary run of the tests.
const KILLS: u64 = 8;

/// A block may be in flight on each stream when the process is killed; the rest is in the journal.
const RESENT_BYTES_MAX: u64 = 24 << 20;

/// A small seeded generator (xorshift64*, Vigna 2016).
pub struct SeededRng(pub u64);

impl SeededRng {
    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
}

/// Builds a few large files, one of them mostly a hole, one with two names; and many small ones.
fn build(root: &Path, rng: &mut SeededRng) {
    fs::create_dir_all(root.join("small")).unwrap();
    for at in 0..2 {
        let path = root.join(format!("large{at}"));
        fs::write(&path, pattern(((5 << 20) + rng.below(5 << 20)) as usize)).unwrap();
        set_time(&path, 1_700_000_000 + at, 5);
    }
    fs::hard_link(root.join("large0"), root.join("again")).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    sparse.write_all_at(&pattern(3 << 20), rng.below(16 << 20)).unwrap();
    for at in 0..rng.below(300) {
        fs::write(root.join(format!("small/{at}")), pattern(rng.below(30_000) as usize)).unwrap();
    }
}

struct KilledCopy {
    node: Node,
    client: Client,
    source: PathBuf,
    target: PathBuf,
    words: Vec<OsString>,
}

impl KilledCopy {
    fn new(rng: &mut SeededRng) -> KilledCopy {
        let (node, client) = (Node::open(), Client::new());
        let push = rng.below(2) == 0;
        let here = client.path(if push { "s" } else { "t" });
        let there = node.data(if push { "t" } else { "s" });
        let at = node.at(if push { "data/t" } else { "data/s" });
        let (source, target) = if push { (here.clone(), there) } else { (there, here.clone()) };
        build(&source, rng);
        let here = OsString::from(here);
        let (from, to) = if push { (here, at.into()) } else { (at.into(), here) };
        let words = words!["cp", "-r", from, to, "--streams", "3", "--retry-for", "60s", "--json"];
        KilledCopy { node, client, source, target, words }
    }

    fn begin(&self, rng: &mut SeededRng) -> Running {
        // Slow enough that the kill hits a running copy.
        let mut words = self.words.clone();
        words.extend(words!["--limit", ["8MB/s", "20MB/s", "60MB/s"][rng.below(3) as usize]]);
        self.client.begin(words)
    }

    fn journals(&self) -> Vec<PathBuf> {
        let dirs = [self.node.state(), self.client.state()];
        let entries = dirs.iter().filter_map(|state| fs::read_dir(state.join("journals")).ok()).flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// Asserts that every file with its final name is complete.
    fn assert_whole(&self) {
        for name in ["large0", "large1", "again", "sparse"] {
            if let Ok(there) = fs::read(self.target.join(name)) {
                assert!(there == fs::read(self.source.join(name)).unwrap(), "{name} is incomplete");
            }
        }
    }

    fn assert_done(&self) {
        assert_copied(&self.source, &self.target);
        until("nothing else is left", LONG, || unfinished(&self.target).is_empty() && self.journals().is_empty());
    }
}

/// Kills processes of the job until none is left, then runs the command once more undisturbed. Returns the number of kills.
fn job(seed: u64) -> u64 {
    let mut rng = SeededRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut job = KilledCopy::new(&mut rng);
    let mut kills = 0;
    for _ in 0..1 + rng.below(3) {
        let mut running = job.begin(&mut rng);
        std::thread::sleep(Duration::from_millis(rng.below(900)));
        let victim = rng.below(3);
        if victim != 1 {
            running.child.kill().unwrap();
            running.child.wait().unwrap();
            kills += 1;
        }
        if victim != 0 {
            job.node.restart();
            kills += 1;
        }
        job.assert_whole();
        if victim == 1 {
            // The client that still runs continues by itself.
            let outcome = running.finish();
            // Before its first connection was made, it has nothing to continue; in the middle of the handshake, a node that
            // ends looks like a server that is no node.
            assert!([0, 5, 8].contains(&outcome.code), "{outcome:?}");
            if outcome.code == 0 {
                let resent = outcome.json()["resent_bytes"].as_u64().unwrap();
                assert!(resent <= RESENT_BYTES_MAX, "{resent} bytes were sent again");
                job.assert_done();
            }
        }
    }
    let receipt = job.client.run(job.words.clone()).expect(0).json();
    assert_eq!((&receipt["state"], receipt["resent_bytes"].as_u64()), (&"done".into(), Some(0)), "{receipt}");
    job.assert_done();
    kills
}

/// The number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]
fn the_same_command_resumes_after_any_kill() {
    let (first, wanted) = match number("LONGHAUL_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("LONGHAUL_FAULTS").map_or(KILLS, |faults| faults.div_ceil(10))),
    };
    let (mut kills, mut seed) = (0, first);
    while kills < wanted {
        let killed = catch_unwind(AssertUnwindSafe(|| job(seed)));
        kills += killed.unwrap_or_else(|_| panic!("it fails again with LONGHAUL_SEED={seed}"));
        seed += 1;
    }
    println!("killed {kills} times in {} jobs", seed - first);
}
