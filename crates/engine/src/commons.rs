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

/// How often, for how long, and with how much of the path, jobs that share it look together whether it gives more by now;
/// what counts as more; and how soon and with how much they go on then.
const PROBE_EVERY: Duration = Duration::from_secs(16);
const PROBE: Duration = Duration::from_secs(3);
const PROBE_PART: f64 = 1.04;
const GAINED: f64 = 1.01;
const CLIMB_AFTER: Duration = Duration::from_secs(1);
const CLIMB_PART: f64 = 1.25;
/// A measure of the path that is less than what its jobs use by so much is none.
const DISPROVED: f64 = 1.05;

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
    probe: Probe,
}

/// While jobs share a path, each is given its part, and none finds out by itself that there is more.
#[derive(Debug, Default)]
struct Probe {
    /// When the present one began, if there is one.
    since: Option<Instant>,
    /// When the next one begins.
    next: Option<Instant>,
    /// The last one found more.
    climbs: bool,
    /// The most that was found.
    found: f64,
}

impl Probe {
    /// Goes on with it: `known` is what the path is known to give, `rate` what comes through now.
    fn tick(&mut self, now: Instant, known: f64, rate: f64) {
        let next = *self.next.get_or_insert(now + PROBE_EVERY);
        match self.since {
            None if now >= next => self.since = Some(now),
            Some(since) if now.saturating_duration_since(since) >= PROBE => {
                self.since = None;
                self.climbs = rate > known * GAINED;
                self.found = if self.climbs { rate } else { self.found };
                self.next = Some(now + if self.climbs { CLIMB_AFTER } else { PROBE_EVERY });
            }
            _ => {}
        }
    }

    /// What is given out of what the path is known to give.
    fn part(&self) -> f64 {
        match (self.since, self.climbs) {
            (None, _) => HELD,
            (Some(_), false) => PROBE_PART,
            (Some(_), true) => CLIMB_PART,
        }
    }
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
        let known = self.known();
        if self.members.len() < 2 || known <= 0.0 {
            self.probe = Probe::default();
        } else {
            self.probe.tick(now, known, sum);
        }
    }

    /// What the path gives, as far as its jobs found out; 0 where none was ever held back by it.
    fn known(&self) -> f64 {
        let measured = self.members.iter().map(|member| member.capacity).fold(0.0, f64::max);
        if measured > 0.0 { measured.max(self.probe.found) } else { 0.0 }
    }

    fn share(&self, id: u64) -> Option<f64> {
        let known = self.known();
        // Nobody was ever held back by the path: there is room for all.
        if self.members.len() < 2 || known <= 0.0 {
            return None;
        }
        // What one of them measured beside the others is less than the path.
        let total = match self.sum > known * DISPROVED {
            true => self.sum,
            false => self.sum.max(known) * self.probe.part(),
        };
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

    /// Two jobs on one path.
    fn pair() -> (Instant, Seat, Seat) {
        let (commons, peer) = (Commons::default(), "192.0.2.7".parse().unwrap());
        (Instant::now(), commons.join(peer), commons.join(peer))
    }

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
        let (start, a, b) = pair();
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

    /// Two jobs that use what they are given, over a path that gives ten times as much as one of them once found.
    #[test]
    fn jobs_together_find_out_that_there_is_more() {
        let (start, a, b) = pair();
        let mut rates = [50.0, 50.0];
        let mut run = |from: u32, to: u32, path: f64| {
            for tick in from..to {
                let now = start + Duration::from_millis(100) * tick;
                for (seat, at) in [(&a, 0), (&b, 1)] {
                    let share = seat.report(now, rates[at], 100.0).unwrap();
                    rates[at] += (share.min(path / 2.0) - rates[at]) * 0.3;
                }
            }
            rates.iter().sum::<f64>()
        };
        let narrow = run(0, 600, 100.0);
        assert!((95.0..=101.0).contains(&narrow), "{narrow}");
        let wide = run(600, 2_400, 1_000.0);
        assert!(wide > 900.0, "{wide}");
    }

    /// A measure that is less than what is used holds nobody down.
    #[test]
    fn a_wrong_measure_holds_nobody_down() {
        let (start, a, b) = pair();
        let mut rate = 100.0;
        for tick in 0..600u32 {
            let now = start + Duration::from_millis(100) * tick;
            let share = a.report(now, rate, 0.0);
            rate = share.map_or(rate, |share| rate.min(share.max(1.0)));
            b.report(now, 1.0, 10.0);
            if tick < 100 {
                rate = 100.0;
            }
        }
        assert!(rate > 60.0, "{rate}");
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
