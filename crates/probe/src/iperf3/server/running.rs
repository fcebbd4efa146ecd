//! A test under way, of either kind: what it has counted, and what of that counts.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use model::units::{BitRate, Bytes};

use super::super::datagrams;
use super::super::message::{Results, StreamResult};
use crate::tcp::stream::{Ended, Look, Team};

/// A running test of either kind.
pub(super) enum Running {
    Streams(Team),
    Datagrams(datagrams::Team),
}

/// What had been counted of a stream when counting began: what the client leaves out (`-O`), we leave out too.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes: u64,
    retransmits: u64,
    packets: u64,
    lost: i64,
}

/// The moment when counting began.
#[derive(Debug, Default)]
pub(super) struct Mark {
    at: Duration,
    streams: Vec<(u32, Counted)>,
}

impl Mark {
    fn of(&self, id: u32) -> Counted {
        self.streams.iter().find(|(of, _)| *of == id).map_or_else(Counted::default, |(_, counted)| *counted)
    }

    /// The whole less what was not to count.
    pub(super) fn take_off(&self, results: &mut Results) {
        results.streams.iter_mut().for_each(|result| self.take_off_one(result));
    }

    fn take_off_one(&self, result: &mut StreamResult) {
        let before = self.of(result.id);
        result.bytes = result.bytes.saturating_sub(before.bytes);
        result.retransmits = result.retransmits.map(|sum| sum.saturating_sub(before.retransmits));
        // Of datagrams the client wants the whole, and what of it does not count.
        result.omitted = Some((before.lost, before.packets));
        result.span_s = (0.0, (result.span_s.1 - self.at.as_secs_f64()).max(0.0));
    }
}

/// What is on its way when the client says that it is over may still arrive: as long as something does, and no longer.
const SETTLE: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_millis(80);

impl Running {
    pub(super) fn elapsed(&self) -> Duration {
        match self {
            Running::Streams(team) => team.started().elapsed(),
            Running::Datagrams(team) => team.started().elapsed(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<(u32, u64)> {
        match self {
            Running::Streams(team) => team.look().iter().map(|look| (look.id, look.bytes)).collect(),
            Running::Datagrams(team) => team.look().into_iter().map(|(id, _, tally)| (id, tally.bytes)).collect(),
        }
    }

    pub(super) fn settle(&self) {
        match self {
            Running::Streams(team) => team.hush(),
            Running::Datagrams(team) => team.hush(),
        }
        let (from, mut last) = (Instant::now(), self.bytes());
        while from.elapsed() < SETTLE {
            std::thread::sleep(QUIET);
            let now = self.bytes();
            if now == last {
                break;
            }
            last = now;
        }
    }

    pub(super) fn mark(&self, at: Duration) -> Mark {
        let streams = match self {
            Running::Streams(team) => {
                let counted = |look: &Look| Counted {
                    bytes: look.bytes,
                    retransmits: look.tcp.retransmits,
                    ..Counted::default()
                };
                team.look().iter().map(|look| (look.id, counted(look))).collect()
            }
            Running::Datagrams(team) => {
                let counted = |tally: &datagrams::Tally| Counted {
                    bytes: tally.bytes,
                    retransmits: 0,
                    packets: tally.packets,
                    lost: tally.lost,
                };
                team.look().iter().map(|(id, _, tally)| (*id, counted(tally))).collect()
            }
        };
        Mark { at, streams }
    }

    /// Waits for its threads, and tells the whole of what they counted. The test was over after `over`; what was still on
    /// its way then took until it came.
    pub(super) fn finish(self, over: Duration) -> Results {
        match self {
            Running::Streams(team) => {
                team.hush();
                team.abandon();
                of_streams(&team.finish(), over)
            }
            Running::Datagrams(team) => {
                let streams = team.finish(over).into_iter().map(|(_, whole)| whole).collect();
                Results { has_retransmits: -1, streams, ..Results::default() }
            }
        }
    }
}

fn of_streams(ended: &[Ended], over: Duration) -> Results {
    let cpu = ended.iter().map(|end| end.cpu.as_secs_f64()).sum::<f64>() / over.as_secs_f64().max(1e-9) * 100.0;
    let stream = |end: &Ended| {
        let span = if end.look.sends { over } else { over.max(end.look.last) };
        StreamResult {
            id: end.look.id,
            bytes: end.look.bytes,
            retransmits: end.look.sends.then_some(end.look.tcp.retransmits),
            span_s: (0.0, span.as_secs_f64()),
            ..StreamResult::default()
        }
    };
    Results {
        // Which part of it was the kernel's is not counted by thread.
        cpu_percent: (cpu, 0.0, cpu),
        has_retransmits: if ended.iter().any(|end| end.look.sends) { 1 } else { -1 },
        congestion: ended.first().map(|end| end.congestion.clone()),
        streams: ended.iter().map(stream).collect(),
        output: None,
    }
}

/// How a test went, for people, as a server says it.
pub(super) struct Words {
    text: String,
    last: (Duration, Vec<(u32, u64)>),
    most: usize,
}

impl Words {
    /// At most so many bytes of lines about seconds; none at all where nobody wants them.
    pub(super) fn new(begins: Vec<(u32, u64)>, most: usize) -> Words {
        Words { text: "[ ID] Interval           Transfer     Bitrate\n".into(), last: (Duration::ZERO, begins), most }
    }

    /// What each stream had moved after `now`.
    pub(super) fn saw(&mut self, now: Duration, bytes: Vec<(u32, u64)>) {
        if now.saturating_sub(self.last.0) >= Duration::from_secs(1) && self.text.len() < self.most {
            lines(&mut self.text, (self.last.0, now), &self.last.1, &bytes);
            self.last = (now, bytes);
        }
    }

    /// All of it, with a line about the whole.
    pub(super) fn close(mut self, over: Duration, total: &[(u32, u64)]) -> String {
        let none: Vec<(u32, u64)> = total.iter().map(|(id, _)| (*id, 0)).collect();
        lines(&mut self.text, (Duration::ZERO, over), &none, total);
        self.text
    }
}

fn lines(output: &mut String, (from, to): (Duration, Duration), before: &[(u32, u64)], after: &[(u32, u64)]) {
    for ((id, then), (_, now)) in before.iter().zip(after) {
        let (bytes, span) = (now.saturating_sub(*then), to.saturating_sub(from).as_secs_f64());
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
