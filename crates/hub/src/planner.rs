//! One look of the scheduler, as a pure function: from the queues, the transfers that run and the collaboration to rates, to what is to begin,
//! and to the reason why each of the others waits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::v1::hub::{Constraint, ConstraintKind, ResourceLine};
use sched::allocation::{Binding, Demand, Rate};
use sched::priority::Priority;
use sched::shares::{Aggregate, Class, Group, share};

use crate::database::queues::Queue;
use crate::promises::Standing;
use crate::snapshot::{Decision, Snapshot};
use crate::topology::Topology;

/// Transfers of one queue at once. Each fills its path by itself; a few of them hide the pauses between files.
pub const QUEUE_TRANSFERS_MAX: u32 = 4;

/// A transfer that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Its number.
    pub number: i64,
    /// The queue that it is of.
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

/// What a look sees.
#[derive(Debug)]
pub struct Look<'a> {
    /// Milliseconds since 1970.
    pub at: i64,
    /// The collaboration.
    pub topology: &'a Topology,
    /// What each resource may be used for, bytes per second.
    pub usable: &'a [f64],
    /// The queues in which something waits or moves.
    pub queues: &'a [Queue],
    /// How long the oldest file of each has waited.
    pub waited: &'a HashMap<i64, Duration>,
    /// The transfers that run.
    pub running: &'a [Running],
    /// The most that each queue is known to use, bytes per second; those that are not named may use any rate.
    pub caps: &'a HashMap<i64, f64>,
    /// How the promises of queues with a deadline stand.
    pub promised: &'a HashMap<i64, Standing>,
    /// Endpoints that are left in peace, and until when, for people.
    pub broken: &'a HashMap<String, String>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// The limit of each transfer that runs, bytes per second; infinity for none.
    pub limits: HashMap<i64, f64>,
    /// Transfers that are to begin, in this order.
    pub begin: Vec<Begin>,
    /// What was decided, and why.
    pub snapshot: Snapshot,
}

/// A transfer that is to begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begin {
    /// Of this queue.
    pub queue: i64,
    /// With this limit, bytes per second; infinity for none.
    pub limit: f64,
}

/// Decides.
pub fn plan(look: &Look<'_>) -> Plan {
    let blocked: Vec<Option<Constraint>> = look.queues.iter().map(|queue| blocked(look, queue)).collect();
    let aggregates: Vec<Aggregate> = look.queues.iter().map(|queue| aggregate(look, queue)).collect();
    let is_paused = |queue: &Queue| look.topology.is_paused(&queue.key.source, &queue.key.target, &queue.key.community);
    let paused: HashSet<i64> = look.queues.iter().filter(|queue| is_paused(queue)).map(|queue| queue.id).collect();
    // What waits for other reasons than rates takes no part: its share is for the others. What runs keeps what it has, unless it is to pause.
    let takes_part = |at: &usize| {
        let queue = &look.queues[*at];
        blocked[*at].is_none() || queue.running > 0 && !paused.contains(&queue.id)
    };
    let taking: Vec<usize> = (0..look.queues.len()).filter(takes_part).collect();
    let shared: Vec<Aggregate> = taking.iter().map(|at| aggregates[*at].clone()).collect();
    let mut rates: Vec<Option<Rate>> = vec![None; look.queues.len()];
    for (at, rate) in taking.iter().zip(share(look.usable, &shared)) {
        rates[*at] = Some(rate);
    }
    let mut plan = Plan { snapshot: snapshot(look, &blocked, &rates), ..Plan::default() };
    let begin = begin(look, &blocked, &rates, &mut plan.snapshot);
    let parts = parts(look, &rates, &begin);
    let part = |queue: i64| match paused.contains(&queue) {
        true => 0.0,
        false => parts.get(&queue).copied().unwrap_or(f64::INFINITY),
    };
    plan.limits = look.running.iter().map(|transfer| (transfer.number, part(transfer.queue))).collect();
    plan.begin = begin.into_iter().map(|queue| Begin { queue, limit: part(queue) }).collect();
    plan
}

/// Why nothing of a queue may begin, whatever rate there is.
fn blocked(look: &Look<'_>, queue: &Queue) -> Option<Constraint> {
    let key = &queue.key;
    if let Some((what, stopped)) = look.topology.stopped(&key.source, &key.target, &key.community) {
        let reason = if stopped.reason.is_empty() { "no reason was given" } else { &stopped.reason };
        let text = format!("{what} is stopped: {reason}");
        return Some(Constraint { kind: ConstraintKind::Stopped, name: what, text });
    }
    [&key.source, &key.target].into_iter().find_map(|name| {
        let until = look.broken.get(name)?;
        let text = format!("{name} failed several times in a row, and is tried again at {until}");
        Some(Constraint { kind: ConstraintKind::Broken, name: name.clone(), text })
    })
}

fn aggregate(look: &Look<'_>, queue: &Queue) -> Aggregate {
    let key = &queue.key;
    let (community, activity) = look.topology.shares(&key.community, &key.activity);
    let waited = look.waited.get(&queue.id).copied().unwrap_or_default();
    // Numbers of groups only have to differ: they are made of the names.
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
        // What is promised is kept free for it, whatever it has used so far.
        cap: cap.max(floor),
        path: look.topology.path(&key.source, &key.target, &key.community),
    };
    Aggregate { class: Class::Standard, groups, demand }
}

fn megabits(bytes: f64) -> String {
    format!("{:.1} Mbit/s", bytes * 8.0 / 1e6)
}

fn used(look: &Look<'_>, queue: i64) -> f64 {
    look.running.iter().filter(|transfer| transfer.queue == queue).map(|transfer| transfer.rate).sum()
}

fn snapshot(look: &Look<'_>, blocked: &[Option<Constraint>], rates: &[Option<Rate>]) -> Snapshot {
    let mut snapshot = Snapshot { at: look.at, ..Snapshot::default() };
    for (at, queue) in look.queues.iter().enumerate() {
        let used = used(look, queue.id);
        let decision = match (&blocked[at], rates[at]) {
            (Some(constraint), rate) => Decision {
                rate: rate.map_or(0.0, |rate| rate.rate),
                used,
                constraint: constraint.clone(),
                ..Decision::default()
            },
            (None, Some(Rate { rate, binding: Binding::Resource(resource) })) => {
                let (constraint, held_by) = bound(look, queue, rates, resource, rate);
                Decision { rate, used, constraint, held_by, promised: None }
            }
            (None, rate) => Decision { rate: rate.map_or(0.0, |rate| rate.rate), used, ..Decision::default() },
        };
        let promised = look.promised.get(&queue.id).copied();
        snapshot.queues.insert(queue.id, Decision { promised, ..decision });
    }
    for (at, resource) in look.topology.resources.iter().enumerate() {
        let users = look.queues.iter().enumerate().filter(|(_, queue)| crosses(look, queue, at as u32));
        let (mut allocated, mut in_use) = (0.0, 0.0);
        for (place, queue) in users {
            allocated += rates[place].map_or(0.0, |rate| rate.rate);
            in_use += used(look, queue.id);
        }
        let bits = |bytes: f64| (bytes * 8.0).round() as u64;
        snapshot.resources.push(ResourceLine {
            name: resource.of.name(),
            usable_bit_s: bits(look.usable[at]),
            allocated_bit_s: bits(allocated),
            used_bit_s: bits(in_use),
        });
    }
    snapshot
}

fn crosses(look: &Look<'_>, queue: &Queue, resource: u32) -> bool {
    look.topology.path(&queue.key.source, &queue.key.target, &queue.key.community).contains(&resource)
}

/// The resource that keeps a queue from more, and who else has a part of it.
fn bound(
    look: &Look<'_>,
    queue: &Queue,
    rates: &[Option<Rate>],
    resource: u32,
    rate: f64,
) -> (Constraint, Vec<String>) {
    use crate::topology::ResourceOf;
    let described = &look.topology.resources[resource as usize];
    let kind = match described.of {
        ResourceOf::Link { .. } => ConstraintKind::Link,
        ResourceOf::EndpointOut(_) | ResourceOf::EndpointIn(_) => ConstraintKind::Endpoint,
        ResourceOf::Community(_) => ConstraintKind::Community,
    };
    let usable = look.usable[resource as usize];
    let name = described.of.name();
    let text = format!("{name} gives {} to all, {} of it to this queue", megabits(usable), megabits(rate));
    let mut held: Vec<(f64, String)> = look
        .queues
        .iter()
        .enumerate()
        .filter(|(_, other)| other.id != queue.id && crosses(look, other, resource))
        .filter_map(|(at, other)| Some((rates[at]?.rate, other)))
        .map(|(rate, other)| {
            let key = &other.key;
            (rate, format!("{}/{} of {}: {}", key.community, key.activity, key.owner, megabits(rate)))
        })
        .collect();
    held.sort_by(|a, b| b.0.total_cmp(&a.0));
    held.truncate(10);
    (Constraint { kind, name, text }, held.into_iter().map(|(_, text)| text).collect())
}

/// What each transfer of a queue may use, with those that are about to begin.
fn parts(look: &Look<'_>, rates: &[Option<Rate>], begin: &[i64]) -> HashMap<i64, f64> {
    let mut counts: HashMap<i64, u32> = HashMap::new();
    for queue in look.running.iter().map(|transfer| transfer.queue).chain(begin.iter().copied()) {
        *counts.entry(queue).or_default() += 1;
    }
    let part = |(queue, rate): (&Queue, &Option<Rate>)| {
        let count = counts.get(&queue.id).copied()?;
        Some((queue.id, rate.as_ref()?.rate / f64::from(count)))
    };
    look.queues.iter().zip(rates).filter_map(part).collect()
}

/// Which queues begin a transfer: the one with the fewest for its weight comes first, as long as both endpoints have room.
fn begin(look: &Look<'_>, blocked: &[Option<Constraint>], rates: &[Option<Rate>], snapshot: &mut Snapshot) -> Vec<i64> {
    let mut outgoing: HashMap<&str, u32> = HashMap::new();
    let mut incoming: HashMap<&str, u32> = HashMap::new();
    let mut own: HashMap<i64, u32> = HashMap::new();
    for transfer in look.running {
        *outgoing.entry(&transfer.source).or_default() += 1;
        *incoming.entry(&transfer.target).or_default() += 1;
        *own.entry(transfer.queue).or_default() += 1;
    }
    let mut waiting: Vec<(usize, i64)> = look.queues.iter().enumerate().map(|(at, queue)| (at, queue.queued)).collect();
    waiting
        .retain(|(at, queued)| *queued > 0 && blocked[*at].is_none() && rates[*at].is_some_and(|rate| rate.rate > 0.0));
    let mut begin = Vec::new();
    while !waiting.is_empty() {
        let turn = |(at, _): &(usize, i64)| {
            let queue = &look.queues[*at];
            let weight = Priority::nearest(queue.key.priority).weight(Duration::ZERO);
            let is_due = look.promised.get(&queue.id).is_some_and(|standing| standing.floor > 0.0);
            if is_due && !own.contains_key(&queue.id) {
                return 0.0;
            }
            f64::from(own.get(&queue.id).copied().unwrap_or(0) + 1) / weight
        };
        let next = (0..waiting.len()).min_by(|a, b| turn(&waiting[*a]).total_cmp(&turn(&waiting[*b])));
        let Some(next) = next else { break };
        let queue = &look.queues[waiting[next].0];
        let key = &queue.key;
        let full = full(look, key, &outgoing, &incoming).or_else(|| no_space(look, queue));
        if full.is_some() || own.get(&queue.id).copied().unwrap_or(0) >= QUEUE_TRANSFERS_MAX {
            if let (Some(constraint), Some(decision)) = (full, snapshot.queues.get_mut(&queue.id)) {
                decision.constraint = constraint;
            }
            waiting.swap_remove(next);
            continue;
        }
        begin.push(queue.id);
        *own.entry(queue.id).or_default() += 1;
        *outgoing.entry(&key.source).or_default() += 1;
        *incoming.entry(&key.target).or_default() += 1;
        waiting[next].1 -= 1;
        if waiting[next].1 == 0 {
            waiting.swap_remove(next);
        }
    }
    begin
}

/// Whether what is under way to the target has taken the space that the next files of a queue need, about.
fn no_space(look: &Look<'_>, queue: &Queue) -> Option<Constraint> {
    let name = &queue.key.target;
    let space = look.topology.space_bytes(name)?;
    let taken: i64 =
        look.queues.iter().filter(|other| other.key.target == *name).map(|other| other.running_bytes).sum();
    let file = queue.queued_bytes / queue.queued.max(1);
    if taken == 0 || space - taken >= file {
        return None;
    }
    let show = |bytes: i64| model::Bytes(bytes.max(0) as u64);
    let text =
        format!("{name} has space for {} of what the hub brings, and {} of it is reserved", show(space), show(taken));
    Some(Constraint { kind: ConstraintKind::Space, name: name.clone(), text })
}

/// Which of the two endpoints has as many transfers as it may have.
fn full(
    look: &Look<'_>,
    key: &crate::database::submissions::QueueKey,
    outgoing: &HashMap<&str, u32>,
    incoming: &HashMap<&str, u32>,
) -> Option<Constraint> {
    let out = (outgoing.get(key.source.as_str()).copied().unwrap_or(0), look.topology.transfers_max(&key.source).0);
    let into = (incoming.get(key.target.as_str()).copied().unwrap_or(0), look.topology.transfers_max(&key.target).1);
    let (name, most) = match (out, into) {
        ((has, most), _) if has >= most => (&key.source, most),
        (_, (has, most)) if has >= most => (&key.target, most),
        _ => return None,
    };
    let text = format!("{name} has all the transfers at once that it may have: {most}");
    Some(Constraint { kind: ConstraintKind::Transfers, name: name.clone(), text })
}

#[cfg(test)]
mod tests;
