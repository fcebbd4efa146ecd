//! Causes that lie in the hosts: windows, processors; and queues that are too long.

use model::units::Bytes;
use model::v1::probe::all::{Cause, Findings, Kind, Segment, Way};
use model::v1::probe::host::Use;
use model::v1::probe::tcp::{Report, Total};

use super::{cause, known, ms};
use crate::host::largest;

/// Share of a host's processors that others use, or a hypervisor takes, from which on a test suffers, where there is
/// nothing left of them.
const TAKEN: f64 = 0.5;
const FULL: f64 = 0.9;
/// Share of the time for which a quota held a program back, from which on it is what limits.
const HELD_BACK: f64 = 0.1;
/// A sender had something on its way for less than this share of the time, or a receiver's window was full for more than
/// that one: hosts that keep up do neither.
const SENDING: f64 = 0.9;
const WINDOW_FULL: f64 = 0.1;
/// A window that is open by less than this part of the buffer is one that nobody empties.
const SHUT: u64 = 6;
/// A queue that adds so much, and so many round trips, delays everything else.
const BLOATED_S: f64 = 0.1;
const BLOATED: f64 = 2.0;

pub(super) fn causes(found: &Findings, before: &[Cause]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (way, report) in found.tcp.each() {
        let Some(report) = report else { continue };
        let lost = [Kind::Loss, Kind::LossyMember, Kind::MtuHole].iter().any(|kind| known(before, *kind, way));
        causes.extend(of_way(way, report, lost));
    }
    if let (Some(idle), Some(loaded)) = (&found.latency, &found.loaded)
        && let (Some(idle), Some(loaded)) = (idle.round_trip, loaded.round_trip)
    {
        let added = loaded.median_s - idle.median_s;
        if added > BLOATED_S && loaded.median_s > idle.median_s * BLOATED {
            let evidence = format!("round trips grow from {} to {} beside TCP", ms(idle.median_s), ms(loaded.median_s));
            let remedy = "a shorter or managed queue (fq_codel, cake) at the bottleneck, or senders that pace";
            causes.push(cause(Kind::Bufferbloat, None, 0.25, evidence, remedy));
        }
    }
    causes
}

/// The term that the result reached, if it is one of a host.
fn of_way(way: Way, report: &Report, lost: bool) -> Option<Cause> {
    let result = report.ways.iter().find(|w| w.up == (way == Way::There))?;
    let (sender, receiver) = match way {
        Way::There => (Segment::NearHost, Segment::FarHost),
        Way::Back => (Segment::FarHost, Segment::NearHost),
    };
    let term = result.expected.iter().find(|term| term.name == result.binding);
    let (from, to) = if way == Way::There { (&report.near, &report.far) } else { (&report.far, &report.near) };
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
                ..cause(Kind::Processor, Some(way), 0.75, evidence, remedy)
            });
        }
    }
    let at = |kind, segment, weight, remedy: &str| {
        let evidence =
            term.map_or_else(|| result.limit.clone(), |term| format!("{} ({})", result.limit, term.evidence));
        Some(Cause { segment, ..cause(kind, Some(way), weight, evidence, remedy) })
    };
    if !lost && result.binding == "receive_window" {
        if let Some(why) = reads_slowly(way, report) {
            let remedy = "find what keeps the receiving program from its processor (top, a quota of its cgroup)";
            return Some(Cause { segment: receiver, ..cause(Kind::Processor, Some(way), 0.7, why, remedy) });
        }
        let remedy = "raise net.ipv4.tcp_rmem and net.core.rmem_max there to twice the bandwidth-delay product";
        return at(Kind::SmallWindow, receiver, 0.7, remedy);
    }
    if !lost && result.binding == "send_buffer" {
        let remedy = "raise net.ipv4.tcp_wmem and net.core.wmem_max there to twice the bandwidth-delay product";
        return at(Kind::SmallWindow, sender, 0.7, remedy);
    }
    for (segment, end) in ends.iter().filter(|_| is_starved(&ends[0].1.totals)) {
        let (host, segment) = (&end.host, (*segment).clone());
        if is_taken(host) {
            let evidence = format!(
                "others used {:.0} % of that host's processors during the test, and its hypervisor took {:.0} %",
                host.others() * 100.0,
                host.steal * 100.0
            );
            let remedy = "find who uses them (top), or give transfers processors of their own";
            return Some(Cause { segment, ..cause(Kind::Processor, Some(way), 0.6, evidence, remedy) });
        }
    }
    let remedy = "more streams on more processors, larger segments (MTU), offloads; `longhaul probe tcp --scan cores`";
    match result.binding.as_str() {
        "cpu_sender" => at(Kind::Processor, sender, 0.5, remedy),
        "cpu_receiver" => at(Kind::Processor, receiver, 0.5, remedy),
        _ => None,
    }
}

/// Whether a host had nothing left for a test because others took it, or its hypervisor did.
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

/// A window that was full and that the receiver did not open as far as its host would let it: nobody read what had come.
fn reads_slowly(way: Way, report: &Report) -> Option<String> {
    let (sender, receiver) = match way {
        Way::There => (&report.near, &report.far),
        Way::Back => (&report.far, &report.near),
    };
    let kernels: Vec<_> = sender.totals.iter().filter_map(|total| total.flow.kernel).collect();
    let offered = kernels.iter().map(|k| k.window_bytes).max()?;
    let most = largest(&receiver.host, "net.ipv4.tcp_rmem");
    (offered < most / SHUT).then(|| {
        let (offered, most) = (Bytes(offered), Bytes(most));
        format!("the receiver keeps its window at {offered}, though its host would open it to {most}: its program does not read")
    })
}
