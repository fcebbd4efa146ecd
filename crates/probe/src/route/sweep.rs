//! A sweep: many flows that differ in their source port alone, so that each takes one of the paths that routers spread
//! flows over. Finds these paths, and whether one of them is bad.
//!
//! One bad member of a bundle of n links affects only every n-th flow, so a test of one flow either misses it or sees nothing else.
//! Loss is compared by Fisher's exact test, whose power depends on the number of probes: to find 5 % on 4 of 16 flows takes some 200
//! probes for each flow where the flows' hops look alike, and 40 where they do not.

mod odds;
mod paths;
mod suspects;
mod volley;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::route::{End, Sweep, SweepFlow, SweepPath};

use super::drive::{Ending, ScriptedFlow, drive};
use super::echo::Token;
use super::flow::ProbeFlow;
use super::trace::{self, Tracer, path, trace_all};
use crate::{Error, Result, Stop};

use volley::Volley;

/// Flows of one sweep.
pub const FLOWS_MAX: usize = 64;

/// The plan of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The plan of the trace of each flow.
    pub trace: trace::Plan,
    /// Probes to the far end for each flow; up to 10,000.
    pub probes: u32,
    /// Time from one of these probes to the next, over all flows; up to a second.
    pub interval: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        let trace = trace::Plan { queries: 2, ..trace::Plan::default() };
        Plan { trace, probes: 200, interval: Duration::from_millis(1) }
    }
}

impl Plan {
    pub(super) fn check(&self, flows: usize) -> Result<()> {
        let faults = [
            (!(1..=FLOWS_MAX).contains(&flows), "it takes 1 to 64 flows"),
            (self.probes > 10_000, "the probes for each flow are 10,000 at most"),
            (self.interval > Duration::from_secs(1), "the interval is up to 1 s"),
        ];
        match faults.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(Error::Order(format!("a sweep is out of bounds: {what}"))),
            None => Ok(()),
        }
    }
}

/// Hops, loss and round trips of one flow.
#[derive(Clone, Debug, Default)]
struct FlowStats {
    port: u16,
    /// Addresses by hop.
    hops: Vec<Vec<String>>,
    is_reached: bool,
    sent: u32,
    answered: u32,
    /// Unanswered probes that did not reach the far end.
    lost_forward: u32,
    rtt_min_s: Option<f64>,
    rtt_median_s: Option<f64>,
}

/// Sweeps over the flows of connected sockets (see [`super::open`]), all to the same address and port.
///
/// # Errors
/// [`Error::Order`]: the plan is out of bounds. [`Error::Host`]: a socket fails. A silent far end is a result.
pub fn sweep(sockets: &[UdpSocket], token: &Token, plan: &Plan, stop: &Stop) -> Result<Sweep> {
    plan.check(sockets.len())?;
    let start = Instant::now();
    let sockets: Vec<&UdpSocket> = sockets.iter().collect();
    let (traced, mut ending) = trace_all(&sockets, token, &plan.trace, stop)?;
    let mut stats: Vec<FlowStats> = traced.iter().map(|run| flow_stats(run, ending)).collect();
    let mut is_node = false;
    let left = plan.trace.lasts.saturating_sub(start.elapsed());
    if ending == Ending::Done && stats.iter().any(|one| one.is_reached) {
        drop(traced);
        let mut runs = Vec::new();
        for socket in sockets {
            let flow = ProbeFlow::new(socket, *token)?;
            let script = Volley::new(plan.probes, plan.trace.patience, flow.far());
            runs.push(ScriptedFlow { flow, script });
        }
        let pace = super::drive::Pace { interval: plan.interval, lasts: left, ..plan.trace.pace() };
        let begun = Instant::now();
        ending = drive(&mut runs, &pace, stop)?;
        let cut_short = (ending != Ending::Done).then(|| begun.elapsed());
        is_node = runs.iter().any(|run| run.script.is_answered_by_node());
        for (one, run) in stats.iter_mut().zip(&runs) {
            (one.sent, one.answered) = run.script.counts(cut_short);
            one.lost_forward = run.script.lost_forward().min(one.sent.saturating_sub(one.answered));
            (one.rtt_min_s, one.rtt_median_s) = run.script.rtts();
        }
    }
    let end = match ending {
        Ending::OutOfTime => End::OutOfTime,
        Ending::Stopped => End::Interrupted,
        Ending::Done if stats.iter().any(|one| one.is_reached) => End::Reached,
        Ending::Done => End::Silent,
    };
    Ok(Sweep { end, seconds: start.elapsed().as_secs_f64(), ..judge(&stats, is_node) })
}

fn flow_stats(run: &ScriptedFlow<'_, Tracer>, ending: Ending) -> FlowStats {
    let path = path(run, ending, Duration::ZERO);
    let addresses = |hop: &model::v1::probe::route::Hop| {
        let mut all: Vec<String> = hop.routers.iter().map(|router| router.address.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    FlowStats {
        port: run.flow.near().port(),
        hops: path.hops.iter().map(addresses).collect(),
        is_reached: path.end == End::Reached,
        ..FlowStats::default()
    }
}

/// Groups flows by their hops, and finds those with more loss or longer round trips.
fn judge(stats: &[FlowStats], is_node: bool) -> Sweep {
    let groups = paths::group(stats);
    let mut paths = Vec::new();
    let mut flows: Vec<SweepFlow> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let members = || group.flows.iter().map(|flow| &stats[*flow]);
        paths.push(SweepPath {
            ports: members().map(|flow| flow.port).collect(),
            hops: group.hops.iter().map(|hop| hop.iter().cloned().collect()).collect(),
            sent: members().map(|flow| flow.sent).sum(),
            answered: members().map(|flow| flow.answered).sum(),
            rtt_min_s: members().filter_map(|flow| flow.rtt_min_s).reduce(f64::min),
        });
        flows.extend(members().map(|flow| SweepFlow {
            port: flow.port,
            path: number,
            sent: flow.sent,
            answered: flow.answered,
            rtt_min_s: flow.rtt_min_s,
            rtt_median_s: flow.rtt_median_s,
        }));
    }
    flows.sort_by_key(|flow| flow.port);
    let mut suspects = if is_node { suspects::by_loss(stats, &groups) } else { Vec::new() };
    suspects.extend(suspects::by_delay(stats));
    Sweep { flows, paths, suspects, judged: is_node, ..Sweep::default() }
}

#[cfg(test)]
mod tests;
