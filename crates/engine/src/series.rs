//! The series of a running job: a table of [`pilot::series`], with rows four times a second.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::account::Account;
use parking_lot::Mutex;
use pilot::Sample;
use pilot::series::{COLUMNS, RowWriter};

/// The interval between two rows of a stream.
const EVERY: Duration = Duration::from_millis(250);

struct Sheet {
    out: Box<dyn Write + Send>,
    rows: RowWriter,
    /// The start of the first attempt.
    started: Instant,
    written: Option<Instant>,
    failed: bool,
}

/// The series of one job, over all its attempts. Clones share the output.
#[derive(Clone)]
pub struct Series(Arc<Mutex<Sheet>>);

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Series")
    }
}

impl Series {
    /// Begins a series: writes the head of the table. `job` is the job's id, as in its receipt.
    ///
    /// # Errors
    /// The head cannot be written.
    pub fn new(mut out: Box<dyn Write + Send>, job: String) -> std::io::Result<Series> {
        writeln!(out, "{COLUMNS}")?;
        let sheet = Sheet { out, rows: RowWriter::new(job), started: Instant::now(), written: None, failed: false };
        Ok(Series(Arc::new(Mutex::new(sheet))))
    }

    /// Writes rows, if the interval has passed. A failure (a full disk) ends the series, not the job.
    pub(crate) fn note(&self, samples: &[Sample], peer: Option<&Account>) {
        let mut sheet = self.0.lock();
        if sheet.failed || sheet.written.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        sheet.written = Some(Instant::now());
        let now = sheet.started.elapsed();
        let mut rows = String::new();
        for sample in samples {
            sheet.rows.stream(&mut rows, now, sample);
        }
        if let Some(peer) = peer {
            sheet.rows.far_end(&mut rows, now, peer);
        }
        sheet.failed = sheet.out.write_all(rows.as_bytes()).and_then(|()| sheet.out.flush()).is_err();
    }

    /// Whether all rows were written.
    pub fn is_whole(&self) -> bool {
        !self.0.lock().failed
    }
}

#[cfg(test)]
mod tests {
    use model::account::Stage;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(bytes);
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
        let text = String::from_utf8(out.0.lock().clone()).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 3, "the second note came too soon: {text}");
        assert!(lines.iter().all(|row| row.len() == lines[0].len()), "{text}");
        assert_eq!((lines[1][1], lines[1][2], lines[1][3]), ("3", "4", "2.500"));
        assert_eq!((lines[2][1], lines[2][2]), ("far", "2"));
        assert_eq!((lines[0].last(), lines[1].last(), lines[2].last()), (Some(&"job"), Some(&"the-job"), Some(&"")));
        assert!(series.is_whole());
    }
}
