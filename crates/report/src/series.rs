//! Makes a timeline from the rows of a series. Rows of one moment are one sample, and a row is about the time since the previous row of its
//! stream.

use std::collections::HashMap;
use std::io::BufRead;

use pilot::series::rows::{Kernel, Row, RowError, Rows};

use crate::timeline::{Flow, Side, StreamFacts, Tcp, Times, TransferTimeline};

/// A series that was read.
#[derive(Debug, Default)]
pub struct Series {
    /// The job that it names.
    pub job: Option<String>,
    /// Its timeline.
    pub timeline: TransferTimeline,
    /// Rows that were read.
    pub rows: u64,
    /// Rows that could not be read.
    pub unreadable: u64,
    /// The error of the first of them.
    pub first_error: String,
    /// Whether it has no processor times.
    pub lacks_processor_times: bool,
}

/// The largest number of streams that are remembered; the number of concurrent streams is bounded too.
const STREAMS_MAX: usize = 8192;

/// Reads all rows. A row that cannot be read is counted and skipped.
///
/// # Errors
/// The input cannot be read, or its first line is not the header of a series.
pub fn read(input: impl BufRead) -> Result<Series, RowError> {
    let mut rows = Rows::new(input)?;
    let mut reader = SeriesReader::default();
    reader.series.lacks_processor_times = !rows.has_processor_times();
    for row in &mut rows {
        match row {
            Ok(row) => reader.row(row),
            Err(RowError::Line { line, what }) => reader.reject(format!("line {line}: {what}")),
            Err(error) => return Err(error),
        }
    }
    reader.finish_sample();
    Ok(reader.series)
}

/// The last row of a stream.
struct LastRow {
    time_s: f64,
    kernel: Kernel,
}

#[derive(Default)]
struct SeriesReader {
    series: Series,
    /// The time of the rows that are being collected, and the time of those before them.
    now_s: f64,
    before_s: f64,
    flows: Vec<Flow>,
    last: HashMap<u32, LastRow>,
    last_far_s: Option<f64>,
}

impl SeriesReader {
    fn reject(&mut self, what: String) {
        self.series.unreadable += 1;
        if self.series.unreadable == 1 {
            self.series.first_error = what;
        }
    }

    fn row(&mut self, row: Row) {
        if row.time_s < self.now_s {
            let what = format!(
                "a row of {:.3} s after one of {:.3} s: the rows are of two series, or out of order",
                row.time_s, self.now_s
            );
            return self.reject(what);
        }
        self.series.rows += 1;
        if self.series.job.is_none() {
            self.series.job.clone_from(&row.job);
        }
        if row.time_s > self.now_s {
            self.finish_sample();
            self.now_s = row.time_s;
        }
        match row.kernel {
            Some(_) => self.stream(row),
            None => {
                // The other end had no threads before the first stream.
                let from_s = self.last_far_s.unwrap_or_else(|| self.started_s());
                self.series.timeline.threads(Side::Far, from_s, row.time_s, &Times::from(&row.spent));
                self.last_far_s = Some(row.time_s);
            }
        }
    }

    /// The start of the earliest stream of this moment.
    fn started_s(&self) -> f64 {
        self.flows.iter().map(|flow| flow.from_s).fold(self.now_s, f64::min)
    }

    /// Adds the streams of this moment as a sample.
    fn finish_sample(&mut self) {
        if !self.flows.is_empty() {
            let started_s = self.started_s();
            let flows = std::mem::take(&mut self.flows);
            // Before the first of them existed, nothing moved.
            let started_s = started_s.max(self.before_s);
            self.series.timeline.add_sample(self.before_s, started_s, &[]);
            self.series.timeline.add_sample(started_s, self.now_s, &flows);
            self.before_s = self.now_s;
        }
    }

    fn stream(&mut self, row: Row) {
        let Some(kernel) = row.kernel else { return };
        if self.last.len() >= STREAMS_MAX {
            self.last.clear();
        }
        let spent_s = row.spent.total().as_secs_f64();
        let last = self.last.remove(&kernel.stream);
        let since_s = last.as_ref().map_or(self.before_s, |last| last.time_s);
        // After a break of the path, stream numbers are used again: a thread that has spent much less than the time since the last row belongs to
        // another stream.
        let gap_s = row.time_s - since_s;
        let is_new = last.is_none() || (spent_s > 0.0 && spent_s < gap_s * 0.8);
        let from_s = if is_new && spent_s > 0.0 { (row.time_s - spent_s).max(0.0) } else { since_s };
        let none = Kernel::default();
        let base = last.as_ref().filter(|_| !is_new).map_or(&none, |last| &last.kernel);
        let increase = |of: fn(&Kernel) -> u64| of(&kernel).saturating_sub(of(base)) as f64;
        let increase_s = |of: fn(&Kernel) -> f64| (of(&kernel) - of(base)).max(0.0);
        let tcp = Tcp {
            stream_s: row.time_s - from_s,
            busy_s: increase_s(|k| k.busy_s),
            receive_window_s: increase_s(|k| k.receive_window_limited_s),
            send_buffer_s: increase_s(|k| k.send_buffer_limited_s),
            resent_bytes: increase(|k| k.resent_bytes),
        };
        let bytes = [kernel.delivered_bit_s / 8.0 * (row.time_s - from_s), increase(|k| k.received_bytes)];
        let sent = increase(|k| k.sent_bytes);
        let timeline = &mut self.series.timeline;
        timeline.threads(Side::Near, from_s, row.time_s, &Times::from(&row.spent));
        timeline.tcp(from_s, row.time_s, &tcp);
        if kernel.rtt_s > 0.0 {
            timeline.round_trip(from_s, row.time_s, kernel.rtt_s);
        }
        if let Some(facts) = timeline.facts_of(kernel.stream) {
            add_facts(facts, &kernel, &tcp, sent);
        }
        self.flows.push(Flow { stream: Some(kernel.stream), from_s, bytes });
        self.last.insert(kernel.stream, LastRow { time_s: row.time_s, kernel });
    }
}

fn add_facts(facts: &mut StreamFacts, kernel: &Kernel, tcp: &Tcp, sent_bytes: f64) {
    if kernel.rtt_s > 0.0 {
        facts.rtt.add(kernel.rtt_s);
    }
    if kernel.min_rtt_s > 0.0 {
        facts.min_rtt_s = Some(facts.min_rtt_s.map_or(kernel.min_rtt_s, |known| known.min(kernel.min_rtt_s)));
    }
    facts.cwnd.add(kernel.cwnd_segments as f64);
    facts.delivery_rate.add(kernel.delivery_rate_bit_s);
    facts.mss_bytes = kernel.mss_bytes;
    facts.pace_bit_s = kernel.pace_bit_s;
    facts.window_bytes = kernel.window_bytes;
    facts.sent_bytes += sent_bytes;
    facts.resent_bytes += tcp.resent_bytes;
    facts.busy_s += tcp.busy_s;
    facts.receive_window_s += tcp.receive_window_s;
    facts.send_buffer_s += tcp.send_buffer_s;
    facts.congestion.clone_from(&kernel.congestion);
}

#[cfg(test)]
mod tests;
