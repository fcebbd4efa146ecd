//! One round of the scheduler, as a pure function: from the queues, the running transfers and the collaboration to their rates, to the transfers
//! that are to begin, and to the reason why each other queue waits.

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

/// A running transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
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
    /// Milliseconds since 1970.
    pub at: i64,
    /// The collaboration.
    pub topology: &'a Topology,
    /// What each resource may be used for, bytes per second.
    pub usable: &'a [f64],
    /// The queues with files that wait or run.
    pub queues: &'a [Queue],
    /// How long the oldest file of each has waited.
    pub waited: &'a HashMap<i64, Duration>,
    /// The running transfers.
    pub running: &'a [Running],
    /// The most that each queue is known to use, bytes per second; queues that are not named may use any rate.
    pub caps: &'a HashMap<i64, f64>,
    /// The state of the promises, for queues with a deadline.
    pub promised: &'a HashMap<i64, PromiseStatus>,
    /// Endpoints that get no new transfers after failures, each with the time until when, as a text.
    pub broken: &'a HashMap<String, String>,
    /// The number of copies at once between the servers of a pair, where only their number can be set.
    pub copies: &'a HashMap<Pair, u32>,
}

/// The decisions of a round.
#[derive(Debug, Default)]
pub struct Plan {
    /// The limit of each running transfer, bytes per second; infinity for none.
    pub limits: HashMap<i64, f64>,
    /// Transfers that are to begin, in this order.
    pub begin: Vec<Begin>,
    /// The decisions with their reasons.
    pub snapshot: Snapshot,
}

/// A transfer that is to begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begin {
    /// The queue that it takes files from.
    pub queue: i64,
    /// Its limit, bytes per second; infinity for none.
    pub limit: f64,
}

/// The shares of the queues. The vectors are in the order of the input's queues.
struct Allocation<'a> {
    look: &'a PlanInput<'a>,
    /// Why nothing of a queue may begin, whatever its rate.
    blocked: Vec<Option<Constraint>>,
    /// What each resource may be used for, bytes per second: those of the collaboration, and behind them one for each job with a limit.
    usable: Vec<f64>,
    /// The resources that a queue crosses.
    paths: Vec<Vec<u32>>,
    /// The rate that a queue's transfers use together, bytes per second.
    used: Vec<f64>,
    /// The share of a queue; none for one that takes no part.
    rates: Vec<Option<Rate>>,
}

/// Decides a round.
pub fn plan(look: &PlanInput<'_>) -> Plan {
    let is_paused = |queue: &Queue| look.topology.is_paused(&queue.key.source, &queue.key.target, &queue.key.community);
    let paused: HashSet<i64> = look.queues.iter().filter(|queue| is_paused(queue)).map(|queue| queue.id).collect();
    let shared = shared(look, &paused);
    let mut snapshot = explain::snapshot(&shared);
    let begin = begin::begin(&shared, &mut snapshot);
    let parts = parts(&shared, &begin);
    let part =
        |queue: i64| if paused.contains(&queue) { 0.0 } else { parts.get(&queue).copied().unwrap_or(f64::INFINITY) };
    Plan {
        limits: look.running.iter().map(|transfer| (transfer.number, part(transfer.queue))).collect(),
        begin: begin.into_iter().map(|queue| Begin { queue, limit: part(queue) }).collect(),
        snapshot,
    }
}

/// Divides the resources among the queues.
fn shared<'a>(look: &'a PlanInput<'a>, paused: &HashSet<i64>) -> Allocation<'a> {
    let blocked: Vec<Option<Constraint>> = look.queues.iter().map(|queue| blocked(look, queue)).collect();
    let path = |queue: &Queue| look.topology.path(&queue.key.source, &queue.key.target, &queue.key.community);
    let mut paths: Vec<Vec<u32>> = look.queues.iter().map(path).collect();
    let usable = with_limits(look, &mut paths);
    let mut used_by: HashMap<i64, f64> = HashMap::new();
    for transfer in look.running {
        *used_by.entry(transfer.queue).or_default() += transfer.rate;
    }
    let used = look.queues.iter().map(|queue| used_by.get(&queue.id).copied().unwrap_or_default()).collect();
    // A queue that waits for another reason than its rate takes no part: the others get its share. Running transfers keep theirs, unless they are to pause.
    let takes_part = |at: &usize| {
        let queue = &look.queues[*at];
        blocked[*at].is_none() || queue.running > 0 && !paused.contains(&queue.id)
    };
    let taking: Vec<usize> = (0..look.queues.len()).filter(takes_part).collect();
    let aggregates: Vec<Aggregate> =
        taking.iter().map(|at| aggregate(look, &look.queues[*at], paths[*at].clone())).collect();
    let mut rates: Vec<Option<Rate>> = vec![None; look.queues.len()];
    for (at, rate) in taking.iter().zip(share(&usable, &aggregates)) {
        rates[*at] = Some(rate);
    }
    Allocation { look, blocked, usable, paths, used, rates }
}

/// What each resource may be used for; the limit of a job is one more, which all queues of the job cross.
fn with_limits(look: &PlanInput<'_>, paths: &mut [Vec<u32>]) -> Vec<f64> {
    let mut usable = look.usable.to_vec();
    let mut of_job: HashMap<i64, u32> = HashMap::new();
    for (queue, path) in look.queues.iter().zip(paths) {
        let Some(limit) = queue.limit else { continue };
        path.push(*of_job.entry(queue.key.limited).or_insert_with(|| {
            usable.push(limit);
            usable.len() as u32 - 1
        }));
    }
    usable
}

/// Why nothing of a queue may begin, whatever rate there is.
fn blocked(look: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
    let key = &queue.key;
    if key.priority == PAUSED {
        let text = "the job is paused: `longhaul queue resume ID` goes on with it".to_owned();
        return Some(Constraint { kind: ConstraintKind::Stopped, name: key.owner.clone(), text });
    }
    if let Some((what, stopped)) = look.topology.stopped(&key.source, &key.target, &key.community) {
        let reason = if stopped.reason.is_empty() { "no reason was given" } else { &stopped.reason };
        let text = format!("{what} is stopped: {reason}");
        return Some(Constraint { kind: ConstraintKind::Stopped, name: what, text });
    }
    if queue.queued > 0 && queue.ready() == 0 {
        let text = format!("{} files are being brought from tape at {}", queue.staging, key.source);
        return Some(Constraint { kind: ConstraintKind::Staging, name: key.source.clone(), text });
    }
    [&key.source, &key.target].into_iter().find_map(|name| {
        let until = look.broken.get(name)?;
        let text = format!("{name} failed several times in a row, and is tried again at {until}");
        Some(Constraint { kind: ConstraintKind::Broken, name: name.clone(), text })
    })
}

fn aggregate(look: &PlanInput<'_>, queue: &Queue, path: Vec<u32>) -> Aggregate {
    let key = &queue.key;
    let (community, activity) = look.topology.shares(&key.community, &key.activity);
    let waited = look.waited.get(&queue.id).copied().unwrap_or_default();
    // The numbers of groups only have to differ: they are hashes of the names.
    let number = |parts: &[&str]| {
        let text = parts.join("\0");
        text.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    let groups = vec![
        Group { number: number(&[&key.community]), weight: community },
        Group { number: number(&[&key.community, &key.activity]), weight: activity },
        Group { number: number(&[&key.community, &key.activity, &key.owner]), weight: 1.0 },
    ];
    let floor = look.promised.get(&queue.id).map_or(0.0, |standing| standing.floor);
    let cap = look.caps.get(&queue.id).copied().unwrap_or(f64::INFINITY);
    let demand = Demand {
        weight: Priority::nearest(key.priority).weight(waited),
        floor,
        // A promised rate is kept free for its queue, whatever it has used so far.
        cap: cap.max(floor),
        path,
    };
    Aggregate { class: Class::Standard, groups, demand }
}

/// The rate that each transfer of a queue may use, counting those that are about to begin.
fn parts(shared: &Allocation<'_>, begin: &[i64]) -> HashMap<i64, f64> {
    let look = shared.look;
    let mut counts: HashMap<i64, u32> = HashMap::new();
    for queue in look.running.iter().map(|transfer| transfer.queue).chain(begin.iter().copied()) {
        *counts.entry(queue).or_default() += 1;
    }
    let part = |(queue, rate): (&Queue, &Option<Rate>)| {
        let count = counts.get(&queue.id).copied()?;
        Some((queue.id, rate.as_ref()?.rate / f64::from(count)))
    };
    look.queues.iter().zip(&shared.rates).filter_map(part).collect()
}

#[cfg(test)]
mod tests;
