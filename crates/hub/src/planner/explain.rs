//! The decisions of a round with their reasons: the share of each queue, the resource that bounds it, the other queues that share this
//! resource, and the use of each resource.

use std::cmp::Reverse;

use model::v1::hub::{Constraint, ConstraintKind, ResourceLine};
use sched::allocation::{Binding, Rate};

use super::Allocation;
use crate::database::queues::Queue;
use crate::snapshot::{Decision, Snapshot};
use crate::topology::ResourceOf;

/// The most other queues of a resource that are named.
const NAMED_MAX: usize = 10;

/// The snapshot of the decisions of a round.
pub(super) fn snapshot(allocation: &Allocation<'_>) -> Snapshot {
    let input = allocation.input;
    let mut snapshot = Snapshot { at: input.at, ..Snapshot::default() };
    let uses = uses(allocation);
    for (at, queue) in input.queues.iter().enumerate() {
        let (rate, used) = (allocation.rates[at], allocation.used[at]);
        let mut decision = Decision { rate: rate.map_or(0.0, |rate| rate.rate), used, ..Decision::default() };
        match (&allocation.blocked[at], rate) {
            (Some(constraint), _) => decision.constraint = constraint.clone(),
            (None, Some(Rate { binding: Binding::Resource(resource), .. })) => {
                decision.is_bound = true;
                (decision.constraint, decision.held_by) = bound(allocation, at, resource, &uses[resource as usize]);
            }
            (None, _) => {}
        }
        decision.promised = input.promised.get(&queue.id).copied();
        snapshot.queues.insert(queue.id, decision);
    }
    let bits = |bytes: f64| (bytes * 8.0).round() as u64;
    for ((resource, usable), resource_use) in input.topology.resources.iter().zip(input.usable).zip(&uses) {
        snapshot.resources.push(ResourceLine {
            name: resource.of.name(),
            usable_bit_s: bits(*usable),
            allocated_bit_s: bits(resource_use.allocated),
            used_bit_s: bits(resource_use.used),
        });
    }
    snapshot
}

/// The use of a resource by the queues that cross it.
#[derive(Clone, Default)]
struct ResourceUse {
    /// The shares of all of them together, bytes per second.
    allocated: f64,
    /// The rate that all of them use together, bytes per second.
    used: f64,
    /// The indices of the queues with the largest shares, the largest first.
    largest: Vec<usize>,
}

fn uses(allocation: &Allocation<'_>) -> Vec<ResourceUse> {
    let mut uses = vec![ResourceUse::default(); allocation.usable.len()];
    for (at, path) in allocation.paths.iter().enumerate() {
        for resource in path {
            let resource_use = &mut uses[*resource as usize];
            resource_use.used += allocation.used[at];
            if let Some(Rate { rate, .. }) = allocation.rates[at] {
                resource_use.allocated += rate;
                resource_use.largest.push(at);
            }
        }
    }
    let rate = |at: &usize| allocation.rates[*at].map_or(0.0, |rate| rate.rate);
    for resource_use in &mut uses {
        // The explanation of a queue does not name the queue itself: one more is kept than is named.
        resource_use.largest.sort_by_key(|at| Reverse(rate(at).to_bits()));
        resource_use.largest.truncate(NAMED_MAX + 1);
    }
    uses
}

/// The resource that bounds a queue, and the other queues that share it.
fn bound(
    allocation: &Allocation<'_>,
    at: usize,
    resource: u32,
    resource_use: &ResourceUse,
) -> (Constraint, Vec<String>) {
    let rate = |at: usize| allocation.rates[at].map_or(0.0, |rate| rate.rate);
    let usable = allocation.usable[resource as usize];
    let Some(described) = allocation.input.topology.resources.get(resource as usize) else {
        let text = format!("the job has a rate limit of {}", megabits(usable));
        let name = allocation.input.queues[at].key.owner.clone();
        return (Constraint { kind: ConstraintKind::Limit, name, text }, Vec::new());
    };
    let kind = match described.of {
        ResourceOf::Link { .. } => ConstraintKind::Link,
        ResourceOf::EndpointOut(_) | ResourceOf::EndpointIn(_) => ConstraintKind::Endpoint,
        ResourceOf::Community(_) => ConstraintKind::Community,
    };
    let name = described.of.name();
    let text = format!("{name} gives {} to all, {} of it to this queue", megabits(usable), megabits(rate(at)));
    let line = |other: usize| {
        let Queue { key, .. } = &allocation.input.queues[other];
        format!("{}/{} of {}: {}", key.community, key.activity, key.owner, megabits(rate(other)))
    };
    let others = resource_use.largest.iter().copied().filter(|other| *other != at).take(NAMED_MAX);
    (Constraint { kind, name, text }, others.map(line).collect())
}

fn megabits(bytes: f64) -> String {
    format!("{:.1} Mbit/s", bytes * 8.0 / 1e6)
}
