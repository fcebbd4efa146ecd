//! What TCP did in a direction, in numbers.

use model::v1::probe::Direction;
use model::v1::probe::tcp::{Flow, Interval, Kernel, Report};

use super::hosts::is_taken;

/// A rate that rises by more than this part from one interval to the next still grows.
const GROWS: f64 = 0.15;

/// Round trips in which what a start loses is still a good part of all that is lost.
const OF_A_START: f64 = 100.0;

/// What TCP did in a direction.
pub(super) struct Pushed {
    /// What it got, once it was under way.
    pub rate: f64,
    /// Share of the bytes sent again once it was under way: how every start overshoots is no fault of the path.
    pub resent: f64,
    pub min_rtt: f64,
    /// The longest round trip.
    pub rtt: f64,
    /// Round trips that it had.
    pub rounds: f64,
    /// It had not come to what it would reach.
    pub grows: bool,
    /// A processor was the limit, or others had them: what a host cannot take in is lost there, and what comes late is
    /// sent again.
    pub is_host_bound: bool,
    /// A window, a buffer, a processor or a pace of ours was the limit.
    pub is_bound: bool,
}

impl Pushed {
    /// None where TCP was not tried, or said nothing of round trips.
    pub(super) fn of(report: Option<&Report>, way: Direction) -> Option<Pushed> {
        let report = report?;
        let up = way == Direction::Forward;
        let result = report.directions.iter().find(|w| w.direction.is_forward() == up)?;
        let (sender, intervals) =
            if up { (&report.near, &report.intervals) } else { (&report.far, &report.far_intervals) };
        let of_way = |flow: &Flow| flow.kernel.filter(|_| flow.direction.is_forward() == up);
        let ends: Vec<Kernel> = sender.totals.iter().filter_map(|total| of_way(&total.flow)).collect();
        let end_s = intervals.last().map_or(0.0, |interval| interval.end_s);
        let later: Vec<&Interval> = intervals.iter().filter(|interval| interval.start_s >= end_s / 2.0).collect();
        let kernels: Vec<Kernel> = later.iter().flat_map(|interval| &interval.flows).filter_map(of_way).collect();
        let sum = |of: fn(&Kernel) -> u64| kernels.iter().map(of).sum::<u64>() as f64;
        let min_rtt = ends.iter().map(|k| k.min_rtt_s).fold(f64::INFINITY, f64::min);
        let rounds = end_s / min_rtt.max(1e-6);
        let resent = match kernels.is_empty() {
            // Of one interval, and short: a start and little else.
            true if !intervals.is_empty() && rounds < OF_A_START => 0.0,
            true => result.resent,
            false => sum(|k| k.resent_bytes) / sum(|k| k.sent_bytes).max(1.0),
        };
        let seen = intervals.iter().flat_map(|interval| &interval.flows).filter_map(of_way).chain(ends.iter().copied());
        let rtt = seen.map(|k| k.rtt_s).fold(0.0, f64::max);
        let is_host_bound =
            result.binding.starts_with("cpu") || is_taken(&report.near.host) || is_taken(&report.far.host);
        let span: f64 = later.iter().map(|interval| interval.end_s - interval.start_s).sum();
        // Once it was under way, as well; the rest is what arrived in the end.
        let rate = match span > 0.0 && !kernels.is_empty() {
            true => (sum(|k| k.sent_bytes) - sum(|k| k.resent_bytes)).max(0.0) * 8.0 / span,
            false => result.rate_bit_s as f64,
        };
        min_rtt.is_finite().then(|| Pushed {
            rate,
            resent,
            min_rtt,
            rtt,
            rounds,
            grows: grows(&later, up),
            is_host_bound,
            is_bound: is_host_bound || !result.binding.is_empty(),
        })
    }
}

/// Whether the last whole interval carried clearly more than the one before it.
fn grows(later: &[&Interval], up: bool) -> bool {
    let rate = |interval: &Interval| {
        let of_way = interval.flows.iter().filter(|flow| flow.direction.is_forward() == up);
        of_way.map(|flow| flow.rate_bit_s as f64).sum::<f64>()
    };
    let longest = later.iter().map(|i| i.end_s - i.start_s).fold(0.0, f64::max);
    let whole: Vec<f64> = later.iter().filter(|i| i.end_s - i.start_s > longest / 2.0).map(|i| rate(i)).collect();
    matches!(whole[..], [.., before, last] if last > before * (1.0 + GROWS))
}
