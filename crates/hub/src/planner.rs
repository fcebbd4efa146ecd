//! One round of the scheduler, as a pure function. From the queues, the running transfers and the collaboration it computes the rates, the
//! transfers that begin, and the reason why each other queue waits.

mod begin;
mod explain;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::v1::hub::{Constraint, ConstraintKind};
use sched::allocation::{Demand, Rate};
use sched::priority::Priority;
use sched::shares::{Aggregate, Class, Group, share};

use crate::database::queues::Queue;
use crate::promises::PromiseStatus;
use crate::snapshot::{Pair, Snapshot};
use crate::states::PAUSED;
use crate::topology::Topology;

/// A running transfer, as the planner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTransfer {
    /// Its number.
    pub number: i64,
    /// Its queue.
    pub queue: i64,
    /// The endpoint that is read.
    pub source: String,
    /// The endpoint that is written.
    pub target: String,
    /// Its rate, bytes per second.
    pub rate: f64,
    /// Bytes of its files.
    pub bytes: i64,
}

/// The input of a round.
#[derive(Debug)]
pub struct PlanInput<'a> {
    /// The time of the round, milliseconds since 1970.
    pub at: i64,
    /// The collaboration.
    pub topology: &'a Topology,
    /// The usable capacity of each resource, bytes per second.
    pub usable: &'a [f64],
    /// The queues with files that wait or run.
    pub queues: &'a [Queue],
    /// How long the oldest file of each queue has waited.
    pub waited: &'a HashMap<i64, Duration>,
    /// The running transfers.
    pub running: &'a [PlannedTransfer],
    /// The most that each queue is known to use, bytes per second; queues that are not named may use any rate.
    pub caps: &'a HashMap<i64, f64>,
    /// The state of the promises, for queues with a deadline.
    pub promised: &'a HashMap<i64, PromiseStatus>,
    /// Endpoints that get no new transfers for a time after failures, each with the end of that time as a text.
    pub broken: &'a HashMap<String, String>,
    /// The number of copies at once between the servers of a pair, for pairs whose rate cannot be limited.
    pub copies: &'a HashMap<Pair, u32>,
}

/// The decisions of a round.
#[derive(Debug, Default)]
pub struct Plan {
    /// The limit of each running transfer, bytes per second; infinity for none.
    pub limits: HashMap<i64, f64>,
    /// Transfers to begin, in this order.
    pub begin: Vec<Begin>,
    /// The decisions with their reasons.
    pub snapshot: Snapshot,
}

/// A transfer to begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begin {
    /// The queue that it takes files from.
    pub queue: i64,
    /// Its limit, bytes per second; infinity for none.
    pub limit: f64,
}

/// The shares of the queues. The vectors are in the order of the input's queues.
struct Allocation<'a> {
    input: &'a PlanInput<'a>,
    /// The reason why a queue may begin nothing, whatever its rate.
    blocked: Vec<Option<Constraint>>,
    /// The usable capacity of each resource, bytes per second: the resources of the collaboration, followed by one for each job with a
    /// limit.
    usable: Vec<f64>,
    /// The resources that a queue crosses.
    paths: Vec<Vec<u32>>,
    /// The rate that a queue's transfers use together, bytes per second.
    used: Vec<f64>,
    /// The share of a queue; `None` for a queue that gets no share.
    rates: Vec<Option<Rate>>,
}

/// Decides a round.
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let is_paused =
        |queue: &Queue| input.topology.is_paused(&queue.key.source, &queue.key.target, &queue.key.community);
    let paused: HashSet<i64> = input.queues.iter().filter(|queue| is_paused(queue)).map(|queue| queue.id).collect();
    let allocation = allocate(input, &paused);
    let mut snapshot = explain::snapshot(&allocation);
    let begin = begin::begin(&allocation, &mut snapshot);
    let limits = transfer_limits(&allocation, &begin);
    let limit =
        |queue: i64| if paused.contains(&queue) { 0.0 } else { limits.get(&queue).copied().unwrap_or(f64::INFINITY) };
    Plan {
        limits: input.running.iter().map(|transfer| (transfer.number, limit(transfer.queue))).collect(),
        begin: begin.into_iter().map(|queue| Begin { queue, limit: limit(queue) }).collect(),
        snapshot,
    }
}

/// Divides the resources among the queues.
fn allocate<'a>(input: &'a PlanInput<'a>, paused: &HashSet<i64>) -> Allocation<'a> {
    let blocked: Vec<Option<Constraint>> = input.queues.iter().map(|queue| blocked(input, queue)).collect();
    let path = |queue: &Queue| input.topology.path(&queue.key.source, &queue.key.target, &queue.key.community);
    let mut paths: Vec<Vec<u32>> = input.queues.iter().map(path).collect();
    let usable = with_limits(input, &mut paths);
    let mut used_by: HashMap<i64, f64> = HashMap::new();
    for transfer in input.running {
        *used_by.entry(transfer.queue).or_default() += transfer.rate;
    }
    let used = input.queues.iter().map(|queue| used_by.get(&queue.id).copied().unwrap_or_default()).collect();
    // A queue that is blocked gets no share: the others get it. Running transfers keep their share, unless they are paused.
    let gets_share = |at: &usize| {
        let queue = &input.queues[*at];
        blocked[*at].is_none() || queue.running > 0 && !paused.contains(&queue.id)
    };
    let sharing: Vec<usize> = (0..input.queues.len()).filter(gets_share).collect();
    let aggregates: Vec<Aggregate> =
        sharing.iter().map(|at| aggregate(input, &input.queues[*at], paths[*at].clone())).collect();
    let mut rates: Vec<Option<Rate>> = vec![None; input.queues.len()];
    for (at, rate) in sharing.iter().zip(share(&usable, &aggregates)) {
        rates[*at] = Some(rate);
    }
    Allocation { input, blocked, usable, paths, used, rates }
}

/// The usable capacity of each resource. The limit of a job is a further resource, which all queues of the job cross.
fn with_limits(input: &PlanInput<'_>, paths: &mut [Vec<u32>]) -> Vec<f64> {
    let mut usable = input.usable.to_vec();
    let mut of_job: HashMap<i64, u32> = HashMap::new();
    for (queue, path) in input.queues.iter().zip(paths) {
        let Some(limit) = queue.limit else { continue };
        path.push(*of_job.entry(queue.key.limited_job).or_insert_with(|| {
            usable.push(limit);
            usable.len() as u32 - 1
        }));
    }
    usable
}

/// The reason why a queue may begin nothing, whatever its rate.
fn blocked(input: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
    let key = &queue.key;
    if key.priority == PAUSED {
        let text = "the job is paused: `longhaul queue resume ID` resumes it".to_owned();
        return Some(Constraint { kind: ConstraintKind::Stopped, name: key.owner.clone(), text });
    }
    if let Some((what, stopped)) = input.topology.stopped(&key.source, &key.target, &key.community) {
        let reason = if stopped.reason.is_empty() { "no reason was given" } else { &stopped.reason };
        let text = format!("{what} is stopped: {reason}");
        return Some(Constraint { kind: ConstraintKind::Stopped, name: what, text });
    }
    if queue.queued > 0 && queue.ready() == 0 {
        let text = format!("{} files are being staged from tape at {}", queue.staging, key.source);
        return Some(Constraint { kind: ConstraintKind::Staging, name: key.source.clone(), text });
    }
    [&key.source, &key.target].into_iter().find_map(|name| {
        let until = input.broken.get(name)?;
        let text = format!("{name} has failed several times in a row; it is tried again at {until}");
        Some(Constraint { kind: ConstraintKind::Broken, name: name.clone(), text })
    })
}

fn aggregate(input: &PlanInput<'_>, queue: &Queue, path: Vec<u32>) -> Aggregate {
    let key = &queue.key;
    let (community, activity) = input.topology.shares(&key.community, &key.activity);
    let waited = input.waited.get(&queue.id).copied().unwrap_or_default();
    // Different groups only need different numbers: these are hashes of the names.
    let number = |parts: &[&str]| {
        let text = parts.join("\0");
        text.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    let groups = vec![
        Group { number: number(&[&key.community]), weight: community },
        Group { number: number(&[&key.community, &key.activity]), weight: activity },
        Group { number: number(&[&key.community, &key.activity, &key.owner]), weight: 1.0 },
    ];
    let floor = input.promised.get(&queue.id).map_or(0.0, |promise| promise.floor);
    let cap = input.caps.get(&queue.id).copied().unwrap_or(f64::INFINITY);
    let demand = Demand {
        weight: Priority::nearest(key.priority).weight(waited),
        floor,
        // A promised rate stays reserved for its queue, whatever it has used so far.
        cap: cap.max(floor),
        path,
    };
    Aggregate { class: Class::Standard, groups, demand }
}

/// The rate that each transfer of a queue may use, the transfers that are about to begin included.
fn transfer_limits(allocation: &Allocation<'_>, begin: &[i64]) -> HashMap<i64, f64> {
    let input = allocation.input;
    let mut counts: HashMap<i64, u32> = HashMap::new();
    for queue in input.running.iter().map(|transfer| transfer.queue).chain(begin.iter().copied()) {
        *counts.entry(queue).or_default() += 1;
    }
    let part = |(queue, rate): (&Queue, &Option<Rate>)| {
        let count = counts.get(&queue.id).copied()?;
        Some((queue.id, rate.as_ref()?.rate / f64::from(count)))
    };
    input.queues.iter().zip(&allocation.rates).filter_map(part).collect()
}

#[cfg(test)]
mod tests;
