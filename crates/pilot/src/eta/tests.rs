//! Predictions of the ends of simulated jobs, in virtual time.

mod simulated;

use std::time::Duration;

use model::Progress;
use model::spec::LiveSettings;
use proptest::prelude::*;

use super::{Estimator, Eta};
use simulated::{SimulatedJob, judge, mixed, runs};

/// The part of all jobs whose predictions must be good: 18 of 20.
const GOOD_PART: f64 = 0.9;
/// Jobs of random shape.
const JOBS: u64 = 120;

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn progress(bytes: u64, total: u64) -> Progress {
    Progress { bytes_offered: total, files_offered: 1, bytes_arrived: bytes, scanned: true, ..Progress::default() }
}

/// Feeds a constant rate from `from` on, at 10 Hz, for so long.
fn feed(estimator: &mut Estimator, from: (f64, u64), rate: f64, seconds: f64, total: u64) -> (f64, u64) {
    let ticks = (seconds * 10.0).round() as u32;
    let mut now = from;
    for tick in 1..=ticks {
        let passed = f64::from(tick) / 10.0;
        now = (from.0 + passed, from.1 + (rate * passed) as u64);
        estimator.observe(at(now.0), &progress(now.1, total), &LiveSettings::default(), false);
    }
    now
}

fn left(estimator: &Estimator, now: f64) -> f64 {
    estimator.eta(at(now)).map_or(f64::NAN, |eta| eta.left.as_secs_f64())
}

fn is_near(value: f64, wanted: f64, part: f64) -> bool {
    (value - wanted).abs() <= wanted * part
}

#[test]
fn ends_are_predicted_within_a_tenth_of_the_whole_time() {
    let runs = runs();
    assert!(runs.len() >= 20);
    let mut good = 0;
    let mut report = String::new();
    for (name, job) in &runs {
        let verdict = judge(&job.trace());
        good += usize::from(verdict.is_good());
        report += &format!("{name:<44} {verdict}\n");
    }
    assert!(good as f64 >= GOOD_PART * runs.len() as f64, "{good} of {}\n{report}", runs.len());
}

#[test]
fn most_errors_are_within_the_predicted_error() {
    let (mut within, mut all) = (0, 0);
    for (_, job) in runs() {
        let verdict = judge(&job.trace());
        within += verdict.within;
        all += verdict.moments;
    }
    assert!(within as f64 >= 0.8 * f64::from(all), "{within} of {all}");
}

#[test]
fn nothing_is_predicted_before_anything_is_known() {
    let mut estimator = Estimator::default();
    assert_eq!(estimator.eta(at(1.0)), None);
    let unscanned = |bytes| Progress { scanned: false, ..progress(bytes, 1 << 40) };
    (0..100).for_each(|n| estimator.observe(at(n as f64 / 10.0), &unscanned(n << 20), &LiveSettings::default(), false));
    assert_eq!(estimator.eta(at(10.0)), None, "the tree is not known");
    let mut estimator = Estimator::default();
    (0..100)
        .for_each(|n| estimator.observe(at(n as f64 / 10.0), &progress(0, 1 << 40), &LiveSettings::default(), false));
    assert_eq!(estimator.eta(at(10.0)), None, "nothing moved");
    let endless = model::locator::ENDLESS.0;
    let mut estimator = Estimator::default();
    feed(&mut estimator, (0.0, 0), 1e8, 10.0, endless);
    assert_eq!(estimator.eta(at(10.0)), None, "it has no end");
}

#[test]
fn a_steady_rate_is_predicted_closely_and_counted_down() {
    let mut estimator = Estimator::default();
    let (now, bytes) = feed(&mut estimator, (0.0, 0), 1e8, 20.0, 10_000_000_000);
    let wanted = (10_000_000_000 - bytes) as f64 / 1e8;
    let Eta { left: predicted, error } = estimator.eta(at(now)).unwrap();
    assert!(is_near(predicted.as_secs_f64(), wanted, 0.03), "{predicted:?}");
    assert!(error.as_secs_f64() < wanted * 0.06, "{error:?}");
    assert!(is_near(left(&estimator, now + 3.0), wanted - 3.0, 0.03));
}

#[test]
fn files_in_place_are_no_evidence_of_a_rate() {
    let mut estimator = Estimator::default();
    let total = 20_000_000_000;
    let mut in_place = progress(0, total);
    for tick in 0..100u64 {
        // Ten seconds at 100 MB/s; after two of them half of it all is found in place.
        let found = if tick > 20 { 10_000_000_000 } else { 0 };
        in_place.bytes_arrived = tick * 10_000_000 + found;
        in_place.bytes_in_place = found;
        estimator.observe(at(tick as f64 / 10.0), &in_place, &LiveSettings::default(), false);
    }
    let wanted = (total - in_place.bytes_arrived) as f64 / 1e8;
    assert!(is_near(left(&estimator, 9.9), wanted, 0.05), "{} for {wanted}", left(&estimator, 9.9));
}

#[test]
fn a_new_rate_counts_within_seconds() {
    for (before, after, within) in [(1e8, 1e7, 4.0), (1e7, 1e8, 2.0), (1e8, 7e7, 8.0), (1e8, 1.4e8, 8.0)] {
        let mut estimator = Estimator::default();
        let total = 100_000_000_000;
        let now = feed(&mut estimator, (0.0, 0), before, 60.0, total);
        let (now, bytes) = feed(&mut estimator, now, after, within, total);
        let wanted = (total - bytes) as f64 / after;
        assert!(is_near(left(&estimator, now), wanted, 0.05), "{before} {after}: {}", left(&estimator, now) / wanted);
    }
}

#[test]
fn a_new_limit_counts_at_once() {
    let mut estimator = Estimator::default();
    let total = 10_000_000_000;
    let (now, bytes) = feed(&mut estimator, (0.0, 0), 1e8, 10.0, total);
    let steer = LiveSettings { limit_bit_s: 80_000_000, ..LiveSettings::default() };
    estimator.observe(at(now + 0.1), &progress(bytes + 1_000_000, total), &steer, false);
    assert!(is_near(left(&estimator, now + 0.1), (total - bytes) as f64 / 1e7, 0.01));
}

#[test]
fn a_pause_does_not_lower_the_rate() {
    let mut estimator = Estimator::default();
    let total = 10_000_000_000;
    let (now, bytes) = feed(&mut estimator, (0.0, 0), 1e8, 10.0, total);
    let paused = LiveSettings { paused: true, ..LiveSettings::default() };
    (1..300).for_each(|n| estimator.observe(at(now + n as f64 / 10.0), &progress(bytes, total), &paused, false));
    assert_eq!(estimator.eta(at(now + 30.0)), None);
    // Back through slow start.
    let slow = feed(&mut estimator, (now + 30.0, bytes), 1e6, 1.0, total);
    let (now, bytes) = feed(&mut estimator, slow, 1e8, 1.0, total);
    assert!(is_near(left(&estimator, now), (total - bytes) as f64 / 1e8, 0.05), "{}", left(&estimator, now));
}

#[test]
fn a_new_attempt_keeps_the_history() {
    let mut estimator = Estimator::default();
    let total = 10_000_000_000;
    let (now, bytes) = feed(&mut estimator, (0.0, 0), 1e8, 10.0, total);
    estimator.observe(at(now + 5.0), &progress(0, total), &LiveSettings::default(), false);
    let found = |moved: u64| Progress { bytes_in_place: bytes, ..progress(bytes + moved, total) };
    for tick in 0..20u64 {
        estimator.observe(
            at(now + 5.0 + tick as f64 / 10.0),
            &found(tick * 10_000_000),
            &LiveSettings::default(),
            false,
        );
    }
    let wanted = (total - bytes - 190_000_000) as f64 / 1e8;
    assert!(is_near(left(&estimator, now + 6.9), wanted, 0.05), "{}", left(&estimator, now + 6.9));
}

#[test]
fn the_cost_of_small_files_is_predicted_for_those_left() {
    // 4,000 files of 10 kB at 1 ms each, 2 GB at 200 MB/s, and 16,000 such files once more.
    let mut files = vec![10_000; 4_000];
    files.push(2_000_000_000);
    files.extend([10_000; 16_000]);
    let trace = SimulatedJob { files, file_seconds: 1e-3, ..SimulatedJob::new(2e8) }.trace();
    let mut estimator = Estimator::default();
    let end = trace.last().unwrap().0;
    for (now, progress) in trace {
        estimator.observe(at(now), &progress, &LiveSettings::default(), false);
        if (5.0..end - 2.0).contains(&now) {
            let predicted = left(&estimator, now);
            assert!(
                (now + predicted - end).abs() < 0.1 * end,
                "at {now:.1} s: {predicted:.1} s left of {:.1} s",
                end - now
            );
        }
    }
}

/// A property of many jobs, not of each: the next change of a random rate is chance.
#[test]
fn the_ends_of_jobs_of_any_shape_are_predicted() {
    let mut chance = simulated::SeededRandom::new(2026);
    let mut good = 0;
    let mut bad = 0;
    let mut report = String::new();
    for seed in 0..JOBS {
        // From 1 MB/s to 1 GB/s.
        let rate = 1e6 * 1e3f64.powf(chance.uniform());
        let rtt = chance.uniform() * 0.31;
        let files = mixed(seed, rate * 25.0, 1.5);
        let job = SimulatedJob { seed, noise: 0.1, rtt, files, ..SimulatedJob::new(rate) };
        let verdict = judge(&job.trace());
        good += u64::from(verdict.is_good());
        bad += u64::from(verdict.good * 4 < verdict.moments * 3);
        report += &format!("{seed:>3}: {rate:.2e} B/s, {rtt:.3} s, {verdict}\n");
    }
    assert!(good as f64 >= GOOD_PART * JOBS as f64 && bad == 0, "{good} of {JOBS}\n{report}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_progress_is_accepted_without_a_panic(steps in proptest::collection::vec((0u64..5_000, any::<[u64; 6]>(), any::<bool>(), any::<bool>()), 0..200)) {
        let mut estimator = Estimator::default();
        let mut now = Duration::ZERO;
        for (ms, [a, b, c, d, e, f], scanned, waits) in steps {
            now += Duration::from_millis(ms);
            let progress = Progress {
                bytes_offered: a, files_offered: b, bytes_arrived: c, files_settled: d,
                bytes_in_place: e, bytes_of_holes: 0, files_in_place: f, scanned,
            };
            estimator.observe(now, &progress, &LiveSettings { limit_bit_s: f, ..LiveSettings::default() }, waits);
            let _ = estimator.eta(now);
        }
    }
}
