//! The probes of a search for the MTU: their number for each size, the time to wait for answers, and the use of ICMP. Pure.
//!
//! It begins with many of the smallest probes, which show that the far end answers, the round trip, and the loss of the path.
//! The loss determines how many probes of one size must be lost until the size counts as failed. At the end the largest size that
//! passed and the next larger one are tried again, so that a burst of loss does not look like an MTU.

use std::net::SocketAddr;
use std::time::Duration;

use model::v1::probe::route::{Mtu, MtuBound, MtuReport, MtuTried, RouterReply};

use super::super::drive::{Next, Script};
use super::super::flow::{ProbeEvent, ProbeFlow, ProbeSpec};
use super::Plan;
use super::search::Search;

/// The usual initial TTL.
const TTL: u8 = 64;
/// Number of smallest probes at the start.
const FIRST: usize = 16;
/// Random loss alone affects all probes of a size once in this many sizes.
const ODDS: f64 = 1e7;
/// Probes of one size in a round.
const COPIES_MIN: u32 = 5;
const COPIES_MAX: u32 = 32;
/// The wait for the last answer of a round is 1.5 times the longest round trip, and this for busy hosts.
const GRACE: Duration = Duration::from_millis(100);
/// Attempts to confirm the result.
const CONFIRMATIONS: u32 = 3;
/// Most reports of routers that are stored.
const REPORTS_MAX: usize = 16;
/// Most rounds: a search needs more only if the path keeps changing.
const ROUNDS_MAX: u32 = 64;

/// A size that is tried in this round.
#[derive(Clone, Copy, Debug)]
struct Trial {
    bytes: u32,
    sent: u32,
    /// This host or a router reported that the size does not fit.
    is_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The smallest probes.
    First,
    /// A round of the search.
    Round,
    /// The result is being confirmed; the number of failed attempts.
    Confirm(u32),
    /// The search is over; whether the result is confirmed.
    Over(bool),
}

/// A search in one flow.
pub struct Seeker {
    plan: Plan,
    floor: u32,
    search: Search,
    phase: Phase,
    trials: Vec<Trial>,
    /// Size of each probe, and whether it was answered.
    probes: Vec<(u32, bool)>,
    tried: Vec<MtuTried>,
    copies: u32,
    rtt_max: Duration,
    /// When the last probe was sent.
    last_sent: Duration,
    rounds: u32,
    interface: Option<u32>,
    /// Sizes that routers reported, each once.
    reports: Vec<MtuReport>,
    /// The first probe of this round.
    first_of_round: usize,
    /// The size to confirm was answered in this round.
    is_seen: bool,
}

impl Seeker {
    /// A search towards `far`.
    pub fn new(plan: Plan, far: SocketAddr) -> Seeker {
        let floor = ProbeFlow::bytes_min(far);
        Seeker {
            plan,
            floor,
            search: Search::new(floor, plan.bytes_max),
            phase: Phase::First,
            trials: Vec::new(),
            probes: Vec::new(),
            tried: Vec::new(),
            copies: COPIES_MAX,
            rtt_max: Duration::ZERO,
            last_sent: Duration::ZERO,
            rounds: 0,
            interface: None,
            reports: Vec::new(),
            first_of_round: 0,
            is_seen: false,
        }
    }

    /// The MTU, as far as it is known; none if not even the smallest probes were answered.
    pub fn found(&self) -> Option<Mtu> {
        if !self.probes.iter().any(|(_, is_answered)| *is_answered) {
            return None;
        }
        let mtu_bytes = self.search.passed();
        let confirmed = self.phase == Phase::Over(true);
        let bound = match self.interface {
            _ if mtu_bytes < self.search.top() => MtuBound::Path,
            Some(_) => MtuBound::Interface,
            None => MtuBound::Limit,
        };
        let is_right = |said: &&MtuReport| confirmed && bound == MtuBound::Path && said.mtu_bytes == mtu_bytes;
        let said: Vec<_> =
            self.reports.iter().map(|said| MtuReport { confirmed: is_right(&said), ..said.clone() }).collect();
        // A router that refuses the next larger size without reporting one that fits is no black hole either.
        let next = self.tried.iter().find(|tried| tried.bytes == mtu_bytes + 1);
        let is_refused = bound == MtuBound::Path && next.is_some_and(|next| next.refused > 0);
        let icmp = is_refused || said.iter().any(|said| said.confirmed);
        let mut tried = self.tried.clone();
        tried.sort_unstable_by_key(|one| one.bytes);
        Some(Mtu {
            mtu_bytes,
            bound,
            icmp,
            black_hole: confirmed && bound == MtuBound::Path && !icmp,
            confirmed,
            interface_bytes: self.interface,
            said,
            tried,
            seconds: 0.0,
        })
    }

    fn tried(&mut self, bytes: u32) -> &mut MtuTried {
        let index = match self.tried.iter().position(|one| one.bytes == bytes) {
            Some(index) => index,
            None => {
                self.tried.push(MtuTried { bytes, ..MtuTried::default() });
                self.tried.len() - 1
            }
        };
        &mut self.tried[index]
    }

    fn send(&mut self, now: Duration, bytes: u32) -> Next {
        self.last_sent = now;
        self.probes.push((bytes, false));
        self.tried(bytes).sent += 1;
        Next::Send(ProbeSpec { ttl: TTL, bytes })
    }

    /// The time from which no more answers are expected.
    fn answers_until(&self) -> Duration {
        self.last_sent + (self.rtt_max + self.rtt_max / 2 + GRACE).min(self.plan.patience.max(GRACE))
    }

    /// Whether further probes of a size would show nothing new in this round.
    fn is_settled(&self, trial: &Trial) -> bool {
        match self.phase {
            // To confirm a size, an answer of this round is required.
            Phase::Confirm(_) if trial.bytes == self.search.passed() => self.is_seen,
            _ => trial.is_refused || trial.bytes <= self.search.passed() || trial.bytes > self.search.top(),
        }
    }

    fn first(&mut self, now: Duration) -> Next {
        if self.probes.len() < FIRST {
            return self.send(now, self.floor);
        }
        let answered = self.probes.iter().filter(|(_, is_answered)| *is_answered).count();
        let until = if answered == 0 { self.last_sent + self.plan.patience } else { self.answers_until() };
        if answered < FIRST && now < until {
            return Next::Wait(until);
        }
        if answered == 0 {
            self.phase = Phase::Over(false);
            return Next::Done;
        }
        // Two more probes count as lost and two more as answered (Agresti and Coull, 1998): 16 of 16 do not prove that the path
        // never loses one.
        let loss = (FIRST - answered + 2) as f64 / (FIRST + 4) as f64;
        self.copies = ((ODDS.ln() / -loss.ln()).ceil() as u32).clamp(COPIES_MIN, COPIES_MAX);
        self.begin(Phase::Round)
    }

    /// Begins a round, whose first probe is due at once.
    fn begin(&mut self, phase: Phase) -> Next {
        self.rounds += 1;
        self.phase = if self.rounds > ROUNDS_MAX { Phase::Over(false) } else { phase };
        let passed = self.search.passed();
        let sizes = match self.phase {
            Phase::Round => self.search.round(),
            Phase::Confirm(_) => {
                let mut sizes = vec![passed, passed + 1, self.search.top()];
                sizes.dedup();
                sizes
            }
            Phase::First | Phase::Over(_) => return Next::Done,
        };
        self.first_of_round = self.probes.len();
        self.is_seen = false;
        self.trials = sizes.into_iter().map(|bytes| Trial { bytes, sent: 0, is_refused: false }).collect();
        Next::Wait(self.last_sent)
    }

    /// Sends one probe of each size, then a second one of each, and so on: an answer makes further ones unnecessary.
    fn round(&mut self, now: Duration) -> Option<Next> {
        let open = self.trials.iter().enumerate().filter(|(_, trial)| !self.is_settled(trial));
        let (index, trial) = open.min_by_key(|(_, trial)| trial.sent)?;
        if trial.sent >= self.copies {
            let until = self.answers_until();
            return (now < until).then_some(Next::Wait(until));
        }
        let bytes = trial.bytes;
        self.trials[index].sent += 1;
        Some(self.send(now, bytes))
    }

    /// Ends a round: sizes without an answer count as failed.
    fn close(&mut self) -> Next {
        let passed = self.search.passed();
        for trial in std::mem::take(&mut self.trials) {
            if trial.bytes > passed && trial.bytes <= self.search.top() {
                self.search.fail(trial.bytes);
            }
        }
        match self.phase {
            _ if !self.search.is_found() => self.begin(Phase::Round),
            // All sizes that can be sent pass: there is nothing to confirm.
            _ if passed == self.search.top() => self.end(true),
            Phase::Confirm(_) if self.is_seen => self.end(true),
            Phase::Confirm(CONFIRMATIONS..) => self.end(false),
            Phase::Confirm(failed) => self.begin(Phase::Confirm(failed + 1)),
            _ => self.begin(Phase::Confirm(1)),
        }
    }

    fn end(&mut self, is_confirmed: bool) -> Next {
        self.phase = Phase::Over(is_confirmed);
        Next::Done
    }

    fn take_answer(&mut self, probe: usize, rtt: Duration) {
        let Some((bytes, is_answered)) = self.probes.get_mut(probe).filter(|(_, is_answered)| !is_answered) else {
            return;
        };
        *is_answered = true;
        let bytes = *bytes;
        self.tried(bytes).answered += 1;
        self.rtt_max = self.rtt_max.max(rtt);
        if bytes > self.search.passed() {
            self.search.pass(bytes);
            // The result has changed, and must be confirmed again.
            self.is_seen = false;
        } else if bytes == self.search.passed() && probe >= self.first_of_round {
            self.is_seen = true;
        }
    }

    fn take_refusal(&mut self, probe: usize) -> Option<u32> {
        let (bytes, _) = *self.probes.get(probe).filter(|(_, is_answered)| !is_answered)?;
        self.tried(bytes).refused += 1;
        self.trials.iter_mut().filter(|trial| trial.bytes == bytes).for_each(|trial| trial.is_refused = true);
        Some(bytes)
    }
}

impl Script for Seeker {
    fn next(&mut self, now: Duration) -> Next {
        // A step may begin a new round, which may be over at once. There are at most `ROUNDS_MAX` of them.
        for _ in 0..=ROUNDS_MAX {
            let next = match self.phase {
                Phase::First => self.first(now),
                Phase::Over(_) => return Next::Done,
                Phase::Round | Phase::Confirm(_) => match self.round(now) {
                    Some(next) => return next,
                    None => self.close(),
                },
            };
            match next {
                Next::Wait(until) if until <= now => {}
                next => return next,
            }
        }
        self.end(false)
    }

    fn handle(&mut self, _: Duration, event: &ProbeEvent) {
        match event {
            ProbeEvent::Answer { probe, rtt, .. } => self.take_answer(*probe, *rtt),
            ProbeEvent::Icmp { probe: Some(probe), reply: RouterReply::TooBig, from, mtu, .. } => {
                let Some(bytes) = self.take_refusal(*probe) else { return };
                let report = MtuReport { by: from.to_string(), mtu_bytes: *mtu, confirmed: false };
                if self.reports.len() < REPORTS_MAX && !self.reports.contains(&report) {
                    self.reports.push(report);
                }
                if *mtu < bytes {
                    self.search.hint(*mtu);
                }
            }
            ProbeEvent::Icmp { .. } => {}
            ProbeEvent::TooBigHere { probe, mtu } => {
                let Some(bytes) = self.take_refusal(*probe) else { return };
                let mtu = mtu.map_or(bytes.saturating_sub(1), |mtu| mtu.min(bytes.saturating_sub(1)));
                self.interface = Some(self.interface.map_or(mtu, |known| known.min(mtu)));
                self.search.lower_top(mtu);
            }
        }
    }
}

#[cfg(test)]
mod tests;
