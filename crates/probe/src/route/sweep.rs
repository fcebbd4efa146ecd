//! A sweep: many flows that differ in their source port alone, so that each takes one of the paths that routers spread
//! flows over; which paths there are, and whether one of them is bad.
//!
//! One bad member of a bundle of n spoils every n-th flow and nothing else: a test of one flow misses it or finds
//! nothing else. Loss is compared by Fisher's exact test; how much it sees depends on the number of probes: 5 % on 4
//! of 16 flows takes some 200 probes for each flow where the flows' hops look alike, and 40 where they do not.

mod odds;
mod paths;
mod suspects;
mod volley;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::route::{End, Sweep, SweepFlow, SweepPath};

use super::drive::{Ending, Run, drive};
use super::echo::Token;
use super::flow::Flow;
use super::trace::{self, Tracer, path, trace_all};
use crate::{Error, Result, Stop};

use volley::Volley;

/// Flows of one sweep.
pub const FLOWS_MAX: usize = 64;

/// How to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For the hops of each flow.
    pub trace: trace::Plan,
    /// Probes to the far end for each flow; up to 10,000.
    pub probes: u32,
    /// From one of these to the next, over all flows; up to a second.
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
        match faults.iter().find(|(is_so, _)| *is_so) {
            Some((_, what)) => Err(Error::Order(format!("a sweep cannot be made like that: {what}"))),
            None => Ok(()),
        }
    }
}

/// What is known of one flow.
#[derive(Clone, Debug, Default)]
struct Known {
    port: u16,
    /// Addresses by hop.
    hops: Vec<Vec<String>>,
    is_reached: bool,
    sent: u32,
    answered: u32,
    /// Of those not answered, the ones that the far end did not get.
    lost_forward: u32,
    rtt_min_s: Option<f64>,
    rtt_median_s: Option<f64>,
}

/// Sweeps over the flows of connected sockets (see [`super::open`]), all to the same address and port.
///
/// # Errors
/// The plan makes no sense, or a socket fails. That nobody answers is a result.
pub fn sweep(sockets: &[UdpSocket], token: &Token, plan: &Plan, stop: &Stop) -> Result<Sweep> {
    plan.check(sockets.len())?;
    let start = Instant::now();
    let sockets: Vec<&UdpSocket> = sockets.iter().collect();
    let (traced, ending) = trace_all(&sockets, token, &plan.trace, stop)?;
    let mut known: Vec<Known> = traced.iter().map(|run| know(run, ending)).collect();
    let (mut ending, mut is_node) = (ending, false);
    let left = plan.trace.lasts.saturating_sub(start.elapsed());
    if ending == Ending::Done && known.iter().any(|one| one.is_reached) {
        drop(traced);
        let mut runs = Vec::new();
        for socket in sockets {
            let flow = Flow::new(socket, *token)?;
            let script = Volley::new(plan.probes, plan.trace.patience, flow.far());
            runs.push(Run { flow, script });
        }
        let pace = super::drive::Pace { interval: plan.interval, lasts: left, ..plan.trace.pace() };
        let begun = Instant::now();
        ending = drive(&mut runs, &pace, stop)?;
        let broken_off = (ending != Ending::Done).then(|| begun.elapsed());
        is_node = runs.iter().any(|run| run.script.is_answered_by_node());
        for (one, run) in known.iter_mut().zip(&runs) {
            (one.sent, one.answered) = run.script.counts(broken_off);
            one.lost_forward = run.script.lost_forward().min(one.sent.saturating_sub(one.answered));
            (one.rtt_min_s, one.rtt_median_s) = run.script.rtts();
        }
    }
    let end = match ending {
        Ending::OutOfTime => End::OutOfTime,
        Ending::Stopped => End::Interrupted,
        Ending::Done if known.iter().any(|one| one.is_reached) => End::Reached,
        Ending::Done => End::Silent,
    };
    Ok(Sweep { end, seconds: start.elapsed().as_secs_f64(), ..judge(&known, is_node) })
}

fn know(run: &Run<'_, Tracer>, ending: Ending) -> Known {
    let path = path(run, ending, Duration::ZERO);
    let addresses = |hop: &model::v1::probe::route::Hop| {
        let mut all: Vec<String> = hop.routers.iter().map(|router| router.address.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    Known {
        port: run.flow.near().port(),
        hops: path.hops.iter().map(addresses).collect(),
        is_reached: path.end == End::Reached,
        ..Known::default()
    }
}

/// Groups flows by their hops, and finds those that fare worse.
fn judge(known: &[Known], is_node: bool) -> Sweep {
    let groups = paths::group(known);
    let mut paths = Vec::new();
    let mut flows: Vec<SweepFlow> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let its = || group.flows.iter().map(|flow| &known[*flow]);
        paths.push(SweepPath {
            ports: its().map(|one| one.port).collect(),
            hops: group.hops.iter().map(|hop| hop.iter().cloned().collect()).collect(),
            sent: its().map(|one| one.sent).sum(),
            answered: its().map(|one| one.answered).sum(),
            rtt_min_s: its().filter_map(|one| one.rtt_min_s).reduce(f64::min),
        });
        flows.extend(its().map(|one| SweepFlow {
            port: one.port,
            path: number,
            sent: one.sent,
            answered: one.answered,
            rtt_min_s: one.rtt_min_s,
            rtt_median_s: one.rtt_median_s,
        }));
    }
    flows.sort_by_key(|flow| flow.port);
    let mut found = if is_node { suspects::by_loss(known, &groups) } else { Vec::new() };
    found.extend(suspects::by_delay(known));
    Sweep { flows, paths, suspects: found, judged: is_node, ..Sweep::default() }
}

#[cfg(test)]
mod tests;
