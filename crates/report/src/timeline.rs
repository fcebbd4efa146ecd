//! A transfer over time, in a bounded number of cells of equal length. When time does not fit, all cells become twice as long. Means
//! stay exact and each cell keeps its extremes, so that a dip of one sample shows in a transfer of a week.
//!
//! Does not know: files and formats. The caller gives finite times, counts and rates that are not negative.

mod facts;

use std::collections::BTreeMap;

use model::account::{Account, STAGES, StageTimes};
use pilot::verdict::{self, LimitingPart, Shares};

pub use facts::StreamFacts;

/// The most cells: some three pixels for each, and a table that a person can read.
pub const CELLS_MAX: usize = 200;
/// The initial length of a cell: the interval between samples.
const STEP_S: f64 = 0.25;
/// The largest number of streams with a timeline of their own; a job has 1,024 at most at a time.
const STREAMS_MAX: usize = 4096;

/// Bytes or bit/s, by direction: sent, received.
pub type SentReceived = [f64; 2];

/// The time of one end's threads by stage: wall time, processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times([[f64; STAGES]; 2]);

impl Times {
    fn add(&mut self, more: &Times, share: f64) {
        for (sum, more) in self.0.as_flattened_mut().iter_mut().zip(more.0.as_flattened()) {
            *sum += more * share;
        }
    }

    fn account(&self) -> Account {
        let spans = |of: &[f64; STAGES]| of.map(std::time::Duration::from_secs_f64);
        Account {
            spent: StageTimes { wall: spans(&self.0[0]), cpu: spans(&self.0[1]), ..StageTimes::default() },
            ..Account::default()
        }
    }
}

impl From<&StageTimes> for Times {
    fn from(spent: &StageTimes) -> Times {
        Times([spent.wall.map(|wall| wall.as_secs_f64()), spent.cpu.map(|cpu| cpu.as_secs_f64())])
    }
}

/// What TCP did, all streams together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tcp {
    /// The sum of the streams' lifetimes.
    pub stream_s: f64,
    /// The part of it with data in flight or waiting.
    pub busy_s: f64,
    /// The part of it with the receive window full.
    pub receive_window_s: f64,
    /// The part of it with the send buffer full.
    pub send_buffer_s: f64,
    /// Bytes sent again.
    pub resent_bytes: f64,
}

/// A stream in one sample.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Its number; none for all streams together.
    pub stream: Option<u32>,
    /// The start of the interval that the sample covers.
    pub from_s: f64,
    /// The bytes that it moved since.
    pub bytes: SentReceived,
}

#[derive(Clone, Copy, Debug)]
struct TimelineCell {
    bytes: SentReceived,
    low: SentReceived,
    high: SentReceived,
    covered_s: f64,
    near: Times,
    far: Times,
    tcp: Tcp,
    /// Round trips: least, most, sum and number. A round trip that lasts into other cells counts in part.
    rtt: (f64, f64, f64, f64),
}

impl Default for TimelineCell {
    fn default() -> TimelineCell {
        let none = Times::default();
        let zero = [0.0; 2];
        let low = [f64::INFINITY; 2];
        let rtt = (f64::INFINITY, 0.0, 0.0, 0.0);
        TimelineCell { bytes: zero, low, high: zero, covered_s: 0.0, near: none, far: none, tcp: Tcp::default(), rtt }
    }
}

impl TimelineCell {
    fn add(&mut self, other: &TimelineCell) {
        for index in 0..2 {
            self.bytes[index] += other.bytes[index];
            self.low[index] = self.low[index].min(other.low[index]);
            self.high[index] = self.high[index].max(other.high[index]);
        }
        self.covered_s += other.covered_s;
        self.near.add(&other.near, 1.0);
        self.far.add(&other.far, 1.0);
        self.add_tcp(&other.tcp, 1.0);
        let (rtt, more) = (&mut self.rtt, &other.rtt);
        *rtt = (rtt.0.min(more.0), rtt.1.max(more.1), rtt.2 + more.2, rtt.3 + more.3);
    }

    fn add_tcp(&mut self, more: &Tcp, share: f64) {
        self.tcp.stream_s += more.stream_s * share;
        self.tcp.busy_s += more.busy_s * share;
        self.tcp.receive_window_s += more.receive_window_s * share;
        self.tcp.send_buffer_s += more.send_buffer_s * share;
        self.tcp.resent_bytes += more.resent_bytes * share;
    }
}

/// The bytes that a stream moved in a cell, and how long it existed there.
#[derive(Clone, Copy, Debug, Default)]
struct StreamCell {
    bytes: SentReceived,
    covered_s: f64,
}

#[derive(Clone, Debug, Default)]
struct StreamTimeline {
    parts: Vec<StreamCell>,
    facts: StreamFacts,
}

/// A mean over a cell, with its extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The start of the cell.
    pub from_s: f64,
    /// The end of the cell.
    pub to_s: f64,
    /// The mean.
    pub mean: f64,
    /// The least value seen.
    pub low: f64,
    /// The largest value seen.
    pub high: f64,
}

/// The work of both ends' threads, and of TCP, in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The start of the cell.
    pub from_s: f64,
    /// The end of the cell.
    pub to_s: f64,
    /// The sending end.
    pub sender: Option<Shares>,
    /// The receiving end.
    pub receiver: Option<Shares>,
    /// The limiting part, if the end that wrote the series is known.
    pub limit: Option<LimitingPart>,
    /// TCP at the sending end.
    pub tcp: Tcp,
}

/// An end, as seen from the end that wrote the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that wrote the series.
    Near,
    /// The other end.
    Far,
}

/// A transfer over time.
#[derive(Clone, Debug)]
pub struct TransferTimeline {
    step_s: f64,
    cells: Vec<TimelineCell>,
    streams: BTreeMap<u32, StreamTimeline>,
    /// The latest time that a row is about.
    end_s: f64,
    /// Whether there were more streams than `STREAMS_MAX`.
    is_crowded: bool,
}

impl Default for TransferTimeline {
    fn default() -> TransferTimeline {
        TransferTimeline { step_s: STEP_S, cells: Vec::new(), streams: BTreeMap::new(), end_s: 0.0, is_crowded: false }
    }
}

/// Joins cells in pairs.
fn halve<T: Copy>(cells: &mut Vec<T>, add: impl Fn(&mut T, &T)) {
    let pair = |pair: &[T]| {
        let mut sum = pair[0];
        pair[1..].iter().for_each(|other| add(&mut sum, other));
        sum
    };
    *cells = cells.chunks(2).map(pair).collect();
}

fn add_part(sum: &mut StreamCell, more: &StreamCell) {
    sum.bytes = [sum.bytes[0] + more.bytes[0], sum.bytes[1] + more.bytes[1]];
    sum.covered_s += more.covered_s;
}

impl TransferTimeline {
    /// Lengthens the cells until a time fits.
    fn extend_to(&mut self, to_s: f64) {
        self.end_s = self.end_s.max(to_s);
        while to_s / self.step_s > CELLS_MAX as f64 {
            self.step_s *= 2.0;
            halve(&mut self.cells, |sum, more| sum.add(more));
            self.streams.values_mut().for_each(|stream| halve(&mut stream.parts, add_part));
        }
    }

    /// The cells that a span lies in, each with its share of the span.
    fn cells_of(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = (usize, f64)> + use<> {
        let step_s = self.step_s;
        let last = ((to_s / step_s).ceil() as usize).clamp(1, CELLS_MAX) - 1;
        let first = ((from_s / step_s) as usize).min(last);
        let length_s = to_s - from_s;
        (first..=last).map(move |at| {
            let (begin, end) = (at as f64 * step_s, (at + 1) as f64 * step_s);
            let inside_s = (to_s.min(end) - from_s.max(begin)).max(0.0);
            let share = if length_s > 0.0 { inside_s / length_s } else { f64::from(u8::from(at == last)) };
            (at, share)
        })
    }

    fn cell(&mut self, at: usize) -> &mut TimelineCell {
        if self.cells.len() <= at {
            self.cells.resize(at + 1, TimelineCell::default());
        }
        &mut self.cells[at]
    }

    /// Adds a sample of all streams. The rates between two samples give the extremes.
    pub fn add_sample(&mut self, from_s: f64, to_s: f64, flows: &[Flow]) {
        self.extend_to(to_s);
        let mut rates = [0.0; 2];
        for flow in flows {
            let seconds = to_s - flow.from_s;
            for (rate, bytes) in rates.iter_mut().zip(flow.bytes) {
                *rate += if seconds > 0.0 { bytes * 8.0 / seconds } else { 0.0 };
            }
            for (at, share) in self.cells_of(flow.from_s.min(to_s), to_s) {
                let cell = self.cell(at);
                cell.bytes[0] += flow.bytes[0] * share;
                cell.bytes[1] += flow.bytes[1] * share;
            }
            self.add_bytes(flow, to_s);
        }
        if from_s >= to_s {
            return;
        }
        let half_s = self.step_s / 2.0;
        for (at, share) in self.cells_of(from_s, to_s) {
            let inside_s = (to_s - from_s) * share;
            let cell = self.cell(at);
            cell.covered_s += inside_s;
            // A sample counts for a cell's extremes if at least half of the sample lies in the cell, or the sample fills at least
            // half of the cell. So every sample counts somewhere, and one that only reaches into a cell does not count there.
            if share < 0.5 - 1e-9 && inside_s < half_s {
                continue;
            }
            for (index, rate) in rates.iter().enumerate() {
                cell.low[index] = cell.low[index].min(*rate);
                cell.high[index] = cell.high[index].max(*rate);
            }
        }
    }

    fn stream(&mut self, id: u32) -> Option<&mut StreamTimeline> {
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&id) {
            self.is_crowded = true;
            return None;
        }
        Some(self.streams.entry(id).or_default())
    }

    fn add_bytes(&mut self, flow: &Flow, to_s: f64) {
        let shares = self.cells_of(flow.from_s.min(to_s), to_s);
        let Some(stream) = flow.stream.and_then(|id| self.stream(id)) else { return };
        let seconds = (to_s - flow.from_s).max(0.0);
        stream.facts.add_bytes(flow.bytes, flow.from_s, to_s);
        for (at, share) in shares {
            if stream.parts.len() <= at {
                stream.parts.resize(at + 1, StreamCell::default());
            }
            let bytes = flow.bytes.map(|bytes| bytes * share);
            add_part(&mut stream.parts[at], &StreamCell { bytes, covered_s: seconds * share });
        }
    }

    /// Adds the time of one end's threads.
    pub fn threads(&mut self, side: Side, from_s: f64, to_s: f64, times: &Times) {
        self.extend_to(to_s);
        for (at, share) in self.cells_of(from_s, to_s) {
            let cell = self.cell(at);
            let sum = if side == Side::Near { &mut cell.near } else { &mut cell.far };
            sum.add(times, share);
        }
    }

    /// Adds what TCP did on one stream.
    pub fn tcp(&mut self, from_s: f64, to_s: f64, tcp: &Tcp) {
        self.extend_to(to_s);
        for (at, share) in self.cells_of(from_s, to_s) {
            self.cell(at).add_tcp(tcp, share);
        }
    }

    /// Adds the round trip that a stream had for a while.
    pub fn round_trip(&mut self, from_s: f64, to_s: f64, rtt_s: f64) {
        self.extend_to(to_s);
        for (at, share) in self.cells_of(from_s.min(to_s), to_s) {
            let rtt = &mut self.cell(at).rtt;
            if share > 0.0 {
                *rtt = (rtt.0.min(rtt_s), rtt.1.max(rtt_s), rtt.2 + rtt_s * share, rtt.3 + share);
            }
        }
    }

    /// The facts about a stream; none if there are too many streams.
    pub fn facts_of(&mut self, id: u32) -> Option<&mut StreamFacts> {
        self.stream(id).map(|stream| &mut stream.facts)
    }

    /// The end of the timeline.
    pub fn end_s(&self) -> f64 {
        self.end_s
    }

    /// The length of a cell.
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// Whether there were too many streams to keep each.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// All bytes.
    pub fn bytes(&self) -> SentReceived {
        let sum = |index: usize| self.cells.iter().map(|cell| cell.bytes[index]).sum();
        [sum(0), sum(1)]
    }

    /// Whether the end that wrote the series was the sender: it sent more than it received.
    pub fn sends(&self) -> bool {
        let [sent, received] = self.bytes();
        sent >= received
    }

    /// The index of the payload in [`SentReceived`].
    fn payload_index(&self) -> usize {
        usize::from(!self.sends())
    }

    fn span(&self, at: usize) -> (f64, f64) {
        let from_s = at as f64 * self.step_s;
        (from_s, (from_s + self.step_s).min(self.end_s.max(from_s)))
    }

    /// The rate of all streams together, bit/s.
    pub fn rates(&self) -> Vec<Mean> {
        let index = self.payload_index();
        let mean = |(at, cell): (usize, &TimelineCell)| {
            let (from_s, to_s) = self.span(at);
            let mean = cell.bytes[index] * 8.0 / cell.covered_s;
            let (low, high) = (cell.low[index].min(mean), cell.high[index].max(mean));
            (cell.covered_s > 1e-9 && to_s > from_s).then_some(Mean { from_s, to_s, mean, low, high })
        };
        self.cells.iter().enumerate().filter_map(mean).collect()
    }

    /// The streams, with their facts.
    pub fn streams(&self) -> impl Iterator<Item = (u32, &StreamFacts)> {
        self.streams.iter().map(|(id, stream)| (*id, &stream.facts))
    }

    /// The rate of these streams together, bit/s; a stream moves nothing while it does not exist.
    pub fn rates_of(&self, ids: &[u32]) -> Vec<Mean> {
        let index = self.payload_index();
        let parts: Vec<&Vec<StreamCell>> =
            ids.iter().filter_map(|id| self.streams.get(id)).map(|stream| &stream.parts).collect();
        let mean = |at: usize| {
            let (from_s, to_s) = self.span(at);
            let here = || parts.iter().filter_map(|parts| parts.get(at)).filter(|part| part.covered_s > 1e-9);
            let bytes: f64 = here().map(|part| part.bytes[index]).sum();
            let mean = bytes * 8.0 / (to_s - from_s);
            (here().next().is_some() && to_s > from_s).then_some(Mean { from_s, to_s, mean, low: mean, high: mean })
        };
        (0..self.cells.len()).filter_map(mean).collect()
    }

    /// Round trips of the sending end, seconds; empty if the other end wrote the series.
    pub fn round_trips(&self) -> Vec<Mean> {
        let mean = |(at, cell): (usize, &TimelineCell)| {
            let (from_s, to_s) = self.span(at);
            let (low, high, sum, count) = cell.rtt;
            (count > 0.0 && to_s > from_s).then(|| Mean { from_s, to_s, mean: sum / count, low, high })
        };
        let cells = if self.sends() { &self.cells[..] } else { &[] };
        cells.iter().enumerate().filter_map(mean).collect()
    }

    /// The work of both ends and the limiting part, cell by cell.
    pub fn moments(&self) -> Vec<Moment> {
        (0..self.cells.len()).filter_map(|at| self.moment(at)).collect()
    }

    fn moment(&self, at: usize) -> Option<Moment> {
        let cell = &self.cells[at];
        let (from_s, to_s) = self.span(at);
        let index = self.payload_index();
        let parts =
            self.streams.values().filter_map(|stream| stream.parts.get(at)).filter(|part| part.covered_s > 1e-9);
        let spare = verdict::spare(parts.map(|part| part.bytes[index]));
        let (sent, received) = if self.sends() { (&cell.near, &cell.far) } else { (&cell.far, &cell.near) };
        let sender = Shares::of_sender(&sent.account(), spare);
        let receiver = Shares::of_receiver(&received.account(), spare);
        // The end that wrote the series reports all of its time; the other end's reports may reach beyond its streams' time.
        let near = if self.sends() { &sender } else { &receiver };
        let limit = near.as_ref().map(|_| verdict::limiting_part(sender.as_ref(), receiver.as_ref()));
        let is_known = sender.is_some() || receiver.is_some();
        let tcp = if self.sends() { cell.tcp } else { Tcp::default() };
        (to_s > from_s && (is_known || tcp.stream_s > 0.0)).then_some(Moment {
            from_s,
            to_s,
            sender,
            receiver,
            limit,
            tcp,
        })
    }
}

#[cfg(test)]
mod tests;
