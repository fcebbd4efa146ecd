//! The pilot of one path. Ten times a second it takes samples and returns actions for the streams.

use std::collections::HashMap;
use std::time::Duration;

use model::account::{Account, StageTimes};

use crate::congestion::{self, Evidence, choose, wanted};
use crate::pace::{self, Pacer};
use crate::stream_count::{self, StreamCount};
use crate::{Accumulator, Action, Context, Known, PathEstimate, PathHistory, Sample};

/// The interval between two refreshes of a stream: shorter than the ten seconds after which BBR probes for the least round-trip time.
const REFRESH_EVERY: Duration = Duration::from_secs(8);
/// A stream that has sent nothing for this time has nothing to send.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The pilot of one path, at its sending end.
#[derive(Debug)]
pub struct Pilot {
    known: Known,
    accumulator: Accumulator,
    pacer: Pacer,
    count: StreamCount,
    /// The pace that each stream was set to last.
    paces: HashMap<u32, Option<u64>>,
    /// When each stream's congestion control was chosen.
    chosen_at: HashMap<u32, Duration>,
    /// When each stream's congestion control last began a new model of the path.
    refreshed_at: HashMap<u32, Duration>,
    /// The bytes that each stream had sent when it last had data to send, and that time.
    last_sent: HashMap<u32, (u64, Duration)>,
    /// The share of a shared path that the streams were last set to, bytes per second; 0 where the path is not shared.
    share_bytes_s: u64,
    /// When congestion control was last made to search for the free rate.
    searched_at: Duration,
    /// The congestion control that the evidence asks for and the host does not permit.
    missed: Option<&'static str>,
}

impl Pilot {
    /// A pilot for a transfer that is about to begin.
    pub fn new(known: Known) -> Pilot {
        Pilot {
            pacer: Pacer::new(known.past.as_ref()),
            accumulator: Accumulator::new(known.send_buffer_bytes),
            count: StreamCount::new(known.past.as_ref()),
            paces: HashMap::new(),
            chosen_at: HashMap::new(),
            refreshed_at: HashMap::new(),
            last_sent: HashMap::new(),
            share_bytes_s: 0,
            searched_at: Duration::ZERO,
            missed: None,
            known,
        }
    }

    /// Takes the samples of all streams, and returns the actions that follow.
    pub fn tick(&mut self, now: Duration, samples: &[Sample], context: &Context<'_>) -> Vec<Action> {
        self.accumulator.observe(now, samples);
        let mut actions = Vec::new();
        if samples.is_empty() || context.paused {
            return actions;
        }
        self.review_congestion(now, samples, &mut actions);
        let peer_waits = context.peer.is_none_or(|peer| waits_for_sender(peer, &mut self.count.peer_before));
        let share = self.share(context);
        // Where a node divides the path into shares, the arriving rate is no measure of the path.
        let is_shared = share.is_some();
        let refreshes_all = match share {
            Some(share) => self.is_short_of(now, share),
            None => self.pacer.tick(now, &self.accumulator),
        };
        self.share_bytes_s = share.unwrap_or_default();
        self.refresh(now, samples, refreshes_all, &mut actions);
        if context.streams == 0 && context.limit_bytes_s == 0 {
            let view = stream_count::PathView {
                streams: samples.len() as u32,
                is_full: self.pacer.is_full() || is_shared,
                peer_waits,
                loss_based: samples.iter().all(|s| congestion::is_loss_based(&s.congestion)),
                processors: self.known.processors,
            };
            actions.extend(self.count.tick(now, &self.accumulator, &view).map(Action::Streams));
            if std::mem::take(&mut self.count.has_widened) {
                self.pacer.reopen();
            }
        }
        self.pace(now, samples, context, &mut actions);
        actions
    }

    /// Notes that the host refused this congestion control to a socket.
    pub fn refused(&mut self, name: &str) {
        self.known.permitted.names.retain(|known| known != name);
        self.chosen_at.clear();
    }

    /// Whether much less than the transfer's share arrives, so that congestion control should search for the free rate now: by itself BBR
    /// takes a quarter more in eight round trips.
    fn is_short_of(&mut self, now: Duration, share: u64) -> bool {
        let round = self.accumulator.round();
        let waited = now.saturating_sub(self.searched_at) >= round * 4;
        let last = self.accumulator.over(round * 2);
        // A transfer that is slow for another reason does not lack capacity.
        let short = waited && pace::is_path_limited(&last) && last.rate < share as f64 * 0.75;
        if short {
            self.searched_at = now;
        }
        short
    }

    /// The rate of the path when this transfer filled it, bytes per second; 0 if it never did.
    pub fn capacity(&self) -> u64 {
        self.pacer.capacity()
    }

    /// The estimate of the path so far.
    pub fn estimate(&self) -> PathEstimate {
        let mut estimate = self.accumulator.estimate();
        estimate.capacity_bytes_s = self.pacer.capacity();
        estimate.cap_bytes_s = self.pacer.cap();
        estimate.missed = self.missed;
        estimate.forced = self.known.permitted.forced.clone();
        estimate
    }

    /// The measurements to keep for the next transfer on this path.
    pub fn past(&self, streams: u32) -> Option<PathHistory> {
        let estimate = self.accumulator.estimate();
        let enough = estimate.min_rtt > Duration::ZERO && estimate.delivered_bytes > 1 << 20;
        enough.then(|| PathHistory {
            capacity_bytes_s: self.pacer.history_rate(),
            streams: self.count.settled(streams),
            min_rtt_s: estimate.min_rtt.as_secs_f64(),
            // Loss that has ended is not remembered.
            loss: self.pacer.base_loss().min(estimate.loss),
        })
    }

    /// Chooses the congestion control of each stream by the evidence so far.
    fn review_congestion(&mut self, now: Duration, samples: &[Sample], actions: &mut Vec<Action>) {
        let rtt = self.accumulator.min_rtt();
        if self.known.permitted.forced.is_some() || rtt.is_zero() {
            return;
        }
        let loss = self.accumulator.loss_without_queue();
        let each_bytes_s = self.accumulator.over(self.accumulator.round() * 4).rate / samples.len().max(1) as f64;
        let path = Evidence { rtt, loss, each_bytes_s, mss_bytes: samples.first().map_or(0, |s| s.tcp.mss_bytes) };
        for sample in samples {
            // A change costs the stream its model of the path, so the new congestion control gets time before it is judged.
            let settle = (rtt * 20).max(Duration::from_secs(2));
            if self.chosen_at.get(&sample.stream).is_some_and(|at| now.saturating_sub(*at) < settle) {
                continue;
            }
            let Some(want) = wanted(&path, &sample.congestion) else { continue };
            self.chosen_at.insert(sample.stream, now);
            match choose(want, &self.known.permitted) {
                Some(name) if name != sample.congestion => actions.push(Action::Congestion(sample.stream, name)),
                Some(_) => {}
                None => self.missed = Some(want.name()),
            }
        }
    }

    /// Restarts the congestion control of streams. BBR sends almost nothing for a round trip every ten seconds, to measure the least
    /// round-trip time (PROBE_RTT): that costs 4 % of the path at 303 ms. While the pilot holds the rate and no queue stands, every round
    /// trip is the least one, and a stream whose congestion control is restarted at the held rate does not probe.
    fn refresh(&mut self, now: Duration, samples: &[Sample], all: bool, actions: &mut Vec<Action>) {
        let held = (self.share_bytes_s > 0 || self.pacer.cap().is_some()) && self.known.permitted.forced.is_none();
        let clear = !self.accumulator.queue_stands();
        for sample in samples.iter().filter(|sample| !congestion::is_loss_based(&sample.congestion)) {
            let last = self.refreshed_at.entry(sample.stream).or_insert(now);
            // A stream keeps a congestion control that the host would not set again.
            let can_set = self.known.permitted.names.contains(&sample.congestion);
            if held && can_set && (all || clear && now.saturating_sub(*last) >= REFRESH_EVERY) {
                *last = now;
                actions.push(Action::Refresh(sample.stream));
            }
        }
    }

    /// The transfer's share of a path that other transfers of a node at either end use.
    fn share(&self, context: &Context<'_>) -> Option<u64> {
        let theirs = context.peer.map_or(0, |peer| peer.share_bit_s / 8);
        [context.share_bytes_s, theirs].into_iter().filter(|share| *share > 0).min()
    }

    /// The number of streams that have data to send; all of them where none has. A file whose digest needs the bytes in order goes on one
    /// stream, which then gets the rate that the others do not use.
    fn busy_streams(&mut self, now: Duration, samples: &[Sample]) -> u64 {
        let busy = samples.iter().filter(|Sample { stream, tcp, .. }| {
            let last = self.last_sent.entry(*stream).or_insert((tcp.bytes_sent, now));
            if tcp.bytes_sent != last.0 || tcp.unsent_bytes > 0 || tcp.unacked_segments > 0 {
                *last = (tcp.bytes_sent, now);
            }
            now.saturating_sub(last.1) < IDLE_AFTER
        });
        match busy.count() {
            0 => samples.len() as u64,
            busy => busy as u64,
        }
    }

    /// Sets the rate of each stream.
    fn pace(&mut self, now: Duration, samples: &[Sample], context: &Context<'_>, actions: &mut Vec<Action>) {
        let streams = self.busy_streams(now, samples);
        let cap = self.share(context).or(self.pacer.cap());
        // The transfer's schedule enforces the limit itself; the sockets are set a little higher, and only even out bursts.
        let limit = (context.limit_bytes_s > 0).then(|| context.limit_bytes_s.saturating_mul(3) / 2);
        let each = [cap, limit].into_iter().flatten().min().map(|total| (total / streams).max(1 << 14));
        for sample in samples {
            let last = self.paces.entry(sample.stream).or_default();
            if *last != each {
                *last = each;
                actions.push(Action::Pace(sample.stream, each));
            }
        }
    }
}

/// Whether the receiver's threads mostly waited for this end since their last account: then a full window is too small, and
/// not one that the receiver fails to empty.
fn waits_for_sender(peer: &Account, before: &mut (StageTimes, bool)) -> bool {
    let spent = peer.spent.since(&before.0);
    let total = spent.total().as_secs_f64();
    if total > 0.2 {
        let waited = spent.wall_in(model::account::Stage::Socket) + spent.wall_in(model::account::Stage::Idle);
        *before = (peer.spent, waited.as_secs_f64() > 0.5 * total);
    }
    before.1
}

#[cfg(test)]
mod tests;
