//! The shares of the transfers that use one path.
//!
//! Congestion control divides a bottleneck fairly only where round trips are short: over 303 ms the first transfer keeps most of the
//! bottleneck for a minute. A node knows all of its transfers, and gives each its max-min share; a transfer that uses less leaves the rest
//! to the others. A path is identified by the address of the other end.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::max_min::left_for_one_more;

/// Time constant of the sum of all rates: long enough for bursts to even out.
const SUM_CONSTANT: Duration = Duration::from_secs(4);
/// Part of the known capacity that is given out.
const GIVEN_PART: f64 = 0.98;
/// Time constant of a transfer's rate.
const RATE_CONSTANT: Duration = Duration::from_millis(500);

/// Probes for more capacity, by all transfers of a path together: the interval, the duration, the part of the known capacity that is
/// given out meanwhile, and the factor by which the rate must exceed it. After a gain the next probe comes sooner and tries more.
const PROBE_EVERY: Duration = Duration::from_secs(16);
const PROBE: Duration = Duration::from_secs(3);
const PROBE_PART: f64 = 1.04;
const GAIN: f64 = 1.01;
const CLIMB_AFTER: Duration = Duration::from_secs(1);
const CLIMB_PART: f64 = 1.25;
/// The part during the first probe after a sender measured the path beside others: what it measured may be a small part of the capacity.
const DISCOVERY_PART: f64 = 2.0;
/// The factor from which on such a probe is repeated at once: the transfers used most of what it gave.
const DISCOVERY_GAIN: f64 = 1.5;
/// A measured capacity is discarded where the transfers use more than this multiple of it.
const DISPROVED_FACTOR: f64 = 1.05;

/// The interval between two checks whether a transfer grows, and the factor from which on it does.
const GROWTH_EVERY: Duration = Duration::from_secs(2);
const GROWTH: f64 = 1.1;

#[derive(Debug)]
struct SharingTransfer {
    number: u64,
    /// Bytes per second, smoothed.
    rate: f64,
    at: Option<Duration>,
    /// The time of the last check for growth, and the rate then.
    last_check: (Option<Duration>, f64),
    grows: bool,
    /// The capacity that its sender measured when the path was full; 0 before that.
    measured: f64,
    /// The capacity of the path by that measurement: all transfers were over it.
    capacity: f64,
}

#[derive(Debug, Default)]
struct SharedPath {
    members: Vec<SharingTransfer>,
    /// The sum of all rates, smoothed.
    sum: f64,
    at: Option<Duration>,
    probe: CapacityProbe,
}

/// A probe of a path for more capacity: a transfer that keeps to its share cannot find out by itself.
#[derive(Debug, Default)]
struct CapacityProbe {
    /// When the running probe began, if one runs.
    since: Option<Duration>,
    /// When the next probe begins.
    next: Option<Duration>,
    /// What the running probe gives out, or the next one.
    reach: ProbeReach,
    /// The highest rate that a probe found.
    found: f64,
}

/// How far a probe goes beyond the known capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ProbeReach {
    /// The capacity is known: look whether it has grown.
    #[default]
    Check,
    /// The last probe found more.
    Climb,
    /// A sender measured the path beside others: the capacity has only a lower bound.
    Discovery,
}

impl ProbeReach {
    /// The part of the known capacity that is given out during the probe.
    fn part(self) -> f64 {
        match self {
            Self::Check => PROBE_PART,
            Self::Climb => CLIMB_PART,
            Self::Discovery => DISCOVERY_PART,
        }
    }
}

impl CapacityProbe {
    /// A probe that begins now, for a capacity that has only a lower bound.
    fn discovery(now: Duration) -> Self {
        Self { since: Some(now), reach: ProbeReach::Discovery, ..Self::default() }
    }

    /// Steps the probe: `known` is the known capacity, `rate` the rate of all transfers now.
    fn tick(&mut self, now: Duration, known: f64, rate: f64) {
        let next = *self.next.get_or_insert(now + PROBE_EVERY);
        match self.since {
            None if now >= next => self.since = Some(now),
            Some(since) if now.saturating_sub(since) >= PROBE => {
                self.since = None;
                if self.reach == ProbeReach::Discovery && rate > known * DISCOVERY_GAIN {
                    self.found = rate;
                    self.since = Some(now);
                } else if rate > known * GAIN {
                    self.found = rate;
                    self.reach = ProbeReach::Climb;
                    self.next = Some(now + CLIMB_AFTER);
                } else {
                    self.reach = ProbeReach::Check;
                    self.next = Some(now + PROBE_EVERY);
                }
            }
            _ => {}
        }
    }

    /// The part of the known capacity that is given out now.
    fn part(&self) -> f64 {
        self.since.map_or(GIVEN_PART, |_| self.reach.part())
    }
}

/// The paths of a node's transfers, and each transfer's share.
#[derive(Debug, Default)]
pub struct PathShares {
    by_peer: HashMap<IpAddr, SharedPath>,
    last: u64,
}

/// Identifies a transfer's share of a path, until [`PathShares::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareId {
    peer: IpAddr,
    number: u64,
}

impl PathShares {
    /// Adds a transfer over the path to `peer`.
    pub fn join(&mut self, peer: IpAddr) -> ShareId {
        self.last += 1;
        let id = ShareId { peer: peer.to_canonical(), number: self.last };
        let member = SharingTransfer {
            number: id.number,
            rate: 0.0,
            at: None,
            last_check: (None, 0.0),
            grows: true,
            measured: 0.0,
            capacity: 0.0,
        };
        self.by_peer.entry(id.peer).or_default().members.push(member);
        id
    }

    /// Takes the transfer's rate since its last report, and the capacity that its sender measured (0 for none), in bytes per second.
    /// Returns its share, in bytes per second, if others use the path and its capacity is known.
    pub fn report(&mut self, id: ShareId, now: Duration, rate: f64, capacity: f64) -> Option<f64> {
        let path = self.by_peer.get_mut(&id.peer)?;
        path.record(id.number, now, rate, capacity);
        path.share(id.number)
    }

    /// Removes a transfer that has ended.
    pub fn leave(&mut self, id: ShareId) {
        let Some(path) = self.by_peer.get_mut(&id.peer) else { return };
        path.members.retain(|member| member.number != id.number);
        if path.members.is_empty() {
            self.by_peer.remove(&id.peer);
        }
    }
}

impl SharingTransfer {
    /// The rate that the transfer could use soon. A transfer that grows has room to double, since it could not win that room from the
    /// others.
    fn demand(&self) -> f64 {
        self.rate * if self.grows { 2.0 } else { 1.05 }
    }
}

impl SharedPath {
    fn record(&mut self, number: u64, now: Duration, rate: f64, capacity: f64) {
        if let Some(member) = self.members.iter_mut().find(|member| member.number == number) {
            let span = member.at.replace(now).map_or(RATE_CONSTANT, |at| now.saturating_sub(at));
            let weight = 1.0 - (-span.as_secs_f64() / RATE_CONSTANT.as_secs_f64()).exp();
            member.rate += (rate - member.rate) * weight;
            let since = *member.last_check.0.get_or_insert(now);
            if now.saturating_sub(since) >= GROWTH_EVERY {
                member.grows = member.rate > member.last_check.1 * GROWTH;
                member.last_check = (Some(now), member.rate);
            }
        }
        let sum: f64 = self.members.iter().map(|member| member.rate).sum();
        let unknown = self.known_capacity() <= 0.0;
        self.note_capacity(number, capacity, sum);
        if unknown && self.members.len() > 1 && self.known_capacity() > 0.0 {
            self.probe = CapacityProbe::discovery(now);
        }
        let span = self.at.replace(now).map_or(Duration::ZERO, |at| now.saturating_sub(at));
        self.sum += (sum - self.sum) * (1.0 - (-span.as_secs_f64() / SUM_CONSTANT.as_secs_f64()).exp());
        let known = self.known_capacity();
        if self.members.len() < 2 || known <= 0.0 {
            self.probe = CapacityProbe::default();
        } else {
            self.probe.tick(now, known, sum);
        }
    }

    /// Notes a capacity that a sender measured, if it is a new one. What all transfers had at that time went over the path: a sender that fills the
    /// path beside others measures only its own part.
    fn note_capacity(&mut self, number: u64, measured: f64, sum: f64) {
        let Some(member) = self.members.iter_mut().find(|member| member.number == number) else { return };
        if member.measured != measured {
            member.measured = measured;
            member.capacity = if measured > 0.0 { measured.max(sum) } else { 0.0 };
        }
    }

    /// The capacity that the transfers or a probe found; 0 while no transfer was ever limited by the path.
    fn known_capacity(&self) -> f64 {
        let measured = self.members.iter().map(|member| member.capacity).fold(0.0, f64::max);
        if measured > 0.0 { measured.max(self.probe.found) } else { 0.0 }
    }

    fn share(&self, number: u64) -> Option<f64> {
        let known = self.known_capacity();
        // No transfer was ever limited by the path: there is room for all.
        if self.members.len() < 2 || known <= 0.0 {
            return None;
        }
        // A transfer that measured the path beside others measured less than its capacity.
        let total =
            if self.sum > known * DISPROVED_FACTOR { self.sum } else { self.sum.max(known) * self.probe.part() };
        let others = self.members.iter().filter(|m| m.number != number);
        let others: Vec<f64> = others.map(SharingTransfer::demand).collect();
        Some(left_for_one_more(total, &others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two transfers on one path.
    fn pair() -> (PathShares, ShareId, ShareId) {
        let mut shares = PathShares::default();
        let peer = "192.0.2.7".parse().unwrap();
        let (a, b) = (shares.join(peer), shares.join(peer));
        (shares, a, b)
    }

    /// Two greedy transfers, one of which began first. Each one's rate follows its share within half a second.
    #[test]
    fn a_new_transfer_has_its_share_within_seconds() {
        let mut shares = PathShares::default();
        let a = shares.join("192.0.2.7".parse().unwrap());
        assert_eq!(shares.report(a, Duration::ZERO, 100.0, 100.0), None, "alone");
        let b = shares.join("192.0.2.7".parse().unwrap());
        let (mut old, mut new) = (100.0, 1.0);
        for tick in 0..100u32 {
            let now = Duration::from_millis(100) * tick;
            let for_old = shares.report(a, now, old, 100.0).unwrap();
            let for_new = shares.report(b, now, new, 0.0).unwrap();
            // The newcomer grows into the room that the other leaves.
            old += (for_old - old) * 0.2;
            new = (new * 1.3).min(for_new).min(105.0 - old);
        }
        assert!((45.0..55.0).contains(&old) && (45.0..55.0).contains(&new), "{old} and {new}");
        shares.leave(a);
        assert_eq!(shares.report(b, Duration::ZERO, new, 50.0), None, "alone again");
    }

    /// Two transfers that use all of their shares, over a path whose capacity grows to ten times what one of them measured.
    #[test]
    fn two_transfers_find_a_capacity_that_has_grown() {
        let (mut shares, a, b) = pair();
        let mut rates = [50.0, 50.0];
        let mut run = |from: u32, to: u32, path: f64| {
            for tick in from..to {
                let now = Duration::from_millis(100) * tick;
                for (id, at) in [(a, 0), (b, 1)] {
                    let share = shares.report(id, now, rates[at], 100.0).unwrap();
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

    /// Three transfers that begin together fill the path, and each measures a third of it.
    #[test]
    fn transfers_that_begin_together_keep_the_whole_path() {
        let mut shares = PathShares::default();
        let ids = [(); 3].map(|()| shares.join("192.0.2.7".parse().unwrap()));
        let mut rates = [0.0; 3];
        let mut measured = [0.0; 3];
        for tick in 0..100u32 {
            let now = Duration::from_millis(100) * tick;
            for (at, id) in ids.iter().enumerate() {
                let share = shares.report(*id, now, rates[at], measured[at]).unwrap_or(f64::INFINITY);
                rates[at] += (share.min(100.0) - rates[at]) * 0.3;
                // A sender measures the path only while that is what limits it.
                if tick > 15 && share > 100.0 {
                    measured[at] = rates[at];
                }
            }
        }
        let sum: f64 = rates.iter().sum();
        assert!(sum > 270.0, "{rates:?} of 300");
    }

    /// Two transfers that begin together over a long path: one of them measures it while the other one's window still grows.
    #[test]
    fn a_capacity_that_was_measured_too_early_is_discovered_at_once() {
        let (mut shares, a, b) = pair();
        let (mut fast, mut slow) = (10.0, 1.0);
        let mut measured = 0.0;
        for tick in 0..80u32 {
            let now = Duration::from_millis(100) * tick;
            let for_fast = shares.report(a, now, fast, measured).unwrap_or(f64::INFINITY);
            let for_slow = shares.report(b, now, slow, 0.0).unwrap_or(f64::INFINITY);
            fast = (fast * 1.15).min(for_fast).min(500.0 - slow);
            slow = (slow * 1.12).min(for_slow).min(500.0 - fast);
            if measured == 0.0 && fast > 150.0 {
                measured = fast;
            }
        }
        assert!(fast + slow > 450.0, "{fast} and {slow} of 500");
        assert!(slow > 200.0, "{slow} of 250");
    }

    /// A measured capacity below the use limits no transfer.
    #[test]
    fn a_capacity_measured_too_low_limits_no_transfer() {
        let (mut shares, a, b) = pair();
        let mut rate = 100.0;
        for tick in 0..600u32 {
            let now = Duration::from_millis(100) * tick;
            let share = shares.report(a, now, rate, 0.0);
            rate = share.map_or(rate, |share| rate.min(share.max(1.0)));
            shares.report(b, now, 1.0, 10.0);
            if tick < 100 {
                rate = 100.0;
            }
        }
        assert!(rate > 60.0, "{rate}");
    }

    #[test]
    fn no_transfer_is_limited_on_a_path_that_was_never_full() {
        let mut shares = PathShares::default();
        let [a, b, elsewhere] = ["192.0.2.7", "192.0.2.7", "192.0.2.8"].map(|peer| shares.join(peer.parse().unwrap()));
        let now = Duration::from_secs(9);
        assert_eq!(shares.report(a, now, 40.0, 0.0), None);
        assert_eq!(shares.report(b, now, 10.0, 0.0), None, "the path was never full");
        assert_eq!(shares.report(elsewhere, now, 100.0, 100.0), None, "no other transfer uses that path");
    }
}
