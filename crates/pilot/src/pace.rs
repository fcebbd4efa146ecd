//! Decides the rate of all streams together: a little below the measured rate of the path, so that no queue builds up and a shallow one
//! does not overflow. Finds out whether the path gives more by now, and whether others use it.
//!
//! ```text
//! open --a queue--> fill --> drain --> held --every few seconds--> probe --nothing gained--> held
//!                              ^         ^ |                          `--more came through--> climb
//!                              `--no more came through-----------------------------------------'
//!                  a while later --------' `--less comes through, or a queue or loss not ours--> contend
//! ```
//!
//! *open*: congestion control alone decides. *fill*: the queue stands for a moment, and the arriving rate is measured. *drain*: the
//! queue is emptied. *held*: the rate stays at [`HELD`] of the measured one, so that congestion control has nothing to react to but
//! loss that is not congestion. *contend*: others use the path, and a sender that holds its rate would keep its present share, fair or
//! not; congestion control decides again.

use std::time::Duration;

use crate::PathHistory;
use crate::accumulator::{Accumulator, IntervalRates};

/// Part of the measured rate at which the streams are held.
const HELD: f64 = 0.99;
/// Growth of the rate from one round to the next that counts.
const GROWTH: f64 = 1.1;
/// The rate while the path is measured, as a multiple of the rate that arrived last.
const FILL: f64 = 1.05;
/// The highest arriving rate that counts, as a multiple of the rate when the queue was first seen.
const FILL_MAX: f64 = 2.0;
/// The rate while the queue empties, as a part of the measured rate, and for how many rounds at most.
const DRAIN: f64 = 0.9;
const DRAIN_ROUNDS: u32 = 16;
/// Rounds without growth after which the path is full, as BBR judges it.
const FLAT_ROUNDS: u32 = 3;
/// Share of loss that is worth a reaction.
const LOSS: f64 = 2e-4;
/// The rate of a probe, as a multiple, and its number of rounds.
const PROBE: f64 = 1.04;
const PROBE_ROUNDS: u32 = 4;
/// The time between probes: at first, and after many that gained nothing.
const PROBE_AFTER: Duration = Duration::from_secs(1);
const PROBE_AFTER_MAX: Duration = Duration::from_secs(16);
/// A climb multiplies the rate by this in a round.
const CLIMB: f64 = 1.25;
/// The shortest round trip at which the rate of an earlier job is used. Over a shorter path slow start costs nothing, and a job may be over
/// before it has found out that the path gives more by now: every short job would keep a rate that one slow job has left.
const LONG_RTT_S: f64 = 0.005;
/// The held rate counts as reached from this part on.
const REACHED: f64 = 0.9;
/// Below this part of the best rate of an open path one end has stalled: that is no measurement of the path…
const STALLED: f64 = 0.75;
/// …unless it lasts. The best rate falls by this factor in each round.
const FORGET: f64 = 0.9;
/// For how many rounds, and how long, signs of other traffic must last before they count.
const SIGN_ROUNDS: u32 = 3;
const SIGN_TIME: Duration = Duration::from_secs(1);
/// A step down that shows whether loss or a queue comes from a rate that is too high, and the number of such steps.
const LOWER: f64 = 0.97;
const LOWER_STEPS: u32 = 4;
/// More loss than this is caused by the transfer itself in any case.
const LOSS_OWN: f64 = 0.02;
/// More loss than any path has by chance: a queue overflows.
const OVERFLOW_LOSS: f64 = 0.1;
/// How long to contend before the rate is held again: at first, and after a hold that failed.
const CONTEND: Duration = Duration::from_secs(15);
const CONTEND_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open { best: f64, flat: u32 },
    Fill { since: Duration, first: f64 },
    Drain { since: Duration },
    Held { since: Duration, settled: bool },
    Probe { since: Duration },
    Climb { since: Duration },
    Contend { until: Duration },
}

/// The shortest time over which a rate is meaningful.
const TICK: Duration = Duration::from_millis(200);

/// Decides how fast all streams of a path together may send.
#[derive(Debug)]
pub(super) struct Pacer {
    state: State,
    cap: f64,
    /// The highest rate of the full path in this job; 0 if it never was full.
    capacity: f64,
    /// The last rate of the full path in this job; 0 if it never was full.
    last: f64,
    /// The rate of the full path in an earlier job.
    expected: f64,
    /// Loss that a lower rate does not cure: it is not congestion.
    base_loss: f64,
    /// How often the cap was lowered in a row.
    lowered: u32,
    /// The loss before the cap was last lowered.
    loss_before: f64,
    round_at: Duration,
    /// The number of rounds in a row that showed other traffic on the path.
    sign_rounds: u32,
    /// The time until the next probe.
    probe_after: Duration,
    /// How long the next contention lasts.
    contend_for: Duration,
}

/// Whether the path, and not this host or a window, limits the rate; only then does the rate measure the path.
pub(super) fn is_path_limited(rates: &IntervalRates) -> bool {
    rates.socket > 0.5 && !rates.is_windowed(0.3)
}

/// Whether a queue too short to show in round trips overflows: slow start sends up to twice what a path takes.
fn short_queue_overflows(accumulator: &Accumulator) -> bool {
    let tick = accumulator.over(TICK);
    tick.loses_more_than(OVERFLOW_LOSS, 0.0)
}

impl Pacer {
    pub(super) fn new(past: Option<&PathHistory>) -> Pacer {
        let past = past.copied().unwrap_or_default();
        let expected = if past.min_rtt_s < LONG_RTT_S { 0.0 } else { past.capacity_bytes_s as f64 };
        let open = State::Open { best: 0.0, flat: 0 };
        let held = State::Held { since: Duration::ZERO, settled: false };
        Pacer {
            // The rate of the earlier job is not exceeded at first: no overshoot at the end of slow start.
            state: if expected > 0.0 { held } else { open },
            cap: expected * HELD,
            capacity: 0.0,
            last: 0.0,
            expected,
            base_loss: past.loss,
            lowered: 0,
            loss_before: 0.0,
            round_at: Duration::ZERO,
            sign_rounds: 0,
            probe_after: PROBE_AFTER,
            contend_for: CONTEND,
        }
    }

    /// The rate of all streams together, bytes per second; none while congestion control alone decides.
    pub(super) fn cap(&self) -> Option<u64> {
        match self.state {
            State::Open { .. } | State::Contend { .. } => None,
            State::Probe { .. } => Some((self.cap * PROBE) as u64),
            _ => Some(self.cap as u64),
        }
    }

    /// Whether the path counts as full, so that more streams would not help.
    pub(super) fn is_full(&self) -> bool {
        !matches!(self.state, State::Open { .. } | State::Fill { .. })
    }

    /// The rate of the full path, bytes per second; 0 if it never was full.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// The rate that the next job should expect.
    pub(super) fn history_rate(&self) -> u64 {
        (if self.last > 0.0 { self.last } else { self.expected }) as u64
    }

    /// Share of the bytes that are lost without congestion.
    pub(super) fn base_loss(&self) -> f64 {
        self.base_loss
    }

    /// Judges the arriving rate once a round. Returns whether congestion control should begin a new model of the path, to use a rate that
    /// was raised.
    pub(super) fn tick(&mut self, now: Duration, accumulator: &Accumulator) -> bool {
        let round = accumulator.round();
        if accumulator.min_rtt().is_zero() {
            return false;
        }
        self.watch_queue(now, accumulator);
        if now.saturating_sub(self.round_at) < round {
            return false;
        }
        self.round_at = now;
        let before = self.state;
        match self.state {
            State::Open { best, flat } => self.open_round(now, accumulator, best, flat),
            State::Fill { .. } | State::Drain { .. } => {}
            State::Held { since, settled } => self.held_round(now, accumulator, since, settled),
            State::Probe { since } => self.probe_round(now, accumulator, since),
            State::Climb { since } => self.climb_round(now, accumulator, since),
            // Holds the arriving rate; unless the host itself sends less, which says nothing about the path.
            State::Contend { until } if now >= until => {
                if is_path_limited(&accumulator.over(round * 4)) {
                    self.hold(now, accumulator.best_rate(round * 4));
                } else {
                    self.state = State::Open { best: 0.0, flat: 0 };
                }
            }
            State::Contend { .. } => {}
        }
        let probes = |state| matches!(state, State::Probe { .. } | State::Climb { .. });
        probes(self.state) && !probes(before)
    }

    fn open_round(&mut self, now: Duration, accumulator: &Accumulator, best: f64, flat: u32) {
        let last = accumulator.over(accumulator.round());
        if last.rate < best * STALLED {
            self.state = State::Open { best: best * FORGET, flat: 0 };
            return;
        }
        if last.rate > best * GROWTH || !is_path_limited(&last) {
            self.state = State::Open { best: best.max(last.rate), flat: 0 };
            return;
        }
        self.state = State::Open { best: best.max(last.rate), flat: flat + 1 };
        let few = accumulator.over(accumulator.round() * FLAT_ROUNDS);
        let congested = accumulator.queue_stands() || few.loses_more_than(self.base_loss, LOSS);
        if flat + 1 >= FLAT_ROUNDS && congested {
            self.hold(now, accumulator.best_rate(accumulator.round() * 4));
        }
    }

    /// Watches for a queue between the rounds: slow start doubles the rate in every round trip, and if it ends only when the queue has
    /// overflowed, up to the whole content of the path is lost. As soon as a queue is seen, the path is full; the rate that arrives while
    /// the queue stands is that of the path.
    fn watch_queue(&mut self, now: Duration, accumulator: &Accumulator) {
        match self.state {
            State::Open { best, .. }
                if best > 0.0 && (accumulator.queue_is_long() || short_queue_overflows(accumulator)) =>
            {
                let tick = accumulator.over(TICK);
                if is_path_limited(&tick) && tick.rate > best * STALLED {
                    let first = tick.rate.max(best);
                    self.cap = first * FILL;
                    self.state = State::Fill { since: now, first };
                }
            }
            State::Fill { since, .. } if now - since >= (accumulator.round() * 2).max(Duration::from_millis(500)) => {
                // The rate when the queue was first seen counts: a host that stalls for a moment is not the path.
                self.hold(now, accumulator.best_rate(now - since + accumulator.round() * 2));
            }
            // Slow start doubles within the time over which its rate was measured when the queue was seen: while a queue
            // stands, the arriving rate is that of the path.
            State::Fill { first, .. } if accumulator.queue_stands() => {
                let rate = accumulator.over(TICK).rate.min(first * FILL_MAX);
                self.cap = self.cap.max(rate * FILL);
            }
            // A probe that fills a queue has found no more capacity. To send less costs nothing then: the path stays full from its queue.
            State::Probe { .. } if accumulator.queue_stands() || self.overflows(accumulator) => {
                self.probe_after = (self.probe_after * 2).min(PROBE_AFTER_MAX);
                self.state = State::Held { since: now, settled: true };
            }
            State::Drain { since }
                if !accumulator.queue_stands() || now - since > accumulator.round() * DRAIN_ROUNDS =>
            {
                self.cap = self.cap / DRAIN * HELD;
                self.state = State::Held { since: now, settled: false };
            }
            _ => {}
        }
    }

    fn overflows(&self, accumulator: &Accumulator) -> bool {
        accumulator.over(TICK).loses_more_than(self.base_loss, LOSS)
    }

    fn hold(&mut self, now: Duration, rate: f64) {
        self.measured(rate);
        self.cap = rate * DRAIN;
        self.lowered = 0;
        self.sign_rounds = 0;
        self.state = State::Drain { since: now };
    }

    fn measured(&mut self, rate: f64) {
        self.capacity = self.capacity.max(rate);
        self.last = rate;
    }

    fn held_round(&mut self, now: Duration, accumulator: &Accumulator, since: Duration, settled: bool) {
        let round = accumulator.round();
        let held_for = now.saturating_sub(since);
        let last = accumulator.over(round * 2);
        // Where the cap comes from an earlier job, slow start has to reach it first.
        let reached = last.rate > self.cap * REACHED;
        // Queues and losses from before the hold take some rounds to clear.
        if held_for < round * 4 || (!settled && !reached && accumulator.grows(round * 4)) {
            return;
        }
        let congested = accumulator.queue_stands() || last.loses_more_than(self.base_loss, LOSS);
        if reached && self.capacity == 0.0 {
            // The path has the rate of an earlier job.
            self.measured(last.rate.max(self.expected));
        }
        if !settled && reached {
            self.settle(now, accumulator, congested, last.loss);
            return;
        }
        let short = !reached && last.socket > 0.5;
        self.sign_rounds = if short || congested { self.sign_rounds + 1 } else { 0 };
        if self.sign_rounds >= SIGN_ROUNDS && round * self.sign_rounds >= SIGN_TIME {
            // If the path never gave the expected rate, it is another path by now.
            if self.capacity > 0.0 { self.contend(now) } else { self.reopen() }
        } else if self.sign_rounds == 0 && reached && held_for > self.probe_after.max(round * 10) {
            self.state = State::Probe { since: now };
        }
    }

    /// Finds out whether a queue or loss comes from a rate that is too high: then a step down cures it.
    fn settle(&mut self, now: Duration, accumulator: &Accumulator, congested: bool, loss: f64) {
        let cured = loss < self.loss_before / 2.0 || loss > LOSS_OWN;
        let lower =
            congested && self.lowered < LOWER_STEPS && (self.lowered == 0 || cured || accumulator.queue_stands());
        if lower {
            self.lowered += 1;
            self.cap *= LOWER;
            self.loss_before = loss;
        } else if congested {
            // Neither the loss nor the queue is the transfer's own.
            self.cap /= LOWER.powi(self.lowered as i32);
            self.base_loss = self.base_loss.max(accumulator.over(accumulator.round() * 8).loss);
        }
        self.state = State::Held { since: now, settled: !lower };
    }

    fn probe_round(&mut self, now: Duration, accumulator: &Accumulator, since: Duration) {
        let round = accumulator.round();
        let gained = accumulator.over(round).rate > self.cap * (1.0 + (PROBE - 1.0) * 0.7);
        if gained && !accumulator.queue_stands() && now.saturating_sub(since) > round * 2 {
            self.cap *= PROBE;
            self.probe_after = PROBE_AFTER;
            self.contend_for = CONTEND;
            self.state = State::Climb { since: now };
        } else if now.saturating_sub(since) > round * PROBE_ROUNDS {
            self.probe_after = (self.probe_after * 2).min(PROBE_AFTER_MAX);
            self.state = State::Held { since: now, settled: true };
        }
    }

    fn climb_round(&mut self, now: Duration, accumulator: &Accumulator, since: Duration) {
        let round = accumulator.round();
        if now.saturating_sub(since) < round * 2 {
            return;
        }
        let last = accumulator.over(round);
        if last.rate > self.cap * 0.95 && !accumulator.queue_stands() {
            self.cap *= CLIMB;
            self.measured(last.rate);
            self.state = State::Climb { since: now };
        } else {
            self.hold(now, accumulator.best_rate(round * 3));
        }
    }

    /// Measures the path anew, after something other than the path limited the job.
    pub(super) fn reopen(&mut self) {
        self.state = State::Open { best: 0.0, flat: 0 };
    }

    fn contend(&mut self, now: Duration) {
        self.sign_rounds = 0;
        self.state = State::Contend { until: now + self.contend_for };
        self.contend_for = (self.contend_for * 2).min(CONTEND_MAX);
    }
}
