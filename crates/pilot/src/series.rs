//! The series of a transfer, a CSV table: the time of the threads per record, the kernel's counters of each stream, and the content of
//! the queues. Each sample of a stream is one row, and so is each account of the other end. [`rows`] reads the table.

pub mod rows;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use model::account::{Account, Stage, StageTimes};

use crate::Sample;

/// The columns, units in their names. `stream` is the stream's number, or `far` for all threads of the other end; `job` is
/// given once, in the first row. New columns are added at the end.
pub const COLUMNS: &str = "time_s,stream,records,storage_ms_per_record,compute_ms_per_record,socket_ms_per_record,\
pace_ms_per_record,idle_ms_per_record,storage_longest_ms,socket_longest_ms,delivered_mbit_s,rtt_ms,min_rtt_ms,\
cwnd_segments,mss_bytes,unacked_segments,delivery_rate_mbit_s,pace_mbit_s,sent_bytes,resent_bytes,busy_s,receive_window_limited_s,\
send_buffer_limited_s,window_bytes,unsent_bytes,unread_bytes,congestion,received_bytes,storage_cpu_ms_per_record,compute_cpu_ms_per_record,\
socket_cpu_ms_per_record,job";

/// The number of columns between the stages' wall times and their processor times: they hold values of this end's streams only.
const KERNEL_COLUMNS: usize = 18;

/// Writes rows. Counters are written as differences to the previous row of the same stream.
#[derive(Debug)]
pub struct RowWriter {
    /// The transfer's id, until it is written.
    job: Option<String>,
    before: HashMap<u32, (StageTimes, u32, Duration)>,
    far: StageTimes,
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Records, then milliseconds per record in each stage, then the longest.
fn stages(rows: &mut String, spent: &StageTimes) {
    let each = |stage| ms(spent.wall_in(stage)) / spent.records.max(1) as f64;
    let _ = write!(rows, "{}", spent.records);
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket, Stage::Pace, Stage::Idle] {
        let _ = write!(rows, ",{:.3}", each(stage));
    }
    for stage in [Stage::Storage, Stage::Socket] {
        let _ = write!(rows, ",{:.3}", ms(spent.longest[stage as usize]));
    }
}

/// The processor time of each stage. A thread that waits for a limit or for orders uses none.
fn processor(rows: &mut String, spent: &StageTimes) {
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket] {
        let _ = write!(rows, ",{:.3}", ms(spent.cpu_in(stage)) / spent.records.max(1) as f64);
    }
}

impl RowWriter {
    /// A writer for the transfer with this id, which its receipt has too.
    pub fn new(job: String) -> RowWriter {
        RowWriter { job: Some(job), before: HashMap::new(), far: StageTimes::default() }
    }

    /// Appends a row for a stream from a sample.
    pub fn stream(&mut self, rows: &mut String, now: Duration, sample: &Sample) {
        let tcp = &sample.tcp;
        let fresh = (StageTimes::default(), 0, now.saturating_sub(sample.spent.total()));
        let before = self.before.insert(sample.stream, (sample.spent, tcp.delivered_segments, now));
        // After a break of the path, stream numbers are used again: a total that is lower than before belongs to another stream.
        let before = before.filter(|(spent, ..)| spent.total() <= sample.spent.total());
        let (spent, segments, at) = before.unwrap_or(fresh);
        // The count wraps, and the size of segments may change.
        let bytes = f64::from(tcp.delivered_segments.wrapping_sub(segments)) * f64::from(tcp.mss_bytes);
        let rate = bytes * 8e-6 / now.saturating_sub(at).as_secs_f64().max(1e-3);
        let pace = tcp.pacing_max_bytes_s.map(|bytes| format!("{:.3}", bytes as f64 * 8e-6)).unwrap_or_default();
        let spent = sample.spent.since(&spent);
        let _ = write!(rows, "{:.3},{},", now.as_secs_f64(), sample.stream);
        stages(rows, &spent);
        let _ = write!(
            rows,
            ",{rate:.3},{:.3},{:.3},{},{},{},{:.3},{pace},{},{},{:.3},{:.3},{:.3},{},{},{},{},{}",
            ms(tcp.rtt),
            ms(tcp.min_rtt),
            tcp.cwnd_segments,
            tcp.mss_bytes,
            tcp.unacked_segments,
            tcp.delivery_rate_bytes_s as f64 * 8e-6,
            tcp.bytes_sent,
            tcp.bytes_retransmitted,
            tcp.busy.as_secs_f64(),
            tcp.receive_window_limited.as_secs_f64(),
            tcp.send_buffer_limited.as_secs_f64(),
            tcp.send_window_bytes,
            tcp.unsent_bytes,
            sample.unread_bytes,
            sample.congestion,
            tcp.bytes_received,
        );
        self.end(rows, &spent);
    }

    /// Appends a row for the threads of the other end, if its account has changed.
    pub fn far_end(&mut self, rows: &mut String, now: Duration, peer: &Account) {
        let before = std::mem::replace(&mut self.far, peer.spent);
        if peer.spent == before {
            return;
        }
        // A new attempt counts from zero.
        let spent = if before.total() <= peer.spent.total() { peer.spent.since(&before) } else { peer.spent };
        let _ = write!(rows, "{:.3},far,", now.as_secs_f64());
        stages(rows, &spent);
        rows.push_str(&",".repeat(KERNEL_COLUMNS));
        self.end(rows, &spent);
    }

    fn end(&mut self, rows: &mut String, spent: &StageTimes) {
        processor(rows, spent);
        let _ = writeln!(rows, ",{}", self.job.take().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_another_stream() {
        let mut table = RowWriter::new("the-job".into());
        let sample = |segments, ms| {
            let mut sample = Sample { stream: 1, ..Sample::default() };
            sample.tcp.delivered_segments = segments;
            sample.tcp.mss_bytes = 1000;
            sample.spent.wall[Stage::Socket as usize] = Duration::from_millis(ms);
            sample
        };
        // A stream of half a second, then 250 ms later; then one that took its number 100 ms before it was seen.
        let mut rows = String::new();
        for (at_ms, segments, ms) in [(2_000, 1000, 500), (2_250, 2000, 750), (9_000, 100, 100)] {
            table.stream(&mut rows, Duration::from_millis(at_ms), &sample(segments, ms));
        }
        let rates: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(10)).collect();
        assert_eq!(rates, ["16.000", "32.000", "8.000"], "Mbit/s: {rows}");
        let mut far = |ms| {
            let mut rows = String::new();
            let mut peer = Account::default();
            peer.spent.wall[Stage::Idle as usize] = Duration::from_millis(ms);
            table.far_end(&mut rows, Duration::from_secs(10), &peer);
            rows.split(',').nth(7).map(str::to_owned)
        };
        assert_eq!(
            [far(500), far(500), far(800), far(200)],
            [Some("500.000"), None, Some("300.000"), Some("200.000")].map(|t| t.map(str::to_owned))
        );
    }
}
