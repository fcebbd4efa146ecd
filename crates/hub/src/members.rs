//! Divides the queues among several hubs by rendezvous hashing: a hub that comes or goes moves only its own part of them.

use sha2::{Digest, Sha256};

/// The hubs that share a database, as this hub sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The name of this hub.
    pub own: String,
    /// The hubs that are alive, this one included.
    living: Vec<String>,
}

impl Members {
    /// A hub without others.
    pub fn alone(own: String) -> Members {
        Members { living: vec![own.clone()], own }
    }

    /// Sets the hubs that are alive; whether they have changed.
    pub fn set_living(&mut self, mut living: Vec<String>) -> bool {
        if !living.contains(&self.own) {
            living.push(self.own.clone());
        }
        living.sort();
        let is_news = living != self.living;
        self.living = living;
        is_news
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

    /// Whether a queue belongs to this hub: of all living hubs it has the highest hash for it.
    pub fn owns(&self, queue: i64) -> bool {
        let number = |hub: &String| Sha256::digest(format!("{queue} {hub}").as_bytes());
        self.living.iter().max_by_key(|hub| number(hub)).is_some_and(|owner| *owner == self.own)
    }
}

impl std::fmt::Display for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.living.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(own: &str, living: &[&str]) -> Members {
        let mut members = Members::alone(own.to_owned());
        members.set_living(living.iter().map(|hub| (*hub).to_owned()).collect());
        members
    }

    fn owned(own: &str, living: &[&str]) -> Vec<i64> {
        let members = members(own, living);
        (0..900).filter(|queue| members.owns(*queue)).collect()
    }

    #[test]
    fn every_queue_is_one_hubs_and_each_has_about_as_many() {
        let all = ["a", "b", "c"];
        let mut queues: Vec<i64> = all.iter().flat_map(|own| owned(own, &all)).collect();
        queues.sort_unstable();
        assert_eq!(queues, (0..900).collect::<Vec<_>>());
        assert!(all.iter().all(|own| (200..400).contains(&owned(own, &all).len())));
    }

    #[test]
    fn a_hub_that_goes_moves_its_own_queues_only() {
        let before = owned("a", &["a", "b", "c"]);
        let after = owned("a", &["a", "b"]);
        assert!(before.iter().all(|queue| after.contains(queue)) && after.len() > before.len());
        assert_eq!(owned("a", &[]).len(), 900);
    }

    #[test]
    fn news_are_told_once() {
        let mut members = Members::alone("a".into());
        assert!(members.is_alone() && !members.set_living(vec![]) && members.set_living(vec!["b".into()]));
        assert!(!members.set_living(vec!["b".into(), "a".into()]) && members.is_living("b") && !members.is_alone());
    }
}
