//! A cache of named data beside a wide-area link: which part of the requests it answers, and how many bytes the link is spared.
//!
//! Does not know: networks. Requests are independent and follow Zipf's law: the object of rank k is asked for in proportion to 1 / k^s.

use std::collections::{BTreeMap, HashMap};

/// A population of objects, all of one size, and the requests for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requests {
    /// The number of objects.
    pub objects: usize,
    /// Bytes of an object.
    pub object_bytes: f64,
    /// The exponent of Zipf's law: 0 for objects that are all as popular; web and physics data have 0.6 to 1.0.
    pub exponent: f64,
    /// The number of requests.
    pub count: usize,
    /// The seed of the draws.
    pub seed: u64,
}

/// What a cache did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheOutcome {
    /// The part of the requests that the cache answered, after it was full.
    pub hit_ratio: f64,
    /// Bytes over the link.
    pub link_bytes: f64,
    /// Bytes that were asked for.
    pub asked_bytes: f64,
}

/// A cache of so many objects that drops what was not asked for longest (LRU).
#[derive(Clone, Debug, Default)]
pub struct LruCache {
    capacity: usize,
    last_use: HashMap<usize, u64>,
    by_use: BTreeMap<u64, usize>,
    asked: u64,
}

impl LruCache {
    /// An empty cache.
    pub fn new(capacity: usize) -> LruCache {
        LruCache { capacity, ..LruCache::default() }
    }

    /// Whether it is as full as it may be.
    pub fn is_full(&self) -> bool {
        self.last_use.len() >= self.capacity
    }

    /// Asks for an object, which it then has. Returns whether it had it before.
    pub fn ask(&mut self, object: usize) -> bool {
        let now = self.asked;
        self.asked += 1;
        let before = self.last_use.insert(object, now);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(now, object);
        if self.last_use.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        before.is_some()
    }
}

/// How often each object is asked for.
#[derive(Clone, Debug)]
pub struct Popularity {
    /// The sums of the probabilities up to each rank.
    cumulated: Vec<f64>,
}

impl Popularity {
    /// Zipf's law with an exponent.
    pub fn zipf(objects: usize, exponent: f64) -> Popularity {
        let mut sum = 0.0;
        let add = |p: f64| {
            sum += p;
            sum
        };
        Popularity { cumulated: popularity(objects, exponent).into_iter().map(add).collect() }
    }

    /// Draws an object, by its rank from 0.
    pub fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let draw = random.f64();
        self.cumulated.partition_point(|sum| *sum < draw).min(self.cumulated.len().saturating_sub(1))
    }
}

/// Sends the requests to a cache of so many bytes that drops what was not asked for longest (LRU).
pub fn simulate(requests: &Requests, cache_bytes: f64) -> CacheOutcome {
    let mut cache = LruCache::new((cache_bytes / requests.object_bytes) as usize);
    let popularity = Popularity::zipf(requests.objects, requests.exponent);
    let mut random = fastrand::Rng::with_seed(requests.seed);
    let (mut hits, mut counted, mut misses) = (0usize, 0usize, 0usize);
    for _ in 0..requests.count {
        let was_full = cache.is_full();
        let is_hit = cache.ask(popularity.draw(&mut random));
        counted += usize::from(was_full);
        hits += usize::from(is_hit && was_full);
        misses += usize::from(!is_hit);
    }
    CacheOutcome {
        hit_ratio: hits as f64 / counted.max(1) as f64,
        link_bytes: misses as f64 * requests.object_bytes,
        asked_bytes: requests.count as f64 * requests.object_bytes,
    }
}

/// The hit ratio of such a cache in the long run (Che, Tung and Wang, Hierarchical Web Caching Systems, 2002): an object is in the cache if
/// it was requested within a characteristic time: the time in which as many different objects are requested as the cache holds.
pub fn hit_ratio(requests: &Requests, cache_bytes: f64) -> f64 {
    let capacity = cache_bytes / requests.object_bytes;
    if capacity >= requests.objects as f64 {
        return 1.0;
    }
    let popularity = popularity(requests.objects, requests.exponent);
    let kept = |time: f64| popularity.iter().map(|p| 1.0 - (-p * time).exp()).sum::<f64>();
    let (mut short, mut long) = (0.0, 1.0);
    while kept(long) < capacity {
        long *= 2.0;
    }
    for _ in 0..100 {
        let middle = (short + long) / 2.0;
        if kept(middle) < capacity { short = middle } else { long = middle }
    }
    popularity.iter().map(|p| p * (1.0 - (-p * long).exp())).sum()
}

fn popularity(objects: usize, exponent: f64) -> Vec<f64> {
    let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
    let sum: f64 = (0..objects).map(weight).sum();
    (0..objects).map(|rank| weight(rank) / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: Requests = Requests { objects: 10_000, object_bytes: 2e9, exponent: 0.8, count: 200_000, seed: 3 };

    #[test]
    fn the_simulated_hit_ratio_is_that_of_the_approximation() {
        for part in [0.01, 0.1, 0.5] {
            let cache = part * 10_000.0 * 2e9;
            let simulated = simulate(&REQUESTS, cache).hit_ratio;
            let computed = hit_ratio(&REQUESTS, cache);
            assert!((simulated - computed).abs() < 0.02, "{part}: {simulated} and {computed}");
        }
    }

    #[test]
    fn what_the_cache_answers_does_not_cross_the_link() {
        let none = simulate(&REQUESTS, 0.0);
        assert_eq!((none.hit_ratio, none.link_bytes), (0.0, none.asked_bytes));
        let all = simulate(&REQUESTS, 1e15);
        assert!(all.link_bytes <= 10_000.0 * 2e9, "each object once at most");
        assert_eq!(hit_ratio(&REQUESTS, 1e15), 1.0);
    }
}
