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

/// Sends the requests to a cache of `cache_bytes`, which drops the object that was not requested for the longest time (LRU).
pub fn simulate(requests: &Requests, cache_bytes: f64) -> CacheOutcome {
    let capacity = (cache_bytes / requests.object_bytes) as usize;
    let cumulated = cumulated_popularity(requests);
    let mut random = fastrand::Rng::with_seed(requests.seed);
    let mut last_use: HashMap<usize, u64> = HashMap::new();
    let mut by_use: BTreeMap<u64, usize> = BTreeMap::new();
    let mut hits = 0usize;
    let mut counted = 0usize;
    let mut misses = 0usize;
    for now in 0..requests.count as u64 {
        let draw = random.f64();
        let object = cumulated.partition_point(|sum| *sum < draw).min(requests.objects - 1);
        let is_full = last_use.len() >= capacity;
        counted += usize::from(is_full);
        match last_use.insert(object, now) {
            Some(before) => {
                by_use.remove(&before);
                hits += usize::from(is_full);
            }
            None => misses += 1,
        }
        by_use.insert(now, object);
        if last_use.len() > capacity
            && let Some((_, oldest)) = by_use.pop_first()
        {
            last_use.remove(&oldest);
        }
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
    let popularity = popularity(requests);
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

fn popularity(requests: &Requests) -> Vec<f64> {
    let weight = |rank: usize| (rank as f64 + 1.0).powf(-requests.exponent);
    let sum: f64 = (0..requests.objects).map(weight).sum();
    (0..requests.objects).map(|rank| weight(rank) / sum).collect()
}

fn cumulated_popularity(requests: &Requests) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |p: f64| {
        sum += p;
        sum
    };
    popularity(requests).into_iter().map(add).collect()
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
