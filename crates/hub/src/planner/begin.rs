//! Selects the queues that begin a transfer: the queue with the fewest transfers for its weight comes first, as long as both endpoints have
//! room.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use model::v1::hub::{Constraint, ConstraintKind};
use sched::limits::QUEUE_TRANSFERS_MAX;
use sched::priority::Priority;

use super::{Allocation, PlanInput};
use crate::database::queues::Queue;
use crate::snapshot::Snapshot;

/// The queues that begin a transfer, in order; a queue that begins several transfers is listed several times. The snapshot gets the reason
/// why the others do not.
pub(super) fn begin(allocation: &Allocation<'_>, snapshot: &mut Snapshot) -> Vec<i64> {
    let input = allocation.input;
    let mut occupancy = Occupancy::new(input);
    let may_begin = |at: &usize| {
        let has_rate = allocation.rates[*at].is_some_and(|rate| rate.rate > 0.0);
        input.queues[*at].ready() > 0 && allocation.blocked[*at].is_none() && has_rate
    };
    let mut left: Vec<i64> = input.queues.iter().map(Queue::ready).collect();
    let mut waiting: BTreeSet<(u64, usize)> =
        (0..input.queues.len()).filter(may_begin).map(|at| (occupancy.turn(input, at), at)).collect();
    let mut begin = Vec::new();
    while let Some((_, at)) = waiting.pop_first() {
        let queue = &input.queues[at];
        match occupancy.room(input, queue) {
            Headroom::None(constraint) => {
                if let Some(decision) = snapshot.queues.get_mut(&queue.id) {
                    decision.constraint = constraint;
                }
            }
            Headroom::QueueFull => {}
            Headroom::One => {
                begin.push(queue.id);
                occupancy.take(queue);
                left[at] -= 1;
                if left[at] > 0 {
                    waiting.insert((occupancy.turn(input, at), at));
                }
            }
        }
    }
    begin
}

/// Whether a queue may have one more transfer.
enum Headroom {
    One,
    /// The queue has [`QUEUE_TRANSFERS_MAX`] transfers.
    QueueFull,
    None(Constraint),
}

/// The slots and bytes that are taken by transfers that run or are about to begin.
struct Occupancy<'a> {
    /// Transfers by source endpoint.
    outgoing: HashMap<&'a str, u32>,
    /// Transfers by target endpoint.
    incoming: HashMap<&'a str, u32>,
    /// Transfers by queue.
    by_queue: HashMap<i64, u32>,
    /// Copies between the servers of a pair, and their bound.
    copies: HashMap<(&'a str, &'a str), (u32, u32)>,
    /// Bytes on their way to an endpoint.
    bytes: HashMap<&'a str, i64>,
}

impl<'a> Occupancy<'a> {
    fn new(input: &'a PlanInput<'a>) -> Occupancy<'a> {
        let mut bytes: HashMap<&str, i64> = HashMap::new();
        for queue in input.queues {
            *bytes.entry(&queue.key.target).or_default() += queue.running_bytes;
        }
        let most = input.copies.iter().map(|((source, target), most)| ((source.as_str(), target.as_str()), (0, *most)));
        let mut occupancy = Occupancy {
            outgoing: HashMap::new(),
            incoming: HashMap::new(),
            by_queue: HashMap::new(),
            copies: most.collect(),
            bytes,
        };
        for transfer in input.running {
            occupancy.add(transfer.queue, &transfer.source, &transfer.target);
        }
        occupancy
    }

    fn add(&mut self, queue: i64, source: &'a str, target: &'a str) {
        *self.outgoing.entry(source).or_default() += 1;
        *self.incoming.entry(target).or_default() += 1;
        *self.by_queue.entry(queue).or_default() += 1;
        if let Some((copies, _)) = self.copies.get_mut(&(source, target)) {
            *copies += 1;
        }
    }

    fn take(&mut self, queue: &'a Queue) {
        self.add(queue.id, &queue.key.source, &queue.key.target);
    }

    fn transfers_of(&self, queue: &Queue) -> u32 {
        self.by_queue.get(&queue.id).copied().unwrap_or(0)
    }

    /// The key that queues take turns by, the smallest first. The bits of non-negative floats sort like the floats.
    fn turn(&self, input: &PlanInput<'_>, at: usize) -> u64 {
        let queue = &input.queues[at];
        let is_due = input.promised.get(&queue.id).is_some_and(|promise| promise.floor > 0.0);
        if is_due && self.transfers_of(queue) == 0 {
            return 0;
        }
        let weight = Priority::nearest(queue.key.priority).weight(Duration::ZERO);
        (f64::from(self.transfers_of(queue) + 1) / weight).to_bits()
    }

    fn room(&self, input: &PlanInput<'_>, queue: &Queue) -> Headroom {
        if let Some(constraint) = self.full(input, queue).or_else(|| self.no_space(input, queue)) {
            return Headroom::None(constraint);
        }
        let (source, target) = (queue.key.source.as_str(), queue.key.target.as_str());
        match self.copies.get(&(source, target)) {
            Some((copies, most)) if copies >= most => Headroom::None(Constraint {
                kind: ConstraintKind::Transfers,
                name: format!("{source} to {target}"),
                text: format!(
                    "{source} and {target} copy between themselves, at most {most} files at once now, because more were not faster: \
                     only their number can be set, not their rate"
                ),
            }),
            None if self.transfers_of(queue) >= QUEUE_TRANSFERS_MAX => Headroom::QueueFull,
            _ => Headroom::One,
        }
    }

    /// The constraint of the endpoint that has as many transfers as it may have, if one of the two does.
    fn full(&self, input: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
        let key = &queue.key;
        let out = self.outgoing.get(key.source.as_str()).copied().unwrap_or(0);
        let into = self.incoming.get(key.target.as_str()).copied().unwrap_or(0);
        let (out_max, in_max) =
            (input.topology.transfers_max(&key.source).0, input.topology.transfers_max(&key.target).1);
        let (name, most) = match (out >= out_max, into >= in_max) {
            (true, _) => (&key.source, out_max),
            (_, true) => (&key.target, in_max),
            _ => return None,
        };
        let text = format!("{name} has as many transfers at once as it may have: {most}");
        Some(Constraint { kind: ConstraintKind::Transfers, name: name.clone(), text })
    }

    /// The constraint of a target whose space is reserved for files on their way to it. The size of the next file is taken to be the
    /// average of its queue.
    fn no_space(&self, input: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
        let name = &queue.key.target;
        let space = input.topology.space_bytes(name)?;
        let reserved = self.bytes.get(name.as_str()).copied().unwrap_or(0);
        let file = queue.queued_bytes / queue.queued.max(1);
        if reserved == 0 || space - reserved >= file {
            return None;
        }
        let show = |bytes: i64| model::Bytes(bytes.max(0) as u64);
        let (space, reserved) = (show(space), show(reserved));
        let text = format!("{name} has {space} for data of the hub, and {reserved} of it is reserved");
        Some(Constraint { kind: ConstraintKind::Space, name: name.clone(), text })
    }
}
