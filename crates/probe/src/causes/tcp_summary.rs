//! Summary of a TCP test in one direction, in numbers.

use model::v1::probe::Direction;
use model::v1::probe::tcp::{Flow, Interval, Kernel, Report};

use super::hosts::is_taken;

/// A rate that rises by more than this part from one interval to the next still grows.
const GROWS: f64 = 0.15;

/// In a test of fewer round trips, loss at the start is a large part of all loss.
const START_ROUNDS: f64 = 100.0;

/// Summary of a TCP test in one direction.
pub(super) struct TcpSummary {
    /// Rate after the start, bit/s.
    pub rate: f64,
    /// Share of the bytes sent again after the start, as every start overshoots.
    pub resent: f64,
    pub min_rtt: f64,
    /// The longest round trip, seconds.
    pub rtt: f64,
    /// Length of the test in round trips.
    pub rounds: f64,
    /// The rate was still growing at the end.
    pub grows: bool,
    /// The processors of a host were the limit, or were busy with other work: such a host drops packets, and late ones are sent
    /// again.
    pub is_host_bound: bool,
    /// A window, a buffer, a processor or the ordered pace was the limit.
    pub is_bound: bool,
}

impl TcpSummary {
    /// The summary of a report; none if TCP was not tested, or if its round trips are unknown.
    pub(super) fn of(report: Option<&Report>, direction: Direction) -> Option<TcpSummary> {
        let report = report?;
        let is_forward = direction == Direction::Forward;
        let result = report.directions.iter().find(|result| result.direction.is_forward() == is_forward)?;
        let (sender, intervals) =
            if is_forward { (&report.near, &report.intervals) } else { (&report.far, &report.far_intervals) };
        let of_direction = |flow: &Flow| flow.kernel.filter(|_| flow.direction.is_forward() == is_forward);
        let ends: Vec<Kernel> = sender.totals.iter().filter_map(|total| of_direction(&total.flow)).collect();
        let end_s = intervals.last().map_or(0.0, |interval| interval.end_s);
        let later: Vec<&Interval> = intervals.iter().filter(|interval| interval.start_s >= end_s / 2.0).collect();
        let kernels: Vec<Kernel> = later.iter().flat_map(|interval| &interval.flows).filter_map(of_direction).collect();
        let sum = |of: fn(&Kernel) -> u64| kernels.iter().map(of).sum::<u64>() as f64;
        let min_rtt = ends.iter().map(|k| k.min_rtt_s).fold(f64::INFINITY, f64::min);
        let rounds = end_s / min_rtt.max(1e-6);
        let resent = if !kernels.is_empty() {
            sum(|k| k.resent_bytes) / sum(|k| k.sent_bytes).max(1.0)
        } else if !intervals.is_empty() && rounds < START_ROUNDS {
            // One short interval shows little more than the start of a connection.
            0.0
        } else {
            result.resent
        };
        let seen =
            intervals.iter().flat_map(|interval| &interval.flows).filter_map(of_direction).chain(ends.iter().copied());
        let rtt = seen.map(|k| k.rtt_s).fold(0.0, f64::max);
        let is_host_bound =
            result.binding.starts_with("cpu") || is_taken(&report.near.host) || is_taken(&report.far.host);
        let span: f64 = later.iter().map(|interval| interval.end_s - interval.start_s).sum();
        // The rate after the start, too; without intervals it is that of the whole test.
        let rate = if span > 0.0 && !kernels.is_empty() {
            (sum(|k| k.sent_bytes) - sum(|k| k.resent_bytes)).max(0.0) * 8.0 / span
        } else {
            result.rate_bit_s as f64
        };
        min_rtt.is_finite().then(|| TcpSummary {
            rate,
            resent,
            min_rtt,
            rtt,
            rounds,
            grows: grows(&later, is_forward),
            is_host_bound,
            is_bound: is_host_bound || !result.binding.is_empty(),
        })
    }
}

/// Whether the last complete interval has a clearly higher rate than the one before it.
fn grows(later: &[&Interval], is_forward: bool) -> bool {
    let rate = |interval: &Interval| {
        let of_direction = interval.flows.iter().filter(|flow| flow.direction.is_forward() == is_forward);
        of_direction.map(|flow| flow.rate_bit_s as f64).sum::<f64>()
    };
    let longest = later.iter().map(|i| i.end_s - i.start_s).fold(0.0, f64::max);
    let whole: Vec<f64> = later.iter().filter(|i| i.end_s - i.start_s > longest / 2.0).map(|i| rate(i)).collect();
    matches!(whole[..], [.., before, last] if last > before * (1.0 + GROWS))
}
