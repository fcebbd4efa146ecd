//! Simulated progress of jobs, without a network: rates, ramps, losses, noise, files, bursts; and a judgement
//! of the predictions.

use std::fmt;
use std::time::Duration;

use model::Progress;
use model::spec::LiveSettings;

use super::Estimator;

/// Steps of the simulation, s.
const STEP: f64 = 0.01;
/// The interval between two samples of a job's progress, in steps.
const SAMPLE_EVERY: u32 = 10;
/// Bytes that arrive at once.
const RECORD: u64 = 1 << 20;

/// A seeded random generator, the same on every run: xorshift64 (Marsaglia, 2003).
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A simulated job.
#[derive(Clone, Debug)]
pub struct SimulatedJob {
    pub files: Vec<u64>,
    /// The time that a file costs in addition to its bytes, s.
    pub file_seconds: f64,
    /// Bytes per second.
    pub rate: f64,
    /// The round-trip time, s: at first the rate doubles in each.
    pub rtt: f64,
    /// A sawtooth: its lowest rate as a part of its highest, and its period, s.
    pub saw: Option<(f64, f64)>,
    /// The standard deviation of a randomly changing rate, as a part of the rate.
    pub noise: f64,
    /// The interval at which arrivals are reported, s.
    pub burst: f64,
    /// Bytes that a cache takes first, at five times the rate.
    pub cache: f64,
    pub seed: u64,
}

impl SimulatedJob {
    pub fn new(rate: f64) -> SimulatedJob {
        SimulatedJob {
            files: vec![(rate * 25.0) as u64],
            file_seconds: 0.0,
            rate,
            rtt: 0.0,
            saw: None,
            noise: 0.0,
            burst: 0.0,
            cache: 0.0,
            seed: 1,
        }
    }

    /// The job's numbers, ten times a second, to its end.
    pub fn trace(&self) -> Vec<(f64, Progress)> {
        let mut out = Vec::new();
        let mut chance = SeededRandom::new(self.seed);
        let mut wander = 0.0;
        let mut flushed = 0.0;
        let mut file = 0;
        let mut bytes = 0.0;
        let mut opened = 0.0;
        let total = self.files.iter().sum::<u64>();
        let count = self.files.len();
        let mut before = 0u64;
        let mut shown = (0, 0);
        // Nothing for two round trips, as before a session's first byte.
        let mut step = 0u32;
        while file < count {
            let now = f64::from(step) * STEP;
            wander = 0.98 * wander + 0.2 * chance.normal() * self.noise;
            let mut time = if now < 2.0 * self.rtt { 0.0 } else { STEP };
            let rate = self.rate_at(now - 2.0 * self.rtt, before as f64 + bytes) * f64::max(0.1, 1.0 + wander);
            while time > 0.0 && file < count {
                let opening = (self.file_seconds - opened).min(time);
                opened += opening;
                time -= opening;
                let moving = ((self.files[file] as f64 - bytes) / rate).min(time);
                bytes += moving * rate;
                time -= moving;
                if bytes >= self.files[file] as f64 - 0.5 && opened >= self.file_seconds {
                    before += self.files[file];
                    bytes = 0.0;
                    opened = 0.0;
                    file += 1;
                }
            }
            if now - flushed >= self.burst || file == count {
                flushed = now;
                shown = (before + bytes as u64 / RECORD * RECORD, file as u64);
            }
            step += 1;
            if step.is_multiple_of(SAMPLE_EVERY) || file == count {
                let progress = Progress {
                    bytes_offered: total,
                    files_offered: count as u64,
                    bytes_arrived: shown.0,
                    files_settled: shown.1,
                    scanned: true,
                    ..Progress::default()
                };
                out.push((f64::from(step) * STEP, progress));
            }
        }
        out
    }

    fn rate_at(&self, since: f64, moved: f64) -> f64 {
        let ramp =
            if self.rtt > 0.0 { 29_000.0 / self.rtt * (since / self.rtt).min(60.0).exp2() } else { f64::INFINITY };
        let saw = self.saw.map_or(1.0, |(least, period)| least + (1.0 - least) * (since / period).fract());
        let cached = if moved < self.cache { 5.0 } else { 1.0 };
        ramp.min(self.rate * saw * cached)
    }
}

/// Files of mixed sizes, of so many bytes in all.
pub fn mixed(seed: u64, bytes: f64, spread: f64) -> Vec<u64> {
    let mut chance = SeededRandom::new(seed ^ 77);
    let mut files = Vec::new();
    let mut left = bytes;
    while left > 0.0 && files.len() < 20_000 {
        let size = (bytes / 400.0 * (chance.normal() * spread).exp()).min(left).ceil();
        files.push(size as u64);
        left -= size;
    }
    files
}

/// The quality of the predictions of one job.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The number of predictions, one a second from the first tenth of the bytes on.
    pub moments: u32,
    /// Those with an error below a tenth of the job's time.
    pub good: u32,
    /// Those with an error within the predicted error.
    pub within: u32,
    /// The largest error, as a part of the job's time.
    pub worst: f64,
    /// The job's time, s.
    pub seconds: f64,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.moments > 0 && f64::from(self.good) >= 0.9 * f64::from(self.moments)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { moments, good, within, worst, seconds } = self;
        let word = if self.is_good() { "" } else { "  BAD" };
        write!(f, "{seconds:5.1} s: {good} of {moments} good, {within} in bound, worst {:.1} %{word}", worst * 100.0)
    }
}

/// Compares a prediction in each second with the real end.
pub fn judge(trace: &[(f64, Progress)]) -> Verdict {
    let mut estimator = Estimator::default();
    let end = trace.last().map_or(0.0, |(now, _)| *now);
    let mut verdict = Verdict { seconds: end, ..Verdict::default() };
    let mut next = 0.0;
    for (now, progress) in trace {
        estimator.observe(Duration::from_secs_f64(*now), progress, &LiveSettings::default(), false);
        if *now < next || progress.bytes_arrived * 10 < progress.bytes_offered {
            continue;
        }
        next = now + 1.0;
        verdict.moments += 1;
        let Some(eta) = estimator.eta(Duration::from_secs_f64(*now)) else {
            verdict.worst = 1.0;
            continue;
        };
        let error = (now + eta.left.as_secs_f64() - end).abs();
        verdict.good += u32::from(error < 0.1 * end);
        verdict.within += u32::from(error <= eta.error.as_secs_f64());
        verdict.worst = verdict.worst.max(error / end);
    }
    verdict
}

/// Runs that vary in round trip, rate, loss, noise and files.
pub fn runs() -> Vec<(&'static str, SimulatedJob)> {
    let job = SimulatedJob::new;
    let files = |count: usize, size: u64| vec![size; count];
    let small_then_large = [files(8_000, 20_000), files(3, 700_000_000)].concat();
    let large_then_small = [files(1, 1_000_000_000), files(1_000, 20_000), files(1, 500_000_000), files(4_000, 20_000)];
    vec![
        ("1 Gbit/s", job(1.25e8)),
        ("100 Mbit/s", job(1.25e7)),
        ("1 Gbit/s, RTT 303 ms", SimulatedJob { rtt: 0.303, ..job(1.25e8) }),
        ("100 Mbit/s, RTT 303 ms", SimulatedJob { rtt: 0.303, ..job(1.25e7) }),
        ("10 Gbit/s, RTT 303 ms", SimulatedJob { rtt: 0.303, ..job(1.25e9) }),
        ("1 Gbit/s, RTT 50 ms", SimulatedJob { rtt: 0.05, ..job(1.25e8) }),
        ("sawtooth 50 %, 3 s", SimulatedJob { saw: Some((0.5, 3.0)), ..job(1.25e8) }),
        ("sawtooth 70 %, 5 s, RTT 100 ms", SimulatedJob { saw: Some((0.7, 5.0)), rtt: 0.1, ..job(1.25e8) }),
        ("sawtooth 60 %, 2 s, RTT 303 ms", SimulatedJob { saw: Some((0.6, 2.0)), rtt: 0.303, ..job(5e7) }),
        ("noise 10 %", SimulatedJob { noise: 0.1, ..job(5e7) }),
        ("noise 20 %", SimulatedJob { noise: 0.2, seed: 2, ..job(5e7) }),
        ("noise 20 %, RTT 303 ms", SimulatedJob { noise: 0.2, seed: 3, rtt: 0.303, ..job(5e7) }),
        ("noise 30 %, RTT 20 ms", SimulatedJob { noise: 0.3, seed: 4, rtt: 0.02, ..job(1e8) }),
        ("bursts of 1 s", SimulatedJob { burst: 1.0, ..job(1e8) }),
        ("bursts of 1.5 s, noise 10 %", SimulatedJob { burst: 1.5, noise: 0.1, seed: 5, ..job(1e8) }),
        ("a cache of 5 % at 5 times the rate", SimulatedJob { cache: 0.05 * 2.5e9, ..job(1e8) }),
        (
            "20,000 files of 50 kB, 1 ms each",
            SimulatedJob { files: files(20_000, 50_000), file_seconds: 1e-3, ..job(1.25e8) },
        ),
        ("small then large, 1 ms each", SimulatedJob { files: small_then_large, file_seconds: 1e-3, ..job(1.25e8) }),
        ("large, small, in turn", SimulatedJob { files: large_then_small.concat(), file_seconds: 1e-3, ..job(1.25e8) }),
        ("mixed sizes", SimulatedJob { files: mixed(6, 2.5e9, 1.5), file_seconds: 2e-3, ..job(1.25e8) }),
        (
            "mixed sizes, RTT 303 ms",
            SimulatedJob { files: mixed(7, 2.5e9, 2.0), rtt: 0.303, noise: 0.1, ..job(1.25e8) },
        ),
        ("mixed sizes, sawtooth", SimulatedJob { files: mixed(8, 2.5e9, 2.0), saw: Some((0.6, 3.0)), ..job(1.25e8) }),
        ("a limit of 80 Mbit/s", SimulatedJob { rtt: 0.1, ..job(1e7) }),
        ("an hour, noise 20 %", SimulatedJob { files: files(1, 360_000_000_000), noise: 0.2, seed: 9, ..job(1e8) }),
    ]
}
