//! Divides the queues among the hubs on a database by rendezvous hashing: when a hub comes or goes, only its own part of the queues moves.

use sha2::{Digest, Sha256};

/// The hubs that share a database, as this hub sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingHubs {
    /// The name of this hub.
    pub own: String,
    /// The hubs that are alive, this one included.
    living: Vec<String>,
}

impl LivingHubs {
    /// The living hubs when this hub is the only one.
    pub fn alone(own: String) -> LivingHubs {
        LivingHubs { living: vec![own.clone()], own }
    }

    /// Sets the hubs that are alive; returns whether they have changed.
    pub fn set_living(&mut self, mut living: Vec<String>) -> bool {
        if !living.contains(&self.own) {
            living.push(self.own.clone());
        }
        living.sort();
        let has_changed = living != self.living;
        self.living = living;
        has_changed
    }

    /// Whether this hub is the only one.
    pub fn is_alone(&self) -> bool {
        self.living.len() == 1
    }

    /// The number of hubs that are alive.
    pub fn count(&self) -> usize {
        self.living.len()
    }

    /// Whether a hub is alive.
    pub fn is_living(&self, hub: &str) -> bool {
        self.living.iter().any(|living| living == hub)
    }

    /// Whether a queue belongs to this hub: of all living hubs, this one has the highest hash for the queue.
    pub fn owns(&self, queue: i64) -> bool {
        let hash = |hub: &String| Sha256::digest(format!("{queue} {hub}").as_bytes());
        self.living.iter().max_by_key(|hub| hash(hub)).is_some_and(|owner| *owner == self.own)
    }
}

impl std::fmt::Display for LivingHubs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.living.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hubs(own: &str, living: &[&str]) -> LivingHubs {
        let mut hubs = LivingHubs::alone(own.to_owned());
        hubs.set_living(living.iter().map(|hub| (*hub).to_owned()).collect());
        hubs
    }

    fn owned(own: &str, living: &[&str]) -> Vec<i64> {
        let hubs = hubs(own, living);
        (0..900).filter(|queue| hubs.owns(*queue)).collect()
    }

    #[test]
    fn every_queue_has_one_hub_and_each_hub_about_as_many_queues() {
        let all = ["a", "b", "c"];
        let mut queues: Vec<i64> = all.iter().flat_map(|own| owned(own, &all)).collect();
        queues.sort_unstable();
        assert_eq!(queues, (0..900).collect::<Vec<_>>());
        assert!(all.iter().all(|own| (200..400).contains(&owned(own, &all).len())));
    }

    #[test]
    fn when_a_hub_stops_only_its_own_queues_move() {
        let before = owned("a", &["a", "b", "c"]);
        let after = owned("a", &["a", "b"]);
        assert!(before.iter().all(|queue| after.contains(queue)) && after.len() > before.len());
        assert_eq!(owned("a", &[]).len(), 900);
    }

    #[test]
    fn a_change_of_the_hubs_is_reported_once() {
        let mut hubs = LivingHubs::alone("a".into());
        assert!(hubs.is_alone() && !hubs.set_living(vec![]) && hubs.set_living(vec!["b".into()]));
        assert!(!hubs.set_living(vec!["b".into(), "a".into()]) && hubs.is_living("b") && !hubs.is_alone());
    }
}
