//! Real sessions that meet random faults, of the path, of both stores and of what earlier attempts left, by a seed: in the
//! end the target is the source, and on the way nothing that has its name is anything but one of the source's files.
//!
//! `LONGHAUL_SEED=n` draws one seed's faults again (when each strikes is also up to the threads, so it may take several
//! runs), `LONGHAUL_FAULTS=n` as many seeds as it takes to meet so many faults.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "faults/dice.rs"]
mod dice;
#[path = "faults/store.rs"]
mod faulty;
#[path = "faults/scene.rs"]
mod scene;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dice::Rng;
use engine::Error;
use engine::receive::Policy;
use engine::session::{Means, Report};
use faulty::{FaultyStore, Plan};
use model::Algorithm;
use model::spec::{Options, Steer, Sync};
use scene::FaultScenario;
use store::Store;
use store::posix::Links;
use support::job::{TestTransfer, control};
use support::relay::{Relay, Rules};
use support::world::NodeFixture;
use wire::frame::{Direction, Open};
use wire::liveness::Pace;

/// Faults in an ordinary run of the tests.
const FAULTS: u64 = 60;
/// As many of a path's faults count in one attempt.
const FLIPS_MAX: usize = 4;
/// Jobs at a time.
const AT_ONCE: u64 = 4;

/// One attempt at a job, with a path and a store of its own.
struct Attempt {
    rules: Rules,
    plan: Arc<Plan>,
    options: Options,
    plain: bool,
    /// As fast as this; else all of a job is in the sockets' buffers before the path breaks.
    limit_bit_s: u64,
}

fn rules(dice: &mut Rng) -> Rules {
    let none = Rules { one_way: Duration::from_millis(dice.below(20)), ..Rules::default() };
    let at = dice.below(40 << 20);
    match dice.below(9) {
        0 => Rules { cut_streams_after: Some(at), streams_to_cut: 1 + dice.below(4) as usize, ..none },
        1 => Rules { flip_stream_bit_every: Some((1 << 20) + at), ..none },
        2 => Rules { cut_everything_after: Some(at), ..none },
        3 => Rules { mute_after: Some(at), ..none },
        4 | 5 => Rules { reset_after: Some(at), ..none },
        6 => Rules { swallow_after: Some((at, dice.chance(50))), ..none },
        7 => Rules { stall_after: Some((at, Duration::from_millis(dice.below(900)))), ..none },
        _ => none,
    }
}

impl Attempt {
    fn new(dice: &mut Rng, checksums: &[Algorithm]) -> Attempt {
        let wait_space = if dice.chance(50) { Duration::from_secs(2) } else { Duration::ZERO };
        let options = Options {
            recursive: true,
            sync: Sync::Digest,
            durable: dice.chance(30),
            checksums: checksums.to_vec(),
            wait_space,
            ..Options::default()
        };
        let limit_bit_s = [0, 200_000_000, 600_000_000][dice.below(3) as usize];
        Attempt { rules: rules(dice), plan: Plan::new(dice), options, plain: dice.chance(30), limit_bit_s }
    }

    fn last(checksums: &[Algorithm]) -> Attempt {
        let options =
            Options { recursive: true, sync: Sync::Digest, checksums: checksums.to_vec(), ..Options::default() };
        Attempt { rules: Rules::default(), plan: Arc::default(), options, plain: false, limit_bit_s: 0 }
    }

    /// What the attempt came to, and how many faults it met.
    fn run(self, scene: &FaultScenario) -> (engine::Result<Report>, u64) {
        let relay = Relay::start(scene.world.node(), self.rules.clone());
        let report = if scene.pull { self.pull(scene, &relay) } else { self.push(scene, &relay) };
        // A flipped bit every so many bytes is one fault for a little while, not hundreds of them.
        (report, relay.faults().min(FLIPS_MAX) as u64 + self.plan.fired())
    }

    fn faulty(&self, scene: &FaultScenario, links: Links) -> Arc<dyn Store> {
        Arc::new(FaultyStore { inner: scene.world.near(links), plan: Arc::clone(&self.plan) })
    }

    fn steer(&self) -> Steer {
        Steer { limit_bit_s: self.limit_bit_s, ..Steer::default() }
    }

    fn job(&self, direction: Direction) -> TestTransfer {
        let order =
            Open { steer: self.steer(), options: self.options.clone(), ..NodeFixture::order(direction, "tree") };
        let means = Means { streams: 3, ..Means::default() };
        TestTransfer { order, means, control: control(self.steer()) }
    }

    fn push(&self, scene: &FaultScenario, relay: &Relay) -> engine::Result<Report> {
        let mut session = scene.world.connect(relay.address(), self.plain)?;
        let report = self.job(Direction::Push).push(&mut session, self.faulty(scene, Links::Inside), "near/tree");
        session.close();
        Ok(report)
    }

    fn pull(&self, scene: &FaultScenario, relay: &Relay) -> engine::Result<Report> {
        let mut session = scene.world.connect(relay.address(), self.plain)?;
        let tag = format!("near{:x}", relay.address().port());
        let policy = Policy { tag, ..scene.world.policy(&self.options) };
        let (store, target) = (self.faulty(scene, Links::Refuse), scene.world.target("near/tree"));
        let report = self.job(Direction::Pull).pull(&mut session, store, target, policy);
        session.close();
        Ok(report)
    }
}

/// The last attempt. A machine that halts for longer than a peer waits ends it as a fault would; then there is another.
fn undisturbed(scene: &FaultScenario, checksums: &[Algorithm]) -> Report {
    let mut tries = 1;
    loop {
        let (report, _) = Attempt::last(checksums).run(scene);
        let ended = report.as_ref().map_or_else(Some, |report| report.error.as_ref());
        if tries == 10 || !matches!(ended, Some(Error::Silent { .. } | Error::Broken { .. })) {
            return report.unwrap();
        }
        tries += 1;
    }
}

/// One job, from its first attempt to the one that nothing disturbs. Returns how many faults it met, and how many bytes
/// were gone on with.
fn job(seed: u64) -> (u64, u64) {
    let mut dice = Rng::new(seed);
    let pace = Pace { ping_after: Duration::from_millis(300), gone_after: Duration::from_millis(1500) };
    let mut scene = FaultScenario::new(NodeFixture::with_pace(pace), dice.chance(50), &mut dice);
    let checksums = match dice.below(4) {
        0 => vec![Algorithm::Md5],
        1 => vec![Algorithm::Adler32],
        _ => vec![Algorithm::Crc32c],
    };
    let (mut faults, mut resumed) = (0, 0);
    for _ in 0..1 + dice.below(4) {
        scene.remember();
        let (report, met) = Attempt::new(&mut dice, &checksums).run(&scene);
        faults += met;
        scene.assert_whole();
        resumed += report.as_ref().map_or(0, |report| report.totals.resumed_bytes);
        match report {
            Ok(report) if report.error.is_none() && report.totals.failed == 0 => scene.assert_done(),
            // Whoever looks at it is told what is missing.
            Ok(report) => assert!(report.error.is_some() || !report.misses.is_empty(), "{report:?}"),
            Err(_) => {}
        }
        faults += scene.damage(&mut dice);
        if dice.chance(40) {
            faults += scene.change(&mut dice);
        }
    }
    scene.remember();
    let report = undisturbed(&scene, &checksums);
    resumed += report.totals.resumed_bytes;
    assert!(report.error.is_none() && report.totals.failed == 0, "{:?} {:?}", report.error, report.misses);
    scene.assert_done();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !scene.leftovers().is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", scene.leftovers());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Attempts that were still ending must not undo what the last one did.
    scene.assert_done();
    (faults, resumed)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]
fn whatever_happens_bytes_are_right_in_the_end() {
    if let Some(seed) = number("LONGHAUL_SEED") {
        println!("seed {seed}: {:?} faults and bytes gone on with", job(seed));
        return;
    }
    let wanted = number("LONGHAUL_FAULTS").unwrap_or(FAULTS);
    let (met, next, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let resumed = AtomicU64::new(0);
    let worker = || {
        while met.load(Ordering::SeqCst) < wanted && !failed.load(Ordering::SeqCst) {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            let faults = catch_unwind(AssertUnwindSafe(|| job(seed)));
            let (faults, bytes) = faults.unwrap_or_else(|_| {
                failed.store(true, Ordering::SeqCst);
                panic!("it fails again with LONGHAUL_SEED={seed}")
            });
            met.fetch_add(faults, Ordering::SeqCst);
            resumed.fetch_add(bytes, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(worker))));
    let (met, jobs) = (met.into_inner(), next.into_inner());
    let resumed = resumed.into_inner() >> 20;
    println!("real sockets: {jobs} jobs met {met} faults, {resumed} MiB were gone on with");
    assert!(resumed >= wanted / 20, "hardly any attempt went on from another");
    assert!(met >= wanted && jobs * 3 >= wanted / 10, "faults are counted wrongly: {met} in {jobs} jobs");
}

#[test]
fn a_hole_over_what_an_earlier_attempt_left_is_zeros() {
    for pull in [false, true] {
        let mut dice = Rng::new(7);
        let world = NodeFixture::new();
        let mut scene = FaultScenario::new(world, pull, &mut dice);
        let path = scene.source().join("large/0");
        let len = 24 << 20;
        std::fs::write(&path, dice.bytes(len)).unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        scene.remember();
        let checksums = [Algorithm::Crc32c];
        // All that the relay passed on may still be in sockets on a starved machine: then another attempt is cut.
        let leaves_a_part = || {
            let rules = Rules { cut_everything_after: Some(12 << 20), ..Rules::default() };
            let (report, _) = Attempt { rules, limit_bit_s: 150_000_000, ..Attempt::last(&checksums) }.run(&scene);
            assert!(report.unwrap().error.is_some(), "the path was cut");
            scene.world.wait_until_idle();
            scene.leftovers().iter().any(|path| path.starts_with("large"))
        };
        assert!((0..10).any(|_| leaves_a_part()), "nothing to go on with: {:?}", scene.leftovers());
        // All of it is a hole now, and neither its length nor its time says so.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(len).unwrap();
        file.set_modified(time).unwrap();
        scene.remember();
        let (report, _) = Attempt::last(&checksums).run(&scene);
        assert!(report.unwrap().error.is_none());
        scene.assert_done();
    }
}
