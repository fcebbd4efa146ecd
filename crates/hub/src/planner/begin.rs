//! Selects the queues that begin a transfer: the one with the fewest transfers for its weight comes first, as long as both endpoints have room.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use model::v1::hub::{Constraint, ConstraintKind};
use sched::priority::Priority;

use super::{Allocation, PlanInput};
use crate::database::queues::Queue;
use crate::snapshot::Snapshot;

/// Transfers of one queue at once. Each fills its path by itself; a few of them hide the pauses between files.
const QUEUE_TRANSFERS_MAX: u32 = 4;

/// The queues that begin a transfer, in order; a queue that begins several is named as often. For the others the snapshot gets the reason.
pub(super) fn begin(shared: &Allocation<'_>, snapshot: &mut Snapshot) -> Vec<i64> {
    let look = shared.look;
    let mut taken = Occupancy::new(look);
    let may = |at: &usize| {
        let has_rate = shared.rates[*at].is_some_and(|rate| rate.rate > 0.0);
        look.queues[*at].ready() > 0 && shared.blocked[*at].is_none() && has_rate
    };
    let mut left: Vec<i64> = look.queues.iter().map(Queue::ready).collect();
    let mut waiting: BTreeSet<(u64, usize)> =
        (0..look.queues.len()).filter(may).map(|at| (taken.turn(look, at), at)).collect();
    let mut begin = Vec::new();
    while let Some((_, at)) = waiting.pop_first() {
        let queue = &look.queues[at];
        match taken.room(look, queue) {
            Headroom::None(constraint) => {
                if let Some(decision) = snapshot.queues.get_mut(&queue.id) {
                    decision.constraint = constraint;
                }
            }
            Headroom::ForOthers => {}
            Headroom::One => {
                begin.push(queue.id);
                taken.take(queue);
                left[at] -= 1;
                if left[at] > 0 {
                    waiting.insert((taken.turn(look, at), at));
                }
            }
        }
    }
    begin
}

/// Whether a queue may have one transfer more.
enum Headroom {
    One,
    /// The queue has as many as one queue may have.
    ForOthers,
    None(Constraint),
}

/// The slots and bytes that running transfers take, and those that are about to begin.
struct Occupancy<'a> {
    outgoing: HashMap<&'a str, u32>,
    incoming: HashMap<&'a str, u32>,
    own: HashMap<i64, u32>,
    /// Copies between the servers of a pair, and their bound.
    copies: HashMap<(&'a str, &'a str), (u32, u32)>,
    /// Bytes on their way to an endpoint.
    bytes: HashMap<&'a str, i64>,
}

impl<'a> Occupancy<'a> {
    fn new(look: &'a PlanInput<'a>) -> Occupancy<'a> {
        let mut bytes: HashMap<&str, i64> = HashMap::new();
        for queue in look.queues {
            *bytes.entry(&queue.key.target).or_default() += queue.running_bytes;
        }
        let most = look.copies.iter().map(|((source, target), most)| ((source.as_str(), target.as_str()), (0, *most)));
        let mut taken = Occupancy {
            outgoing: HashMap::new(),
            incoming: HashMap::new(),
            own: HashMap::new(),
            copies: most.collect(),
            bytes,
        };
        for transfer in look.running {
            taken.add(transfer.queue, &transfer.source, &transfer.target);
        }
        taken
    }

    fn add(&mut self, queue: i64, source: &'a str, target: &'a str) {
        *self.outgoing.entry(source).or_default() += 1;
        *self.incoming.entry(target).or_default() += 1;
        *self.own.entry(queue).or_default() += 1;
        if let Some((copies, _)) = self.copies.get_mut(&(source, target)) {
            *copies += 1;
        }
    }

    fn take(&mut self, queue: &'a Queue) {
        self.add(queue.id, &queue.key.source, &queue.key.target);
    }

    fn own(&self, queue: &Queue) -> u32 {
        self.own.get(&queue.id).copied().unwrap_or(0)
    }

    /// The key that queues take turns by, the least first. The bits of floats that are not negative sort like the floats.
    fn turn(&self, look: &PlanInput<'_>, at: usize) -> u64 {
        let queue = &look.queues[at];
        let is_due = look.promised.get(&queue.id).is_some_and(|standing| standing.floor > 0.0);
        if is_due && self.own(queue) == 0 {
            return 0;
        }
        let weight = Priority::nearest(queue.key.priority).weight(Duration::ZERO);
        (f64::from(self.own(queue) + 1) / weight).to_bits()
    }

    fn room(&self, look: &PlanInput<'_>, queue: &Queue) -> Headroom {
        if let Some(constraint) = self.full(look, queue).or_else(|| self.no_space(look, queue)) {
            return Headroom::None(constraint);
        }
        let (source, target) = (queue.key.source.as_str(), queue.key.target.as_str());
        match self.copies.get(&(source, target)) {
            Some((copies, most)) if copies >= most => Headroom::None(Constraint {
                kind: ConstraintKind::Transfers,
                name: format!("{source} to {target}"),
                text: format!(
                    "{source} and {target} copy between themselves, {most} files at once as far as that was found to help: \
                     only the number can be set there, no rate"
                ),
            }),
            None if self.own(queue) >= QUEUE_TRANSFERS_MAX => Headroom::ForOthers,
            _ => Headroom::One,
        }
    }

    /// The endpoint that has as many transfers as it may have, if one of the two does.
    fn full(&self, look: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
        let key = &queue.key;
        let out = self.outgoing.get(key.source.as_str()).copied().unwrap_or(0);
        let into = self.incoming.get(key.target.as_str()).copied().unwrap_or(0);
        let (out_max, in_max) =
            (look.topology.transfers_max(&key.source).0, look.topology.transfers_max(&key.target).1);
        let (name, most) = match (out >= out_max, into >= in_max) {
            (true, _) => (&key.source, out_max),
            (_, true) => (&key.target, in_max),
            _ => return None,
        };
        let text = format!("{name} has all the transfers at once that it may have: {most}");
        Some(Constraint { kind: ConstraintKind::Transfers, name: name.clone(), text })
    }

    /// Whether files on their way to the target take the space that the next files of a queue need; an approximation.
    fn no_space(&self, look: &PlanInput<'_>, queue: &Queue) -> Option<Constraint> {
        let name = &queue.key.target;
        let space = look.topology.space_bytes(name)?;
        let taken = self.bytes.get(name.as_str()).copied().unwrap_or(0);
        let file = queue.queued_bytes / queue.queued.max(1);
        if taken == 0 || space - taken >= file {
            return None;
        }
        let show = |bytes: i64| model::Bytes(bytes.max(0) as u64);
        let (space, taken) = (show(space), show(taken));
        let text = format!("{name} has space for {space} of what the hub brings, and {taken} of it is reserved");
        Some(Constraint { kind: ConstraintKind::Space, name: name.clone(), text })
    }
}
