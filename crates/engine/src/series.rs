//! A job over time, as CSV: where the threads' time went per record, what the kernel says about each stream, and how
//! full the queues are. One row per stream, four times a second, and one for the other end as often as it tells.
//! [`rows`] reads it back.

pub mod rows;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::account::{Account, Spent, Stage};

use pilot::Sample;

/// The columns, units in their names. `stream` is the stream's number, or `far` for all threads of the other end; `job` is
/// said once, in the first row. New ones come at the end.
pub const COLUMNS: &str = "time_s,stream,records,storage_ms_per_record,compute_ms_per_record,socket_ms_per_record,\
pace_ms_per_record,idle_ms_per_record,storage_longest_ms,socket_longest_ms,delivered_mbit_s,rtt_ms,min_rtt_ms,\
cwnd_segments,mss_bytes,unacked_segments,delivery_rate_mbit_s,pace_mbit_s,sent_bytes,resent_bytes,busy_s,receive_window_limited_s,\
send_buffer_limited_s,window_bytes,unsent_bytes,unread_bytes,congestion,received_bytes,storage_cpu_ms_per_record,compute_cpu_ms_per_record,\
socket_cpu_ms_per_record,job";

/// Columns between the stages' wall times and their processor times: what only a stream of this end has.
const KERNEL_COLUMNS: usize = 18;

const EVERY: Duration = Duration::from_millis(250);

struct Sheet {
    out: Box<dyn Write + Send>,
    /// Until it has been said.
    job: Option<String>,
    /// Since the first attempt.
    started: Instant,
    written: Option<Instant>,
    before: HashMap<u32, (Spent, u32, Duration)>,
    far: Spent,
    failed: bool,
}

/// The series of one job, whatever its attempts. Clones write to the same place.
#[derive(Clone)]
pub struct Series(Arc<Mutex<Sheet>>);

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Series")
    }
}

impl Series {
    /// Writes the head of the table. The job's id is what its receipt has as well.
    pub fn new(mut out: Box<dyn Write + Send>, job: String) -> std::io::Result<Series> {
        writeln!(out, "{COLUMNS}")?;
        let (written, before, far) = (None, HashMap::new(), Spent::default());
        let sheet = Sheet { out, job: Some(job), started: Instant::now(), written, before, far, failed: false };
        Ok(Series(Arc::new(Mutex::new(sheet))))
    }

    /// Writes what is seen now, if it is time. A disk that is full ends the series, not the job.
    pub(crate) fn note(&self, samples: &[Sample], peer: Option<&Account>) {
        let mut sheet = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sheet.failed || sheet.written.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        sheet.written = Some(Instant::now());
        let now = sheet.started.elapsed();
        let mut rows = String::new();
        for sample in samples {
            sheet.row(&mut rows, now, sample);
        }
        if let Some(peer) = peer {
            sheet.far_row(&mut rows, now, peer);
        }
        sheet.failed = sheet.out.write_all(rows.as_bytes()).and_then(|()| sheet.out.flush()).is_err();
    }

    /// Whether all of it could be written.
    pub fn is_whole(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).failed
    }
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Records, then milliseconds per record in each stage, then the longest.
fn stages(rows: &mut String, spent: &Spent) {
    let each = |stage| ms(spent.wall_in(stage)) / spent.records.max(1) as f64;
    let _ = write!(rows, "{}", spent.records);
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket, Stage::Pace, Stage::Idle] {
        let _ = write!(rows, ",{:.3}", each(stage));
    }
    for stage in [Stage::Storage, Stage::Socket] {
        let _ = write!(rows, ",{:.3}", ms(spent.longest[stage as usize]));
    }
}

/// How much of the stages was the processor's. Who waits for a limit or for orders uses none.
fn processor(rows: &mut String, spent: &Spent) {
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket] {
        let _ = write!(rows, ",{:.3}", ms(spent.cpu_in(stage)) / spent.records.max(1) as f64);
    }
}

impl Sheet {
    fn row(&mut self, rows: &mut String, now: Duration, sample: &Sample) {
        let t = &sample.tcp;
        let fresh = (Spent::default(), 0, now.saturating_sub(sample.spent.total()));
        let before = self.before.insert(sample.stream, (sample.spent, t.delivered_segments, now));
        // Where the path broke, numbers are used again: time that falls is another stream's.
        let before = before.filter(|(spent, ..)| spent.total() <= sample.spent.total());
        let (spent, segments, at) = before.unwrap_or(fresh);
        // The count wraps, and the size of segments may change.
        let bytes = f64::from(t.delivered_segments.wrapping_sub(segments)) * f64::from(t.mss_bytes);
        let rate = bytes * 8e-6 / now.saturating_sub(at).as_secs_f64().max(1e-3);
        let pace = t.pacing_max_bytes_s.map(|bytes| format!("{:.3}", bytes as f64 * 8e-6)).unwrap_or_default();
        let spent = sample.spent.since(&spent);
        let _ = write!(rows, "{:.3},{},", now.as_secs_f64(), sample.stream);
        stages(rows, &spent);
        let _ = write!(
            rows,
            ",{rate:.3},{:.3},{:.3},{},{},{},{:.3},{pace},{},{},{:.3},{:.3},{:.3},{},{},{},{},{}",
            ms(t.rtt),
            ms(t.min_rtt),
            t.cwnd_segments,
            t.mss_bytes,
            t.unacked_segments,
            t.delivery_rate_bytes_s as f64 * 8e-6,
            t.bytes_sent,
            t.bytes_retransmitted,
            t.busy.as_secs_f64(),
            t.receive_window_limited.as_secs_f64(),
            t.send_buffer_limited.as_secs_f64(),
            t.send_window_bytes,
            t.unsent_bytes,
            sample.unread_bytes,
            sample.congestion,
            t.bytes_received,
        );
        self.end_row(rows, &spent);
    }

    /// The other end's threads, where it has said something new.
    fn far_row(&mut self, rows: &mut String, now: Duration, peer: &Account) {
        let before = std::mem::replace(&mut self.far, peer.spent);
        if peer.spent == before {
            return;
        }
        // Another attempt counts from nothing.
        let spent = if before.total() <= peer.spent.total() { peer.spent.since(&before) } else { peer.spent };
        let _ = write!(rows, "{:.3},far,", now.as_secs_f64());
        stages(rows, &spent);
        rows.push_str(&",".repeat(KERNEL_COLUMNS));
        self.end_row(rows, &spent);
    }

    fn end_row(&mut self, rows: &mut String, spent: &Spent) {
        processor(rows, spent);
        let _ = writeln!(rows, ",{}", self.job.take().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_row_has_every_column() {
        let out = Shared::default();
        let series = Series::new(Box::new(out.clone()), "the-job".into()).unwrap();
        let mut sample = Sample { stream: 3, congestion: "bbr".into(), ..Sample::default() };
        sample.spent.records = 4;
        sample.spent.wall[Stage::Storage as usize] = Duration::from_millis(10);
        let mut far = Account::default();
        far.spent.records = 2;
        series.note(&[sample.clone()], Some(&far));
        series.note(&[sample], Some(&far));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3, "the second look came too soon: {text}");
        assert!(lines.iter().all(|row| row.len() == lines[0].len()), "{text}");
        assert_eq!((lines[1][1], lines[1][2], lines[1][3]), ("3", "4", "2.500"));
        assert_eq!((lines[2][1], lines[2][2]), ("far", "2"));
        assert_eq!((lines[0].last(), lines[1].last(), lines[2].last()), (Some(&"job"), Some(&"the-job"), Some(&"")));
        assert!(series.is_whole());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_stream() {
        let out = Shared::default();
        let mut sheet = Sheet {
            out: Box::new(out.clone()),
            job: None,
            started: Instant::now(),
            written: None,
            before: HashMap::new(),
            far: Spent::default(),
            failed: false,
        };
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
            sheet.row(&mut rows, Duration::from_millis(at_ms), &sample(segments, ms));
        }
        let rates: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(10)).collect();
        assert_eq!(rates, ["16.000", "32.000", "8.000"], "Mbit/s: {rows}");
        let mut far = |ms| {
            let mut rows = String::new();
            let mut peer = Account::default();
            peer.spent.wall[Stage::Idle as usize] = Duration::from_millis(ms);
            sheet.far_row(&mut rows, Duration::from_secs(10), &peer);
            rows.split(',').nth(7).map(str::to_owned)
        };
        assert_eq!(
            [far(500), far(500), far(800), far(200)],
            [Some("500.000"), None, Some("300.000"), Some("200.000")].map(|t| t.map(str::to_owned))
        );
    }
}
