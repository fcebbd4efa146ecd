//! A job over time, as CSV: where the threads' time went per record, what the kernel says about each stream, and how
//! full the queues are. One row per stream, four times a second, and one for the other end as often as it tells.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::account::{Account, Spent, Stage};

use crate::pilot::Sight;

/// The columns, units in their names. `stream` is the stream's number, or `far` for all threads of the other end.
pub const COLUMNS: &str = "time_s,stream,records,storage_ms_per_record,compute_ms_per_record,socket_ms_per_record,\
pace_ms_per_record,idle_ms_per_record,storage_longest_ms,socket_longest_ms,delivered_mbit_s,rtt_ms,min_rtt_ms,\
cwnd_segments,mss_bytes,unacked_segments,delivery_rate_mbit_s,pace_mbit_s,sent_bytes,resent_bytes,busy_s,receive_window_limited_s,\
send_buffer_limited_s,window_bytes,unsent_bytes,unread_bytes,congestion";

const EVERY: Duration = Duration::from_millis(250);

struct Sheet {
    out: Box<dyn Write + Send>,
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
    /// Writes the head of the table.
    pub fn new(mut out: Box<dyn Write + Send>) -> std::io::Result<Series> {
        writeln!(out, "{COLUMNS}")?;
        let (written, before, far) = (None, HashMap::new(), Spent::default());
        let sheet = Sheet { out, started: Instant::now(), written, before, far, failed: false };
        Ok(Series(Arc::new(Mutex::new(sheet))))
    }

    /// Writes what is seen now, if it is time. A disk that is full ends the series, not the job.
    pub(crate) fn note(&self, sights: &[Sight], peer: Option<&Account>) {
        let mut sheet = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sheet.failed || sheet.written.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        sheet.written = Some(Instant::now());
        let now = sheet.started.elapsed();
        let mut rows = String::new();
        for sight in sights {
            sheet.row(&mut rows, now, sight);
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

impl Sheet {
    fn row(&mut self, rows: &mut String, now: Duration, sight: &Sight) {
        let t = &sight.tcp;
        let fresh = (Spent::default(), 0, Duration::ZERO);
        let before = self.before.insert(sight.stream, (sight.spent, t.delivered_segments, now));
        let (spent, segments, at) = before.unwrap_or(fresh);
        // The count wraps, and the size of segments may change.
        let bytes = f64::from(t.delivered_segments.wrapping_sub(segments)) * f64::from(t.mss_bytes);
        let rate = bytes * 8e-6 / now.saturating_sub(at).as_secs_f64().max(1e-3);
        let pace = t.pacing_max_bytes_s.map(|bytes| format!("{:.3}", bytes as f64 * 8e-6)).unwrap_or_default();
        let _ = write!(rows, "{:.3},{},", now.as_secs_f64(), sight.stream);
        stages(rows, &sight.spent.since(&spent));
        let _ = writeln!(
            rows,
            ",{rate:.3},{:.3},{:.3},{},{},{},{:.3},{pace},{},{},{:.3},{:.3},{:.3},{},{},{},{}",
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
            sight.unread_bytes,
            sight.congestion,
        );
    }

    /// The other end's threads, where it has said something new.
    fn far_row(&mut self, rows: &mut String, now: Duration, peer: &Account) {
        let before = self.far;
        if peer.spent == before {
            return;
        }
        self.far = peer.spent;
        let _ = write!(rows, "{:.3},far,", now.as_secs_f64());
        stages(rows, &peer.spent.since(&before));
        rows.push_str(&",".repeat(COLUMNS.matches(',').count() - 9));
        rows.push('\n');
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
        let series = Series::new(Box::new(out.clone())).unwrap();
        let mut sight = Sight { stream: 3, congestion: "bbr".into(), ..Sight::default() };
        sight.spent.records = 4;
        sight.spent.wall[Stage::Storage as usize] = Duration::from_millis(10);
        let mut far = Account::default();
        far.spent.records = 2;
        series.note(&[sight.clone()], Some(&far));
        series.note(&[sight], Some(&far));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3, "the second look came too soon: {text}");
        assert!(lines.iter().all(|row| row.len() == lines[0].len()), "{text}");
        assert_eq!((lines[1][1], lines[1][2], lines[1][3]), ("3", "4", "2.500"));
        assert_eq!((lines[2][1], lines[2][2]), ("far", "2"));
        assert!(series.is_whole());
    }
}
