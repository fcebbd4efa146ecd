//! Causes in the hosts: windows, processors; and queues that are too long.

use model::laws::bdp_bytes;
use model::units::Bytes;
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind, Segment};
use model::v1::probe::host::Use;
use model::v1::probe::tcp::{Report, Total};

use super::{cause, known, ms};
use crate::host::largest;

/// Other programs, or the hypervisor, slow a test if they take more than this share of a host's processors.
const TAKEN: f64 = 0.5;
/// A host's processors are full if they are busy for more than this share.
const FULL: f64 = 0.9;
/// A quota that throttles the program for more than this share of the time is the limit.
const HELD_BACK: f64 = 0.1;
/// A sender that keeps up has data in flight for this share of the time at least.
const SENDING: f64 = 0.9;
/// The window of a receiver that keeps up is full for this share of the time at most.
const WINDOW_FULL: f64 = 0.1;
/// A window below the buffer divided by this has not been opened as far as the host allows.
const WINDOW_DIVISOR: u64 = 4;
/// A program that reads this part of the window in each round trip keeps up: the window is the limit.
const READ: f64 = 0.4;
/// A window that is full for this share of the time is a limit, even if there is loss as well.
const MOSTLY_FULL: f64 = 0.5;
/// A queue that is too long adds more than this to the round trip, in seconds.
const BLOATED_S: f64 = 0.1;
/// A queue that is too long multiplies the round trip by more than this.
const BLOATED: f64 = 2.0;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (direction, report) in found.tcp.each() {
        let Some(report) = report else { continue };
        let lost = [Kind::Loss, Kind::LossyMember, Kind::MtuHole].iter().any(|kind| known(before, *kind, direction));
        causes.extend(of_direction(direction, report, lost));
    }
    if let (Some(idle), Some(loaded)) = (&found.latency, &found.loaded)
        && let (Some(idle), Some(loaded)) = (idle.round_trip, loaded.round_trip)
    {
        let added = loaded.median_s - idle.median_s;
        if added > BLOATED_S && loaded.median_s > idle.median_s * BLOATED {
            let evidence =
                format!("round trips grow from {} to {} while TCP runs", ms(idle.median_s), ms(loaded.median_s));
            let remedy = "a shorter or managed queue (fq_codel, cake) at the bottleneck, or senders that pace";
            causes.push(cause(Kind::Bufferbloat, None, 0.25, evidence, remedy));
        }
    }
    causes
}

/// The cause in one of the hosts that limits a direction: a quota, a window, a buffer, or a processor.
fn of_direction(direction: Direction, report: &Report, lost: bool) -> Option<Cause> {
    let result = report.directions.iter().find(|result| result.direction == direction)?;
    let (sender, receiver) = match direction {
        Direction::Forward => (Segment::NearHost, Segment::FarHost),
        Direction::Reverse => (Segment::FarHost, Segment::NearHost),
    };
    let term = result.expected.iter().find(|term| term.name == result.binding);
    let (from, to) =
        if direction == Direction::Forward { (&report.near, &report.far) } else { (&report.far, &report.near) };
    let ends = [(&sender, from), (&receiver, to)];
    for (segment, end) in &ends {
        if end.host.held_back > HELD_BACK {
            let evidence = format!(
                "a quota of its control group held the program there back {:.0} % of the time",
                end.host.held_back * 100.0
            );
            let remedy = "raise the quota (cpu.max, CPUQuota= of its unit, the limit of its container)";
            return Some(Cause {
                segment: (*segment).clone(),
                ..cause(Kind::Processor, Some(direction), 0.75, evidence, remedy)
            });
        }
    }
    let cause_at = |kind, segment, weight, remedy: &str| {
        let evidence =
            term.map_or_else(|| result.limit.clone(), |term| format!("{} ({})", result.limit, term.evidence));
        Some(Cause { segment, ..cause(kind, Some(direction), weight, evidence, remedy) })
    };
    let window = Window::of(direction, report, result.rate_bit_s as f64);
    match window.as_ref().filter(|window| !lost || window.full > MOSTLY_FULL) {
        Some(window) if !window.is_read() && (window.is_open() || !lost) => {
            let remedy = "find what keeps the receiving program from its processor (top, a quota of its cgroup)";
            let why = window.describe();
            return Some(Cause { segment: receiver, ..cause(Kind::Processor, Some(direction), 0.7, why, remedy) });
        }
        Some(window) if window.is_open() && result.binding == "receive_window" => {
            let remedy = "raise net.ipv4.tcp_rmem and net.core.rmem_max there to twice the bandwidth-delay product";
            return cause_at(Kind::SmallWindow, receiver, 0.7, remedy);
        }
        // The window grows and is read: a longer test would open it.
        _ => {}
    }
    if !lost && result.binding == "send_buffer" {
        let remedy = "raise net.ipv4.tcp_wmem and net.core.wmem_max there to twice the bandwidth-delay product";
        return cause_at(Kind::SmallWindow, sender, 0.7, remedy);
    }
    for (segment, end) in ends.iter().filter(|_| is_starved(&ends[0].1.totals)) {
        let host = &end.host;
        let segment = (*segment).clone();
        if is_taken(host) {
            let evidence = format!(
                "others used {:.0} % of that host's processors during the test, and its hypervisor took {:.0} %",
                host.others() * 100.0,
                host.steal * 100.0
            );
            let remedy = "find who uses them (top), or give transfers processors of their own";
            return Some(Cause { segment, ..cause(Kind::Processor, Some(direction), 0.6, evidence, remedy) });
        }
    }
    let remedy = "more streams on more processors, larger segments (MTU), offloads; `longhaul probe tcp --scan cores`";
    match result.binding.as_str() {
        "cpu_sender" => cause_at(Kind::Processor, sender, 0.5, remedy),
        "cpu_receiver" => cause_at(Kind::Processor, receiver, 0.5, remedy),
        _ => None,
    }
}

/// Whether a host had no processor time left for a test, because other programs or its hypervisor took it.
pub(super) fn is_taken(host: &Use) -> bool {
    host.busy > FULL && host.others().max(host.steal) > TAKEN
}

/// Whether a sender or its receiver could not keep up.
fn is_starved(totals: &[Total]) -> bool {
    let kernels: Vec<_> = totals.iter().filter_map(|total| Some((total, total.flow.kernel?))).collect();
    let busy: f64 = kernels.iter().map(|(_, k)| k.busy_s).sum();
    let full: f64 = kernels.iter().map(|(_, k)| k.receive_window_limited_s).sum();
    let span: f64 = kernels.iter().map(|(total, _)| total.counted_s).sum();
    busy < span * SENDING || full > busy * WINDOW_FULL
}

/// A receive window that was full.
struct Window {
    /// How much of the later half of the test it was full, as a share of the time with data in flight.
    full: f64,
    /// The largest window that was offered.
    offered: u64,
    /// The largest window that the receiving host allows.
    most: u64,
    /// Bytes that were read in a round trip, at the end of the test.
    read_bytes: f64,
}

impl Window {
    /// The window of a report; none where it was hardly ever full.
    fn of(direction: Direction, report: &Report, rate_bit_s: f64) -> Option<Window> {
        let (sender, receiver, intervals) = match direction {
            Direction::Forward => (&report.near, &report.far, &report.intervals),
            Direction::Reverse => (&report.far, &report.near, &report.far_intervals),
        };
        let is_forward = direction == Direction::Forward;
        let kernels: Vec<_> = sender.totals.iter().filter_map(|total| total.flow.kernel).collect();
        // At the beginning every window is small.
        let end_s = intervals.last().map_or(0.0, |interval| interval.end_s);
        let later = intervals.iter().filter(|interval| interval.start_s >= end_s / 2.0).flat_map(|i| &i.flows);
        let later: Vec<_> =
            later.filter(|flow| flow.direction.is_forward() == is_forward).filter_map(|flow| flow.kernel).collect();
        let spans = if later.is_empty() { &kernels } else { &later };
        let busy: f64 = spans.iter().map(|k| k.busy_s).sum();
        let full = spans.iter().map(|k| k.receive_window_limited_s).sum::<f64>() / busy.max(1e-9);
        // The round trip, with the queue on the path, in which these bytes are read.
        let rtt = spans.iter().map(|k| k.rtt_s.max(k.min_rtt_s)).fold(0.0, f64::max);
        // The last interval may be cut short.
        let late = intervals.iter().rev().take(2).map(|interval| {
            interval
                .flows
                .iter()
                .filter(|flow| flow.direction.is_forward() == is_forward)
                .map(|flow| flow.rate_bit_s as f64)
                .sum::<f64>()
        });
        let streams = kernels.len().max(1) as f64;
        let read_bytes = bdp_bytes(late.fold(rate_bit_s, f64::max), rtt) / streams;
        let offered = kernels.iter().map(|k| k.window_bytes).max()?;
        let most = largest(&receiver.host, "net.ipv4.tcp_rmem");
        (full > WINDOW_FULL).then_some(Window { full, offered, most, read_bytes })
    }

    /// Whether the window was opened as far as the host allows, or nearly.
    fn is_open(&self) -> bool {
        self.offered * WINDOW_DIVISOR >= self.most
    }

    /// Whether the receiving program kept up.
    fn is_read(&self) -> bool {
        self.read_bytes >= self.offered as f64 * READ
    }

    /// The evidence that the receiving program does not read, in words.
    fn describe(&self) -> String {
        format!(
            "the receiver's window of {} (its host would open it to {}) is full {:.0} % of the time, and {} are read in a round \
             trip: its program does not read",
            Bytes(self.offered),
            Bytes(self.most),
            self.full * 100.0,
            Bytes(self.read_bytes as u64)
        )
    }
}
