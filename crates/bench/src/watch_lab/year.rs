//! A simulated year of fifteen paths without faults, which the watch's judge judges minute by minute: every alarm is a false one. The
//! measurements have noise on delays, queues in the afternoon, clocks that drift and are corrected, one lost packet in ten million, TCP
//! tests that differ by 4 % and are slower by day, and routers that do not always answer.

use anyhow::{Result, anyhow};
use model::v1::node::{Delays, StreamReport};
use model::v1::probe::Direction;
use model::v1::watch::Alarm;
use watch::alarms::{Alarms, Change};
use watch::config::JudgeConfig;
use watch::judge::path::{PathJudge, PathKnowledge};
use watch::mesh::TestKind;
use watch::observation::{DirectionFacts, Observation, PathFacts, Throughput};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;
/// Paths of six sites.
pub const PATHS: usize = 15;
/// The share of lost packets: one in ten million.
const LOSS: f64 = 1e-7;
/// Packets per minute.
const PACKETS: u64 = 600;

/// A path without faults.
struct CleanPath {
    judge: PathJudge,
    random: fastrand::Rng,
    rtt_us: i64,
    link_bit_s: f64,
    /// The offset of the two clocks in microseconds, and its growth per minute.
    clock_us: f64,
    drift_us: f64,
}

impl CleanPath {
    fn new(number: usize) -> CleanPath {
        let mut random = fastrand::Rng::with_seed(number as u64 + 1);
        let link_bit_s = [10e9, 100e9][number % 2];
        let every = [MINUTE as f64, 6.0 * HOUR as f64, 10.0 * MINUTE as f64].map(Some);
        let knowledge = PathKnowledge { link_bit_s: Some(link_bit_s), hops: Vec::new(), every };
        CleanPath {
            judge: PathJudge::new(knowledge, &JudgeConfig::default(), 0),
            rtt_us: random.i64(4_000..300_000),
            link_bit_s,
            clock_us: 0.0,
            drift_us: random.f64() * 20.0 - 10.0,
            random,
        }
    }

    /// Roughly normal noise: the sum of twelve uniform numbers.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// The packets of a minute that are lost by chance: none, or one.
    fn lost(&mut self) -> u64 {
        u64::from(self.random.f64() < PACKETS as f64 * LOSS)
    }

    fn minute(&mut self, at: i64) {
        let hour = (at / HOUR) % 24;
        let busy = if (13..17).contains(&hour) { 20 } else { 1 };
        self.clock_us = if self.clock_us.abs() > 500.0 { 0.0 } else { self.clock_us + self.drift_us };
        let delays = |random: &mut fastrand::Rng, least: i64| {
            let least = least + random.i64(0..15);
            let median = least + 20 + random.i64(0..10 * busy);
            let p95 = median + 30 + random.i64(0..30 * busy);
            Delays { min_us: least, median_us: median, p95_us: p95, max_us: p95 + random.i64(0..400 * busy) }
        };
        let one_way_us = self.rtt_us / 2;
        let clock_us = self.clock_us as i64;
        let (lost_forward, lost_reverse) = (self.lost(), self.lost());
        let report = StreamReport {
            sent: PACKETS,
            received: PACKETS - lost_forward - lost_reverse,
            lost_forward,
            lost_reverse,
            round_trip: Some(delays(&mut self.random, self.rtt_us)),
            forward: Some(delays(&mut self.random, one_way_us + clock_us)),
            reverse: Some(delays(&mut self.random, one_way_us - clock_us)),
            ports: 8,
            ..StreamReport::default()
        };
        self.judge.observe(TestKind::Latency, &Observation::Stream(Box::new(report)), at, 60.0);
        if at % (10 * MINUTE) == 0 {
            self.path(at);
        }
        if at % (6 * HOUR) == 0 {
            self.tcp(at, Direction::Forward);
            self.tcp(at + 2 * MINUTE, Direction::Reverse);
        }
    }

    fn path(&mut self, at: i64) {
        let mut direction_facts = || {
            let random = &mut self.random;
            let hops = (1..=8).map(|hop| if random.f64() < 0.05 { String::new() } else { format!("r{hop}") });
            DirectionFacts { hops: hops.collect(), is_whole: true, mtu_bytes: Some(9_000), ..DirectionFacts::default() }
        };
        let facts = PathFacts { forward: Some(direction_facts()), reverse: Some(direction_facts()) };
        self.judge.observe(TestKind::Path, &Observation::Path(Box::new(facts)), at, 2.0);
    }

    fn tcp(&mut self, at: i64, direction: Direction) {
        let by_day = if (8..20).contains(&((at / HOUR) % 24)) { 0.97 } else { 1.0 };
        let rtt_s = self.rtt_us as f64 / 1e6;
        let tested = Throughput {
            direction,
            rate_bit_s: self.link_bit_s * 0.93 * by_day * (1.0 + 0.04 * self.noise()),
            min_rtt_s: Some(rtt_s),
            rtt_s: Some(rtt_s * 1.02),
            mss_bytes: 8_948.0,
            window_bytes: 1e9,
            streams: 1.0,
            congestion: "cubic".into(),
            limit: "the link".into(),
            rounds: 20.0 / rtt_s,
            ..Throughput::default()
        };
        self.judge.observe(TestKind::Throughput, &Observation::Throughput(Box::new(tested)), at, 20.0);
    }
}

/// Simulates the year; returns all alarms.
///
/// # Errors
/// A thread of the simulation panicked.
pub fn false_alarms() -> Result<Vec<Alarm>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share =
        move |thread: usize| (0..PATHS).skip(thread).step_by(threads).flat_map(alarms_of_path).collect::<Vec<_>>();
    let all: Vec<_> = (0..threads).map(|thread| std::thread::spawn(move || share(thread))).collect();
    let all =
        all.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread of the simulated year panicked")));
    Ok(all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The alarms of one path in the year.
fn alarms_of_path(number: usize) -> Vec<Alarm> {
    let mut path = CleanPath::new(number);
    let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
    let mut raised = Vec::new();
    for at in (MINUTE..YEAR).step_by(MINUTE as usize) {
        path.minute(at);
        let now = at + MINUTE;
        let changes = alarms.update("near", &format!("far {number}"), &path.judge.findings(now), &[], now);
        raised.extend(changes.into_iter().filter_map(|change| match change {
            Change::Raised(alarm) => Some(alarm),
            Change::Changed(_) | Change::Ended(_) => None,
        }));
    }
    raised
}
