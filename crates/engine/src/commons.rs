//! Jobs of one node that share a path, and what is each one's part of it.
//!
//! Two jobs over the same bottleneck find a fair share by themselves only where round trips are short: over 303 ms the one
//! that was there first keeps most of it for a minute. The node at one end of both sees both, and says what is fair:
//! max-min, so that a job which uses less than its part leaves the rest to the others. A path is told by the other end's
//! address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Over how long the sum of all rates is taken: long enough for bursts to even out.
const STEADY: Duration = Duration::from_secs(4);
/// What is given out of what there is.
const HELD: f64 = 0.98;
/// How quickly a job's rate is taken to have changed.
const SMOOTH: Duration = Duration::from_millis(500);

/// How often growth is looked for, and what counts as such.
const LOOK: Duration = Duration::from_secs(2);
const GROWTH: f64 = 1.1;

#[derive(Debug)]
struct Member {
    id: u64,
    /// Bytes per second, smoothed.
    rate: f64,
    at: Option<Instant>,
    /// Where its rate was some time ago, so that growth is seen.
    before: (Option<Instant>, f64),
    grows: bool,
    /// What its sender says the path gave when it was full; 0 where it never was.
    capacity: f64,
}

#[derive(Debug, Default)]
struct Path {
    members: Vec<Member>,
    /// What all of them use together, over some seconds.
    sum: f64,
    at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Paths {
    by_peer: HashMap<IpAddr, Path>,
    next: u64,
}

/// The paths that a node's jobs share. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Commons(Arc<Mutex<Paths>>);

/// A job's place among those that share its path; left when it is dropped.
#[derive(Debug)]
pub struct Seat {
    commons: Commons,
    peer: IpAddr,
    id: u64,
}

impl Commons {
    fn paths(&self) -> MutexGuard<'_, Paths> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job begins over the path to `peer`.
    pub fn join(&self, peer: IpAddr) -> Seat {
        let mut paths = self.paths();
        paths.next += 1;
        let id = paths.next;
        let peer = peer.to_canonical();
        let member = Member { id, rate: 0.0, at: None, before: (None, 0.0), grows: true, capacity: 0.0 };
        paths.by_peer.entry(peer).or_default().members.push(member);
        Seat { commons: self.clone(), peer, id }
    }
}

impl Seat {
    /// The job's rate since the last report, and what its sender says the path gives (0 where it does not know): returns
    /// the most it should use, bytes per second, where others share the path and it is full.
    pub fn report(&self, now: Instant, rate: f64, capacity: f64) -> Option<f64> {
        let mut paths = self.commons.paths();
        let path = paths.by_peer.get_mut(&self.peer)?;
        path.note(self.id, now, rate, capacity);
        path.share(self.id)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut paths = self.commons.paths();
        if let Some(path) = paths.by_peer.get_mut(&self.peer) {
            path.members.retain(|member| member.id != self.id);
            if path.members.is_empty() {
                paths.by_peer.remove(&self.peer);
            }
        }
    }
}

impl Member {
    /// What it could use soon: one that grows is given room to double, or it would have to wrest it from the others.
    fn demand(&self) -> f64 {
        self.rate * if self.grows { 2.0 } else { 1.05 }
    }
}

impl Path {
    fn note(&mut self, id: u64, now: Instant, rate: f64, capacity: f64) {
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            let span = member.at.replace(now).map_or(SMOOTH, |at| now.saturating_duration_since(at));
            let weight = 1.0 - (-span.as_secs_f64() / SMOOTH.as_secs_f64()).exp();
            member.rate += (rate - member.rate) * weight;
            member.capacity = capacity;
            let since = *member.before.0.get_or_insert(now);
            if now.saturating_duration_since(since) >= LOOK {
                member.grows = member.rate > member.before.1 * GROWTH;
                member.before = (Some(now), member.rate);
            }
        }
        let sum: f64 = self.members.iter().map(|member| member.rate).sum();
        let span = self.at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.sum += (sum - self.sum) * (1.0 - (-span.as_secs_f64() / STEADY.as_secs_f64()).exp());
    }

    fn share(&self, id: u64) -> Option<f64> {
        let capacity = self.members.iter().map(|member| member.capacity).fold(0.0, f64::max);
        // Nobody was ever held back by the path: there is room for all.
        if self.members.len() < 2 || capacity <= 0.0 {
            return None;
        }
        // What one of them measured beside the others is less than the path.
        let total = self.sum.max(capacity) * HELD;
        let others: Vec<f64> = self.members.iter().filter(|m| m.id != id).map(Member::demand).collect();
        Some(max_min(total, &others))
    }
}

/// The part of one who wants all it can get, where the others use so much each: they keep what they use up to a fair
/// part, and what they leave is there to be had.
fn max_min(total: f64, others: &[f64]) -> f64 {
    let mut used: Vec<f64> = others.to_vec();
    used.sort_by(f64::total_cmp);
    let (mut left, mut count) = (total, others.len() + 1);
    for rate in used {
        let fair = left / count as f64;
        if rate >= fair {
            return fair;
        }
        left -= rate;
        count -= 1;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fair_parts() {
        assert_eq!(max_min(100.0, &[]), 100.0);
        assert_eq!(max_min(100.0, &[100.0]), 50.0);
        assert_eq!(max_min(100.0, &[10.0]), 90.0);
        assert_eq!(max_min(100.0, &[10.0, 80.0]), 45.0);
        assert_eq!(max_min(100.0, &[40.0, 40.0]), 100.0 / 3.0);
    }

    /// Two greedy jobs, one long there: what is allowed is what is used, half a second later.
    #[test]
    fn a_newcomer_has_its_part_within_seconds() {
        let commons = Commons::default();
        let peer = "192.0.2.7".parse().unwrap();
        let start = Instant::now();
        let (a, b) = (commons.join(peer), commons.join(peer));
        let (mut old, mut new) = (100.0, 1.0);
        for tick in 0..100u32 {
            let now = start + Duration::from_millis(100) * tick;
            let for_old = a.report(now, old, 100.0).unwrap();
            let for_new = b.report(now, new, 0.0).unwrap();
            // The newcomer grows into what the other leaves.
            old += (for_old - old) * 0.2;
            new = (new * 1.3).min(for_new).min(105.0 - old);
        }
        assert!((45.0..55.0).contains(&old) && (45.0..55.0).contains(&new), "{old} and {new}");
        drop(a);
        assert_eq!(b.report(start, new, 50.0), None, "alone again");
    }

    #[test]
    fn where_there_is_room_nobody_is_held() {
        let commons = Commons::default();
        let (a, b) = (commons.join("192.0.2.7".parse().unwrap()), commons.join("192.0.2.7".parse().unwrap()));
        let elsewhere = commons.join("192.0.2.8".parse().unwrap());
        let now = Instant::now();
        assert_eq!(a.report(now, 40.0, 0.0), None);
        assert_eq!(b.report(now, 10.0, 0.0), None, "the path was never full");
        assert_eq!(elsewhere.report(now, 100.0, 100.0), None, "nobody else goes there");
    }
}
