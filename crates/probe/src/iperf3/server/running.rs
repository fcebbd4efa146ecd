//! A running test over TCP or UDP: its counters, without the start that the client leaves out.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use model::units::{BitRate, Bytes};

use super::super::datagrams;
use super::super::message::{Results, StreamResult};
use crate::tcp::stream::{FinishedStream, StreamPool, StreamSample};

/// A running test of either kind.
pub(super) enum Running {
    Streams(StreamPool),
    Datagrams(datagrams::DatagramPool),
}

/// Counters of a stream when counting begins: after the first seconds, which the client leaves out (`-O`), and so does the server.
#[derive(Clone, Copy, Debug, Default)]
struct StreamBaseline {
    bytes: u64,
    retransmits: u64,
    packets: u64,
    lost: i64,
}

/// The counters of all streams when counting began.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    at: Duration,
    streams: Vec<(u32, StreamBaseline)>,
}

impl Baseline {
    fn of(&self, id: u32) -> StreamBaseline {
        self.streams.iter().find(|(of, _)| *of == id).map_or_else(StreamBaseline::default, |(_, counted)| *counted)
    }

    /// Subtracts the start from the results.
    pub(super) fn subtract_from(&self, results: &mut Results) {
        results.streams.iter_mut().for_each(|result| self.subtract_from_stream(result));
    }

    fn subtract_from_stream(&self, result: &mut StreamResult) {
        let before = self.of(result.id);
        result.bytes = result.bytes.saturating_sub(before.bytes);
        result.retransmits = result.retransmits.map(|sum| sum.saturating_sub(before.retransmits));
        // For datagrams the client expects the whole counts, and the part that is left out in fields of its own.
        result.omitted = Some((before.lost, before.packets));
        result.span_s = (0.0, (result.span_s.1 - self.at.as_secs_f64()).max(0.0));
    }
}

/// The longest wait for data that is in flight when the client ends the test.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(1);
/// The wait ends when no data has arrived for so long.
const QUIET: Duration = Duration::from_millis(80);

impl Running {
    pub(super) fn elapsed(&self) -> Duration {
        match self {
            Running::Streams(pool) => pool.started().elapsed(),
            Running::Datagrams(pool) => pool.started().elapsed(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<(u32, u64)> {
        match self {
            Running::Streams(pool) => pool.sample().iter().map(|sample| (sample.id, sample.bytes)).collect(),
            Running::Datagrams(pool) => pool.sample().into_iter().map(|(id, _, tally)| (id, tally.bytes)).collect(),
        }
    }

    /// Stops sending, and waits until data in flight has arrived.
    pub(super) fn wait_for_data_in_flight(&self) {
        match self {
            Running::Streams(pool) => pool.stop_sending(),
            Running::Datagrams(pool) => pool.stop_sending(),
        }
        let from = Instant::now();
        let mut last = self.bytes();
        while from.elapsed() < IN_FLIGHT_MAX {
            std::thread::sleep(QUIET);
            let now = self.bytes();
            if now == last {
                break;
            }
            last = now;
        }
    }

    pub(super) fn baseline(&self, at: Duration) -> Baseline {
        let streams = match self {
            Running::Streams(pool) => {
                let counted = |sample: &StreamSample| StreamBaseline {
                    bytes: sample.bytes,
                    retransmits: sample.tcp.retransmits,
                    ..StreamBaseline::default()
                };
                pool.sample().iter().map(|sample| (sample.id, counted(sample))).collect()
            }
            Running::Datagrams(pool) => {
                let counted = |tally: &datagrams::DatagramCounts| StreamBaseline {
                    bytes: tally.bytes,
                    retransmits: 0,
                    packets: tally.packets,
                    lost: tally.lost,
                };
                pool.sample().iter().map(|(id, _, tally)| (*id, counted(tally))).collect()
            }
        };
        Baseline { at, streams }
    }

    /// Waits for the threads, and returns all that they counted. The test lasted `over`; the span of a receiving stream ends with
    /// its last byte, which may have arrived later.
    pub(super) fn finish(self, over: Duration) -> Results {
        match self {
            Running::Streams(pool) => {
                pool.stop_sending();
                pool.abandon();
                of_streams(&pool.finish(), over)
            }
            Running::Datagrams(pool) => {
                let streams = pool.finish(over).into_iter().map(|(_, whole)| whole).collect();
                Results { has_retransmits: -1, streams, ..Results::default() }
            }
        }
    }
}

fn of_streams(ended: &[FinishedStream], over: Duration) -> Results {
    let cpu = ended.iter().map(|end| end.cpu.as_secs_f64()).sum::<f64>() / over.as_secs_f64().max(1e-9) * 100.0;
    let stream = |end: &FinishedStream| {
        let span = if end.sample.sends { over } else { over.max(end.sample.last) };
        StreamResult {
            id: end.sample.id,
            bytes: end.sample.bytes,
            retransmits: end.sample.sends.then_some(end.sample.tcp.retransmits),
            span_s: (0.0, span.as_secs_f64()),
            ..StreamResult::default()
        }
    };
    Results {
        // The kernel's share of a thread's time is not counted.
        cpu_percent: (cpu, 0.0, cpu),
        has_retransmits: if ended.iter().any(|end| end.sample.sends) { 1 } else { -1 },
        congestion: ended.first().map(|end| end.congestion.clone()),
        streams: ended.iter().map(stream).collect(),
        output: None,
    }
}

/// The server's report of a test, as text for people.
pub(super) struct TextReport {
    text: String,
    last: (Duration, Vec<(u32, u64)>),
    most: usize,
}

impl TextReport {
    /// `bytes` of each stream at the start. `most` bounds the text of the lines of single seconds, in bytes; 0 for none.
    pub(super) fn new(bytes: Vec<(u32, u64)>, most: usize) -> TextReport {
        let text = "[ ID] Interval           Transfer     Bitrate\n".into();
        TextReport { text, last: (Duration::ZERO, bytes), most }
    }

    /// Takes the bytes of each stream at `now`; adds lines once a second.
    pub(super) fn record(&mut self, now: Duration, bytes: Vec<(u32, u64)>) {
        if now.saturating_sub(self.last.0) >= Duration::from_secs(1) && self.text.len() < self.most {
            lines(&mut self.text, (self.last.0, now), &self.last.1, &bytes);
            self.last = (now, bytes);
        }
    }

    /// Adds the lines of the whole test, and returns the text.
    pub(super) fn close(mut self, over: Duration, total: &[(u32, u64)]) -> String {
        let none: Vec<(u32, u64)> = total.iter().map(|(id, _)| (*id, 0)).collect();
        lines(&mut self.text, (Duration::ZERO, over), &none, total);
        self.text
    }
}

fn lines(output: &mut String, (from, to): (Duration, Duration), before: &[(u32, u64)], after: &[(u32, u64)]) {
    for ((id, then), (_, now)) in before.iter().zip(after) {
        let bytes = now.saturating_sub(*then);
        let span = to.saturating_sub(from).as_secs_f64();
        let rate = BitRate::mean(Bytes(bytes), span);
        let _ = writeln!(
            output,
            "[{id:3}] {:6.2}-{:<6.2} sec  {}  {rate}",
            from.as_secs_f64(),
            to.as_secs_f64(),
            Bytes(bytes)
        );
    }
}
