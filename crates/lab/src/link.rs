//! A link: one direction of a path, or of a site's uplink. On arrival it decides the fate of each segment, and its time.
//!
//! Pure: time comes in as an argument, in nanoseconds since the lab came up, and randomness from a seed.
//! Does not know: the content of packets beyond their sizes, or where they go.

mod disorder;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use disorder::{Gap, LossProcess};

use crate::packet::{Damage, Shape};
use crate::scenario::{LinkSettings, Word};

/// A super-packet that takes longer than this on the bottleneck leaves it in several runs of about this length: a real bottleneck sends its
/// segments one by one.
const GRANULE_NS: u64 = 500_000;
const PS_PER_NS: u64 = 1_000;
/// A shorter pause is that of a sender that could not keep up, a longer one that of a sender that had no data.
pub const PAUSE_NS: u64 = 100_000_000;

/// A run of segments that is passed on, and its time at the other end.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentRun {
    /// In nanoseconds.
    pub due: u64,
    /// Which segments of the packet.
    pub segments: Range<u16>,
    /// The damage to it; a damaged run is one segment.
    pub damage: Option<(Damage, u64)>,
}

/// What a link did to segments, by cause. Only grows. In segments unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after what is counted")]
pub struct Counts {
    pub packets: u64,
    pub segments: u64,
    pub bytes: u64,
    pub out_segments: u64,
    pub out_bytes: u64,
    pub queue_dropped: u64,
    pub policed: u64,
    pub lost: u64,
    pub down: u64,
    pub black_hole: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub corrupted: u64,
    pub corrupted_silently: u64,
    pub cross_bytes: u64,
    pub cross_dropped_bytes: u64,
    /// The longest queue so far, in bytes.
    pub queue_peak: u64,
    /// Time in which the bottleneck had no data, in nanoseconds, in pauses of less than [`PAUSE_NS`].
    pub idle_ns: u64,
}

/// One direction of a path, or of an uplink.
#[derive(Debug)]
pub struct Link {
    settings: LinkSettings,
    rtt: Duration,
    random: fastrand::Rng,
    loss: LossProcess,
    duplicate: Gap,
    reorder: Gap,
    corrupt: Gap,
    corrupt_silent: Gap,
    /// When the bottleneck will have sent its queue, in picoseconds: nanoseconds would lose up to 0.02 % at 100 Gbit/s.
    free_ps: u64,
    /// When the last packet that was queued at an earlier rate leaves, in picoseconds: no packet overtakes it.
    earlier_ps: u64,
    /// When the policer's bucket will be full again, in picoseconds.
    full_ps: u64,
    /// When the next packet of cross traffic comes, in picoseconds.
    cross_ps: u64,
    last_due: u64,
    counts: Counts,
}

impl Counts {
    /// Segments that have passed the bottleneck.
    fn past_bottleneck(&self) -> u64 {
        self.segments - self.queue_dropped - self.policed - self.down - self.black_hole
    }
}

/// The size of a packet of cross traffic: that of most packets on the Internet.
const CROSS_BYTES: u64 = 1_500;
/// Above this rate, packets of cross traffic come in rows (super-packets), as fast senders send them: single packets would keep the lab
/// busy.
const CROSS_ALONE_BIT_S: u64 = 1_000_000_000;
/// The most packets in such a row.
const CROSS_ROW_MAX: u64 = 43;

fn time_ps(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000_000 / u128::from(rate)) as u64
}

fn bytes_in(time_ps: u64, rate: u64) -> u64 {
    (u128::from(time_ps) * u128::from(rate) / 8_000_000_000_000) as u64
}

/// Bytes that a bottleneck still has to send. A byte counts until all of it has left; otherwise the queue would take a byte more than it may
/// hold.
fn queued_bytes(time_ps: u64, rate: u64) -> u64 {
    (u128::from(time_ps) * u128::from(rate)).div_ceil(8_000_000_000_000) as u64
}

/// The first segments, up to `bytes` in all.
fn first_fitting(shape: &Shape, segments: Range<u16>, bytes: u64) -> Range<u16> {
    if segments.is_empty() || u64::from(shape.bytes(segments.clone())) <= bytes {
        return segments;
    }
    // All segments but the last have one size, and not all fit.
    let size = u64::from(shape.bytes(segments.start..segments.start + 1)).max(1);
    let fit = (bytes / size).min(segments.len() as u64 - 1) as u16;
    segments.start..segments.start + fit
}

impl Link {
    /// A link with these settings. `rtt` is that of its path, by which a queue in round trips is sized.
    pub fn new(settings: LinkSettings, rtt: Duration, seed: u64) -> Link {
        let mut random = fastrand::Rng::with_seed(seed);
        Link {
            rtt,
            loss: LossProcess::new(&settings.loss, 0, &mut random),
            duplicate: Gap::new(settings.duplicate, &mut random),
            reorder: Gap::new(settings.reorder, &mut random),
            corrupt: Gap::new(settings.corrupt, &mut random),
            corrupt_silent: Gap::new(settings.corrupt_silent, &mut random),
            settings,
            random,
            free_ps: 0,
            earlier_ps: 0,
            full_ps: 0,
            cross_ps: 0,
            last_due: 0,
            counts: Counts::default(),
        }
    }

    /// Changes the settings at `now`; returns the words that take the change back. Segments on the wire are not affected.
    pub fn set(&mut self, now: u64, words: &[Word]) -> Vec<Word> {
        let mut before: Vec<Word> = words.iter().map(|word| self.set_one(now, word)).collect();
        before.reverse();
        before
    }

    fn set_one(&mut self, now: u64, word: &Word) -> Word {
        let backlog = self.backlog(now);
        let spent =
            self.settings.policer.map_or(0, |old| bytes_in(self.full_ps.saturating_sub(now * PS_PER_NS), old.rate.0));
        let before = self.settings.set(word.clone());
        let settings = &self.settings;
        let random = &mut self.random;
        match word {
            Word::Loss(loss) => self.loss = LossProcess::new(loss, self.counts.past_bottleneck(), random),
            Word::Duplicate(p) => self.duplicate = Gap::new(*p, random),
            Word::Reorder(p) => self.reorder = Gap::new(*p, random),
            Word::Corrupt(p) => self.corrupt = Gap::new(*p, random),
            Word::CorruptSilent(p) => self.corrupt_silent = Gap::new(*p, random),
            // The queue stays, for a bottleneck of another rate.
            Word::Rate(_) => {
                self.earlier_ps = self.earlier_ps.max(self.free_ps);
                self.free_ps = now * PS_PER_NS + settings.rate.map_or(0, |rate| time_ps(backlog, rate.0));
            }
            // The tokens that were spent stay spent, and are refilled at the new rate.
            Word::Policer(Some(policer)) => {
                let owed = spent.min(policer.burst.0);
                self.full_ps = now * PS_PER_NS + time_ps(owed, policer.rate.0);
            }
            // The new cross traffic begins now: none is made up for earlier times.
            Word::CrossTraffic(_) => self.cross_ps = now * PS_PER_NS,
            _ => {}
        }
        before
    }

    /// The settings in force.
    pub fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The bytes in the bottleneck's queue.
    pub fn backlog(&self, now: u64) -> u64 {
        self.settings.rate.map_or(0, |rate| queued_bytes(self.free_ps.saturating_sub(now * PS_PER_NS), rate.0))
    }

    /// Takes segments that arrive together at `now`. Runs that are passed on are appended to `out`.
    pub fn accept(&mut self, now: u64, shape: &Shape, segments: Range<u16>, out: &mut Vec<SegmentRun>) {
        let arrived = segments.len() as u64;
        self.counts.packets += 1;
        self.counts.segments += arrived;
        self.counts.bytes += u64::from(shape.bytes(segments.clone()));
        if self.settings.down {
            self.counts.down += arrived;
            return;
        }
        let segments = self.drop_above_black_hole(shape, segments);
        let segments = self.police(now, shape, segments);
        match self.settings.rate {
            None => self.send_over_wire(now * PS_PER_NS, shape, segments, out),
            Some(rate) => self.pass_bottleneck(now, rate.0, shape, segments, out),
        }
    }

    /// Drops the segments that are larger than the MTU black hole passes.
    fn drop_above_black_hole(&mut self, shape: &Shape, segments: Range<u16>) -> Range<u16> {
        let Some(mtu) = self.settings.mtu_black_hole.map(u32::from) else { return segments };
        if segments.is_empty() || shape.bytes(segments.start..segments.start + 1) <= mtu {
            return segments;
        }
        // All segments but the last have one size.
        let keeps_last = shape.bytes(segments.end - 1..segments.end) <= mtu;
        let rest = segments.end - u16::from(keeps_last)..segments.end;
        self.counts.black_hole += (segments.len() - rest.len()) as u64;
        rest
    }

    fn police(&mut self, now: u64, shape: &Shape, segments: Range<u16>) -> Range<u16> {
        let Some(policer) = self.settings.policer else { return segments };
        let now_ps = now * PS_PER_NS;
        let filled = self.full_ps.max(now_ps);
        // Rounded up: a burst, which may be just one packet, is never a byte shorter than the scenario says.
        let burst_ps = time_ps(policer.burst.0, policer.rate.0) + 1;
        let tokens = bytes_in((now_ps + burst_ps).saturating_sub(filled), policer.rate.0);
        let passing = first_fitting(shape, segments.clone(), tokens);
        self.full_ps = filled + time_ps(u64::from(shape.bytes(passing.clone())), policer.rate.0);
        self.counts.policed += (segments.len() - passing.len()) as u64;
        passing
    }

    /// Queues the cross traffic up to now.
    fn queue_cross_traffic(&mut self, now_ps: u64, rate: u64, queue: u64) {
        let Some(cross_rate) = self.settings.cross_traffic else { return };
        let bytes = CROSS_BYTES * cross_rate.0.div_ceil(CROSS_ALONE_BIT_S).clamp(1, CROSS_ROW_MAX);
        let mean_ps = time_ps(bytes, cross_rate.0);
        // Cross traffic from before the bottleneck was last idle has no effect any more.
        let horizon = now_ps.saturating_sub(time_ps(queue, rate) + mean_ps * 64);
        if self.cross_ps < horizon {
            let skipped = horizon - self.cross_ps;
            self.counts.cross_bytes += bytes_in(skipped, cross_rate.0);
            self.cross_ps = horizon;
        }
        while self.cross_ps <= now_ps {
            let backlog = queued_bytes(self.free_ps.saturating_sub(self.cross_ps), rate);
            self.counts.cross_bytes += bytes;
            if backlog > 0 && backlog + bytes > queue {
                self.counts.cross_dropped_bytes += bytes;
            } else {
                self.free_ps = self.free_ps.max(self.cross_ps) + time_ps(bytes, rate);
            }
            // Poisson arrivals: exponential gaps.
            let gap = -(1.0 - self.random.f64()).ln();
            self.cross_ps += (gap * mean_ps as f64) as u64 + 1;
        }
    }

    fn pass_bottleneck(&mut self, now: u64, rate: u64, shape: &Shape, segments: Range<u16>, out: &mut Vec<SegmentRun>) {
        let now_ps = now * PS_PER_NS;
        let queue = self.settings.queue_bytes(self.rtt);
        self.queue_cross_traffic(now_ps, rate, queue);
        let backlog = queued_bytes(self.free_ps.saturating_sub(now_ps), rate);
        let mut passing = first_fitting(shape, segments.clone(), queue.saturating_sub(backlog));
        if passing.is_empty() && backlog == 0 && !segments.is_empty() {
            // A packet that is being sent does not wait: an idle bottleneck takes one segment, however short its queue.
            passing = segments.start..segments.start + 1;
        }
        self.counts.queue_dropped += (segments.len() - passing.len()) as u64;
        let bytes = u64::from(shape.bytes(passing.clone()));
        self.counts.queue_peak = self.counts.queue_peak.max(backlog + bytes);
        // Packets that were queued when the rate changed leave first, at the old rate.
        self.free_ps = self.free_ps.max(self.earlier_ps);
        let idle_ns = now_ps.saturating_sub(self.free_ps) / PS_PER_NS;
        self.counts.idle_ns += if idle_ns < PAUSE_NS { idle_ns } else { 0 };
        self.free_ps = self.free_ps.max(now_ps);
        let whole_ps = time_ps(bytes, rate);
        let pieces = (whole_ps / PS_PER_NS).div_ceil(GRANULE_NS).clamp(1, passing.len().max(1) as u64) as usize;
        let segments_each = passing.len().div_ceil(pieces).max(1) as u16;
        let start_ps = self.free_ps;
        let mut sent = 0;
        while !passing.is_empty() {
            let run = passing.start..passing.end.min(passing.start.saturating_add(segments_each));
            passing.start = run.end;
            sent += u64::from(shape.bytes(run.clone()));
            self.free_ps = start_ps + time_ps(sent, rate);
            self.send_over_wire(self.free_ps, shape, run, out);
        }
    }

    /// Sends segments over the wire, which loses, repeats, holds back and damages some.
    fn send_over_wire(&mut self, sent_ps: u64, shape: &Shape, segments: Range<u16>, out: &mut Vec<SegmentRun>) {
        let sent = sent_ps.max(self.earlier_ps) / PS_PER_NS;
        let mut start = segments.start;
        let mut at = segments.start;
        while at < segments.end {
            let undisturbed = self.undisturbed().min(u64::from(segments.end - at)) as u16;
            if undisturbed > 0 {
                self.pass(u64::from(undisturbed));
                at += undisturbed;
                continue;
            }
            let effects = self.draw_effects();
            at += 1;
            if effects.is_none() {
                continue;
            }
            self.send(sent, shape, start..at - 1, out);
            start = at;
            self.disturb(sent, shape, at - 1, &effects, out);
        }
        self.send(sent, shape, start..at, out);
    }

    /// The number of segments before the next one that is disturbed.
    fn undisturbed(&self) -> u64 {
        let gaps = [&self.duplicate, &self.reorder, &self.corrupt, &self.corrupt_silent];
        gaps.iter().map(|gap| gap.left).fold(self.loss.undisturbed(), u64::min)
    }

    fn pass(&mut self, segments: u64) {
        self.loss.pass(segments);
        for gap in [&mut self.duplicate, &mut self.reorder, &mut self.corrupt, &mut self.corrupt_silent] {
            gap.pass(segments);
        }
    }

    /// The disturbances of the next segment.
    fn draw_effects(&mut self) -> WireEffects {
        let random = &mut self.random;
        WireEffects {
            lost: self.loss.hits(random),
            duplicated: self.duplicate.hits(random),
            reordered: self.reorder.hits(random),
            corrupted: self.corrupt.hits(random),
            silently: self.corrupt_silent.hits(random),
        }
    }

    /// Sends one segment that is disturbed. A lost segment has no other disturbance.
    fn disturb(&mut self, sent: u64, shape: &Shape, segment: u16, effects: &WireEffects, out: &mut Vec<SegmentRun>) {
        if effects.lost {
            self.counts.lost += 1;
            return;
        }
        let due = if effects.reordered {
            self.counts.reordered += 1;
            sent + self.travel() + self.settings.reorder_by.as_nanos() as u64
        } else {
            self.due(sent)
        };
        let damage = self.damage(shape, segment, effects);
        self.push(SegmentRun { due, segments: segment..segment + 1, damage }, shape, out);
        if effects.duplicated {
            self.counts.duplicated += 1;
            self.push(SegmentRun { due, segments: segment..segment + 1, damage: None }, shape, out);
        }
    }

    fn damage(&mut self, shape: &Shape, segment: u16, effects: &WireEffects) -> Option<(Damage, u64)> {
        if effects.corrupted && shape.can_be_damaged(segment, Damage::Seen) {
            self.counts.corrupted += 1;
            return Some((Damage::Seen, self.random.u64(..)));
        }
        if effects.silently && shape.can_be_damaged(segment, Damage::Silent) {
            self.counts.corrupted_silently += 1;
            return Some((Damage::Silent, self.random.u64(..)));
        }
        None
    }

    /// Takes back the count of the last damage: the segment was damaged before, and cannot be damaged again.
    pub fn uncount_damage(&mut self, damage: Damage) {
        match damage {
            Damage::Seen => self.counts.corrupted -= 1,
            Damage::Silent => self.counts.corrupted_silently -= 1,
        }
    }

    fn send(&mut self, sent: u64, shape: &Shape, segments: Range<u16>, out: &mut Vec<SegmentRun>) {
        if !segments.is_empty() {
            let due = self.due(sent);
            self.push(SegmentRun { due, segments, damage: None }, shape, out);
        }
    }

    fn push(&mut self, run: SegmentRun, shape: &Shape, out: &mut Vec<SegmentRun>) {
        self.counts.out_segments += run.segments.len() as u64;
        self.counts.out_bytes += u64::from(shape.bytes(run.segments.clone()));
        out.push(run);
    }

    /// The delay of a segment, with one draw of jitter.
    fn travel(&mut self) -> u64 {
        let (delay, jitter) = (self.settings.delay.as_nanos() as u64, self.settings.jitter.as_nanos() as u64);
        match jitter {
            0 => delay,
            _ => (delay + self.random.u64(0..=2 * jitter)).saturating_sub(jitter),
        }
    }

    /// When a segment that is sent now arrives; never before a segment that was sent earlier.
    fn due(&mut self, sent: u64) -> u64 {
        let due = sent + self.travel();
        self.last_due = self.last_due.max(due);
        // A delay that an event has shortened lets packets overtake, as a change of route does.
        if self.settings.jitter.is_zero() { due } else { self.last_due }
    }
}

/// The disturbances of a segment on the wire.
struct WireEffects {
    lost: bool,
    duplicated: bool,
    reordered: bool,
    corrupted: bool,
    silently: bool,
}

impl WireEffects {
    fn is_none(&self) -> bool {
        !(self.lost || self.duplicated || self.reordered || self.corrupted || self.silently)
    }
}
