//! The state of pairs of endpoints: the rate of each pair, and how many third-party copies run at once between its servers.

use std::collections::HashMap;
use std::time::Duration;

use sched::average::TimeAverage;
use sched::concurrency::{Bounds, Concurrency};

use super::carrier::carrier;
use crate::carriers::THIRD_PARTY_CARRIER;
use crate::database::queues::Queue;
use crate::snapshot::{Pair, SeenPair, Snapshot};
use crate::topology::Topology;

/// The time constants of the average rate of a pair, and of one copy.
const RATE_CONSTANT: Duration = Duration::from_secs(30);
const COPY_CONSTANT: Duration = Duration::from_secs(10);
/// The shortest interval over which a rate is taken.
const RATE_INTERVAL_MIN: Duration = Duration::from_millis(900);
/// How long the state of an idle pair is kept.
const IDLE_PAIR_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The number of pairs above which idle pairs are dropped: clients may name any pair.
const PAIRS_MAX: usize = 10_000;
/// The number of copies at once to begin with.
const COPIES_LEAST: u32 = 2;

struct PairState {
    /// Bytes that have arrived since the rate was taken last.
    moved: u64,
    /// When the rate was taken last.
    rate_at: Duration,
    rate: TimeAverage,
    /// The number of copies at once, if the pair is served by third-party copies: it is all that can be set for them.
    copies: Option<CopyConcurrency>,
}

struct CopyConcurrency {
    bounds: Bounds,
    concurrency: Concurrency,
    /// The rate of one copy, bytes per second.
    each: TimeAverage,
    /// The most copies at once now: as many as were found to help, and as fit into the share of the pair.
    most: u32,
}

/// The load of the queues of a pair.
#[derive(Default)]
struct PairLoad {
    running: u32,
    queued: i64,
    queued_bytes: f64,
    /// Their share, if a shared resource bounds them, otherwise infinite; bytes per second.
    allotted: f64,
    /// Whether the servers copy between themselves: neither endpoint is a node, and there is no gateway.
    is_third_party: bool,
}

/// The state of all pairs.
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

    /// Updates the pairs from the load of the queues; `snapshot` has the shares of the last round.
    pub fn update(&mut self, now: Duration, topology: &Topology, queues: &[Queue], snapshot: &Snapshot) {
        let loads = loads(topology, queues, snapshot);
        let is_full = self.known.len() >= PAIRS_MAX;
        self.known.retain(|pair, known| {
            loads.contains_key(pair) || !is_full && now.saturating_sub(known.rate_at) < IDLE_PAIR_KEPT
        });
        self.queued_bytes = loads.iter().map(|(pair, load)| (pair.clone(), load.queued_bytes)).collect();
        for (pair, load) in loads {
            let new = || PairState { moved: 0, rate_at: now, rate: TimeAverage::new(RATE_CONSTANT), copies: None };
            let known = self.known.entry(pair.clone()).or_insert_with(new);
            let bounds = load.is_third_party.then(|| bounds(topology, &pair));
            known.update(now, &load, bounds);
        }
    }

    /// How many copies at once each pair of servers may run.
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
    fn update(&mut self, now: Duration, load: &PairLoad, bounds: Option<Bounds>) {
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
        if load.running == 0 && self.moved == 0 {
            // The next rate must not include the idle time.
            self.rate_at = now;
            return;
        }
        let passed = now.saturating_sub(self.rate_at);
        if passed < RATE_INTERVAL_MIN {
            return;
        }
        let rate = self.moved as f64 / passed.as_secs_f64();
        self.rate.report(now, rate);
        (self.moved, self.rate_at) = (0, now);
        if let Some(copies) = &mut self.copies {
            copies.step(now, load, rate);
        }
    }
}

impl CopyConcurrency {
    /// Adapts the number of copies to the rate that they reach. It never exceeds the share of the pair.
    fn step(&mut self, now: Duration, load: &PairLoad, rate: f64) {
        let each = self.each.report(now, rate / f64::from(load.running.max(1)));
        let fits = if each > 0.0 { (load.allotted / each).clamp(1.0, f64::from(u32::MAX)) as u32 } else { u32::MAX };
        let number = self.concurrency.number();
        let is_the_limit = fits > number && load.running >= number && load.queued > 0;
        self.most = self.concurrency.step(now, rate, is_the_limit).min(fits);
    }
}

fn loads(topology: &Topology, queues: &[Queue], snapshot: &Snapshot) -> HashMap<Pair, PairLoad> {
    let mut all: HashMap<Pair, PairLoad> = HashMap::new();
    for queue in queues {
        let load = all.entry((queue.key.source.clone(), queue.key.target.clone())).or_default();
        let decision = snapshot.queues.get(&queue.id).filter(|decision| decision.is_bound);
        load.allotted += decision.map_or(f64::INFINITY, |decision| decision.rate);
        load.running += u32::try_from(queue.running).unwrap_or(u32::MAX);
        load.queued += queue.queued;
        load.queued_bytes += queue.queued_bytes as f64;
        load.is_third_party = carrier(topology, queue).as_deref() == Some(THIRD_PARTY_CARRIER);
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
        let key = QueueKey { source, target, community, activity, owner, priority: 3, deadline: 0, limited_job: 0 };
        Queue { id: 1, key, queued: 100, staging: 0, queued_bytes: 100, running, running_bytes: 0, limit: None }
    }

    /// Runs copies of 1,000 bytes per second each for some seconds, and returns their number at the end.
    fn run(pairs: &mut Pairs, seconds: std::ops::Range<u64>, snapshot: &Snapshot) -> u32 {
        for second in seconds {
            let running = pairs.copies().get(&pair()).copied().unwrap_or(0);
            pairs.moved(&pair(), u64::from(running) * 1000);
            let now = Duration::from_secs(second);
            pairs.update(now, &Topology::default(), &[queue(i64::from(running))], snapshot);
        }
        pairs.copies()[&pair()]
    }

    #[test]
    fn the_number_of_copies_grows_while_it_helps_and_stays_within_the_share() {
        let mut pairs = Pairs::default();
        assert_eq!(run(&mut pairs, 0..2, &Snapshot::default()), 2);
        assert_eq!(run(&mut pairs, 2..300, &Snapshot::default()), 20, "as many as an endpoint takes");
        let decision = Decision { rate: 5500.0, is_bound: true, ..Decision::default() };
        let bound = Snapshot { queues: HashMap::from([(1, decision)]), ..Snapshot::default() };
        assert_eq!(run(&mut pairs, 300..310, &bound), 5, "5 of 1,000 fit 5,500");
        assert!((pairs.seen()[&pair()].rate.unwrap() - 17_000.0).abs() < 4000.0);
    }

    #[test]
    fn pairs_with_a_node_have_no_number_of_copies() {
        let mut pairs = Pairs::default();
        let mut of_node = queue(1);
        of_node.key.source = "lh://a".into();
        pairs.update(Duration::ZERO, &Topology::default(), &[of_node], &Snapshot::default());
        assert!(pairs.copies().is_empty() && pairs.seen().len() == 1);
    }

    #[test]
    fn idle_pairs_are_dropped_after_a_day() {
        let mut pairs = Pairs::default();
        pairs.update(Duration::ZERO, &Topology::default(), &[queue(1)], &Snapshot::default());
        pairs.update(Duration::from_secs(3600), &Topology::default(), &[], &Snapshot::default());
        assert_eq!(pairs.seen().len(), 1);
        pairs.update(IDLE_PAIR_KEPT * 2, &Topology::default(), &[], &Snapshot::default());
        assert!(pairs.seen().is_empty());
    }
}
