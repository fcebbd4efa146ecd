//! The decisions of a round with their reasons: the share of each queue, what bounds it, which other queues share that resource, and how much of
//! each resource is used.

use std::cmp::Reverse;

use model::v1::hub::{Constraint, ConstraintKind, ResourceLine};
use sched::allocation::{Binding, Rate};

use super::Allocation;
use crate::database::queues::Queue;
use crate::snapshot::{Decision, Snapshot};
use crate::topology::ResourceOf;

/// Other queues of a resource that are named.
const NAMED_MAX: usize = 10;

pub(super) fn snapshot(shared: &Allocation<'_>) -> Snapshot {
    let look = shared.look;
    let mut snapshot = Snapshot { at: look.at, ..Snapshot::default() };
    let users = users(shared);
    for (at, queue) in look.queues.iter().enumerate() {
        let (rate, used) = (shared.rates[at], shared.used[at]);
        let mut decision = Decision { rate: rate.map_or(0.0, |rate| rate.rate), used, ..Decision::default() };
        match (&shared.blocked[at], rate) {
            (Some(constraint), _) => decision.constraint = constraint.clone(),
            (None, Some(Rate { binding: Binding::Resource(resource), .. })) => {
                decision.is_bound = true;
                (decision.constraint, decision.held_by) = bound(shared, at, resource, &users[resource as usize]);
            }
            (None, _) => {}
        }
        decision.promised = look.promised.get(&queue.id).copied();
        snapshot.queues.insert(queue.id, decision);
    }
    let bits = |bytes: f64| (bytes * 8.0).round() as u64;
    for ((resource, usable), users) in look.topology.resources.iter().zip(look.usable).zip(&users) {
        snapshot.resources.push(ResourceLine {
            name: resource.of.name(),
            usable_bit_s: bits(*usable),
            allocated_bit_s: bits(users.allocated),
            used_bit_s: bits(users.used),
        });
    }
    snapshot
}

/// The queues that cross a resource.
#[derive(Clone, Default)]
struct Users {
    /// The shares of all of them together, bytes per second; and the rate that they use.
    allocated: f64,
    used: f64,
    /// Their indices, the largest shares first; no more than are named.
    largest: Vec<usize>,
}

fn users(shared: &Allocation<'_>) -> Vec<Users> {
    let mut users = vec![Users::default(); shared.usable.len()];
    for (at, path) in shared.paths.iter().enumerate() {
        for resource in path {
            let users = &mut users[*resource as usize];
            users.used += shared.used[at];
            if let Some(Rate { rate, .. }) = shared.rates[at] {
                users.allocated += rate;
                users.largest.push(at);
            }
        }
    }
    let rate = |at: &usize| shared.rates[*at].map_or(0.0, |rate| rate.rate);
    for users in &mut users {
        // A queue is not named to itself: one more is kept than are named.
        users.largest.sort_by_key(|at| Reverse(rate(at).to_bits()));
        users.largest.truncate(NAMED_MAX + 1);
    }
    users
}

/// The resource that bounds a queue, and the other queues that share it.
fn bound(shared: &Allocation<'_>, at: usize, resource: u32, users: &Users) -> (Constraint, Vec<String>) {
    let rate = |at: usize| shared.rates[at].map_or(0.0, |rate| rate.rate);
    let usable = shared.usable[resource as usize];
    let Some(described) = shared.look.topology.resources.get(resource as usize) else {
        let text = format!("somebody has limited the job to {}", megabits(usable));
        let name = shared.look.queues[at].key.owner.clone();
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
        let Queue { key, .. } = &shared.look.queues[other];
        format!("{}/{} of {}: {}", key.community, key.activity, key.owner, megabits(rate(other)))
    };
    let others = users.largest.iter().copied().filter(|other| *other != at).take(NAMED_MAX);
    (Constraint { kind, name, text }, others.map(line).collect())
}

fn megabits(bytes: f64) -> String {
    format!("{:.1} Mbit/s", bytes * 8.0 / 1e6)
}
