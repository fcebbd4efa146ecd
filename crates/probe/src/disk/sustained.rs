//! A long write, and its rate over time: where a cache ends, and the rates before and after.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::v1::probe::disk::{Cliff, Course, IoMode, Test};
use model::{BitRate, Bytes};

use super::run::{DiskRun, PointSpec};
use super::workers::SAMPLE;
use super::{fit, sequential};
use crate::Result;

/// Most samples in a result; longer series are thinned out.
const SAMPLES_MAX: usize = 1_000;

/// Writes the whole budget, or less if its time is over before.
pub(super) fn write(run: &mut DiskRun<'_>, mode: IoMode) -> Result<()> {
    let order = run.order;
    let workers = run.enough_writers(mode);
    let block = order.block_bytes;
    let total = order.budget_bytes / block * block;
    // Workers take the budget block by block and so end together: the rate does not fall because faster workers have finished.
    let taken = AtomicU64::new(0);
    let next = |_| if taken.fetch_add(block, Ordering::Relaxed) < total { block } else { 0 };
    let limit = Duration::from_secs_f64(order.sustained_seconds);
    let before = run.backing.counters();
    let (summary, written) = sequential::write(run, mode, workers, limit, next)?;
    let spec = PointSpec { test: Test::Sustained, mode, file_bytes: total, workers, block_bytes: block };
    let mut point = run.point(spec, before, &summary);
    point.cached = run.backing.in_memory.clone();
    point.course = Some(course(&summary.samples, point.rate_before_flush_bit_s));
    run.report(point)?;
    sequential::remove(run, written)
}

fn rate(from: (Duration, u64), to: (Duration, u64)) -> u64 {
    BitRate::mean(Bytes(to.1.saturating_sub(from.1)), to.0.saturating_sub(from.0).as_secs_f64()).0
}

/// Evaluates samples (time, bytes by then); `overall` is the rate if there are too few of them.
fn course(samples: &[(Duration, u64)], overall: u64) -> Course {
    let start = (Duration::ZERO, 0);
    let mut marks = vec![start];
    // A late sample makes the next interval short: a sample less than half an interval after the last one is dropped.
    for sample in samples {
        if marks.last().is_some_and(|last| sample.0.saturating_sub(last.0) >= SAMPLE / 2) {
            marks.push(*sample);
        }
    }
    let rates: Vec<f64> = marks.windows(2).map(|pair| rate(pair[0], pair[1]) as f64).collect();
    let last = marks.last().copied().unwrap_or(start);
    let mean = if marks.len() > 1 { rate(start, last) } else { overall };
    let mut course =
        Course { burst_bit_s: mean, sustained_bit_s: mean, sample_s: SAMPLE.as_secs_f64(), ..Course::default() };
    if let Some(fall) = fit::fall(&rates) {
        let edge = marks[fall.at];
        course.burst_bit_s = rate(start, edge);
        course.sustained_bit_s = rate(edge, last);
        course.cliff = Some(Cliff { at_bytes: edge.1, at_s: edge.0.as_secs_f64(), f: fall.f });
    } else if rates.len() < fit::SAMPLES_MIN {
        let n = rates.len();
        let least = fit::SAMPLES_MIN;
        course.unclear = Some(format!("{n} samples of 0.1 s; {least} are needed: a larger budget, or more time"));
    }
    let step = rates.len().div_ceil(SAMPLES_MAX).max(1);
    course.sample_s *= step as f64;
    let ends: Vec<_> = marks.iter().copied().step_by(step).collect();
    course.samples_bit_s = ends.windows(2).map(|pair| rate(pair[0], pair[1])).collect();
    course
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of a disk that writes `fast` (bytes per sample, number of samples), and then `slow`.
    fn series(fast: (u64, usize), slow: (u64, usize)) -> Vec<(Duration, u64)> {
        let mut when = Duration::ZERO;
        let mut bytes = 0;
        let steps = std::iter::repeat_n(fast.0, fast.1).chain(std::iter::repeat_n(slow.0, slow.1));
        let marks = steps.map(|step| {
            when += SAMPLE;
            bytes += step;
            (when, bytes)
        });
        marks.collect()
    }

    #[test]
    fn a_cliff_has_a_rate_on_each_side() {
        // 17 Gbit/s for 7.5 s, then 6 (table T11).
        let found = course(&series((212_500_000, 75), (75_000_000, 225)), 1);
        assert_eq!((found.burst_bit_s, found.sustained_bit_s), (17_000_000_000, 6_000_000_000));
        let cliff = found.cliff.unwrap();
        assert_eq!(cliff.at_bytes, 75 * 212_500_000);
        assert!((cliff.at_s - 7.5).abs() < 1e-9);
        assert_eq!((found.samples_bit_s.len(), found.unclear), (300, None));
    }

    #[test]
    fn without_a_cliff_both_rates_are_the_mean() {
        let found = course(&series((1_000, 50), (1_000, 50)), 1);
        assert_eq!((found.burst_bit_s, found.sustained_bit_s, found.cliff), (80_000, 80_000, None));
        assert_eq!(found.unclear, None);
        let short = course(&series((1_000, 5), (10, 5)), 1);
        assert!(short.cliff.is_none() && short.unclear.unwrap().starts_with("10 samples"));
        let none = course(&[], 7);
        assert_eq!((none.burst_bit_s, none.samples_bit_s.len()), (7, 0));
    }

    #[test]
    fn late_samples_make_no_spike() {
        let mut samples = series((1_000, 60), (1_000, 0));
        // One sample was missed, and the next has the bytes of both.
        samples[30] = (samples[31].0 - Duration::from_millis(1), samples[31].1);
        let found = course(&samples, 1);
        assert_eq!(found.cliff, None);
        assert!(found.samples_bit_s.iter().all(|rate| (79_000..=82_000).contains(rate)), "{:?}", found.samples_bit_s);
    }

    #[test]
    fn long_courses_are_thinned_out() {
        let found = course(&series((1_000, 2_500), (1_000, 0)), 1);
        assert!((found.sample_s - 0.3).abs() < 1e-9);
        assert_eq!(found.samples_bit_s, vec![80_000; 833]);
    }
}
