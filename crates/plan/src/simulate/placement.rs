//! Makes queues of work: which target gets how many files from which source, which queue feeds which, and which waits for which.
//!
//! Targets of files with fewer copies than targets are chosen by `replicas`, the code that a hub's rules run.

use std::sync::Arc;

use replicas::{Candidate, Choice};
use scenario::{CacheSettings, Scenario, ServingOrder, Work};

use super::files::{EvenFiles, QueueFiles, TargetCache};
use super::queue::SimulatedQueue;
use crate::cache::{LruCache, Popularity};

/// Groups of files that are placed together, as datasets are. The more groups, the more even are the parts of the targets: with 1,000
/// groups, those of ten targets differ by 3 %.
const GROUPS_MAX: u64 = 1000;

/// Which queue feeds which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The queue whose completed files go on.
    pub from: usize,
    /// The queue that gets them.
    pub to: usize,
}

/// The queues of all work, and which feeds which.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// In the order of the work, then of sources, then of targets.
    pub queues: Vec<SimulatedQueue>,
    /// From relays to those they feed.
    pub feeds: Vec<Feed>,
}

/// Makes the queues of a scenario.
pub fn place(scenario: &Scenario) -> Placement {
    let mut placement = Placement::default();
    for number in 0..scenario.work.len() {
        placement.add(scenario, number);
    }
    placement
}

impl Placement {
    fn add(&mut self, scenario: &Scenario, number: usize) {
        let work = &scenario.work[number];
        let count = (work.bytes.0 / work.file.0.max(1)).max(1);
        let groups = count.min(GROUPS_MAX);
        let first = self.queues.len();
        let popularity = work.cache.map(|cache| (cache, Arc::new(Popularity::zipf(cache.objects, cache.exponent))));
        for source in &work.from {
            let others: Vec<usize> = work.to.iter().copied().filter(|target| target != source).collect();
            let mut previous = None;
            for (target, groups_of_target) in others.iter().zip(parts(scenario, work, &others, groups)) {
                let files =
                    (count as f64 * groups_of_target as f64 / groups as f64 / work.from.len() as f64).round() as u64;
                if files == 0 || feeder(work, *target).is_some() {
                    continue;
                }
                let seed = scenario.seed ^ (self.queues.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let files = files_of(work, files, popularity.as_ref().map(|(cache, shared)| (*cache, shared)));
                let mut queue = SimulatedQueue::new(number, (*source, *target), files, work.failures, seed);
                queue.after = previous.filter(|_| work.order == ServingOrder::InTurn);
                previous = Some(self.queues.len());
                self.queues.push(queue);
            }
        }
        self.add_relays(scenario, number, first);
    }

    /// Adds the queues that relays feed, from the sources outwards.
    fn add_relays(&mut self, scenario: &Scenario, number: usize, first: usize) {
        let work = &scenario.work[number];
        let mut at = first;
        while at < self.queues.len() {
            let relay = self.queues[at].target;
            let fed = work.relays.iter().filter(|(feeder, _)| *feeder == relay).flat_map(|(_, fed)| fed);
            for target in fed.filter(|target| work.to.contains(target)) {
                let seed = scenario.seed ^ (self.queues.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let files = QueueFiles::Fed(Default::default());
                self.feeds.push(Feed { from: at, to: self.queues.len() });
                self.queues.push(SimulatedQueue::new(number, (relay, *target), files, work.failures, seed));
                self.queues[at].feeds = true;
            }
            at += 1;
        }
    }
}

/// The relay that feeds a target.
fn feeder(work: &Work, target: usize) -> Option<usize> {
    work.relays.iter().find(|(_, fed)| fed.contains(&target)).map(|(feeder, _)| *feeder)
}

fn files_of(work: &Work, count: u64, popularity: Option<(CacheSettings, &Arc<Popularity>)>) -> QueueFiles {
    QueueFiles::Even(EvenFiles {
        first_s: work.at.as_secs_f64(),
        interval_s: work.over.as_secs_f64() / count as f64,
        count,
        begun: 0,
        mean_bytes: work.file.0 as f64,
        sizes: work.sizes,
        cache: popularity.map(|(settings, popularity)| {
            let objects = LruCache::new((settings.bytes / work.file.0 as f64) as usize);
            Box::new(TargetCache { objects, popularity: Arc::clone(popularity), answered: Vec::new() })
        }),
    })
}

/// How many of the groups each of these targets gets from one source.
fn parts(scenario: &Scenario, work: &Work, targets: &[usize], groups: u64) -> Vec<u64> {
    if work.copies as usize >= targets.len() {
        return vec![groups; targets.len()];
    }
    let candidate = |site: &usize| {
        let described = &scenario.sites[*site];
        Candidate {
            name: described.name.clone(),
            site: described.name.clone(),
            weight: described.facts.disk.map_or(1.0, |disk| disk.0 as f64),
            space_bytes: None,
            quota_bytes: None,
            present_bytes: 0,
            promised_bytes: 0,
        }
    };
    let candidates: Vec<Candidate> = targets.iter().map(candidate).collect();
    let bytes = work.bytes.0 / groups;
    let mut parts = vec![0; targets.len()];
    for group in 0..groups {
        let choice = Choice { copies: work.copies as usize, bytes, group: scenario.seed.wrapping_add(group) };
        // Without bounds of space every candidate has room, and the reader refuses more copies than targets.
        for chosen in replicas::choose(&candidates, choice).unwrap_or_default() {
            parts[chosen] += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAR: &str = "[site.s]\n[site.a]\n[site.b]\n[site.c]\n[path.s-a]\n[path.s-b]\n[path.s-c]\n";

    fn counts(work: &str) -> Vec<(usize, usize, u64)> {
        let scenario =
            Scenario::read(&format!("{STAR}[work.w]\nfrom = \"s\"\nbytes = \"6TB\"\nfile = \"1GB\"\n{work}")).unwrap();
        place(&scenario).queues.iter().map(|queue| (queue.source, queue.target, queue.files.left())).collect()
    }

    #[test]
    fn a_copy_at_every_target_is_all_files_for_each() {
        assert_eq!(counts("to = [\"a\", \"b\"]\ncopies = 2\n"), [(0, 1, 6000), (0, 2, 6000)]);
    }

    #[test]
    fn one_copy_is_spread_over_the_targets_by_the_rule_of_the_hub() {
        let spread = counts("to = [\"a\", \"b\", \"c\"]\n");
        let sum: u64 = spread.iter().map(|(_, _, files)| files).sum();
        assert_eq!(sum, 6000);
        assert!(spread.iter().all(|(_, _, files)| (1700..2300).contains(files)), "{spread:?}");
    }

    #[test]
    fn a_relay_gets_the_files_once_and_feeds_the_others() {
        let work = "to = [\"a\", \"b\", \"c\"]\ncopies = 3\nrelays = { a = [\"b\"], b = [\"c\"] }\n";
        assert_eq!(counts(work), [(0, 1, 6000), (1, 2, 0), (2, 3, 0)]);
    }
}
