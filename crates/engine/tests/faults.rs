//! Real sessions under random faults, drawn from a seed: faults of the path, of both stores, and of the files that earlier attempts
//! left. In the end the target equals the source. At every moment, a file with its final name is one of the source's files, whole.
//!
//! `LONGHAUL_SEED=n` draws the faults of one seed again (the moment of a fault also depends on the threads, so it may take several
//! runs). `LONGHAUL_FAULTS=n` runs seeds until `n` faults have happened.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "faults/store.rs"]
mod faulty;
#[path = "faults/rng.rs"]
mod rng;
#[path = "faults/scenario.rs"]
mod scenario;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::Error;
use engine::receive::Policy;
use engine::session::{Report, SessionParts};
use faulty::{FaultyStore, Plan};
use model::Algorithm;
use model::spec::{LiveSettings, Options, Sync};
use rng::Rng;
use scenario::FaultScenario;
use store::Store;
use store::posix::Links;
use support::fixture::NodeFixture;
use support::job::{TestTransfer, control};
use support::relay::{Relay, Rules};
use wire::frame::{Direction, Open};
use wire::liveness::Pace;

/// Faults in an ordinary run of the tests.
const FAULTS: u64 = 60;
/// The most faults of the path that count in one attempt.
const FLIPS_MAX: usize = 4;
/// Jobs that run at a time.
const JOBS_AT_ONCE: u64 = 4;

/// One attempt at a job, with a path and a store of its own.
struct Attempt {
    rules: Rules,
    plan: Arc<Plan>,
    options: Options,
    plain: bool,
    /// The rate limit. Without one, all of a job is in the sockets' buffers before the path breaks.
    limit_bit_s: u64,
}

fn rules(rng: &mut Rng) -> Rules {
    let none = Rules { one_way: Duration::from_millis(rng.below(20)), ..Rules::default() };
    let after = rng.below(40 << 20);
    match rng.below(9) {
        0 => Rules { cut_streams_after: Some(after), streams_to_cut: 1 + rng.below(4) as usize, ..none },
        1 => Rules { flip_stream_bit_every: Some((1 << 20) + after), ..none },
        2 => Rules { cut_everything_after: Some(after), ..none },
        3 => Rules { mute_after: Some(after), ..none },
        4 | 5 => Rules { reset_after: Some(after), ..none },
        6 => Rules { swallow_after: Some((after, rng.chance(50))), ..none },
        7 => Rules { stall_after: Some((after, Duration::from_millis(rng.below(900)))), ..none },
        _ => none,
    }
}

impl Attempt {
    fn new(rng: &mut Rng, checksums: &[Algorithm]) -> Attempt {
        let wait_space = if rng.chance(50) { Duration::from_secs(2) } else { Duration::ZERO };
        let options = Options {
            recursive: true,
            sync: Sync::Digest,
            durable: rng.chance(30),
            checksums: checksums.to_vec(),
            wait_space,
            ..Options::default()
        };
        let limit_bit_s = [0, 200_000_000, 600_000_000][rng.below(3) as usize];
        Attempt { rules: rules(rng), plan: Plan::new(rng), options, plain: rng.chance(30), limit_bit_s }
    }

    /// An attempt without faults.
    fn without_faults(checksums: &[Algorithm]) -> Attempt {
        let options =
            Options { recursive: true, sync: Sync::Digest, checksums: checksums.to_vec(), ..Options::default() };
        Attempt { rules: Rules::default(), plan: Arc::default(), options, plain: false, limit_bit_s: 0 }
    }

    /// The result of the attempt, and the number of faults that happened in it.
    fn run(self, scenario: &FaultScenario) -> (engine::Result<Report>, u64) {
        let relay = Relay::start(scenario.fixture.node(), self.rules.clone());
        let report = if scenario.pull { self.pull(scenario, &relay) } else { self.push(scenario, &relay) };
        // A rule that flips one bit in each block of bytes counts as a few faults, not as hundreds.
        (report, relay.faults().min(FLIPS_MAX) as u64 + self.plan.fault_count())
    }

    fn faulty_store(&self, scenario: &FaultScenario, links: Links) -> Arc<dyn Store> {
        Arc::new(FaultyStore { inner: scenario.fixture.near(links), plan: Arc::clone(&self.plan) })
    }

    fn steer(&self) -> LiveSettings {
        LiveSettings { limit_bit_s: self.limit_bit_s, ..LiveSettings::default() }
    }

    fn job(&self, direction: Direction) -> TestTransfer {
        let order =
            Open { steer: self.steer(), options: self.options.clone(), ..NodeFixture::order(direction, "tree") };
        let parts = SessionParts { streams: 3, ..SessionParts::default() };
        TestTransfer { order, parts, control: control(self.steer()) }
    }

    fn push(&self, scenario: &FaultScenario, relay: &Relay) -> engine::Result<Report> {
        let mut session = scenario.fixture.connect(relay.address(), self.plain)?;
        let report =
            self.job(Direction::Push).push(&mut session, self.faulty_store(scenario, Links::Inside), "near/tree");
        session.close();
        Ok(report)
    }

    fn pull(&self, scenario: &FaultScenario, relay: &Relay) -> engine::Result<Report> {
        let mut session = scenario.fixture.connect(relay.address(), self.plain)?;
        let tag = format!("near{:x}", relay.address().port());
        let policy = Policy { tag, ..scenario.fixture.policy(&self.options) };
        let store = self.faulty_store(scenario, Links::Refuse);
        let target = scenario.fixture.target("near/tree");
        let report = self.job(Direction::Pull).pull(&mut session, store, target, policy);
        session.close();
        Ok(report)
    }
}

/// Runs an attempt without faults. A machine that halts for longer than a peer waits ends the attempt as a fault does; then another
/// attempt is made.
fn run_without_faults(scenario: &FaultScenario, checksums: &[Algorithm]) -> Report {
    let mut tries = 1;
    loop {
        let (report, _) = Attempt::without_faults(checksums).run(scenario);
        let ended = report.as_ref().map_or_else(Some, |report| report.error.as_ref());
        if tries == 10 || !matches!(ended, Some(Error::Silent { .. } | Error::Broken { .. })) {
            return report.unwrap();
        }
        tries += 1;
    }
}

/// Runs one job, from its first attempt to an attempt without faults. Returns the number of faults that happened, and of bytes that
/// an attempt took over from an earlier one.
fn run_job(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let pace = Pace { ping_after: Duration::from_millis(300), gone_after: Duration::from_millis(1500) };
    let mut scenario = FaultScenario::new(NodeFixture::with_pace(pace), rng.chance(50), &mut rng);
    let checksums = match rng.below(4) {
        0 => vec![Algorithm::Md5],
        1 => vec![Algorithm::Adler32],
        _ => vec![Algorithm::Crc32c],
    };
    let mut faults = 0;
    let mut resumed = 0;
    for _ in 0..1 + rng.below(4) {
        scenario.remember_source();
        let (report, attempt_faults) = Attempt::new(&mut rng, &checksums).run(&scenario);
        faults += attempt_faults;
        scenario.assert_whole();
        resumed += report.as_ref().map_or(0, |report| report.totals.resumed_bytes);
        match report {
            Ok(report) if report.error.is_none() && report.totals.failed == 0 => scenario.assert_done(),
            // The report names what is missing.
            Ok(report) => assert!(report.error.is_some() || !report.misses.is_empty(), "{report:?}"),
            Err(_) => {}
        }
        faults += scenario.damage(&mut rng);
        if rng.chance(40) {
            faults += scenario.change(&mut rng);
        }
    }
    scenario.remember_source();
    let report = run_without_faults(&scenario, &checksums);
    resumed += report.totals.resumed_bytes;
    assert!(report.error.is_none() && report.totals.failed == 0, "{:?} {:?}", report.error, report.misses);
    scenario.assert_done();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !scenario.leftovers().is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", scenario.leftovers());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Earlier attempts that were still ending must not undo the result of the last one.
    scenario.assert_done();
    (faults, resumed)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]
fn after_random_faults_the_target_equals_the_source() {
    if let Some(seed) = number("LONGHAUL_SEED") {
        println!("seed {seed}: {:?} faults and resumed bytes", run_job(seed));
        return;
    }
    let wanted = number("LONGHAUL_FAULTS").unwrap_or(FAULTS);
    let fault_count = AtomicU64::new(0);
    let next_seed = AtomicU64::new(0);
    let resumed = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let worker = || {
        while fault_count.load(Ordering::SeqCst) < wanted && !failed.load(Ordering::SeqCst) {
            let seed = next_seed.fetch_add(1, Ordering::SeqCst);
            let counts = catch_unwind(AssertUnwindSafe(|| run_job(seed)));
            let (faults, bytes) = counts.unwrap_or_else(|_| {
                failed.store(true, Ordering::SeqCst);
                panic!("it fails again with LONGHAUL_SEED={seed}")
            });
            fault_count.fetch_add(faults, Ordering::SeqCst);
            resumed.fetch_add(bytes, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| (0..JOBS_AT_ONCE).for_each(|_| drop(scope.spawn(worker))));
    let faults = fault_count.into_inner();
    let jobs = next_seed.into_inner();
    let resumed = resumed.into_inner() >> 20;
    println!("real sockets: {jobs} jobs met {faults} faults and resumed {resumed} MiB");
    assert!(resumed >= wanted / 20, "hardly any attempt resumed the files of another");
    assert!(faults >= wanted && jobs * 3 >= wanted / 10, "faults are counted wrongly: {faults} in {jobs} jobs");
}

#[test]
fn a_hole_replaces_the_bytes_of_an_earlier_attempt_by_zeros() {
    for pull in [false, true] {
        let mut rng = Rng::new(7);
        let fixture = NodeFixture::new();
        let mut scenario = FaultScenario::new(fixture, pull, &mut rng);
        let path = scenario.source().join("large/0");
        let len = 24 << 20;
        std::fs::write(&path, rng.bytes(len)).unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        scenario.remember_source();
        let checksums = [Algorithm::Crc32c];
        // On a machine without free processors, all that the relay passed on may still be in sockets: then another attempt is cut.
        let leaves_an_unfinished_file = || {
            let rules = Rules { cut_everything_after: Some(12 << 20), ..Rules::default() };
            let (report, _) =
                Attempt { rules, limit_bit_s: 150_000_000, ..Attempt::without_faults(&checksums) }.run(&scenario);
            assert!(report.unwrap().error.is_some(), "the path was cut");
            scenario.fixture.wait_until_idle();
            scenario.leftovers().iter().any(|path| path.starts_with("large"))
        };
        assert!(
            (0..10).any(|_| leaves_an_unfinished_file()),
            "no attempt left an unfinished file: {:?}",
            scenario.leftovers()
        );
        // The source is one hole now, with its former length and time.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(len).unwrap();
        file.set_modified(time).unwrap();
        scenario.remember_source();
        let (report, _) = Attempt::without_faults(&checksums).run(&scenario);
        assert!(report.unwrap().error.is_none());
        scenario.assert_done();
    }
}
