//! The state of pairs of endpoints: their common rate, and the number of copies at once between two servers.

use std::collections::HashMap;
use std::time::Duration;

use sched::average::TimeAverage;
use sched::concurrency::{Bounds, Concurrency};

use super::carrier::carrier;
use crate::carriers::THIRD_PARTY;
use crate::database::queues::Queue;
use crate::snapshot::{Pair, SeenPair, Snapshot};
use crate::topology::Topology;

/// The time constant of the rate of a pair, and of one copy.
const RATE_CONSTANT: Duration = Duration::from_secs(30);
const COPY_CONSTANT: Duration = Duration::from_secs(10);
/// The shortest time that a rate is taken over.
const RATE_OVER: Duration = Duration::from_millis(900);
/// How long an idle pair is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// Pairs that are remembered: clients may name any.
const PAIRS_MAX: usize = 10_000;
/// The number of copies at once at first.
const COPIES_LEAST: u32 = 2;

struct PairState {
    /// Bytes that have arrived since the rate was taken last.
    moved: u64,
    /// When it was taken.
    taken: Duration,
    rate: TimeAverage,
    /// The number of copies at once, where nothing else can be set.
    copies: Option<CopyConcurrency>,
}

struct CopyConcurrency {
    bounds: Bounds,
    concurrency: Concurrency,
    /// The rate of one copy, bytes per second.
    each: TimeAverage,
    /// The most copies at once now: as many as were found to help, and fit the share of the pair.
    most: u32,
}

/// The load of the queues of a pair.
#[derive(Default)]
struct PairLoad {
    running: u32,
    queued: i64,
    queued_bytes: f64,
    /// Their share, where a shared resource bounds it; bytes per second.
    given: f64,
    /// The servers copy between themselves: neither endpoint is a node, and there is no gateway.
    is_copied: bool,
}

/// All pairs.
#[derive(Default)]
pub(super) struct Pairs {
    known: HashMap<Pair, PairState>,
    queued_bytes: HashMap<Pair, f64>,
}

impl Pairs {
    /// Counts bytes that have arrived.
    pub fn moved(&mut self, pair: &Pair, bytes: u64) {
        if let Some(known) = self.known.get_mut(pair) {
            known.moved += bytes;
        }
    }

    /// Counts a transfer that has ended; `has_failed` is set only for failures that are a sign of load.
    pub fn ended(&mut self, pair: &Pair, has_failed: bool) {
        if let Some(copies) = self.known.get_mut(pair).and_then(|known| known.copies.as_mut()) {
            copies.concurrency.ended(has_failed);
        }
    }

    /// Updates the pairs from the load of the queues; `snapshot` has the shares that they were given last.
    pub fn look(&mut self, now: Duration, topology: &Topology, queues: &[Queue], snapshot: &Snapshot) {
        let work = work(topology, queues, snapshot);
        let is_full = self.known.len() >= PAIRS_MAX;
        self.known
            .retain(|pair, known| work.contains_key(pair) || !is_full && now.saturating_sub(known.taken) < REMEMBERED);
        self.queued_bytes = work.iter().map(|(pair, work)| (pair.clone(), work.queued_bytes)).collect();
        for (pair, work) in work {
            let new = || PairState { moved: 0, taken: now, rate: TimeAverage::new(RATE_CONSTANT), copies: None };
            let known = self.known.entry(pair.clone()).or_insert_with(new);
            let bounds = work.is_copied.then(|| bounds(topology, &pair));
            known.look(now, &work, bounds);
        }
    }

    /// The number of copies at once that the servers of each pair may be asked for.
    pub fn copies(&self) -> HashMap<Pair, u32> {
        let most = |(pair, known): (&Pair, &PairState)| Some((pair.clone(), known.copies.as_ref()?.most));
        self.known.iter().filter_map(most).collect()
    }

    /// The facts of the pairs that estimates are made from.
    pub fn seen(&self) -> HashMap<Pair, SeenPair> {
        let seen = |(pair, known): (&Pair, &PairState)| {
            let queued_bytes = self.queued_bytes.get(pair).copied().unwrap_or(0.0);
            (pair.clone(), SeenPair { rate: known.rate.value(), queued_bytes })
        };
        self.known.iter().map(seen).collect()
    }
}

impl PairState {
    fn look(&mut self, now: Duration, work: &PairLoad, bounds: Option<Bounds>) {
        if bounds != self.copies.as_ref().map(|copies| copies.bounds) {
            let last = self.copies.take().map(|copies| copies.concurrency.number());
            self.copies = bounds.map(|bounds| {
                let concurrency = Concurrency::new(now, bounds, last);
                CopyConcurrency {
                    bounds,
                    most: concurrency.number(),
                    concurrency,
                    each: TimeAverage::new(COPY_CONSTANT),
                }
            });
        }
        if work.running == 0 && self.moved == 0 {
            // The next rate is not averaged with the idle time.
            self.taken = now;
            return;
        }
        let passed = now.saturating_sub(self.taken);
        if passed < RATE_OVER {
            return;
        }
        let rate = self.moved as f64 / passed.as_secs_f64();
        self.rate.report(now, rate);
        (self.moved, self.taken) = (0, now);
        if let Some(copies) = &mut self.copies {
            copies.step(now, work, rate);
        }
    }
}

impl CopyConcurrency {
    /// Learns the number of copies from the rate. It never exceeds the share of the pair.
    fn step(&mut self, now: Duration, work: &PairLoad, rate: f64) {
        let each = self.each.report(now, rate / f64::from(work.running.max(1)));
        let fits = if each > 0.0 { (work.given / each).clamp(1.0, f64::from(u32::MAX)) as u32 } else { u32::MAX };
        let number = self.concurrency.number();
        let is_what_binds = fits > number && work.running >= number && work.queued > 0;
        self.most = self.concurrency.step(now, rate, is_what_binds).min(fits);
    }
}

fn work(topology: &Topology, queues: &[Queue], snapshot: &Snapshot) -> HashMap<Pair, PairLoad> {
    let mut all: HashMap<Pair, PairLoad> = HashMap::new();
    for queue in queues {
        let work = all.entry((queue.key.source.clone(), queue.key.target.clone())).or_default();
        let decision = snapshot.queues.get(&queue.id).filter(|decision| decision.is_bound);
        work.given += decision.map_or(f64::INFINITY, |decision| decision.rate);
        work.running += u32::try_from(queue.running).unwrap_or(u32::MAX);
        work.queued += queue.queued;
        work.queued_bytes += queue.queued_bytes as f64;
        work.is_copied = carrier(topology, queue).as_deref() == Some(THIRD_PARTY);
    }
    all
}

fn bounds(topology: &Topology, (source, target): &Pair) -> Bounds {
    let most = topology.transfers_max(source).0.min(topology.transfers_max(target).1).max(1);
    Bounds { least: COPIES_LEAST.min(most), most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::submissions::QueueKey;
    use crate::snapshot::Decision;

    fn pair() -> Pair {
        ("https://a".to_owned(), "https://b".to_owned())
    }

    fn queue(running: i64) -> Queue {
        let (source, target) = pair();
        let (community, activity, owner) = ("x".into(), "y".into(), "z".into());
        let key = QueueKey { source, target, community, activity, owner, priority: 3, deadline: 0, limited: 0 };
        Queue { id: 1, key, queued: 100, staging: 0, queued_bytes: 100, running, running_bytes: 0, limit: None }
    }

    /// Copies of which each moves 1,000 bytes a second, for some seconds, with what the pair is given; how many there are then.
    fn run(pairs: &mut Pairs, seconds: std::ops::Range<u64>, snapshot: &Snapshot) -> u32 {
        for second in seconds {
            let running = pairs.copies().get(&pair()).copied().unwrap_or(0);
            pairs.moved(&pair(), u64::from(running) * 1000);
            let now = Duration::from_secs(second);
            pairs.look(now, &Topology::default(), &[queue(i64::from(running))], snapshot);
        }
        pairs.copies()[&pair()]
    }

    #[test]
    fn copies_grow_as_far_as_they_help_and_their_share_goes() {
        let mut pairs = Pairs::default();
        assert_eq!(run(&mut pairs, 0..2, &Snapshot::default()), 2);
        assert_eq!(run(&mut pairs, 2..300, &Snapshot::default()), 20, "as many as an endpoint takes");
        let decision = Decision { rate: 5500.0, is_bound: true, ..Decision::default() };
        let bound = Snapshot { queues: HashMap::from([(1, decision)]), ..Snapshot::default() };
        assert_eq!(run(&mut pairs, 300..310, &bound), 5, "5 of 1,000 fit 5,500");
        assert!((pairs.seen()[&pair()].rate.unwrap() - 17_000.0).abs() < 4000.0);
    }

    #[test]
    fn what_a_node_carries_has_its_limit_and_no_number() {
        let mut pairs = Pairs::default();
        let mut of_node = queue(1);
        of_node.key.source = "lh://a".into();
        pairs.look(Duration::ZERO, &Topology::default(), &[of_node], &Snapshot::default());
        assert!(pairs.copies().is_empty() && pairs.seen().len() == 1);
    }

    #[test]
    fn pairs_are_not_remembered_for_ever() {
        let mut pairs = Pairs::default();
        pairs.look(Duration::ZERO, &Topology::default(), &[queue(1)], &Snapshot::default());
        pairs.look(Duration::from_secs(3600), &Topology::default(), &[], &Snapshot::default());
        assert_eq!(pairs.seen().len(), 1);
        pairs.look(REMEMBERED * 2, &Topology::default(), &[], &Snapshot::default());
        assert!(pairs.seen().is_empty());
    }
}
