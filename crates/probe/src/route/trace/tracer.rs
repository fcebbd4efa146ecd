//! Chooses the TTL of the next probe, and evaluates the answers of the hops. Pure.
//!
//! It probes all hops once per round instead of sending all probes of a hop at once, as routers answer a few in a row and are then
//! silent for a while. In the first round TTLs rise, a window of them at a time, until the end is known.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::v1::probe::route::{End, Hop, Path, Router, RouterReply};

use super::super::drive::{Next, Script};
use super::super::flow::{ProbeEvent, ProbeFlow, ProbeSpec};
use super::Plan;

/// Most routers of one hop: a bound on input from the network.
const ROUTERS_MAX: usize = 16;

#[derive(Clone, Copy)]
struct Probe {
    ttl: u8,
    at: Duration,
    answered: bool,
}

/// Answers of one hop.
#[derive(Clone, Default)]
struct HopRecord {
    sent: u32,
    rtts: Vec<Duration>,
    routers: Vec<Router>,
}

/// One trace.
pub struct Tracer {
    plan: Plan,
    target: IpAddr,
    bytes: u32,
    probes: Vec<Probe>,
    /// Probes that are neither answered nor given up, oldest first.
    open: VecDeque<usize>,
    hops: Vec<HopRecord>,
    round: u32,
    rounds: u32,
    /// The next TTL in this round.
    ttl: u8,
    /// Time before which no probe is sent.
    resume: Duration,
    /// The lowest TTL at which the route ends, and why.
    end: Option<(u8, End)>,
    /// The highest TTL that was answered.
    highest: u8,
    distance_reverse: Option<u8>,
    anonymous: u32,
    /// One probe at a time, as answers do not quote the probe.
    is_serial: bool,
}

impl Tracer {
    /// A trace of the flow to `far`.
    pub fn new(plan: Plan, far: SocketAddr) -> Tracer {
        Tracer {
            plan,
            target: far.ip().to_canonical(),
            bytes: ProbeFlow::bytes_min(far),
            probes: Vec::new(),
            open: VecDeque::new(),
            hops: vec![HopRecord::default(); usize::from(plan.ttl_max)],
            round: 0,
            rounds: plan.queries.into(),
            ttl: 1,
            resume: Duration::ZERO,
            end: None,
            highest: 0,
            distance_reverse: None,
            anonymous: 0,
            is_serial: false,
        }
    }

    /// The highest TTL to probe, as far as is known.
    fn last(&self) -> u8 {
        let most = self.plan.ttl_max;
        self.end.map_or(self.highest.saturating_add(self.plan.gap), |(ttl, _)| ttl).min(most)
    }

    /// Gives up probes that are too old; returns the time at which the oldest of the others will be given up.
    fn expire(&mut self, now: Duration) -> Option<Duration> {
        while let Some(oldest) = self.open.front() {
            let until = self.probes[*oldest].at + self.plan.patience;
            if until > now {
                return Some(until);
            }
            self.open.pop_front();
        }
        None
    }

    /// Takes an answer to a probe; returns the probe's TTL if it is the first answer.
    fn close(&mut self, probe: usize) -> Option<u8> {
        let sent = self.probes.get_mut(probe).filter(|sent| !sent.answered)?;
        sent.answered = true;
        self.open.retain(|open| *open != probe);
        Some(sent.ttl)
    }

    /// Records an answer of a hop.
    fn record(&mut self, ttl: u8, rtt: Duration, router: Router) {
        self.highest = self.highest.max(ttl);
        let Some(hop) = self.hops.get_mut(usize::from(ttl).wrapping_sub(1)) else { return };
        hop.rtts.push(rtt);
        let same = |known: &&mut Router| known.address == router.address && known.icmp == router.icmp;
        let has_room = hop.routers.len() < ROUTERS_MAX;
        match hop.routers.iter_mut().find(same) {
            Some(known) => {
                known.answers += 1;
                known.ttl_reverse = router.ttl_reverse;
            }
            None if has_room => hop.routers.push(router),
            None => {}
        }
    }

    /// Takes a TTL at which the route ends.
    fn set_end(&mut self, ttl: u8, end: End) {
        // A probe that reached the target was not blocked, even if a router reports that it was.
        let is_better = |(known, why): (u8, End)| match (why, end) {
            (End::Reached, End::Blocked) => false,
            (End::Blocked, End::Reached) => true,
            _ => ttl < known,
        };
        if self.end.is_none_or(is_better) {
            self.end = Some((ttl.max(1), end));
        }
    }

    /// The probe of an answer that does not quote it: the only open probe, or none. From then on probes are sent one at a time.
    fn attribute(&mut self) -> Option<usize> {
        self.anonymous += 1;
        let only = (self.open.len() == 1).then(|| self.open.front().copied()).flatten();
        if only.is_none() && !self.is_serial {
            self.is_serial = true;
            self.rounds = self.round + 1 + u32::from(self.plan.queries);
        }
        only
    }

    fn handle_icmp(&mut self, now: Duration, event: &ProbeEvent) {
        let ProbeEvent::Icmp { probe, rtt, from, reply, icmp, ttl_reverse, .. } = event else { return };
        let Some(probe) = probe.or_else(|| self.attribute()) else { return };
        let Some(ttl) = self.close(probe) else { return };
        let rtt = rtt.unwrap_or_else(|| now.saturating_sub(self.probes[probe].at));
        let router = Router {
            address: from.to_string(),
            said: *reply,
            icmp: Some(*icmp),
            answers: 1,
            ttl_reverse: *ttl_reverse,
        };
        self.record(ttl, rtt, router);
        match reply {
            // Only an end host knows its ports, whatever the source address of its report.
            RouterReply::PortUnreachable => self.set_end(ttl, End::Reached),
            RouterReply::ProtocolUnreachable if *from == self.target => self.set_end(ttl, End::Reached),
            RouterReply::NetworkUnreachable
            | RouterReply::HostUnreachable
            | RouterReply::ProtocolUnreachable
            | RouterReply::AdminProhibited
            | RouterReply::TooBig => self.set_end(ttl, End::Blocked),
            RouterReply::TimeExceeded | RouterReply::Answered | RouterReply::Other => {}
        }
    }

    /// The path, as far as is known.
    pub fn path(&self) -> Path {
        let last = self.end.map_or(self.highest, |(ttl, _)| ttl);
        let hops = self.hops.iter().zip(1..=last).map(|(hop, ttl)| hop.hop(ttl));
        let end = match self.end {
            Some((_, end)) => end,
            None if self.highest == self.plan.ttl_max => End::TooFar,
            None => End::Silent,
        };
        let distance = self.end.filter(|(_, end)| *end == End::Reached).map(|(ttl, _)| ttl);
        Path {
            hops: hops.collect(),
            end,
            distance,
            distance_reverse: self.distance_reverse,
            anonymous: self.anonymous,
            ..Path::default()
        }
    }
}

impl Script for Tracer {
    fn next(&mut self, now: Duration) -> Next {
        let oldest = self.expire(now);
        if now < self.resume {
            return Next::Wait(self.resume);
        }
        if self.round >= self.rounds {
            return oldest.map_or(Next::Done, Next::Wait);
        }
        if self.ttl > self.last() {
            // Answers that are still awaited may move the end, in the first round and before the last.
            let may_grow = self.round == 0 || self.round + 1 >= self.rounds;
            if let Some(until) = oldest.filter(|_| may_grow) {
                return Next::Wait(until);
            }
            self.round += 1;
            self.ttl = 1;
            if self.round < self.rounds {
                self.resume = now + self.plan.pause;
            }
            return self.next(now);
        }
        let window = if self.is_serial { 1 } else { self.plan.window };
        if let Some(until) = oldest.filter(|_| self.open.len() >= window) {
            return Next::Wait(until);
        }
        let ttl = self.ttl;
        self.ttl += 1;
        self.hops[usize::from(ttl) - 1].sent += 1;
        self.open.push_back(self.probes.len());
        self.probes.push(Probe { ttl, at: now, answered: false });
        Next::Send(ProbeSpec { ttl, bytes: self.bytes })
    }

    fn handle(&mut self, now: Duration, event: &ProbeEvent) {
        match event {
            ProbeEvent::Answer { probe, rtt, hops, hops_reverse, ttl_reverse, .. } => {
                let Some(ttl) = self.close(*probe) else { return };
                let address = self.target.to_string();
                let said = RouterReply::Answered;
                self.record(ttl, *rtt, Router { address, said, icmp: None, answers: 1, ttl_reverse: *ttl_reverse });
                // A router may have changed the probe's TTL; the end is at the TTL that it was sent with, or before.
                self.set_end(hops.unwrap_or(ttl).min(ttl), End::Reached);
                self.distance_reverse = hops_reverse.or(self.distance_reverse);
            }
            ProbeEvent::Icmp { .. } => self.handle_icmp(now, event),
            // The tracer sends only the smallest probes, so there is no smaller one to try.
            ProbeEvent::TooBigHere { probe, .. } => drop(self.close(*probe)),
        }
    }
}

impl HopRecord {
    fn hop(&self, ttl: u8) -> Hop {
        let (rtt_min_s, rtt_median_s) = least_and_median(&self.rtts);
        Hop {
            ttl,
            routers: self.routers.clone(),
            sent: self.sent,
            answered: self.rtts.len() as u32,
            rtt_min_s,
            rtt_median_s,
        }
    }
}

/// The least and the median time, seconds. The median of an even number is the upper one, which is a measured time.
pub(in super::super) fn least_and_median(rtts: &[Duration]) -> (Option<f64>, Option<f64>) {
    let mut rtts = rtts.to_vec();
    rtts.sort_unstable();
    let at = |index: usize| rtts.get(index).map(Duration::as_secs_f64);
    (at(0), at(rtts.len() / 2))
}

#[cfg(test)]
mod tests;
